//! Names that users have in scripts: options, and fields of JSON. New names may be added; the listed ones must remain.
//!
//! The JSON is made from recordings of format 1 (`oracle-*`) and of format 2 (`guest-*`), which are read alike.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{json, text};

/// One line per command: its name, and its options.
const OPTIONS: &str = include_str!("data/options.txt");
/// Command lines, each followed by the paths of the fields in its JSON, indented.
const FIELDS: &str = include_str!("data/json-fields.txt");
/// Folder of the bundled recordings.
const RECORDINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings");

/// Returns the options that `command` lacks.
fn missing_options<'o>(command: &str, options: &'o str) -> Vec<&'o str> {
    let words: Vec<&str> = command.split(' ').filter(|word| *word != "freehold").collect();
    let help = text(&[&words[..], &["--help"]].concat());
    let known: BTreeSet<&str> = help.split([' ', ',', '\n', '=', '[']).collect();
    options.split(' ').filter(|option| !known.contains(option)).collect()
}

/// Collects the paths of all values that are neither objects nor arrays.
fn collect_paths(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect_paths(value, &format!("{path}.{name}"), paths));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_paths(value, &format!("{path}[]"), paths)),
        _ => _ = paths.insert(path.to_owned()),
    }
}

#[test]
fn listed_options_still_exist() {
    for line in OPTIONS.lines() {
        let (command, options) = line.split_once(": ").unwrap();
        assert_eq!(missing_options(command, options), [""; 0], "{command}");
    }
    assert_eq!(missing_options("compare", "--a --lost"), ["--lost"]);
}

#[test]
fn listed_json_fields_still_exist() {
    let mut paths = BTreeSet::new();
    for line in FIELDS.lines() {
        if let Some(command) = line.strip_prefix("freehold ") {
            let command = command.replace("recordings/", &format!("{RECORDINGS}/"));
            let words: Vec<&str> = command.split(' ').chain(["--json", "-"]).collect();
            paths.clear();
            collect_paths(&json(&words), "", &mut paths);
        } else {
            assert!(paths.contains(line.trim_start()), "{line} is lost");
        }
    }
    assert!(!paths.contains(".lost"));
}
