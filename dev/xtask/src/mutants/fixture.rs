//! Tests of the whole tool on a small package: mutants that its tests detect are caught, and the others survive.

use std::fs;
use std::path::Path;

use super::subject::Subject;
use super::{Args, run_on};

const LIBRARY: &str = "//! Fixture.
#![no_std]
/// Most.
pub const MOST: u16 = 0x7f;
/// Tested on both sides of its border.
pub const fn is_small(a: u32) -> bool {
    a < 10
}
/// Tested nowhere near its border.
pub fn is_large(a: u32) -> bool {
    a > 1000
}
/// Never called.
pub fn lost(a: &str, b: &str) -> bool {
    a == b
}
/// Is no sum.
pub fn twice(time: core::time::Duration) -> core::time::Duration {
    2 * time
}
/// Ends, whatever is wrong with it.
pub fn count(mut a: u16) -> u16 {
    let mut steps = 0;
    while a != 0 {
        a -= 1;
        steps += 1;
    }
    steps & MOST
}
const _: () = assert!(is_small(9));
";

const TESTS: &str = "//! Tests.
use fixture::{count, is_large, is_small};
#[test]
fn border() {
    assert!(is_small(9) && !is_small(10));
}
#[test]
fn far() {
    assert!(is_large(5000) && !is_large(5));
}
#[test]
fn counted() {
    assert_eq!(count(100), 100);
}
";

fn write_subject(folder: &Path) -> Subject {
    let files = [
        ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"fixture\", \"gone\"]\n"),
        ("fixture/Cargo.toml", "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
        ("fixture/src/lib.rs", LIBRARY),
        ("fixture/tests/all.rs", TESTS),
        ("fixture/tests/broken.rs", "this is left out\n"),
    ];
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Subject {
        root: folder.to_owned(),
        library: "fixture/src/lib.rs",
        package: "fixture",
        members: &["fixture"],
        left_out: &["fixture/tests/broken"],
        folder: folder.join("built"),
    }
}

#[test]
fn caught_survived_and_uncovered_mutants_are_separated() {
    let folder = tempfile::tempdir().unwrap();
    let subject = write_subject(folder.path());
    let json = folder.path().join("report.json");
    let args = Args { json: Some(json.clone()), ..Args::sample(100, 1, 5) };
    let sentence = run_on(&subject, &folder.path().join("equivalent.toml"), &args).unwrap_err().to_string();
    assert!(sentence.contains("were not noticed"), "{sentence}");

    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let mutants = report["mutants"].as_array().unwrap();
    for (function, mutated, ending) in [
        ("is_small", "(a) <= (10)", "caught"),
        ("is_small", "return false", "caught"),
        ("is_large", "(a) >= (1000)", "survived"),
        ("is_large", "(a) <= (1000)", "caught"),
        ("lost", "(a) != (b)", "not_covered"),
        ("MOST", "0x3f", "caught"),
        ("count", "a += 1", "caught"),
        ("count", "(steps) | (MOST)", "caught"),
    ] {
        let found: Vec<_> = mutants
            .iter()
            .filter(|mutant| mutant["function"] == function && mutant["mutated"] == mutated)
            .map(|mutant| mutant["ending"].as_str().unwrap())
            .collect();
        assert_eq!(found, [ending], "{function} {mutated}: {mutants:#?}");
    }
    assert_eq!(report["refused"], 1);
}

fn make_entry(mutated: &str) -> String {
    format!(
        "[[mutant]]\nfile = \"fixture/src/lib.rs\"\nfunction = \"is_large\"\noriginal = \"a > 1000\"\n\
             mutated = \"{mutated}\"\nwhy = \"nobody asks about a thousand\"\n"
    )
}

#[test]
fn only_listed_equivalent_mutants_may_survive() {
    let folder = tempfile::tempdir().unwrap();
    let subject = write_subject(folder.path());
    let list = folder.path().join("equivalent.toml");
    fs::write(&list, make_entry("(a) >= (1000)") + &make_entry("(a) <= (1000)")).unwrap();
    let args = Args { only: vec!["lib.rs:11".to_owned()], ..Args::sample(100, 1, 5) };
    let sentence = run_on(&subject, &list, &args).unwrap_err().to_string();
    assert!(sentence.contains("is listed as equivalent, but fixture all far notices it"), "{sentence}");
}
