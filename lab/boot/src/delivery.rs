//! Checks the file that the guest delivered: a recording gets its name only when it is complete.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, on_file};

/// First and last four bytes of every Parquet file.
const MAGIC: &[u8; 4] = b"PAR1";

/// Returns the folder of `out`.
///
/// # Errors
/// [`Error::Input`] if the folder does not exist or `out` is a folder. Callers check this before minutes of emulation.
pub(crate) fn folder_of(out: &Path) -> Result<&Path, Error> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.is_dir(), out.is_dir()) {
        (true, false) => Ok(folder),
        (_, true) => Err(Error::Input(format!("{} is a folder; name a file in this folder", out.display()))),
        (false, _) => Err(Error::Input(format!(
            "cannot write {}: its folder does not exist; make its folder first",
            out.display()
        ))),
    }
}

/// Checks that `file` is a complete Parquet file of `bytes` bytes, and copies it to `out`.
///
/// # Errors
/// [`Error::Guest`] when bytes are missing or it is not a Parquet file; `out` is then unchanged.
pub(crate) fn accept(file: &mut File, bytes: u64, out: &Path) -> Result<(), Error> {
    let (length, first, last) = ends(file).map_err(on_file("read", out))?;
    if length != bytes {
        return Err(Error::Guest(format!(
            "the recording is incomplete: the guest sent {bytes} bytes and {length} arrived; boot again"
        )));
    }
    if first != *MAGIC || last != *MAGIC {
        return Err(Error::Guest("the guest sent a file that is not a recording; boot again".to_owned()));
    }
    let folder = folder_of(out)?;
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(on_file("create", folder))?;
    file.rewind().and_then(|()| io::copy(file, part.as_file_mut())).map_err(on_file("write", out))?;
    part.persist(out).map(drop).map_err(|error| on_file("write", out)(error.error))
}

/// Returns the length and the first and last four bytes of a file; zeros if the file is too short.
fn ends(file: &mut File) -> io::Result<(u64, [u8; 4], [u8; 4])> {
    let length = file.metadata()?.len();
    let (mut first, mut last) = ([0; 4], [0; 4]);
    if length >= 12 {
        file.rewind()?;
        file.read_exact(&mut first)?;
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut last)?;
    }
    Ok((length, first, last))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn deliver(bytes: &[u8], promised: u64) -> (Result<(), Error>, Option<Vec<u8>>) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let out = folder.path().join("out.parquet");
        let verdict = accept(&mut file, promised, &out);
        (verdict, fs::read(out).ok())
    }

    #[test]
    fn complete_recording_is_kept() {
        let (verdict, kept) = deliver(b"PAR1....PAR1", 12);
        verdict.unwrap();
        assert_eq!(kept.unwrap(), b"PAR1....PAR1");
    }

    #[test]
    fn short_or_foreign_delivery_leaves_nothing() {
        for (bytes, promised) in [(&b"PAR1....PAR1"[..], 13), (b"PAR1........", 12), (b"", 0)] {
            let (verdict, kept) = deliver(bytes, promised);
            assert!(verdict.is_err() && kept.is_none(), "accepted {bytes:?}");
        }
    }
}
