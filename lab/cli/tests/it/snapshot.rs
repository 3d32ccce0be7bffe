//! Snapshots: the commands that show them, the commands that refuse them, and one of the machine that the tests run on.
//!
//! Taking a snapshot needs root and the kernel's page flags. Where these are missing, that test prints a message and
//! passes.

use crate::common::{Sandbox, assert_refused, facts, freehold, json, rows, stderr, text, write};
use freehold_trace::event::Section;
use freehold_trace::{Facts, Kind, Reader};

/// Writes a snapshot of the machine of the small recording.
fn made(sandbox: &Sandbox) -> String {
    let mut rows = rows();
    rows.retain(|row| row.kind.section() == Section::Start);
    write(&sandbox.path("snapshot.parquet"), &rows, &Facts { duration: 0, ..facts() });
    sandbox.argument("snapshot.parquet")
}

#[test]
fn snapshot_is_shown_without_event_counts() {
    let sandbox = Sandbox::new();
    let shown = text(&["inspect", &made(&sandbox), "--all"]);
    assert!(shown.contains("a snapshot"), "{shown}");
    assert!(shown.contains("Zones (pages)") && shown.contains("Memory by state (pages)"), "{shown}");
    for of_two_moments in ["0 allocations", "worst", "share of the run"] {
        assert!(!shown.contains(of_two_moments), "{of_two_moments}: {shown}");
    }
}

#[test]
fn snapshot_is_refused_by_replaying_commands() {
    let sandbox = Sandbox::new();
    let snapshot = made(&sandbox);
    for arguments in [
        &["replay", &snapshot][..],
        &["compare", &snapshot],
        &["advise", &snapshot],
        &["sim", "recording", &snapshot, "--quick", "--cpus", "2"],
    ] {
        assert_refused(&freehold(arguments), "is a snapshot, which has no events");
    }
}

#[test]
fn snapshots_among_recordings_are_passed_over_with_a_note() {
    let sandbox = Sandbox::new();
    let (recording, snapshot, second) =
        (sandbox.recording("r.parquet"), made(&sandbox), sandbox.argument("second.parquet"));
    std::fs::copy(&snapshot, &second).unwrap();
    let compare = ["compare", "--exact", &recording, &snapshot, &second];
    let output = freehold(&compare);
    let note = format!("freehold: passed over snapshots, which have no events: {snapshot}, {second}\n");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), note));
    let quiet = freehold(&[&compare[..], &["-q"]].concat());
    assert_eq!((&quiet.stdout, stderr(&quiet)), (&output.stdout, String::new()));
    assert_refused(&freehold(&["compare", &snapshot, &second]), "all 2 files are snapshots");
    assert_refused(&freehold(&["advise", &snapshot, &second]), "all 2 files are snapshots");
}

#[test]
fn snapshot_of_this_machine_matches_zoneinfo() {
    let can = rustix::process::geteuid().is_root() && std::fs::File::open("/proc/kpageflags").is_ok();
    if !can {
        return eprintln!("skipped: a snapshot needs root, and /proc/kpageflags");
    }
    let sandbox = Sandbox::new();
    let out = sandbox.argument("now.parquet");
    let output = freehold(&["snapshot", "--out", &out]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    assert!(stderr(&output).contains("a snapshot: page flags and counts read in"), "{}", stderr(&output));
    assert_eq!(sandbox.listing(), ["now.parquet"], "only the snapshot may be left");
    let reader = Reader::open(sandbox.path("now.parquet")).unwrap();
    assert!(reader.facts().is_snapshot() && reader.facts().tasks.len() <= 1);
    let mut kinds = reader.facts().rows.keys().map(|code| Kind::from_code((*code).into()));
    let are_of_start = kinds.all(|kind| kind.is_some_and(|kind| kind.section() == Section::Start));
    assert!(are_of_start, "{:?}", reader.facts().rows);
    let inspected = json(&["inspect", &out, "--json", "-"]);
    // MemTotal of /proc/meminfo is not used: it includes memory that is not yet in any zone.
    let zones = std::fs::read_to_string("/proc/zoneinfo").unwrap();
    let counts = zones.lines().filter_map(|line| line.trim().strip_prefix("managed")?.trim().parse::<u64>().ok());
    let managed = inspected["zones"].as_array().unwrap().iter().map(|zone| zone["managed"].as_u64().unwrap());
    let (recorded, total) = (managed.sum::<u64>(), counts.sum::<u64>());
    assert!(recorded.abs_diff(total) < total / 50, "{recorded} pages in the snapshot, {total} in /proc/zoneinfo");
    let quiet = freehold(&["snapshot", "--quiet", "--force", "--out", &out]);
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{}", stderr(&quiet));
}

#[test]
fn unwritable_snapshot_leaves_nothing() {
    let sandbox = Sandbox::new();
    let output = freehold(&["snapshot", "--out", &sandbox.argument("no/such/folder.parquet")]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(sandbox.listing().is_empty());
}
