//! First screen of `freehold inspect`: what failed, the work to get free memory, and free memory at the end.

use freehold_report::terminal::Style;
use freehold_trace::event::NO_PFN;
use freehold_trace::{Facts, Kind, Row};

use crate::answer::{answered, bundled};
use crate::common::{Sandbox, facts, freehold, json, rows, stderr, text, write};

/// Columns and rows of a terminal; the last row is the shell's prompt.
const SCREEN: (u16, usize) = (80, 23);

fn screen(recording: &str, columns: u16) -> String {
    answered(&["inspect", recording]).text(Style::with_width(columns))
}

/// Returns the width of the widest line in characters.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn first_screen_fits_a_terminal_and_answers_what_failed() {
    let pressure = bundled("pressure.parquet");
    let text = screen(pressure.to_str().unwrap(), SCREEN.0);
    assert!(text.lines().count() <= SCREEN.1 && widest(&text) <= usize::from(SCREEN.0), "{text}");
    for row in [
        "Memory was short: failed allocations 490, direct reclaims 1,369.",
        "   223      9  GFP_TRANSHUGE     none (NOWARN)  oracle-load",
        "kswapd                 2         -  40,051  CPU time needs --events sched",
        "direct reclaim     1,369  282.7 ms  62,275  oracle-load, dd",
        "unusable free index 0.770",
    ] {
        assert!(text.contains(row), "no {row:?} in\n{text}");
    }
}

#[test]
fn first_screen_of_a_narrow_terminal_has_every_number() {
    let pressure = bundled("pressure.parquet");
    let text = screen(pressure.to_str().unwrap(), 40);
    assert!(widest(&text) <= 40, "{text}");
    for part in ["count 1,369", "time 282.7 ms", "GFP class GFP_TRANSHUGE", "task oracle-load", "478 of 24,106 MiB"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn idle_machine_has_no_failed_allocation() {
    for name in ["oracle-calm.parquet", "guest-files.parquet"] {
        let calm = bundled(name);
        let shown = text(&["inspect", calm.to_str().unwrap()]);
        assert!(shown.contains("\nMemory was not short: no page was reclaimed.\nNo allocation failed.\n"), "{shown}");
        assert!(!shown.contains("kernel log"), "{shown}");
        let found = json(&["inspect", calm.to_str().unwrap(), "--json", "-"]);
        assert_eq!(found["failures"], serde_json::json!([]));
        assert_eq!(found["work"][2]["count"], 0);
    }
}

/// Writes the small recording with these events at its end.
fn recording_with(sandbox: &Sandbox, events: &[Row]) -> String {
    let rows = [rows(), events.to_vec()].concat();
    let tasks = ["", "cc1", "kcompactd0", "redis-server"];
    let tasks = tasks.map(|name| freehold_trace::facts::Task { pid: 1, name: name.to_owned() }).to_vec();
    write(&sandbox.path("r.parquet"), &rows, &Facts { tasks, ..facts() });
    sandbox.argument("r.parquet")
}

fn event(kind: Kind, milliseconds: u64, task: u32) -> Row {
    Row { time: milliseconds * 1_000_000, task, ..Row::new(kind) }
}

#[test]
fn failures_are_shown_by_task_and_kernel_message() {
    let sandbox = Sandbox::new();
    let failed = Row { order: 3, gfp: 0xcc0, migratetype: 0, pfn: NO_PFN, ..event(Kind::Alloc, 500, 3) };
    let silent = Row { gfp: 0xcc0 | 0x2000, time: failed.time + 1, ..failed };
    let recording = recording_with(&sandbox, &[failed, silent]);
    let shown = text(&["inspect", &recording]);
    assert!(shown.contains("Memory was short: failed allocations 3, direct reclaims 0."), "{shown}");
    assert!(shown.contains("page allocation failure  redis-server"), "{shown}");
    let failures = json(&["inspect", &recording, "--json", "-"])["failures"].clone();
    assert_eq!(failures[1]["task"], "redis-server");
    let is_logged: Vec<_> = (0..3).map(|row| failures[row]["is_logged"].as_bool().unwrap()).collect();
    assert_eq!(is_logged, [false, true, true], "{failures}");
}

#[test]
fn cpu_time_of_kcompactd_needs_events_of_the_scheduler() {
    let sandbox = Sandbox::new();
    let switch = |at, task, next| Row { args: [next, 0, 0], ..event(Kind::SchedSwitch, at, task) };
    let recording = recording_with(&sandbox, &[switch(100, 1, 2), switch(350, 2, 1)]);
    let shown = text(&["inspect", &recording]);
    assert!(shown.contains("CPU time 250.0 ms (25.0 % of a CPU)"), "{shown}");
    assert_eq!(json(&["inspect", &recording, "--json", "-"])["work"][1]["cpu_ns"], 250_000_000);
    let without = text(&["inspect", &sandbox.recording("without.parquet")]);
    assert_eq!(without.matches("CPU time needs --events sched").count(), 2, "{without}");
}

#[test]
fn pressure_inside_a_control_group_is_reported() {
    let sandbox = Sandbox::new();
    let reclaimed = Row { args: [64, 0, 0], ..event(Kind::MemcgReclaimEnd, 130, 3) };
    let recording = recording_with(&sandbox, &[event(Kind::MemcgReclaimBegin, 100, 3), reclaimed]);
    let shown = text(&["inspect", &recording]);
    assert!(shown.contains("Control groups were short of memory: reclaims 1."), "{shown}");
    assert!(shown.contains("cgroup reclaim         1  30.0 ms     64  redis-server 1"), "{shown}");
}

#[test]
fn all_tables_and_the_map_exclude_each_other() {
    let sandbox = Sandbox::new();
    let recording = sandbox.recording("r.parquet");
    let (short, all) = (text(&["inspect", &recording]), text(&["inspect", &recording, "--all"]));
    assert!(!short.contains("Zones (pages)") && all.contains("Zones (pages)") && all.contains("Failed allocations"));
    let output = freehold(&["inspect", &recording, "--all", "--map"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
