//! Compressed kernel in an image, and the configuration that `CONFIG_IKCONFIG` embeds in the kernel.
//!
//! The setup header gives the place of the compressed kernel in the image (linux: Documentation/arch/x86/boot.rst). The
//! programs of this machine decompress it. Without the program for its format, the configuration is unknown.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Offsets in the image: number of setup sectors, and offset and length of the compressed kernel after them.
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// Number of setup sectors if the field is 0.
const SETUP_SECTORS_DEFAULT: usize = 4;
/// Size of a sector in bytes.
const SECTOR: usize = 0x200;

/// First bytes of each compression format of the kernel, and the program that decompresses it.
const FORMATS: [(&[u8], &[&str]); 6] = [
    (b"\x1f\x8b", &["zcat"]),
    (b"\xfd7zXZ", &["xzcat"]),
    (b"\x28\xb5\x2f\xfd", &["zstdcat"]),
    (b"\x02\x21\x4c\x18", &["lz4", "-dc"]),
    (b"\x5d\x00\x00", &["xzcat", "--format=lzma"]),
    (b"BZh", &["bzcat"]),
];

/// Marks before and after the configuration, which is compressed with gzip (linux: kernel/configs.c).
const START: &[u8] = b"IKCFG_ST";
const END: &[u8] = b"IKCFG_ED";

/// Returns the configuration that is embedded in the image; `None` if there is none, or if the image cannot be
/// decompressed.
pub(crate) fn configuration(image: &Path) -> Option<String> {
    let bytes = fs::read(image).ok()?;
    let kernel = decompress(bytes.get(place(&bytes)?)?)?;
    let start = find(&kernel, START)? + START.len();
    let end = start + find(&kernel[start..], END)?;
    String::from_utf8(decompress(&kernel[start..end])?).ok()
}

/// Returns the place of the compressed kernel.
fn place(image: &[u8]) -> Option<Range<usize>> {
    let sectors = match *image.get(SETUP_SECTORS)? {
        0 => SETUP_SECTORS_DEFAULT,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * SECTOR + number(image, PAYLOAD_OFFSET)?;
    Some(start..start.checked_add(number(image, PAYLOAD_LENGTH)?)?)
}

fn number(image: &[u8], offset: usize) -> Option<usize> {
    let bytes = image.get(offset..offset + 4)?;
    usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
}

/// Decompresses bytes with a program of this machine. The exit status is ignored, because programs complain about the
/// length that the kernel's build appends.
fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let (_, command) = FORMATS.iter().find(|(magic, _)| bytes.starts_with(magic))?;
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            // The program may stop reading at the end of the compressed data.
            let _ = stdin.write_all(bytes);
        });
        child.wait_with_output().ok()
    })
    .map(|output| output.stdout)
}

/// Returns the offset of the first occurrence of `part`.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::image_bytes;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        Command::new("gzip").arg("-c").arg(file.path()).output().unwrap().stdout
    }

    /// Returns an image whose compressed kernel is `payload`.
    fn image_with(payload: &[u8]) -> tempfile::NamedTempFile {
        let mut image = image_bytes("6.12.9-mine");
        image[SETUP_SECTORS] = 1;
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), image).unwrap();
        file
    }

    #[test]
    fn embedded_configuration_is_read() {
        let config = "CONFIG_64BIT=y\n".repeat(1000);
        let kernel = [b"code".repeat(50_000), START.to_vec(), gzip(config.as_bytes()), END.to_vec()].concat();
        // The build appends the length of the kernel.
        let payload = [gzip(&kernel), (kernel.len() as u32).to_le_bytes().to_vec()].concat();
        assert_eq!(configuration(image_with(&payload).path()), Some(config));
    }

    #[test]
    fn image_without_a_configuration_has_none() {
        for payload in [Vec::new(), gzip(b"code"), b"\x1f\x8bdamaged".to_vec(), b"unknown".to_vec()] {
            assert_eq!(configuration(image_with(&payload).path()), None);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        for bytes in [vec![], vec![0; 0x200], vec![0xff; 0x400]] {
            fs::write(file.path(), bytes).unwrap();
            assert_eq!(configuration(file.path()), None);
        }
    }
}
