//! Checksums that detect damage to a recording.
//!
//! zstd detects some flipped bits and decodes others to different numbers. The writer therefore stores a CRC-32 of the
//! facts and of each row group's bytes, in the file's key-value metadata. A file without checksums, from another
//! writer, is read without this check.

use serde::{Deserialize, Serialize};

/// Key of the checksums in the file metadata. The value is JSON.
pub(crate) const CHECKSUM_KEY: &str = "freehold.crc32";

/// CRC-32 (IEEE) of the parts of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksums {
    /// CRC of the facts' JSON text.
    pub facts: u32,
    /// CRC of each row group: of the bytes from the start of its first column chunk to the end of its last one.
    pub row_groups: Vec<u32>,
}

impl Checksums {
    pub(crate) fn to_json(&self) -> String {
        let groups: Vec<String> = self.row_groups.iter().map(u32::to_string).collect();
        format!(r#"{{"facts":{},"row_groups":[{}]}}"#, self.facts, groups.join(","))
    }

    pub(crate) fn from_json(text: &str) -> Result<Checksums, serde_json::Error> {
        serde_json::from_str(text)
    }
}
