//! Output of the commands on success: help texts, tables, and the JSON that scripts rely on.

use std::{env, fs, panic};

use crate::common::{Sandbox, assert_refused, freehold, json, text};
use serde_json::Value;

/// Names of metrics, which never change.
const METRICS: [&str; 28] = [
    "zone_lock_acquisitions",
    "pages_per_zone_lock",
    "pcp_refills",
    "pcp_drains",
    "failed_allocations",
    "unusable_free_index_order9",
    "free_pageblocks",
    "highatomic_pageblocks",
    "fallback_claims",
    "fallback_steals",
    "cross_cpu_frees",
    "huge_pages_served",
    "allocstall",
    "stall_time",
    "pgscan",
    "pgsteal",
    "compact_stall",
    "compact_success_share",
    "compact_scanned",
    "pgmigrate_success",
    "allocstall_costly_ready",
    "allocstall_costly",
    "allocstall_small",
    "pgscan_costly",
    "pgscan_small",
    "failures_no_reclaim",
    "failures_huge_first",
    "failures_huge_second",
];

/// Labels of rows.
const LABELS: [&str; 9] = [
    "better",
    "worse",
    "changed",
    "no change",
    "sensitive to watermarks",
    "within noise",
    "mixed",
    "too few events",
    "not judged",
];

/// Number of metrics that are omitted if reclaim and compaction are played as recorded.
const METRICS_OF_PRESSURE: usize = 17;

fn assert_metrics(metrics: &Value) {
    let metrics = metrics.as_array().expect("metrics is an array");
    let names: Vec<_> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, METRICS);
    for metric in metrics {
        let members: Vec<_> = metric.as_object().unwrap().keys().collect();
        assert!([7, 9].contains(&members.len()), "7 members, or 9 with the ranges of A and B: {members:?}");
        for member in ["name", "unit", "a", "b", "change", "verdict", "replay_error"] {
            assert!(metric.get(member).is_some(), "no {member} in {metric}");
        }
        let verdict = metric["verdict"].as_str().expect("every row has a label");
        assert!(LABELS.contains(&verdict), "{verdict}");
    }
}

#[test]
fn no_arguments_print_the_help() {
    let help = text(&[]);
    for command in ["compare", "advise", "record", "inspect", "replay", "diff", "policies", "completions"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let own = text(&[command, "--help"]);
        assert!(own.contains(&format!("Usage: freehold {command}")), "{own}");
    }
}

fn count_zone_locks(report: &Value) -> u64 {
    report["metrics"]["zone_lock_acquisitions"].as_u64().unwrap()
}

#[test]
fn replay_defaults_to_the_rules_of_the_recorded_kernel() {
    for (name, rules) in [("build", "linux-6.18"), ("oracle-calm", "linux-6.12")] {
        let file = format!("{}/../../recordings/{name}.parquet", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(json(&["replay", &file, "--json", "-"])["policy"], rules, "{name}");
    }
}

#[test]
fn replay_reports_a_changed_setting() {
    let file = format!("{}/../../recordings/oracle-calm.parquet", env!("CARGO_MANIFEST_DIR"));
    let report = json(&["replay", &file, "--setting", "vm.percpu_pagelist_high_fraction=1000", "--json", "-"]);
    let recorded = json(&["replay", &file, "--json", "-"]);
    assert_eq!(report["settings"][0], "vm.percpu_pagelist_high_fraction=1000");
    assert!(recorded.get("settings").is_none());
    assert!(count_zone_locks(&report) > count_zone_locks(&recorded), "lists are shorter");
    assert!(report["fidelity"].as_array().unwrap().iter().all(|row| row["within"].is_null()));
    assert!(
        report["assumptions"][0]
            .as_str()
            .unwrap()
            .contains("the work, its timing and the free memory at the start are as recorded")
    );
}

#[test]
fn setting_b_applies_to_the_policy_of_a_by_default() {
    let file = format!("{}/../../recordings/oracle-calm.parquet", env!("CARGO_MANIFEST_DIR"));
    let report = json(&["compare", &file, "--setting-b", "vm.min_free_kbytes=90112", "--json", "-"]);
    assert_eq!(report["comparisons"][0]["b"], "A with vm.min_free_kbytes=90112");
    assert_eq!(report["comparisons"][0]["a"], "linux-6.12");
}

#[test]
fn invalid_settings_are_refused() {
    let file = format!("{}/../../recordings/oracle-calm.parquet", env!("CARGO_MANIFEST_DIR"));
    for (setting, near) in [
        ("vm.swappiness=1", "it can change vm.min_free_kbytes"),
        ("vm.min_free_kbytes=lots", "a whole number"),
        ("transparent_hugepage.defrag=often", "one of always"),
    ] {
        assert_refused(&freehold(&["replay", &file, "--setting", setting]), near);
        assert_refused(&freehold(&["compare", &file, "--setting-b", setting]), near);
    }
    for (setting, near) in [
        ("vm.defrag_mode=1", "`vm.defrag_mode` exists since Linux 6.15"),
        ("transparent_hugepage.enabled=madvise", "was `always`, and a replay cannot set it to `madvise`"),
    ] {
        assert_refused(&freehold(&["replay", &file, "--setting", setting]), near);
        assert_refused(&freehold(&["compare", &file, "--exact", "--setting-b", setting]), near);
    }
    let twice = ["replay", &file, "--setting", "vm.min_free_kbytes=1", "--setting", "vm.min_free_kbytes=2"];
    assert_refused(&freehold(&twice), "given twice");
}

#[test]
fn every_setting_is_accepted_and_listed() {
    let file = format!("{}/../../recordings/oracle-calm.parquet", env!("CARGO_MANIFEST_DIR"));
    let page = include_str!("../../../../docs/commands.md");
    let help = text(&["compare", "--help"]);
    for setting in [
        "vm.min_free_kbytes=90112",
        "vm.watermark_scale_factor=200",
        "vm.percpu_pagelist_high_fraction=8",
        "vm.watermark_boost_factor=0",
        "vm.compaction_proactiveness=0",
        "vm.extfrag_threshold=100",
        "vm.defrag_mode=1",
        "vm.lowmem_reserve_ratio=0 0",
        "transparent_hugepage.defrag=always",
        "transparent_hugepage.enabled=always",
    ] {
        let name = setting.split('=').next().unwrap();
        assert!(help.contains(name), "{name} is not in the help");
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/commands.md");
        let report = json(&["replay", &file, "--policy", "linux-6.18", "--setting", setting, "--json", "-"]);
        assert_eq!(report["settings"][0], setting);
    }
    assert_eq!(help.matches("a whole number from").count() + help.matches("one of ").count(), 9);
}

#[test]
fn completions_and_manual_pages_contain_the_commands() {
    let script = text(&["completions", "bash"]);
    assert!(script.contains("compare") && script.contains("--policy"));
    let sandbox = Sandbox::new();
    text(&["man", &sandbox.argument("share/man1")]);
    let commands =
        ["bench", "compare", "completions", "diff", "disasm", "fleet", "inspect", "man", "policies", "record"];
    for command in commands.into_iter().chain(["advise", "replay", "sim"]) {
        let page = fs::read_to_string(sandbox.path(&format!("share/man1/freehold-{command}.1"))).unwrap();
        let example = format!("freehold {command}").replace('-', "\\-");
        for help in [page, text(&[command, "-h"])] {
            let examples = help.split_once("Examples:").expect(command).1;
            assert!(examples.contains(&example), "{command}: {examples}");
        }
    }
}

#[test]
fn closed_stdout_is_an_error() {
    let program = assert_cmd::cargo::cargo_bin("freehold");
    let command = format!("{} policies >&-", program.display());
    let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_refused(&output, "stdout is closed");
}

#[test]
fn listed_policy_values_are_accepted() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let listed = json(&["policies", "--json", "-"]);
    assert_eq!(listed["sets"][0]["name"], "linux-6.12");
    let kinds = ["fields", "rules", "switches"];
    for field in kinds.iter().flat_map(|&kind| listed[kind].as_array().unwrap()) {
        for value in field["values"].as_array().unwrap() {
            let policy = format!("linux-6.12,{}={}", field["name"].as_str().unwrap(), value["name"].as_str().unwrap());
            let outcome = json(&["replay", &recording, "--policy", &policy, "--json", "-"]);
            assert_eq!(outcome["policy"], policy.as_str());
        }
    }
    for number in listed["numbers"].as_array().unwrap() {
        for bound in [&number["min"], &number["max"]] {
            let policy = format!("freehold,{}={bound}", number["name"].as_str().unwrap());
            text(&["replay", &recording, "--policy", &policy]);
        }
    }
}

#[test]
fn inspect_counts_match_the_file() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let found = json(&["inspect", &recording, "--json", "-"]);
    let pairing = &found["pairing"];
    assert_eq!(
        (&pairing["allocations"], &pairing["frees"], &pairing["paired"]),
        (&2000.into(), &2001.into(), &2000.into())
    );
    assert_eq!(found["orders"][1]["failed"], 1);
    assert_eq!(found["gfp_classes"][0]["name"], "GFP_HIGHUSER_MOVABLE");
    assert_eq!(found["vmstat"][0]["delta"], 4000);
    let older = pairing["unmatched"].as_array().unwrap().iter().find(|row| row["name"] == "free_older_than_recording");
    assert_eq!(older.unwrap()["events"], 1);
    let said = text(&["inspect", &recording, "--all"]);
    for part in ["Linux 6.12.1-test", "GFP_HIGHUSER_MOVABLE", "2,000 of 2,001 frees", "cc1"] {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
}

#[test]
fn diff_of_a_recording_with_itself_shows_no_change() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let found = json(&["diff", &recording, &recording, "--json", "-"]);
    assert_eq!(found["recordings"].as_array().unwrap().len(), 2);
    assert_eq!(found["settings"], Value::Array(vec![]));
    let counters = found["counters"].as_array().unwrap();
    assert!(counters.iter().any(|row| row["name"] == "alloc" && row["first"]["total"] == 2001));
    assert!(counters.iter().all(|row| row["change_per_1000_allocations"] == 0.0), "{counters:?}");
    assert!(text(&["diff", &recording, &recording]).contains("No measure and no count of events"));
}

#[test]
fn compare_json_has_the_documented_shape() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let rivals = ["--b", "freehold", "--b", "linux-6.12,pcp=off"];
    let arguments = [&["compare", &recording, "--json", "-"][..], &rivals].concat();
    let found = json(&arguments);
    for member in ["recordings", "a", "margin", "verdicts", "comparisons", "fidelity", "unreplayed"] {
        assert!(found.get(member).is_some(), "no {member}");
    }
    assert_eq!(found["a"], "linux-6.12 (nearest kernel)");
    let comparisons = found["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2);
    for (comparison, b) in comparisons.iter().zip(["freehold", "linux-6.12,pcp=off"]) {
        assert_eq!((&comparison["a"], &comparison["b"]), (&"linux-6.12".into(), &b.into()));
        assert_metrics(&comparison["metrics"]);
    }
    let locks = &comparisons[1]["metrics"][0];
    assert_eq!(locks["name"], "zone_lock_acquisitions");
    assert!(locks["change"].as_f64().unwrap() > 0.02, "{locks}");
    for verdict in found["verdicts"].as_array().unwrap() {
        assert!(verdict["verdict"].as_array().unwrap().len() >= 2, "{verdict}");
        assert_eq!(verdict["groups"][0]["name"], "contention");
    }
    for row in found["fidelity"].as_array().unwrap() {
        for member in ["name", "recorded", "replayed", "relative_error", "bound", "within"] {
            assert!(row.get(member).is_some(), "no {member} in {row}");
        }
    }
}

#[test]
fn recorded_reclaim_is_not_measured() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let found = json(&["compare", &recording, "--reclaim", "recorded", "--json", "-"]);
    let metrics = found["comparisons"][0]["metrics"].as_array().unwrap();
    let names: Vec<_> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, METRICS[..METRICS.len() - METRICS_OF_PRESSURE]);
    assert!(found["fidelity"].as_array().unwrap().iter().all(|row| row["name"] != "allocstall"));
}

#[test]
fn policy_against_itself_shows_no_difference() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let found = json(&["compare", &recording, "--b", "linux-6.12", "--json", "-"]);
    for metric in found["comparisons"][0]["metrics"].as_array().unwrap() {
        let says_nothing =
            ["no change", "too few events", "not judged"].iter().any(|label| metric["verdict"] == *label);
        assert!(metric["a"] == metric["b"] && (says_nothing || metric["a"].is_null()), "{metric}");
    }
}

#[test]
fn verdict_is_written_in_every_format() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let files = ["csv", "markdown", "mmtests"].map(|format| (format, sandbox.argument(format)));
    let said =
        text(&["compare", &recording, "--csv", &files[0].1, "--markdown", &files[1].1, "--mmtests", &files[2].1]);
    assert!(said.contains(" rows: --all."), "{said}");
    let [csv, markdown, mmtests] = files.map(|(_, file)| fs::read_to_string(file).unwrap());
    assert!(csv.starts_with("policy_a,policy_b,group,measure,unit,of,a,b,change,verdict,replay_error\r\n"), "{csv}");
    assert!(markdown.contains("## Contention\n\n| measure | unit |"), "{markdown}");
    assert!(mmtests.lines().next().unwrap().split_whitespace().eq(["linux-6.12", "freehold"]), "{mmtests}");
    assert!(text(&["compare", &recording, "--csv", "-", "--json", &sandbox.argument("json")]).starts_with("policy_a,"));
    for (format, file) in [("csv", csv), ("markdown", markdown), ("mmtests", mmtests)] {
        assert_eq!(text(&["compare", &recording, "--format", format]), file);
    }
    assert!(
        sandbox.listing().contains(&"json".to_owned()),
        "the JSON file must be written although CSV goes to stdout"
    );
    let everything = text(&["compare", &recording, "--all"]);
    assert!(everything.contains("Assumptions") && everything.contains("blocks_taken"), "{everything}");
}

#[test]
fn repeated_comparison_is_byte_identical() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let arguments = ["compare", &recording, "--cpus", "8", "--json", "-"];
    assert_eq!(text(&arguments), text(&arguments));
}

#[test]
fn json_file_is_written_in_addition_to_the_tables() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let file = sandbox.argument("out.json");
    let said = text(&["compare", &recording, "--json", &file]);
    assert!(said.starts_with("A: linux-6.12"), "{said}");
    let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_metrics(&written["comparisons"][0]["metrics"]);
    assert_eq!(sandbox.listing(), ["out.json", "r.parquet"]);
}

fn is_colored(arguments: &[&str]) -> bool {
    freehold(arguments).stdout.contains(&0x1b)
}

#[test]
fn color_is_off_without_a_terminal_unless_forced() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    assert!(!is_colored(&["inspect", &recording]));
    assert!(!is_colored(&["inspect", &recording, "--color", "never"]));
    assert!(is_colored(&["inspect", &recording, "--color", "always"]));
}

#[test]
fn first_screen_fits_a_terminal() {
    let screen = text(&["compare"]);
    assert!(screen.lines().count() < 24, "a terminal of 24 lines has room for a prompt too:\n{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

/// Runs the examples (blocks of `console`) of the README, and compares their output with what it shows. On a slow
/// machine the output would also have lines of progress, which `--quiet` suppresses. With `TRYCMD=overwrite`, the README
/// is updated instead.
#[test]
fn examples_of_the_readme_print_what_it_shows() {
    const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let sandbox = Sandbox::new();
    let (copy, readme) = (sandbox.path("README.md"), fs::read_to_string(README).unwrap());
    assert!(readme.contains("$ freehold "));
    fs::write(&copy, readme.replace("$ freehold ", "$ freehold --quiet ")).unwrap();
    let outcome = panic::catch_unwind(|| trycmd::TestCases::new().case(&copy).run());
    if env::var("TRYCMD").is_ok_and(|mode| mode == "overwrite") {
        let updated = fs::read_to_string(&copy).unwrap();
        fs::write(README, updated.replace("$ freehold --quiet ", "$ freehold ")).unwrap();
    } else if let Err(difference) = outcome {
        panic::resume_unwind(difference);
    }
}
