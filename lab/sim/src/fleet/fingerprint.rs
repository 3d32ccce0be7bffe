//! A number that identifies a question, or a build of the program.
//!
//! The hash is FNV-1a over bytes, with the length of each part appended. It is the same on every machine and in every
//! version of the compiler; the hashes of the standard library are not. It resists accidents, not malice.

use std::fs::File;
use std::io::{self, Read};

/// State of the hash after some parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    /// Returns the fingerprint of no parts.
    fn default() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Returns the fingerprint extended by another part.
    pub fn with(self, part: impl AsRef<[u8]>) -> Fingerprint {
        let part = part.as_ref();
        self.mix(part).mix(&part.len().to_le_bytes())
    }

    /// Returns the number so far.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns the number in hexadecimal digits.
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }

    /// Returns the fingerprint of the executable file of the running program.
    ///
    /// # Errors
    /// Returns an error if that file cannot be read.
    pub fn from_this_program() -> io::Result<Fingerprint> {
        let mut file = File::open("/proc/self/exe")?;
        let mut buffer = vec![0; 1 << 20];
        let mut sum = Fingerprint::default();
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(sum),
                read => sum = sum.mix(&buffer[..read]),
            }
        }
    }

    fn mix(self, bytes: &[u8]) -> Fingerprint {
        Fingerprint(bytes.iter().fold(self.0, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of FNV-1a, 64 bits.
    #[test]
    fn fnv1a_matches_the_published_vectors() {
        for (text, sum) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(Fingerprint::default().mix(text.as_bytes()).get(), sum, "{text}");
        }
    }

    #[test]
    fn fingerprint_separates_parts() {
        let fingerprint = Fingerprint::default().with("ab").with("c");
        assert_ne!(fingerprint, Fingerprint::default().with("a").with("bc"));
        assert_eq!(fingerprint, Fingerprint::default().with("ab").with("c"));
    }

    #[test]
    fn program_fingerprint_is_stable() {
        assert_eq!(Fingerprint::from_this_program().unwrap(), Fingerprint::from_this_program().unwrap());
    }
}
