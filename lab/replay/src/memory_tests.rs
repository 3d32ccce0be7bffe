//! Tests of reclaim: the pages that it takes, their order, and the pages that it leaves.

use freehold::base::Gfp;
use freehold::platform::{CompactEffort, Reclaimer};
use freehold_trace::{Kind, Row};

use super::super::identity::WayBack;
use super::super::lists::Lists;
use super::*;

const NODE: NodeId = NodeId(0);

fn range_of(start: u32, end: u32, kind: ZoneKind) -> Range {
    Range { start: Pfn::new(start), end: Pfn::new(end), node: NODE, kind }
}

/// Returns a machine of two zones of 16 frames. The recorded kernel reclaimed the pages on frames 5, 3 and 20, in this
/// order, and scanned ten pages for the first. Frames 0 to 7 and 20 are allocated at their recorded places.
fn memory() -> Memory {
    let ranges = [range_of(0, 16, ZoneKind::Dma32), range_of(16, 32, ZoneKind::Normal)];
    let mut order = ReclaimOrder::default();
    for (at, pfn) in [(100, 5), (101, 3), (102, 20)] {
        order.push(&Row { pfn, task: 1, ..Row::new(Kind::Free) }, at, 0);
        if pfn == 5 {
            order.note_scan(&Row { task: 1, args: [10, 0, 0], ..Row::new(Kind::LruShrinkInactive) }, Lists::Inactive);
        }
    }
    order.finish();
    let mut memory = Memory::new(Identity::new(32, WayBack::Kept), &order, &ranges);
    for frame in (0..8).chain([20]) {
        memory.identity.set(frame, Pfn::new(frame as u32), 1, None);
    }
    memory
}

fn wanted(goal: u64, highest: ZoneKind, priority: u8) -> Reclaim {
    Reclaim { node: NODE, highest, goal, order: Order::ZERO, priority, by: Reclaimer::Direct, gfp: Gfp::KERNEL }
}

fn reclaim_all(goal: u64) -> Reclaim {
    wanted(goal, ZoneKind::Normal, 0)
}

fn frames(found: &ReclaimBatch) -> Vec<u32> {
    found.blocks.iter().map(|(pfn, _)| pfn.raw()).collect()
}

fn with_cold() -> Memory {
    let mut memory = memory();
    for (number, tenant) in [(1, 3), (2, 20), (0, 5)] {
        memory.make_cold(number, tenant);
    }
    memory
}

#[test]
fn recorded_reclaim_order_is_followed_first() {
    let mut memory = with_cold();
    memory.make_cached(7, Order::ZERO);
    memory.make_cached(1, Order::ZERO);
    assert_eq!([ZoneKind::Dma32, ZoneKind::Normal].map(|kind| memory.reclaimable(NODE, kind)), [4, 1]);
    let found = memory.reclaim(&reclaim_all(2));
    // Ten pages were scanned for the first page. That is more than there are, and enough for one scan.
    assert_eq!((frames(&found), found.scanned), (vec![5], 10));
    assert_eq!(frames(&memory.reclaim(&reclaim_all(9))), [3, 20, 7, 1]);
    assert_eq!(memory.taken_early(), 2);
    assert_eq!(memory.reclaim(&reclaim_all(9)).pages, 0, "nobody else can be taken");
    assert!(memory.identity.is_reclaimed(5) && memory.identity.get(0).is_some());
}

#[test]
fn reclaim_scan_is_limited_by_priority_and_zone() {
    let mut memory = with_cold();
    assert_eq!(memory.reclaim(&wanted(9, ZoneKind::Normal, 2)).pages, 0, "a quarter of three pages is none");
    assert_eq!(frames(&memory.reclaim(&wanted(9, ZoneKind::Dma32, 0))), [5]);
    assert_eq!(frames(&memory.reclaim(&wanted(9, ZoneKind::Dma32, 0))), [3], "20 is above the zone");
    assert_eq!(frames(&memory.reclaim(&reclaim_all(9))), [20], "and still there");
}

#[test]
fn contents_that_stay_keep_their_coldness() {
    let mut memory = with_cold();
    memory.let_stay(0, 5, 1);
    assert!(memory.identity.get(5).is_none() && memory.tenant(0).is_some_and(|tenant| tenant >= 32));
    memory.identity.set(5, Pfn::new(9), 1, None);
    assert_eq!(frames(&memory.reclaim(&reclaim_all(1))), [5]);
    assert!(memory.identity.get(5).is_some(), "the frame's new contents are another page");
}

#[test]
fn freed_or_moved_out_pages_are_not_reclaimable() {
    let mut memory = with_cold();
    memory.clear(5, 1);
    let out = memory.move_out(3, 1);
    assert_eq!(memory.reclaimable(NODE, ZoneKind::Dma32), 0);
    assert_eq!(frames(&memory.reclaim(&reclaim_all(9))), [20]);
    assert!(memory.identity.get(out).is_some());
}

#[test]
fn cached_blocks_are_taken_as_a_whole() {
    let mut memory = memory();
    memory.make_cached(0, Order::new(1));
    memory.make_cached(4, Order::new(2));
    assert_eq!(memory.reclaimable(NODE, ZoneKind::Dma32), 6);
    memory.clear(6, 1);
    assert_eq!(memory.reclaimable(NODE, ZoneKind::Dma32), 2, "a page of the second block was freed");
    let found = memory.reclaim(&reclaim_all(9));
    assert_eq!((found.blocks, found.scanned), (vec![(Pfn::new(0), Order::new(1))], 2));
    assert_eq!((memory.reclaimable(NODE, ZoneKind::Dma32), memory.taken_early()), (0, 2));
    assert!(memory.identity.get(4).is_some(), "the rest of a block stays");
}

#[test]
fn block_without_its_first_page_is_not_reclaimable() {
    let mut memory = memory();
    memory.make_cached(4, Order::new(2));
    memory.clear(4, 1);
    assert_eq!((memory.reclaimable(NODE, ZoneKind::Dma32), memory.reclaim(&reclaim_all(9)).pages), (0, 0));
}

#[test]
fn frames_of_a_freed_block_are_taken_by_their_new_order() {
    let mut memory = memory();
    memory.make_cached(0, Order::new(1));
    memory.clear(0, 2);
    for frame in [0, 1] {
        memory.identity.set(frame, Pfn::new(frame as u32), 1, None);
        memory.make_cached(frame, Order::ZERO);
    }
    let found = memory.reclaim(&reclaim_all(9));
    assert_eq!(found.blocks, [0, 1].map(|frame| (Pfn::new(frame), Order::ZERO)));
    assert_eq!(memory.reclaimable(NODE, ZoneKind::Dma32), 0);
}

#[test]
fn split_block_is_taken_page_by_page() {
    let mut memory = memory();
    memory.identity.mark_split(0);
    memory.make_cached(0, Order::new(1));
    assert!(memory.migrate(&migration_of(1, 30)));
    assert_eq!([ZoneKind::Dma32, ZoneKind::Normal].map(|kind| memory.reclaimable(NODE, kind)), [1, 1]);
    let found = memory.reclaim(&reclaim_all(9));
    assert_eq!((found.pages, found.blocks), (2, vec![(Pfn::new(0), Order::ZERO), (Pfn::new(30), Order::ZERO)]));
}

fn migration_of(from: u32, to: u32) -> Migration {
    Migration {
        from: Pfn::new(from),
        to: Pfn::new(to),
        order: Order::ZERO,
        refs: 1,
        compound: false,
        effort: CompactEffort::Async,
    }
}

#[test]
fn migration_moves_tenants_and_their_coldness() {
    let mut memory = with_cold();
    assert!(memory.migrate(&migration_of(5, 30)));
    assert!(!memory.migrate(&migration_of(12, 31)), "nobody is there");
    assert_eq!([ZoneKind::Dma32, ZoneKind::Normal].map(|kind| memory.reclaimable(NODE, kind)), [1, 2]);
    assert_eq!(frames(&memory.reclaim(&reclaim_all(1))), [30]);
}
