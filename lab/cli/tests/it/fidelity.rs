//! Compares the engine with the pinned kernel on its bundled recordings, and with the kernel of a server on that
//! server's recordings. Planted errors prove that the comparisons can fail.

use freehold_trace::event::{NO_PFN, Section};
use freehold_trace::{Kind, Row};
use serde_json::Value;

use crate::common::{Sandbox, facts, json, rows, text, write};

/// Replays a bundled recording.
fn replay(recording: &str, policy: &str) -> Value {
    replay_with(recording, policy, "model")
}

/// Replays a bundled recording, with reclaim and compaction decided anew or played as recorded.
fn replay_with(recording: &str, policy: &str, reclaim: &str) -> Value {
    let file = format!("{}/../../recordings/{recording}", env!("CARGO_MANIFEST_DIR"));
    json(&["replay", &file, "--policy", policy, "--reclaim", reclaim, "--json", "-"])
}

/// Returns the absolute relative error of one row; infinity if the row has no error.
fn error(report: &Value, row: &str) -> f64 {
    let rows = report["fidelity"].as_array().expect("fidelity is a list");
    let found = rows.iter().find(|fidelity| fidelity["name"] == row).unwrap_or_else(|| panic!("no row {row}"));
    found["relative_error"].as_f64().map_or(f64::INFINITY, f64::abs)
}

#[test]
fn calm_replay_is_within_the_fidelity_bounds() {
    let report = replay("oracle-calm.parquet", "linux-6.12");
    for (row, bound) in [
        ("free_pages", 0.01),
        ("blocks_taken", 0.05),
        ("blocks_drained", 0.05),
        ("failures", 0.05),
        ("highatomic_pageblocks", 0.0),
    ] {
        assert!(error(&report, row) <= bound, "{row} is {:.3} away", error(&report, row));
    }
}

#[test]
fn replays_of_malloc_servers_are_within_the_fidelity_bounds() {
    for malloc in ["jemalloc", "tcmalloc", "glibc"] {
        let report = replay(&format!("malloc-{malloc}.parquet"), "linux-6.18");
        for (row, bound) in [("free_pages", 0.01), ("blocks_taken", 0.05), ("blocks_drained", 0.05)] {
            assert!(error(&report, row) <= bound, "{malloc}: {row} is {:.3} away", error(&report, row));
        }
    }
}

#[test]
fn missing_percpu_lists_lower_the_fidelity() {
    let faithful = replay("oracle-calm.parquet", "linux-6.12");
    let without = replay("oracle-calm.parquet", "linux-6.12,pcp=off");
    for row in ["blocks_taken", "blocks_drained"] {
        assert!(error(&without, row) > 0.2 + error(&faithful, row), "{row} does not differ without per-CPU lists");
    }
}

#[test]
fn simulated_reclaim_is_closer_than_recorded_reclaim() {
    let decided = replay("oracle-pressure.parquet", "linux-6.12");
    let played = replay_with("oracle-pressure.parquet", "linux-6.12", "recorded");
    for row in ["blocks_taken", "blocks_drained"] {
        let errors = [&decided, &played].map(|report| error(report, row));
        assert!(errors[0] < errors[1], "{row}: {errors:?}");
    }
}

#[test]
fn reclaim_and_compaction_are_within_the_fidelity_bounds() {
    let report = replay("oracle-pressure.parquet", "linux-6.12");
    for row in ["pgsteal_kswapd", "pgscan_kswapd", "compact_migrate_scanned", "compact_isolated", "huge_pages_served"] {
        assert!(error(&report, row) <= 0.75, "{row} is {:.3} away", error(&report, row));
    }
}

#[test]
fn large_machine_compaction_is_within_the_fidelity_bounds() {
    let report = replay("pressure.parquet", "linux-6.18");
    for row in ["compact_migrate_scanned", "compact_isolated", "pgmigrate_success", "huge_pages_served"] {
        assert!(error(&report, row) <= 0.75, "{row} is {:.3} away", error(&report, row));
    }
    // A run that did not remember where earlier runs had scanned would scan some hundred times as many targets.
    let error = error(&report, "compact_free_scanned");
    assert!(error <= 2.0, "the relative error of compact_free_scanned is {error:.1}");
}

#[test]
fn replays_do_not_run_out_of_memory_where_the_kernel_did_not() {
    for (recording, policy) in [("pressure.parquet", "linux-6.18"), ("oracle-pressure.parquet", "linux-6.12")] {
        let report = replay(recording, policy);
        assert!(report["out_of_memory"].is_null(), "{recording}: {}", report["out_of_memory"]);
    }
}

#[test]
fn missing_direct_compaction_lowers_the_fidelity() {
    // No fragmentation index is above 1000, so no zone is ever worth compacting for a request.
    let without = replay("oracle-pressure.parquet", "linux-6.12,compaction.extfrag_threshold=1000");
    let faithful = replay("oracle-pressure.parquet", "linux-6.12");
    assert!(error(&without, "compact_stall") > 0.2 + error(&faithful, "compact_stall"));
}

/// Returns the members of one row of a list.
fn row<'r>(report: &'r Value, list: &str, name: &str) -> &'r Value {
    let rows = report[list].as_array().unwrap_or_else(|| panic!("no list {list}"));
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name} in {list}"))
}

/// Returns the kernel's value of a fidelity row.
fn recorded(report: &Value, name: &str) -> f64 {
    row(report, "fidelity", name)["recorded"].as_f64().expect("the kernel's value is a number")
}

#[test]
fn direct_reclaims_are_divided_by_mechanism() {
    let report = replay("oracle-pressure.parquet", "linux-6.12");
    let reclaims = ["allocstall_costly_ready", "allocstall_costly", "allocstall_small", "allocstall"];
    assert_eq!(reclaims.map(|name| recorded(&report, name)), [0.0, 37.0, 32.0, 69.0]);
    let scanned = row(&report, "fidelity", "pgscan_small");
    assert_eq!(scanned["events"][0], 32.0);
    assert_eq!(scanned["events"][1], row(&report, "fidelity", "allocstall_small")["replayed"]);
    assert_eq!(row(&report, "fidelity", "allocstall_costly_ready")["label"], "too_few_events");
    assert!(scanned.get("label").is_none() && report.get("uncompared").is_none());
    let failures = ["failures_no_reclaim", "failures_huge_first", "failures_huge_second", "failures_other"];
    let sum: f64 = failures.map(|name| recorded(&report, name)).iter().sum();
    assert_eq!(sum, recorded(&report, "failures"));
}

/// The counters show five direct reclaims. One recording has none of their events; another one has two.
#[test]
fn recordings_without_events_of_reclaim_say_so() {
    let sandbox = Sandbox::new();
    let mut facts = facts();
    facts.vmstat_names = ["allocstall_normal", "pgscan_direct"].map(str::to_owned).to_vec();
    for (sample, counters) in facts.samples.iter_mut().zip([[0, 0], [5, 90]]) {
        sample.vmstat = counters.to_vec();
    }
    let without = sandbox.recording_with("without.parquet", &facts);
    let event = |kind, pages| Row { task: 2, order: 9, args: [pages, 0, 0], ..Row::new(kind) };
    let episode = [
        event(Kind::DirectReclaimBegin, 0),
        event(Kind::LruShrinkInactive, 64),
        event(Kind::DirectReclaimEnd, 30),
        event(Kind::DirectReclaimBegin, 0),
        event(Kind::DirectReclaimEnd, 1),
        event(Kind::MemcgReclaimBegin, 0),
        event(Kind::MemcgReclaimEnd, 3),
    ];
    let (mut all, events) = rows().into_iter().partition::<Vec<_>, _>(|row| row.kind.section() == Section::Start);
    all.extend(episode.into_iter().chain(events));
    write(&sandbox.path("with.parquet"), &all, &facts);

    let report = json(&["replay", &without, "--json", "-"]);
    for name in ["allocstall_costly_ready", "allocstall_costly", "allocstall_small", "pgscan_small"] {
        let row = row(&report, "uncompared", name);
        assert_eq!((&row["reason"], &row["recorded"]), (&"needs_reclaim_events".into(), &Value::Null), "{name}");
    }
    let report = json(&["replay", &sandbox.argument("with.parquet"), "--json", "-"]);
    for (name, recorded) in [("allocstall_costly_ready", 1.0), ("allocstall_costly", 1.0), ("pgscan_costly", 64.0)] {
        let row = row(&report, "fidelity", name);
        assert_eq!((&row["recorded"], &row["label"]), (&recorded.into(), &"too_few_events".into()), "{name}");
    }
    let groups = row(&report, "uncompared", "memcg_reclaims");
    assert_eq!((&groups["reason"], &groups["recorded"]), (&"not_modelled".into(), &1.0.into()));
    let inspected = json(&["inspect", &without, "--json", "-"]);
    assert_eq!(inspected["mechanisms"][0]["label"], "needs_reclaim_events");
}

/// A planted recording: the kernel deferred the compaction for the first huge page, which the engine serves at once.
#[test]
fn planted_decision_about_compaction_is_the_first_difference() {
    let sandbox = Sandbox::new();
    let event = |kind, args| Row { task: 2, order: 9, gfp: 0x3d_24ca, args, ..Row::new(kind) };
    let planted = [
        event(Kind::TryToCompact, [2, 0, 0]),
        event(Kind::CompactionDeferred, [0, 2, 6]),
        Row { pfn: NO_PFN, migratetype: 1, ..event(Kind::Alloc, [0; 3]) },
    ];
    let (mut all, events) = rows().into_iter().partition::<Vec<_>, _>(|row| row.kind.section() == Section::Start);
    all.extend(planted.into_iter().chain(events));
    write(&sandbox.path("planted.parquet"), &all, &facts());
    let file = sandbox.argument("planted.parquet");

    let report = json(&["replay", &file, "--json", "-"]);
    let compaction = &report["compaction"];
    let difference = &compaction["differences"][0];
    assert_eq!(
        (&difference["recorded"]["step"], &difference["replayed"]["step"]),
        (&"compact".into(), &"served".into())
    );
    assert!(difference["requests"] == 1 && compaction.get("examples").is_none(), "{compaction}");
    let report = json(&["replay", &file, "--explain", "--json", "-"]);
    let example = &report["compaction"]["examples"][0];
    assert_eq!((&example["recorded"][1]["outcome"], &example["first_difference"]), (&"deferred".into(), &0.into()));
    let printed = text(&["replay", &file, "--all", "--explain"]);
    assert!(printed.contains("first difference") && printed.contains("Normal, async: deferred"), "{printed}");
}

#[test]
fn recording_without_decisions_about_compaction_says_so() {
    let file = format!("{}/../../recordings/oracle-pressure.parquet", env!("CARGO_MANIFEST_DIR"));
    let words = text(&["replay", &file, "--all"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the recording has no events of these decisions"), "{words}");
}
