//! The two requests of a fault for a huge page, on a machine with two nodes. All memory of the first node is in use, so
//! the engine refuses each request that is restricted to it.

use freehold_trace::event::{NO_PFN, class, migratetype};
use freehold_trace::facts::ZoneFacts;
use freehold_trace::{Facts, Kind, Row};

use crate::common::{Sandbox, facts, json, write};

/// Frames of a node.
const NODE: u64 = 16_384;
/// Flags of a first request that may wait.
const FIRST: u32 = 0x3d_24ca;
/// Flag of requests that may reclaim.
const DIRECT_RECLAIM: u32 = 0x400;
/// Flags of a request of khugepaged, which has no second one.
const KHUGEPAGED: u32 = 0x3c_24ca;

fn facts_with_two_nodes() -> Facts {
    let facts = facts();
    let zones = [0, 1].map(|node| ZoneFacts {
        node,
        start_pfn: u64::from(node) * NODE,
        spanned: NODE,
        present: NODE,
        managed: NODE,
        ..facts.zones_start[0].clone()
    });
    let mut facts = Facts { zones_start: zones.to_vec(), zones_end: zones.to_vec(), ..facts };
    facts.settings.insert("transparent_hugepage.defrag".to_owned(), "madvise".to_owned());
    facts
}

/// Returns the counts of served requests, of refused requests, and of second requests that the recording lacks, after a
/// request with these flags that the recorded kernel served at this frame, or refused.
fn replay(gfp: u32, pfn: u64, options: &[&str]) -> [u64; 3] {
    let free = (NODE / 1024..2 * NODE / 1024).map(|block| Row {
        pfn: block * 1024,
        order: 10,
        migratetype: migratetype::MOVABLE,
        ..Row::new(Kind::StartFree)
    });
    let mut rows = vec![Row { pfn: 0, args: [NODE as i64, class::SLAB, 0], ..Row::new(Kind::StartAllocated) }];
    rows.extend(free);
    let pageblocks = [2, (2 * NODE / 512) as i64, 0];
    rows.push(Row { pfn: 0, migratetype: migratetype::MOVABLE, args: pageblocks, ..Row::new(Kind::StartPageblock) });
    let request = Row { time: 1000, order: 9, task: 1, migratetype: migratetype::MOVABLE, ..Row::new(Kind::Alloc) };
    rows.push(Row { gfp, pfn, ..request });
    let sandbox = Sandbox::new();
    write(&sandbox.path("two.parquet"), &rows, &facts_with_two_nodes());
    let report = json(&[&["replay", &sandbox.argument("two.parquet"), "--json", "-"], options].concat());
    let again = report["unreplayed"].as_array().unwrap().iter().find(|row| {
        row["what"].as_str().is_some_and(|what| what == "second requests for a huge page that only the replay makes")
    });
    let metrics = ["huge_pages_served", "failed_allocations"].map(|name| report["metrics"][name].as_u64().unwrap());
    [metrics[0], metrics[1], again.map_or(0, |row| row["events"].as_u64().unwrap())]
}

#[test]
fn refused_first_request_is_followed_by_a_second() {
    for pace in ["work", "recorded"] {
        assert_eq!(replay(FIRST, NODE + 1024, &["--pace", pace]), [1, 1, 1], "{pace}");
    }
}

#[test]
fn other_refused_requests_are_not_repeated() {
    assert_eq!(replay(KHUGEPAGED, NODE + 1024, &[]), [0, 1, 0]);
    assert_eq!(replay(FIRST - DIRECT_RECLAIM, NODE + 1024, &[]), [0, 1, 0], "the fault may not wait");
    assert_eq!(replay(FIRST, NO_PFN, &[]), [0, 1, 0], "the recording would have the second request");
}

#[test]
fn fault_that_waits_under_another_setting_makes_a_second_request() {
    let always = ["--setting", "transparent_hugepage.defrag=always"];
    assert_eq!(replay(FIRST - DIRECT_RECLAIM, NO_PFN, &always), [1, 1, 1]);
    assert_eq!(replay(FIRST - DIRECT_RECLAIM, NODE + 1024, &always), [1, 1, 1]);
    let never = ["--setting", "transparent_hugepage.defrag=never"];
    assert_eq!(replay(FIRST, NODE + 1024, &never), [0, 1, 0]);
}
