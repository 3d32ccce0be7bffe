//! Values as names of folders: `policy=linux-6.12,highatomic%3Dskip-costly`.
//!
//! Readers of partitioned datasets (pyarrow, Polars, DuckDB) take such a name apart at its `=` and decode `%`. So
//! whatever else than letters, digits and a few marks stands in a value is encoded, byte by byte: a recording may be
//! called as it likes.

use std::fmt::Write;

use crate::digest;

/// Most bytes that a file system takes for a name.
const NAME_MAX: usize = 255;
/// Digits of its digest that a value has which was cut.
const DIGITS: usize = 16;
/// Marks that mean nothing to a file system, to a shell or to a reader.
const PLAIN: &[u8] = b"-_.,";

/// The folder of a value. One that is too long for a name is cut, and ends in what tells it from others.
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
            false => write!(text, "%{byte:02X}").expect("a string takes what is written to it"),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_is_encoded() {
        assert_eq!(folder("policy", "linux-6.12,pcp=merge"), "policy=linux-6.12,pcp%3Dmerge");
        let hostile = "../a b/%2e\n\u{1b}[31m\u{e9}";
        assert_eq!(folder("recording", hostile), "recording=..%2Fa%20b%2F%252e%0A%1B%5B31m%C3%A9");
    }

    #[test]
    fn a_long_value_is_cut_and_still_told_from_others() {
        let [a, b] = ["a", "b"].map(|last| folder("recording", &("\u{e9}".repeat(100) + last)));
        assert!(a.len() <= NAME_MAX && a != b);
        assert!(a.starts_with("recording=%C3%A9%C3%A9"));
        let whole = "x".repeat(NAME_MAX - "recording=".len());
        assert_eq!(folder("recording", &whole), format!("recording={whole}"));
    }
}
