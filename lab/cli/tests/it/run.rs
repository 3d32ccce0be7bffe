//! `freehold run` as a program: it runs the named program with its arguments, its status and its output, and the
//! program's malloc is Freehold.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::{Sandbox, assert_refused, freehold, json, stderr, text};

#[test]
fn run_preserves_output_and_exit_status() {
    assert_eq!(text(&["run", "--", "printf", "%s-%s", "a", "b c"]), "a-b c");
    assert_eq!(freehold(&["run", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
}

#[test]
fn run_uses_freehold_malloc() {
    let output = freehold(&["run", "--stats", "--", "ls", "/"]);
    let said = stderr(&output);
    assert!(
        output.status.success() && said.starts_with("freehold: process ") && said.contains(" KiB in objects"),
        "{said}"
    );
    let output = freehold(&["run", "--set", "stats=sizes,sections=locks", "--", "ls", "/"]);
    assert!(stderr(&output).contains("free blocks of 4 KiB"), "{}", stderr(&output));
}

#[test]
fn set_options_extend_the_environment() {
    let seen = text(&["run", "--set", "keep=1M", "--", "sh", "-c", "echo $FREEHOLD_OPTIONS"]);
    assert_eq!(seen, "return=helper,keep=1M\n");
}

#[test]
fn library_is_printed_and_written_once() {
    let path = text(&["run", "--print-library"]);
    let path = path.trim_end();
    let written = fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(text(&["run", "--print-library"]).trim_end(), path);
    assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), written);
}

#[test]
fn failed_run_is_reported_in_one_line() {
    assert_refused(&freehold(&["run", "--", "no-such-program"]), "cannot run `no-such-program`");
    assert_refused(&freehold(&["run", "--set", "keep=much", "--", "ls"]), "invalid option `keep=much`");
    assert_refused(&freehold(&["run", "--set", "colour=red", "--", "ls"]), "the options are return=");
}

/// Returns the stderr of a hardened program that misuses its memory.
fn misused(case: &str) -> String {
    let binary = assert_cmd::cargo::cargo_bin("freehold");
    let output = freehold(&["run", "--hardened", "--", &binary.display().to_string(), "load", "corruption", case]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{case}: {}", text_of(&output.stdout));
    stderr(&output)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn hardened_program_reports_the_misuse_and_its_callers() {
    // Addresses in the program itself. The calling function is found even where the compiler jumps to slow paths.
    let places = "freehold (0x";
    for (case, what, places_named) in [
        ("double-free/100", "double free: the block is already free", 3),
        ("double-free/1000000", "double free", 3),
        ("overflow-1/100", "overflow: bytes after the end of the block were overwritten", 2),
        ("overflow-1/40000", "overflow", 2),
        ("overflow-calloc/100", "overflow", 2),
        ("overflow-far/5000000", "overflow: ", 2),
        ("write-after-free/100", "use after free: the block was written to", 2),
        ("write-after-free/40000", "use after free: ", 3),
        ("free-inside/100", "invalid free: ", 1),
        ("free-of-stack/100", "invalid free: ", 1),
        ("delete-of-smaller/100", "wrong size: the block is freed as one of 50 bytes", 2),
        ("address-after-free/100", "use after free: ", 1),
    ] {
        let said = misused(case);
        assert!(said.contains(what), "{case}: {said}");
        assert_eq!(said.matches(places).count(), places_named, "{case}: {said}");
    }
}

#[test]
fn misuse_outcomes_are_counted_per_malloc() {
    let report = json(&["bench", "corruption", "--quick", "--json", "-"]);
    let (mallocs, cases) = (report["mallocs"].as_array().unwrap(), report["cases"].as_array().unwrap());
    assert_eq!((&mallocs[0], &mallocs[1]), (&"freehold".into(), &"freehold, hardened".into()));
    let [noticed, noticed_when_hardened] = [0, 1].map(|malloc| {
        cases.iter().filter(|case| ["told", "crashed"].contains(&case["outcomes"][malloc].as_str().unwrap())).count()
    });
    assert!(cases.len() >= 9 && noticed_when_hardened > noticed, "{report}");
    // A misuse that no malloc checks for must stay unnoticed; otherwise the cases would prove nothing.
    assert_eq!(text(&["load", "corruption", "write-after-free-middle/1000"]), "harmless\n");
    assert!(text(&["load", "corruption", "--list"]).lines().count() >= 100);
    assert_refused(&freehold(&["bench", "corruption", "malloc"]), "give only this benchmark");
}

#[test]
fn mallocs_are_measured_under_whole_loads() {
    let report = json(&["bench", "malloc", "--quick", "--runs", "1", "--json", "-"]);
    let mallocs = report["mallocs"].as_array().unwrap();
    assert_eq!((&mallocs[0], &mallocs[1]), (&"freehold".into(), &"libc".into()));
    let loads = report["loads"].as_array().unwrap();
    assert!(loads.len() >= 12 && loads.iter().all(|load| load["cpu"][1]["ratio"].as_f64().unwrap() > 0.0));
    let sandbox = Sandbox::new();
    let library = sandbox.argument("libnone.so");
    fs::write(&library, "no library").unwrap();
    let named = format!("mine={library}");
    let output = freehold(&["bench", "malloc", "--quick", "--runs", "1", "--library", &named]);
    assert!(stderr(&output).contains("under mine"), "{}", stderr(&output));
    assert_refused(&freehold(&["bench", "malloc", "--library", "/nowhere"]), "is not NAME=PATH");
    assert_refused(&freehold(&["bench", "malloc", "flags"]), "give only this benchmark");
    assert_refused(&freehold(&["bench", "flags", "--library", &named]), "--library is for the benchmark `malloc`");
}

fn run_with_profile(file: &Path, words: &[&str]) -> Output {
    let mut arguments = vec!["run", "--set", "profile-rate=1k", "--profile", file.to_str().unwrap(), "--"];
    arguments.extend(words);
    freehold(&arguments)
}

#[test]
fn profile_is_written_and_the_exit_status_passed_on() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("heap.pb.gz");
    assert!(run_with_profile(&file, &["ls", "/"]).status.success());
    assert_eq!(fs::read(&file).unwrap()[..2], [0x1f, 0x8b], "it is compressed");
    fs::remove_file(&file).unwrap();
    let output = run_with_profile(&file, &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.code(), Some(128 + 15));
    assert!(stderr(&output).contains("wrote no profile") && !file.exists(), "{}", stderr(&output));
    assert_eq!(run_with_profile(&file, &["sh", "-c", "exit 7"]).status.code(), Some(7));
}

#[test]
fn signal_is_passed_on_to_a_profiled_program() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("heap.pb.gz");
    // The program signals its parent, and ends with the status of its handler when the signal is passed on.
    let script = "trap 'exit 9' USR1; kill -USR1 $PPID; while :; do :; done";
    let output = freehold(&["run", "--profile", file.to_str().unwrap(), "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
}

#[test]
fn table_option_selects_malloc_tables() {
    let tables = ["pairs", "resident", "threads", "start", "forks"];
    let chosen = tables.iter().flat_map(|table| ["--table", table]);
    let mut arguments = vec!["bench", "malloc", "--quick", "--runs", "1", "--json", "-"];
    arguments.extend(chosen);
    let report = json(&arguments);
    assert!(report["loads"].as_array().unwrap().is_empty(), "{report}");
    let bands = report["pairs"].as_array().unwrap();
    assert!(bands.iter().all(|band| band["mean"][1]["ratio"].as_f64().unwrap() > 0.0), "{bands:?}");
    let sheets = report["sheets"].as_array().unwrap();
    for table in tables {
        assert!(sheets.iter().any(|sheet| sheet["table"] == table), "{table}");
    }
    // Freehold is the first and has a value everywhere; the C library has nothing beyond itself.
    let rows = sheets.iter().flat_map(|sheet| sheet["rows"].as_array().unwrap());
    assert!(rows.clone().all(|row| row["of"][0]["median"].is_number()), "{sheets:?}");
    let start = rows.filter(|row| row["load"] == "starts");
    assert!(start.clone().count() == 3 && start.clone().all(|row| row["of"][1]["median"] == 0.0));
    assert_refused(&freehold(&["bench", "pages", "--table", "pairs"]), "--table is for the benchmark `malloc`");
}

#[test]
fn single_malloc_load_runs_alone() {
    let cost = json(&["load", "malloc", "pairs", "--least", "100", "--most", "200", "--live", "3", "--percent", "1"]);
    assert_eq!(cost["steps"], 10_000);
    assert!((300..=600).contains(&cost["live_bytes"].as_u64().unwrap()), "{cost}");
    let refused = freehold(&["load", "malloc", "pairs", "--least", "2", "--most", "1"]);
    assert!(stderr(&refused).contains("invalid sizes of blocks"), "{}", stderr(&refused));
}

#[test]
fn forked_children_exit_successfully() {
    let cost = json(&["run", "--", env!("CARGO_BIN_EXE_freehold"), "load", "malloc", "forks", "--percent", "2"]);
    assert_eq!((&cost["steps"], &cost["lost"]), (&100.into(), &0.into()));
}
