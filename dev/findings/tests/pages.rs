//! Tests of the program from outside: its pages contain the question and the method, and bad folders and names are
//! refused.

use std::fs;
use std::process::Output;

use assert_cmd::Command;

/// Runs the program with these arguments.
fn findings(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("freehold-findings").expect("it is built with the tests");
    command.args(arguments).output().expect("it runs")
}

#[test]
fn pages_contain_the_question_and_the_method() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    let ran = findings(&["--quick", "--out", out.to_str().unwrap(), "flags", "contig"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "two pages and no scraps");
    let page = fs::read_to_string(out.join("contig.md")).unwrap();
    for part in [
        "`cargo xtask findings contig --quick`",
        "a hundredth of that",
        "# `contig`: ",
        "## What was asked",
        "## Recipe",
        "beyond 2 %",
        "1406 -> 402 us",
        "huge pages",
    ] {
        assert!(page.contains(part), "no {part:?} in\n{page}");
    }
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
