//! What a file is: told by its contents, never by its name.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use crate::error::Error;
use crate::{perf, text, tracecmd, tracing};

/// Kinds of files with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of `perf record`.
    Perf,
    /// Of `trace-cmd record`.
    TraceCmd,
    /// Of `perf script`, or of the files `trace` and `trace_pipe`.
    Text,
}

impl Kind {
    /// The name that users know.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Perf => perf::FORMAT,
            Kind::TraceCmd => tracecmd::FORMAT,
            Kind::Text => text::FORMAT,
        }
    }
}

/// Bytes by which a file is known: the first event of a text may stand after a long heading.
const HEAD: u64 = 1 << 20;

/// Opens a file and finds out what it is; it stands at its beginning then.
///
/// # Errors
/// When it cannot be read, or is nothing that is known.
pub(crate) fn open(path: &Path) -> Result<(Kind, File), Error> {
    let mut file = File::open(path).map_err(Error::read(path))?;
    let mut head = Vec::new();
    (&file).take(HEAD).read_to_end(&mut head).map_err(Error::read(path))?;
    file.rewind().map_err(Error::read(path))?;
    match kind_of(&head) {
        Ok(kind) => Ok((kind, file)),
        Err(what) => Err(Error::Foreign { path: path.to_path_buf(), what: what.to_owned() }),
    }
}

/// The kind of a file that begins so; else what it is instead, as far as can be said.
fn kind_of(head: &[u8]) -> Result<Kind, &'static str> {
    const STRANGERS: [(&[u8], &str); 8] = [
        (b"", "empty"),
        (b"PERFFILE", "a perf.data of the first version, from before Linux 3.0"),
        (b"PAR1", "a Parquet file, perhaps a recording already: give it to `freehold inspect`"),
        (b"\x1f\x8b", "compressed by gzip: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"),
        (b"\xfd7zXZ", "compressed by xz: unpack it first"),
        (b"\x7fELF", "a program"),
        (b"{", "JSON"),
    ];
    if perf::MAGICS.iter().any(|magic| head.starts_with(magic)) {
        return Ok(Kind::Perf);
    }
    if head.starts_with(tracing::MAGIC) {
        return Ok(Kind::TraceCmd);
    }
    if text::is_text(head) {
        return Ok(Kind::Text);
    }
    let known =
        STRANGERS.iter().find(|(magic, _)| if magic.is_empty() { head.is_empty() } else { head.starts_with(magic) });
    Err(known.map_or_else(
        || if head.contains(&0) { "of an unknown kind" } else { "a text without a line of an event" },
        |(_, what)| what,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_what_is_in_it() {
        assert_eq!(kind_of(b"PERFILE2..."), Ok(Kind::Perf));
        assert_eq!(kind_of(b"\x17\x08\x44tracing6\0"), Ok(Kind::TraceCmd));
        let line = b"# tracer: nop\n     sh-1 [000] d..2. 12.000034: mm_page_free: page=0 pfn=0x1 order=0\n";
        assert_eq!(kind_of(line), Ok(Kind::Text));
        for (head, what) in
            [(&b""[..], "empty"), (b"PAR1", "inspect"), (b"\x1f\x8b\x08", "gzip"), (b"hello\n", "without a line")]
        {
            assert!(kind_of(head).unwrap_err().contains(what), "{what}");
        }
    }
}
