//! Folder names for swept values, such as `policy=linux-6.12,highatomic%3Dskip-costly`.
//!
//! Readers of partitioned datasets (pyarrow, Polars, DuckDB) split such a name at `=` and decode `%`. All bytes except
//! letters, digits and a few marks are therefore percent-encoded, so a recording may have any name.

use std::fmt::Write;

use crate::digest;

/// Longest file name that file systems accept, in bytes.
const NAME_MAX: usize = 255;
/// Number of digest digits at the end of a value that was cut.
const DIGITS: usize = 16;
/// Marks without a special meaning to file systems, shells and readers.
const PLAIN: &[u8] = b"-_.,";

/// Returns the folder name of a value. A value that is too long is cut, and a digest at its end distinguishes it from
/// others.
pub(crate) fn folder(key: &str, value: &str) -> String {
    let room = NAME_MAX - key.len() - 1;
    let whole = encode(value);
    if whole.len() <= room {
        return format!("{key}={whole}");
    }
    let end = format!("-{}", &digest::hash_bytes(value)[..DIGITS]);
    let mut cut = String::new();
    for letter in value.chars().map(|letter| encode(letter.encode_utf8(&mut [0; 4]))) {
        if cut.len() + letter.len() + end.len() > room {
            break;
        }
        cut += &letter;
    }
    format!("{key}={cut}{end}")
}

fn encode(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        match byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            true => text.push(byte.into()),
            false => write!(text, "%{byte:02X}").expect("writing to a string does not fail"),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_encoded_in_folder_names() {
        assert_eq!(folder("policy", "linux-6.12,pcp=merge"), "policy=linux-6.12,pcp%3Dmerge");
        let hostile = "../a b/%2e\n\u{1b}[31m\u{e9}";
        assert_eq!(folder("recording", hostile), "recording=..%2Fa%20b%2F%252e%0A%1B%5B31m%C3%A9");
    }

    #[test]
    fn long_values_are_truncated_and_stay_distinct() {
        let [a, b] = ["a", "b"].map(|last| folder("recording", &("\u{e9}".repeat(100) + last)));
        assert!(a.len() <= NAME_MAX && a != b);
        assert!(a.starts_with("recording=%C3%A9%C3%A9"));
        let whole = "x".repeat(NAME_MAX - "recording=".len());
        assert_eq!(folder("recording", &whole), format!("recording={whole}"));
    }
}
