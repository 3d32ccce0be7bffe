//! Memory sizes of guests, as people write them: `512M`, `1G`.

use std::fmt;
use std::str::FromStr;

/// Minimum memory for the kernel, the recorder and a workload, in MiB.
const SMALLEST: u32 = 256;

/// A number of MiB, at least 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mebibytes(u32);

impl Mebibytes {
    /// Size of a small machine in which every workload still fits: 512 MiB.
    pub const SMALL: Mebibytes = Mebibytes(512);

    /// Returns the size in MiB.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl FromStr for Mebibytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(mebibytes) = parse_mebibytes(text) else {
            return Err(format!("`{text}` is not a memory size; write it like 512M or 1G"));
        };
        if mebibytes < SMALLEST {
            return Err(format!("{text} is too small; a guest needs at least {SMALLEST}M"));
        }
        Ok(Mebibytes(mebibytes))
    }
}

/// Parses a whole number of MiB or GiB.
fn parse_mebibytes(text: &str) -> Option<u32> {
    let (digits, unit) = match text.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1024),
        None => (text.strip_suffix(['M', 'm'])?, 1),
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1024) { write!(f, "{}G", self.0 / 1024) } else { write!(f, "{}M", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_size_round_trips() {
        for text in ["512M", "1G", "1536M", "16G"] {
            assert_eq!(text.parse::<Mebibytes>().unwrap().to_string(), text);
        }
        assert_eq!("1024M".parse::<Mebibytes>().unwrap().to_string(), "1G");
    }

    #[test]
    fn invalid_memory_sizes_are_errors() {
        for text in ["", "G", "1", "1T", "-1G", "64M", "99999999G"] {
            assert!(text.parse::<Mebibytes>().is_err(), "{text} was accepted");
        }
    }
}
