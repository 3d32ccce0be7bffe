//! Page cache for which the engine has no whole block: the single pages in its place can be reclaimed like the block.

use freehold_trace::event::{class, migratetype};
use freehold_trace::{Kind, Row};

use crate::common::{Sandbox, facts, json, write};

/// Frames of the machine in `facts`.
const PAGES: u64 = 32_768;
/// Start of the frames of which every second one is free.
const SINGLES: u64 = PAGES - 1024;
/// First frame of a block of page cache, which the recorded kernel reclaims twice.
const CACHE: u64 = 4096;
/// Flags of page cache that is read ahead; the request may not reclaim.
const READAHEAD: u32 = 0x15_204a;
/// GFP flags of a user page.
const USER: u32 = 0x10_0cca;

/// Returns the events of a direct reclaim by task 2 that frees the block of page cache, from this time on.
fn reclaim(time: u64) -> [Row; 3] {
    let work = |time, kind| Row { time, task: 2, gfp: USER, ..Row::new(kind) };
    let end = Row { args: [4, 0, 0], ..work(time + 2, Kind::DirectReclaimEnd) };
    [work(time, Kind::DirectReclaimBegin), Row { pfn: CACHE, order: 2, ..work(time + 1, Kind::Free) }, end]
}

fn rows() -> Vec<Row> {
    let allocated = |pfn, pages, class| Row { pfn, args: [pages, class, 0], ..Row::new(Kind::StartAllocated) };
    let mut rows = vec![
        allocated(0, CACHE as i64, class::SLAB),
        Row { order: 2, ..allocated(CACHE, 1, class::LRU) },
        allocated(CACHE + 4, (SINGLES - CACHE - 4) as i64, class::SLAB),
    ];
    for pfn in (SINGLES..PAGES).step_by(2) {
        rows.push(Row { pfn, migratetype: migratetype::MOVABLE, ..Row::new(Kind::StartFree) });
        rows.push(allocated(pfn + 1, 1, class::SLAB));
    }
    let pageblocks = [2, (PAGES / 512) as i64, 0];
    rows.push(Row { pfn: 0, migratetype: migratetype::MOVABLE, args: pageblocks, ..Row::new(Kind::StartPageblock) });
    rows.extend(reclaim(1000));
    let request = Row { task: 1, migratetype: migratetype::MOVABLE, ..Row::new(Kind::Alloc) };
    rows.push(Row { time: 2000, pfn: CACHE, order: 2, gfp: READAHEAD, ..request });
    rows.extend(reclaim(3000));
    let users = (SINGLES..PAGES).step_by(2).take(400).zip(4000..);
    rows.extend(users.map(|(pfn, time)| Row { time, pfn, gfp: USER, ..request }));
    rows
}

#[test]
fn single_pages_in_place_of_a_block_are_reclaimed() {
    let sandbox = Sandbox::new();
    write(&sandbox.path("cache.parquet"), &rows(), &facts());
    let report = json(&["replay", &sandbox.argument("cache.parquet"), "--json", "-"]);
    let rows = report["fidelity"].as_array().unwrap();
    let reclaimed = rows.iter().find(|row| row["name"] == "pgsteal_small").unwrap();
    assert_eq!(reclaimed["replayed"], 8.0, "the block that the kernel reclaimed first, and the four single pages");
}
