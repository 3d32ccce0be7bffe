//! Kernel images: recognizes them and reads their release.
//!
//! An x86 image (`bzImage`, `vmlinuz`) contains its release. The setup header, which every boot loader reads, has the
//! offset of the release (linux: Documentation/arch/x86/boot.rst).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, on_file};

/// Offset and value of the header's signature.
const MAGIC: (u64, &[u8; 4]) = (0x202, b"HdrS");
/// Offset of the header field with the offset of the release, relative to the second sector.
const RELEASE_OFFSET: u64 = 0x20e;
/// Size of the first sector in bytes.
const SECTOR: u64 = 0x200;
/// Maximum length of a release in bytes.
const RELEASE_MAX: u64 = 256;

/// Returns the release of the image at `path`, as `uname -r` prints it.
///
/// # Errors
/// [`Error::Input`] if the file is not a kernel image for x86.
pub(crate) fn release(path: &Path) -> Result<String, Error> {
    let file = File::open(path).map_err(on_file("read", path))?;
    header(&file).ok().flatten().ok_or_else(|| {
        let advice = "give a bzImage for x86-64, such as arch/x86/boot/bzImage";
        Error::Input(format!("{} is not a bootable kernel image; {advice}", path.display()))
    })
}

fn header(file: &File) -> std::io::Result<Option<String>> {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, MAGIC.0)?;
    if magic != *MAGIC.1 {
        return Ok(None);
    }
    let mut offset = [0; 2];
    file.read_exact_at(&mut offset, RELEASE_OFFSET)?;
    let mut text = Vec::new();
    let mut from = file;
    std::io::Seek::seek(&mut from, std::io::SeekFrom::Start(SECTOR + u64::from(u16::from_le_bytes(offset))))?;
    from.take(RELEASE_MAX).read_to_end(&mut text)?;
    let end = text.iter().position(|byte| matches!(byte, b' ' | 0)).unwrap_or(0);
    let release = String::from_utf8_lossy(&text[..end]).into_owned();
    Ok(release.starts_with(|letter: char| letter.is_ascii_digit()).then_some(release))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the beginning of an image with this release.
    pub(crate) fn image_bytes(release: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
        image
    }

    #[test]
    fn image_release_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bzImage");
        std::fs::write(&path, image_bytes("6.12.9-mine (me@here) #1")).unwrap();
        assert_eq!(release(&path).unwrap(), "6.12.9-mine");
    }

    #[test]
    fn invalid_image_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bzImage");
        for bytes in [Vec::new(), vec![0; 0x1000], b"\x7fELF".repeat(400), image_bytes("no release")] {
            std::fs::write(&path, bytes).unwrap();
            let sentence = release(&path).unwrap_err().to_string();
            assert!(sentence.contains("not a bootable kernel image"), "{sentence}");
        }
        assert!(release(&folder.path().join("absent")).is_err());
    }
}
