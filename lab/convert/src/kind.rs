//! Detection of a file's format, by its contents and never by its name.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use crate::error::Error;
use crate::{perf, text, tracecmd, tracing};

/// Formats of files with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `perf record`.
    Perf,
    /// `trace-cmd record`.
    TraceCmd,
    /// Text of `perf script`, or of the files `trace` and `trace_pipe`.
    Text,
}

impl Kind {
    /// Returns the name for users.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Perf => perf::FORMAT,
            Kind::TraceCmd => tracecmd::FORMAT,
            Kind::Text => text::FORMAT,
        }
    }
}

/// Number of bytes by which a format is detected. The first event of a text may follow a long heading.
const HEAD: u64 = 1 << 20;

/// Opens a file and detects its format. The returned file is at its beginning.
///
/// # Errors
/// If it cannot be read, or has no known format.
pub(crate) fn open(path: &Path) -> Result<(Kind, File), Error> {
    let mut file = File::open(path).map_err(Error::read(path))?;
    let mut head = Vec::new();
    (&file).take(HEAD).read_to_end(&mut head).map_err(Error::read(path))?;
    file.rewind().map_err(Error::read(path))?;
    match kind_of(&head) {
        Ok(kind) => Ok((kind, file)),
        Err((what, instead)) => Err(Error::Foreign { path: path.to_path_buf(), what, instead }),
    }
}

/// Format of a file that cannot be imported, and a suggested action.
type Stranger = (&'static str, &'static str);

/// Suggestion for files of an unknown format.
const KNOWN: &str = "give a perf.data, a trace.dat of trace-cmd, or the output of `perf script`, `trace-cmd report`, \
                     trace or trace_pipe";
const UNPACK: &str = "unpack it first";

/// Magic numbers of files that cannot be imported.
const STRANGERS: [(&[u8], Stranger); 14] = [
    (b"PERFFILE", ("a perf.data of the first version, from before Linux 3.0", "record with a newer perf")),
    (b"PAR1", ("a Parquet file, perhaps a recording already", "give it to `freehold inspect`")),
    (b"\x1f\x8b", ("compressed with gzip", "unpack it first with `gzip -d`")),
    (b"\x28\xb5\x2f\xfd", ("compressed with zstd", "unpack it first with `zstd -d`")),
    (b"\xfd7zXZ", ("compressed with xz", "unpack it first with `xz -d`")),
    (b"BZh", ("compressed with bzip2", "unpack it first with `bzip2 -d`")),
    (b"\x04\x22\x4d\x18", ("compressed with lz4", "unpack it first with `lz4 -d`")),
    (b"PK\x03\x04", ("a zip archive", UNPACK)),
    (b"\x7fELF", ("a program or a core dump", KNOWN)),
    (b"SQLite format 3", ("an SQLite database", "give the perf.data from which it was made")),
    (b"LPKSHHRH", ("a systemd journal", "record events with `freehold record`")),
    (b"\xc1\x1f\xfc\xc1", ("a trace in the Common Trace Format", "give the perf.data from which it was made")),
    (b"{", ("JSON", "give the perf.data from which it was made")),
    (b"[{", ("JSON", "give the perf.data from which it was made")),
];

/// Byte order marks of texts in other encodings, as PowerShell and Windows write them.
const ENCODINGS: [(&[u8], Stranger); 4] = [
    (b"\xff\xfe\0\0", ("a text in UTF-32", "convert it first with `iconv -f UTF-32 -t UTF-8`")),
    (b"\0\0\xfe\xff", ("a text in UTF-32", "convert it first with `iconv -f UTF-32 -t UTF-8`")),
    (b"\xff\xfe", UTF16),
    (b"\xfe\xff", UTF16),
];
const UTF16: Stranger = ("a text in UTF-16", "convert it first with `iconv -f UTF-16 -t UTF-8`");

/// Returns the format of a file that begins with `head`.
///
/// # Errors
/// Returns the name of another format, as far as it is known, and a suggested action.
fn kind_of(head: &[u8]) -> Result<Kind, Stranger> {
    if perf::MAGICS.iter().any(|magic| head.starts_with(magic)) {
        return Ok(Kind::Perf);
    }
    if head.starts_with(tracing::MAGIC) {
        return Ok(Kind::TraceCmd);
    }
    if head.is_empty() {
        return Err(("empty", KNOWN));
    }
    let known = STRANGERS.iter().chain(&ENCODINGS).find(|(magic, _)| head.starts_with(magic));
    if let Some((_, stranger)) = known {
        return Err(*stranger);
    }
    if is_utf16(head) {
        return Err(UTF16);
    }
    if head.get(257..262) == Some(b"ustar") {
        return Err(("a tar archive", UNPACK));
    }
    if !head.contains(&b'\n') && head.trim_ascii_end().contains(&b'\r') {
        return Err(("a text whose lines end with carriage returns", "convert it first with `tr '\\r' '\\n'`"));
    }
    if text::is_text(head) {
        return Ok(Kind::Text);
    }
    match text::describe(head) {
        Some(stranger) => Err(stranger),
        None if head.contains(&0) => Err(("of an unknown kind", KNOWN)),
        None if text::names_events(head) => Ok(Kind::Text),
        None => Err(("a text without an event line", KNOWN)),
    }
}

/// Returns whether a text without a byte order mark is in UTF-16. Every other byte of Latin letters is zero there.
fn is_utf16(head: &[u8]) -> bool {
    let pairs = head[..head.len().min(512)].as_chunks::<2>().0;
    let [little, big] = [1, 0].map(|zero| pairs.iter().filter(|pair| pair[zero] == 0 && pair[1 - zero] != 0).count());
    pairs.len() >= 8 && little.max(big) * 10 >= pairs.len() * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_kind_is_detected_from_its_contents() {
        assert_eq!(kind_of(b"PERFILE2..."), Ok(Kind::Perf));
        assert_eq!(kind_of(b"\x17\x08\x44tracing6\0"), Ok(Kind::TraceCmd));
        let line = b"# tracer: nop\n     sh-1 [000] d..2. 12.000034: mm_page_free: page=0 pfn=0x1 order=0\n";
        assert_eq!(kind_of(line), Ok(Kind::Text));
        for (head, expected) in [
            (&b""[..], "empty"),
            (b"PAR1", "Parquet"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"\x28\xb5\x2f\xfd...", "zstd"),
            (b"\xfd7zXZ\0", "xz"),
            (b"\xff\xfes\0h\0", "UTF-16"),
            (b"s\0h\0-\x001\0 \0[\x000\0]\0 \0", "UTF-16"),
            (b"\xff\xfe\0\0s\0\0\0", "UTF-32"),
            (b"\x01\x02\0\x03\n", "unknown kind"),
            (b"sh-1 [000] 1.0: x:\rsh-1 [000] 1.0: y:\r", "carriage returns"),
            (b"[    1.5] a: page allocation failure: order:4\n", "kernel log"),
            (b"hello\n", "without an event line"),
        ] {
            let (what, _) = kind_of(head).unwrap_err();
            assert!(what.contains(expected), "{expected}: {what}");
        }
        assert_eq!(kind_of(b"load 77 1.5: kmem:mm_page_alloc: pfn=1\n"), Ok(Kind::Text), "its lines have reasons");
    }
}
