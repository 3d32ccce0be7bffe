//! Tests of the program from outside: benchmarks replace the tables of their pages and write data files, and bad folders
//! and names are rejected.

use std::fs;
use std::process::Output;

use assert_cmd::Command;

/// Runs the program with these arguments.
fn findings(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("freehold-findings").expect("it is built with the tests");
    command.args(arguments).output().expect("it runs")
}

#[test]
fn benchmarks_replace_tables_and_write_data_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    let names = ["flags", "contig", "harness"];
    let ran = findings(&[&["--quick", "--out", out.to_str().unwrap()][..], &names].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read_dir(&out).unwrap().count(), names.len() + 1, "pages, and the folder of their data");
    for (file, part) in [
        ("contig.md", "| case | unit | A | B | B/A |"),
        ("contig.md", "not judged"),
        ("data/contig/recipe.csv", "command,`cargo xtask findings contig --quick`"),
        ("data/contig/comparisons.csv", "lower bound: check each page,\"linux-6.12,contig=batched\",frozen-range"),
        ("data/contig/exact-counts.csv", "\"huge pages available at once, of 512, after pages\""),
        ("data/contig/notes.csv", "1406 -> 402 us"),
        ("data/flags/policies.csv", "convert-slow,ns a conversion"),
        ("data/harness/comparisons.csv", "the engine,the engine with 3 % more work,slower-by-3"),
    ] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(part), "no {part:?} in {file}\n{text}");
    }
}

/// The tests' folder has no builds of other mallocs. All other tables are measured.
#[test]
fn tables_that_cannot_be_measured_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = findings(&["--quick", "--out", folder.path().to_str().unwrap(), "slab"]);
    let message = String::from_utf8_lossy(&output.stderr);
    let expected = "tables of the page `slab` were not measured: `mallocs` (Mallocs are missing";
    assert!(output.status.code() == Some(2) && message.contains(expected), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn errors_are_one_sentence_and_precede_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("no/such");
    for (arguments, says) in [
        (&["--quick", "--out", out.to_str().unwrap(), "owned-pageblocks"][..], "cannot write"),
        (&["flgas"], "perhaps `flags` is meant"),
    ] {
        let output = findings(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.lines().count() == 1 && said.contains(says), "{said}");
    }
    assert_eq!(findings(&["--quick", "flags"]).status.code(), Some(2), "a quick page is not for docs/findings");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
