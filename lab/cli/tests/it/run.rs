//! `freehold run` as a program: it runs the named program with its arguments, its status and its output, and the
//! program's malloc is Freehold.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::{Sandbox, assert_refused, assert_refused_with, build_library, freehold, json, stderr, text};

#[test]
fn run_preserves_output_and_exit_status() {
    assert_eq!(text(&["run", "--", "printf", "%s-%s", "a", "b c"]), "a-b c");
    assert_eq!(freehold(&["run", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
}

#[test]
fn run_uses_freehold_malloc() {
    let output = freehold(&["run", "--set", "stats=sizes,sections=locks", "--", "ls", "/"]);
    assert!(stderr(&output).contains("free blocks of 4 KiB"), "{}", stderr(&output));
}

/// Returns the lines of statistics, each split into words.
fn stats_lines(output: &Output) -> Vec<Vec<String>> {
    let said = stderr(output);
    let lines = said.lines().filter(|line| line.starts_with("freehold: process "));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

#[test]
fn stats_print_name_peak_and_cpu_time_in_one_line() {
    let output = freehold(&["run", "--stats", "--", "ls", "/"]);
    let said = stderr(&output);
    assert!(output.status.success() && said.lines().count() == 1 && said.starts_with("freehold: process "), "{said}");
    for part in [" (ls): peak ", " MiB, resident ", " MiB, CPU 0.0", " s; malloc, MiB: objects ", ", idle ", ", runs "]
    {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    let number = |word: &str| word.parse::<f64>().unwrap();
    let [line] = &stats_lines(&output)[..] else { panic!("one line: {said}") };
    let (peak, resident) = (number(&line[5]), number(&line[8]));
    assert!(peak >= resident && resident > 0.0, "{line:?}");
}

#[test]
fn stats_leave_out_brief_and_small_child_processes() {
    let script = "ls / >/dev/null; ls /dev >/dev/null; exec ls /proc/self >/dev/null";
    let output = freehold(&["run", "--stats", "--", "sh", "-c", script]);
    let said = stderr(&output);
    let last = said.lines().last().unwrap_or_default();
    let left_out = last.strip_prefix("freehold: processes left out (less than 1 s and 64 MiB): ");
    let left_out = left_out.and_then(|rest| rest.strip_suffix("; --stats=all prints them"));
    let left_out: usize = left_out.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    // A child process of a busy machine may live for a second.
    assert!(left_out >= 1 && left_out + stats_lines(&output).len() == 3, "{said}");
    let output = freehold(&["run", "--stats=all", "--", "sh", "-c", script]);
    assert_eq!(stats_lines(&output).len(), 3, "{}", stderr(&output));
    assert!(!stderr(&output).contains("left out"));
}

#[test]
fn stats_of_a_child_process_with_much_memory_are_printed() {
    let binary = assert_cmd::cargo::cargo_bin("freehold").display().to_string();
    // The child holds 100 MB in blocks.
    let load = "load malloc pairs --least 1000 --most 1000 --live 100000 --percent 1";
    let output = freehold(&["run", "--stats", "--", "sh", "-c", &format!("{binary} {load} >/dev/null; exec true")]);
    let lines = stats_lines(&output);
    let child = lines.iter().find(|line| line[3] == "(freehold):");
    let child = child.unwrap_or_else(|| panic!("{}", stderr(&output)));
    assert!(child[5].parse::<f64>().unwrap() > 64.0, "{child:?}");
}

#[test]
fn stats_pass_on_the_exit_status_and_leave_no_file() {
    let sandbox = Sandbox::new();
    let run = |words: &[&str]| {
        build_library();
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("freehold"));
        command.args(["run", "--stats", "--"]).args(words).env("TMPDIR", sandbox.path(""));
        command.output().unwrap()
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).status.code(), Some(128 + 15));
    assert_refused_with(127, &run(&["no-such-program"]), "cannot run `no-such-program`");
    assert_eq!(sandbox.listing(), [""; 0]);
}

#[test]
fn stats_follow_the_environment_without_the_command() {
    let library = text(&["run", "--print-library"]);
    let mut command = std::process::Command::new("ls");
    command.env("LD_PRELOAD", library.trim_end()).env("FREEHOLD_OPTIONS", "stats=exit");
    assert_eq!(stats_lines(&command.output().unwrap()).len(), 1);
    let output = command.env("FREEHOLD_OPTIONS", "stats=long,stats-file=/nowhere/x").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

/// At most 100 MiB are in use. Objects that are kept for sizes of earlier phases would make it several times as much.
#[test]
fn memory_of_sizes_that_are_not_used_any_more_is_reused() {
    let binary = assert_cmd::cargo::cargo_bin("freehold").display().to_string();
    let cost = json(&["run", "--", &binary, "load", "malloc", "phases", "--percent", "20"]);
    let peak = cost["peak_kib"].as_u64().unwrap() >> 10;
    assert!((100..400).contains(&peak), "{peak} MiB");
}

#[test]
fn limit_bounds_the_memory_of_the_program() {
    assert_eq!(
        text(&["run", "--limit", "64M", "--", "sh", "-c", "echo $FREEHOLD_OPTIONS"]),
        "return=helper,limit=64M\n"
    );
    let copy = ["run", "--limit", "64M", "--", "dd", "if=/dev/zero", "of=/dev/null", "count=1"];
    assert!(freehold(&[&copy[..], &["bs=32M"]].concat()).status.success());
    let output = freehold(&[&copy[..], &["bs=65M"]].concat());
    assert!(!output.status.success() && stderr(&output).contains("memory exhausted"), "{}", stderr(&output));
}

#[test]
fn unusable_limits_are_refused() {
    for wrong in ["0", "x", "-1", "1M", "64MB", "64M,keep=0"] {
        let output = freehold(&["run", &format!("--limit={wrong}"), "--", "ls"]);
        assert_refused(&output, &format!("--limit: `{wrong}` is not usable; give a size of at least 4M"));
    }
    assert_refused(&freehold(&["run", "--set", "limit=0", "--", "ls"]), "invalid option `limit=0`");
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
fn library_of_a_package_is_used_where_it_is_installed() {
    let built = text(&["run", "--print-library"]);
    let prefix = tempfile::tempdir().unwrap();
    let (program, library) = (prefix.path().join("bin/freehold"), prefix.path().join("lib/freehold/libfreehold.so"));
    for (from, to) in [(assert_cmd::cargo::cargo_bin("freehold"), &program), (built.trim_end().into(), &library)] {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
    let output = std::process::Command::new(&program).args(["run", "--print-library"]).output().unwrap();
    assert_eq!(text_of(&output.stdout), format!("{}\n", library.canonicalize().unwrap().display()));
}

#[test]
fn failed_run_is_reported_in_one_line() {
    assert_refused_with(127, &freehold(&["run", "--", "no-such-program"]), "cannot run `no-such-program`");
    assert_refused_with(126, &freehold(&["run", "--", "/etc/passwd"]), "cannot run `/etc/passwd`");
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
        ("underflow-1/1000", "write before a block: bytes in front of the block were overwritten", 2),
        ("underflow-32/1000", "overflow, or write before the block at 0x", 2),
        ("write-after-free/100", "use after free: the block was written to", 2),
        ("write-after-free/40000", "use after free: ", 3),
        ("free-inside/100", "invalid free: ", 1),
        ("free-of-stack/100", "invalid free: ", 1),
        ("delete-of-smaller/100", "wrong size: 50 bytes were passed to a free of this block", 2),
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

#[test]
fn program_is_measured_summarized_and_limited() {
    let loads = ["--load", "sqlite", "--load", "sqlite-data"];
    let arguments = [&["bench", "malloc", "--quick", "--runs", "1"][..], &loads].concat();
    let report = json(&[&arguments[..], &["--json", "-"]].concat());
    let left_out = report["left_out"].as_array().unwrap();
    if !left_out.is_empty() {
        assert!(left_out.iter().all(|line| line.as_str().unwrap().ends_with("`sqlite3` is not installed")), "{report}");
        return;
    }
    let (mallocs, programs) = (report["mallocs"].as_array().unwrap().len(), &report["programs"]);
    let sqlite = &programs["loads"][0];
    assert!(sqlite["load"] == "sqlite" && sqlite["cpu"].as_array().unwrap().len() == mallocs, "{programs}");
    assert!(report["loads"].as_array().unwrap().is_empty(), "{report}");
    let summary = report["summary"].as_array().unwrap();
    assert!(summary.len() == 4 && summary[0]["worst_program"] == "sqlite", "{summary:?}");
    assert_eq!(summary[0]["mean"]["ratio"], sqlite["cpu"][1]["ratio"]);
    // One round is too few to choose a malloc and to compare with it.
    assert!(summary[2]["mean"].is_null(), "{summary:?}");
    let limits = &report["limits"][0];
    assert!(limits["load"] == "sqlite-data" && limits["failures"][0].is_null(), "{limits}");
    let printed = text(&arguments);
    for title in ["Programs, summary", "Programs: CPU time in ms", "Programs with 64 MiB of memory"] {
        assert!(printed.contains(title), "{printed}");
    }
    let refused = freehold(&["load", "malloc", "pairs", "--limit", "data"]);
    assert!(stderr(&refused).contains("--limit is for loads that run a program"), "{}", stderr(&refused));
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
    assert_eq!(fs::read(&file).unwrap()[..2], [0x1f, 0x8b], "the file must be compressed");
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
    let tables = ["pairs", "resident", "threads", "start", "forks", "services"];
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
