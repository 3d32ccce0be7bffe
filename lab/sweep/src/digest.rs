//! Content digests: SHA-256 in hexadecimal digits, as printed by `sha256sum`.

use std::fmt::Write;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// Number of bytes that are read at a time.
const CHUNK: usize = 1 << 16;

/// Returns the digest of some bytes.
pub(crate) fn hash_bytes(bytes: impl AsRef<[u8]>) -> String {
    digits(&Sha256::digest(bytes))
}

/// Returns the digest of the concatenation of these pieces.
pub(crate) fn hash_pieces(pieces: &[&[u8]]) -> String {
    let sum = pieces.iter().fold(Sha256::new(), |sum, piece| sum.chain_update(piece));
    digits(&sum.finalize())
}

/// Returns the digest of the remaining contents of a reader.
///
/// # Errors
/// If the reader fails.
pub(crate) fn hash_reader(mut reader: impl Read) -> io::Result<String> {
    let (mut sum, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(digits(&sum.finalize())),
            Ok(read) => sum.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("writing to a string does not fail");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published digest of `abc`, from the standard.
    #[test]
    fn digest_matches_the_published_value() {
        let published = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_bytes("abc"), published);
        assert_eq!(hash_pieces(&[b"a", b"", b"bc"]), published);
        assert_eq!(hash_reader("abc".as_bytes()).unwrap(), published);
    }
}
