//! Checksums that tell a damaged recording from a true one.
//!
//! zstd notices some flipped bits and turns others into different numbers, so the writer stores a CRC-32
//! of the facts and of each row group's bytes. They stand in the file's key-value metadata; a file
//! without them (another writer's) is read without this check.

use serde::{Deserialize, Serialize};

/// Key of the file metadata under which the checksums stand, as JSON.
pub(crate) const CHECKSUM_KEY: &str = "freehold.crc32";

/// CRC-32 (IEEE) of the parts of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checksums {
    /// CRC of the facts' JSON text.
    pub facts: u32,
    /// Of each row group: the bytes from its first column chunk's first to its last one's last.
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
