//! Sizes of memory with their units, such as `"512 MiB"`.
//!
//! A size is a string: a bare number of bytes would hide its unit, and mistakes in it. Only whole numbers and binary
//! units are accepted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The units, in descending order.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A size in bytes, a positive multiple of 1 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(u64);

/// Error for a text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size of memory; write a whole number above 0 and KiB, MiB, GiB or TiB, as in \"512 MiB\"")]
pub struct BytesError(String);

impl Bytes {
    /// Returns a size of `count` MiB.
    pub const fn mib(count: u64) -> Bytes {
        Bytes(count << 20)
    }

    /// Returns the size in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the size in whole pages of 4 KiB.
    pub const fn pages(self) -> u64 {
        self.0 >> 12
    }
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Bytes, BytesError> {
        let parsed = UNITS.iter().find_map(|(unit, size)| {
            let count: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
            count.checked_mul(*size).filter(|bytes| *bytes > 0)
        });
        parsed.map(Bytes).ok_or_else(|| BytesError(text.to_owned()))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = UNITS.iter().find(|(_, size)| self.0.is_multiple_of(*size)).unwrap_or(&("KiB", 1 << 10));
        write!(f, "{} {unit}", self.0 / size)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sizes_round_trip() {
        for (text, bytes) in [("512 MiB", 512 << 20), ("4KiB", 4096), ("3 GiB", 3 << 30), ("1 TiB", 1 << 40)] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!(size.get(), bytes);
            assert_eq!(size.to_string().replace(' ', ""), text.replace(' ', ""));
        }
        assert_eq!("1024 MiB".parse::<Bytes>().unwrap().to_string(), "1 GiB");
        assert_eq!(Bytes::mib(2).pages(), 512);
    }

    #[test]
    fn invalid_byte_sizes_are_errors() {
        for text in ["", "512", "512 MB", "0 MiB", "-1 MiB", "1.5 GiB", "MiB", "99999999999999 TiB"] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            assert!(error.contains("as in \"512 MiB\""), "{error}");
        }
    }
}
