//! Time in replays of recordings with incomplete or wrong times: stalls without an end, tasks that never appear again,
//! clocks that step, and no scheduler events.

use crate::common::{Sandbox, facts, json, rows, write};
use freehold_trace::Facts;
use freehold_trace::event::{Kind, NO_PFN, Row};
use serde_json::Value;

/// Returns the report of `freehold replay` for the small recording with these events at its end.
fn replayed(more: &[Row], facts: &Facts) -> Value {
    let sandbox = Sandbox::new();
    let rows = [rows(), more.to_vec()].concat();
    write(&sandbox.path("odd.parquet"), &rows, facts);
    json(&["replay", &sandbox.argument("odd.parquet"), "--json", "-"])
}

fn event(time: u64, task: u32, kind: Kind) -> Row {
    Row { time, task, ..Row::new(kind) }
}

/// Returns a request for a huge page that compacts, and fails.
fn refused_after_compaction(task: u32, from: u64, until: u64) -> [Row; 3] {
    let refused = Row { pfn: NO_PFN, gfp: 0x1c_24ca, order: 9, ..event(until, task, Kind::Alloc) };
    [event(from, task, Kind::CompactionBegin), event(until - 1, task, Kind::CompactionEnd), refused]
}

const END: u64 = 3_000_000;

#[test]
fn unfinished_stall_is_not_counted() {
    let begins = [Kind::DirectReclaimBegin, Kind::CompactionBegin].map(|kind| event(END, 1, kind));
    let found = replayed(&begins, &facts());
    assert_eq!(found["stalls"]["recorded"]["requests"], 0, "a stall without an end must not be counted");
}

#[test]
fn waiting_task_may_have_no_further_events() {
    let found = replayed(&refused_after_compaction(2, END, END + 5000), &facts());
    assert_eq!(found["stalls"]["recorded"]["requests"], 1, "{found}");
    let failed = found["failures"].as_array().expect("the table of failures");
    assert!(failed.iter().all(|row| row["recorded"] == 1), "{failed:?}");
}

#[test]
fn clock_may_jump_by_a_century() {
    let century = 3_155_760_000_000_000_000;
    let facts = Facts { duration: century + 1, ..facts() };
    let found = replayed(&refused_after_compaction(1, END, century), &facts);
    assert_eq!(found["stalls"]["recorded"]["max"], century - END);
}

#[test]
fn recording_without_scheduler_events_has_stall_bounds() {
    let found = replayed(&[], &facts());
    let [least, most] = ["later_at_least", "later_at_most"].map(|end| found["stalls"][end].as_i64());
    assert_eq!((least, most), (Some(0), Some(0)), "no request stalled, so the delay must be zero");
}
