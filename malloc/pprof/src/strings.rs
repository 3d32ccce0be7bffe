//! The string table of a profile, and the compression that pprof expects.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::proto;

/// Strings of a profile without duplicates. The first one is empty, as the format requires.
#[derive(Debug)]
pub(crate) struct StringTable {
    strings: Vec<String>,
    by_string: HashMap<String, i64>,
}

impl StringTable {
    pub(crate) fn new() -> StringTable {
        let mut table = StringTable { strings: Vec::new(), by_string: HashMap::new() };
        table.intern("");
        table
    }

    /// Returns the index of a string, which is added if it is new.
    pub(crate) fn intern(&mut self, string: &str) -> i64 {
        if let Some(&index) = self.by_string.get(string) {
            return index;
        }
        let index = self.strings.len() as i64;
        self.strings.push(string.to_owned());
        self.by_string.insert(string.to_owned(), index);
        index
    }

    /// Returns the index of a string, if it is in the table.
    pub(crate) fn get(&self, string: &str) -> Option<i64> {
        self.by_string.get(string).copied()
    }

    /// Returns all strings by index.
    pub(crate) fn strings(&self) -> &[String] {
        &self.strings
    }

    /// Returns all strings by index.
    pub(crate) fn into_strings(self) -> Vec<String> {
        self.strings
    }
}

impl Default for StringTable {
    fn default() -> StringTable {
        StringTable::new()
    }
}

/// Compresses a profile.
pub(crate) fn compress(profile: &proto::Profile) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to a vector cannot fail.
    let _written = gzip.write_all(&profile.encode_to_vec());
    gzip.finish().unwrap_or_default()
}
