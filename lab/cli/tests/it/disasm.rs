//! The machine code that the program shows of itself; the tests do not depend on the code that the compiler generates.

use std::fs;
use std::process::Command;

use crate::common::{Sandbox, assert_refused, freehold, json, text};
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

const COUNTS: [&str; 8] =
    ["instructions", "bytes", "conditional_branches", "conditional_moves", "jumps", "calls", "loads", "stores"];

fn functions(found: &Value) -> Vec<&Value> {
    let pairs = found["subjects"].as_array().unwrap().iter().flat_map(|subject| subject["pairs"].as_array().unwrap());
    pairs.flat_map(|pair| [&pair["before"], &pair["after"]]).collect()
}

#[test]
fn each_conversion_is_disassembled_and_counted() {
    let found = json(&["disasm", "flags", "--json", "-"]);
    assert_eq!(found["architecture"], "x86_64");
    let functions = functions(&found);
    let names: Vec<_> = functions.iter().map(|function| function["function"].as_str().unwrap()).collect();
    assert_eq!(names, ["slow_coupled", "slow_plain", "nofragment_coupled", "nofragment_plain"]);
    for function in functions {
        let lines = function["lines"].as_array().unwrap();
        assert_eq!(function["instructions"], lines.len());
        let bytes: usize = lines.iter().map(|line| line["bytes"].as_str().unwrap().split(' ').count()).sum();
        assert_eq!(function["bytes"], bytes, "the instructions must cover every byte of the function");
        assert!(lines.iter().any(|line| line["text"] == "ret"), "{function}");
        assert!(COUNTS.iter().all(|count| function[count].is_u64()), "{function}");
    }
}

#[test]
fn disasm_tables_match_the_json() {
    let found = json(&["disasm", "--json", "-"]);
    let said = text(&["disasm"]);
    for function in functions(&found) {
        let name = function["function"].as_str().unwrap();
        let row = said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{said}"));
        let shown: Vec<_> = row.split_whitespace().skip(1).collect();
        let counted: Vec<_> = COUNTS.iter().map(|count| function[count].to_string()).collect();
        assert_eq!(shown, counted);
    }
    assert!(said.contains("\nslow path: ") && said.contains("\nno-fragment: "), "{said}");
}

#[test]
fn disasm_subjects_are_listed() {
    let listed = json(&["disasm", "--list", "--json", "-"]);
    assert_eq!(listed["subjects"][0]["name"], "flags");
    assert!(text(&["disasm", "--list"]).contains("slow_coupled, slow_plain"));
}

#[test]
fn unknown_disasm_subject_error_suggests_the_nearest_name() {
    assert_refused(&freehold(&["disasm", "flasg"]), "`flags`");
    assert_refused(&freehold(&["disasm", "flags", "zebra", "--list"]), "there are flags");
}

/// A stripped program prints the same as the unstripped one. Skipped if binutils are missing.
#[test]
fn stripped_program_disassembles_alike() {
    let sandbox = Sandbox::new();
    let stripped = sandbox.path("freehold");
    fs::copy(cargo_bin("freehold"), &stripped).unwrap();
    let Ok(status) = Command::new("strip").arg(&stripped).status() else { return };
    assert!(status.success());
    let output = Command::new(&stripped).arg("disasm").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text(&["disasm"]));
}
