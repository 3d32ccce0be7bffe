//! Judging what the guest delivered: a recording gets its name only when it is whole.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::machine::Delivery;
use crate::error::{Error, on_file};

/// The four bytes with which every Parquet file begins and ends.
const MAGIC: &[u8; 4] = b"PAR1";

/// Fails early when `out` cannot be written, before minutes of emulation.
pub fn check_place(out: &Path) -> Result<(), Error> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(Error::Usage(format!("cannot write {}: make its folder first", out.display())))
}

/// Checks that `delivery` is a whole Parquet file and moves it to `out`; says how long it is.
///
/// # Errors
/// [`Error::Failed`] when bytes are missing or it is no Parquet file; nothing stands at `out` then.
pub fn accept(delivery: &Delivery, out: &Path) -> Result<u64, Error> {
    let (length, first, last) = ends(&delivery.file).map_err(on_file("read", &delivery.file))?;
    if length != delivery.bytes {
        return Err(Error::Failed(format!(
            "the guest sent {} bytes and {length} arrived; run it again",
            delivery.bytes
        )));
    }
    if first != *MAGIC || last != *MAGIC {
        return Err(Error::Failed("what the guest sent is not a recording; see its console".to_owned()));
    }
    let part = out.with_extension("parquet.part");
    fs::copy(&delivery.file, &part).map_err(on_file("write", &part))?;
    fs::rename(&part, out).map_err(on_file("write", out))?;
    fs::remove_file(&delivery.file).map_err(on_file("remove", &delivery.file))?;
    Ok(length)
}

/// Length, first and last four bytes of a file; zeros where it is too short.
fn ends(path: &Path) -> std::io::Result<(u64, [u8; 4], [u8; 4])> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let (mut first, mut last) = ([0; 4], [0; 4]);
    if length >= 12 {
        file.read_exact(&mut first)?;
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut last)?;
    }
    Ok((length, first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(bytes: &[u8], promised: u64) -> (Result<u64, Error>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let delivery = Delivery { file: folder.path().join("delivery"), bytes: promised };
        fs::write(&delivery.file, bytes).unwrap();
        let out = folder.path().join("out.parquet");
        let verdict = accept(&delivery, &out);
        (verdict, out.exists())
    }

    #[test]
    fn whole_recording_is_kept() {
        let (verdict, exists) = judged(b"PAR1....PAR1", 12);
        assert_eq!(verdict.unwrap(), 12);
        assert!(exists);
    }

    #[test]
    fn short_or_foreign_delivery_leaves_nothing() {
        for (bytes, promised) in [(&b"PAR1....PAR1"[..], 13), (b"PAR1........", 12), (b"", 0)] {
            let (verdict, exists) = judged(bytes, promised);
            assert!(verdict.is_err() && !exists, "accepted {bytes:?}");
        }
    }
}
