//! Scanners of compaction: which frames they scan, which they skip, and when they stop.

use std::collections::BTreeSet;

use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::Background;

use crate::compaction::{
    BLOCK, Engine, Mover, config, half_of, huge_page, type_at, whole_pageblocks, with_full_machine, zone,
};

/// Allocates an unmovable page at a free frame.
fn fix(engine: &Engine<'_, '_>, pfn: u32) {
    assert_eq!(engine.isolate_free_page(Pfn::new(pfn), Order::ZERO, Gfp::KERNEL), Ok(true));
}

fn release(engine: &Engine<'_, '_>, pfn: u32) {
    engine.free_pages(Pfn::new(pfn), Order::ZERO).expect("the pages must be allocated");
}

#[test]
fn async_compaction_skips_a_block_at_an_unmovable_page() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        // The first page of each of the first three pageblocks is unmovable.
        (0..3).for_each(|block| fix(engine, block * BLOCK));
        assert!(huge_page(engine, Gfp::TRANSHUGE | Gfp::NORETRY).is_some());
        let sources = mover.sources();
        let mut in_vain: Vec<u32> = sources.iter().filter(|&&pfn| pfn < 3 * BLOCK).map(|pfn| pfn / BLOCK).collect();
        in_vain.dedup();
        assert!(in_vain.len() <= 1, "the scanner goes back once, into the middle of a pageblock: {sources:?}");
        (0..3).for_each(|block| release(engine, block * BLOCK));
    });
}

#[test]
fn pageblock_without_movable_pages_is_skipped() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, (0..2 * BLOCK).chain(half_of(2..8)));
        (0..2 * BLOCK).for_each(|pfn| fix(engine, pfn));
        assert!(huge_page(engine, Gfp::TRANSHUGE).is_some());
        let first = engine.platform().events.counts();
        assert!(
            engine.map().pageblock(Pfn::new(0)).is_skipped() || first.compact_migrate_scanned < 3 * u64::from(BLOCK)
        );
        (0..2 * BLOCK).for_each(|pfn| release(engine, pfn));
    });
}

#[test]
fn targets_are_in_movable_pageblocks_only() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        let unmovable = retype_last(engine, mover);
        huge_page(engine, Gfp::TRANSHUGE).expect("compaction must be able to empty a pageblock");
        assert!(mover.moves.take().iter().all(|migration| migration.to.raw() < 7 * BLOCK));
        unmovable.into_iter().for_each(|pfn| release(engine, pfn));
    });
}

/// Makes the last pageblock Unmovable, as an unmovable request does that claims it. Returns the pages of that request.
fn retype_last(engine: &Engine<'_, '_>, mover: &Mover) -> Vec<u32> {
    let freed: Vec<u32> = half_of(7..8).collect();
    mover.free(engine, (7 * BLOCK..8 * BLOCK).filter(|pfn| !freed.contains(pfn)));
    // The last pageblock is the only whole one, so an unmovable request claims it.
    let pfn = engine.alloc_pages(Gfp::KERNEL, Order::new(0)).expect("enough memory must be free").raw();
    assert_eq!(type_at(engine, 7 * BLOCK), MigrateType::Unmovable);
    assert_eq!(pfn / BLOCK, 7);
    vec![pfn]
}

#[test]
fn isolation_keeps_the_zone_above_min() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        let zone = zone(engine);
        let marks = freehold::policy::watermark::Watermarks::given(
            zone.free_pages() - 1100,
            zone.free_pages() - 1090,
            zone.free_pages() - 1080,
        );
        engine.set_watermarks(zone, marks);
        huge_page(engine, Gfp::TRANSHUGE);
        let at_once = mover.moves.borrow().len();
        assert!(at_once > 0, "there is room");
        assert!(zone.free_pages() >= marks.min);
    });
}

#[test]
fn kcompactd_compacts_a_fragmented_node_proactively() {
    with_full_machine(16, &config(), |engine, mover| {
        mover.free(engine, half_of(0..16));
        assert_eq!(whole_pageblocks(engine), 0);
        engine.tick_kcompactd(NodeId(0));
        while engine.run_kcompactd(NodeId(0)) == Background::Working {}
        // Of the 4096 free pages, proactive compaction stops when at most 80 % are unusable, that is when a fifth of
        // them is in whole pageblocks.
        let whole = whole_pageblocks(engine);
        assert!((2..=4).contains(&whole), "{whole} pageblocks");
        let counts = engine.platform().events.counts();
        assert!(counts.compact_daemon_migrate_scanned > 0 && counts.compact_stall == 0);
    });
}

#[test]
fn blocks_smaller_than_the_request_are_moved() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, 0..8 * BLOCK);
        let order = Order::new(3);
        let blocks: Vec<u32> =
            half_of(0..8).map(|pfn| pfn / 8 * 8).step_by(8).collect::<BTreeSet<u32>>().into_iter().collect();
        for &pfn in &blocks {
            mover.own_block(engine, pfn, order);
        }
        assert_eq!(whole_pageblocks(engine), 0);
        huge_page(engine, Gfp::TRANSHUGE).expect("compaction must be able to empty a pageblock");
        let moves = mover.moves.take();
        assert!(!moves.is_empty() && moves.iter().all(|migration| migration.order == order));
        assert!(moves.iter().all(|migration| migration.to.is_aligned(order)));
    });
}

/// Large folios lie between free blocks that are too small for them. After a split, their single pages fit.
/// linux: mm/migrate.c:migrate_pages_batch
#[test]
fn block_without_a_target_is_split_and_moved_by_page() {
    for splits in [false, true] {
        with_full_machine(8, &config(), |engine, mover| {
            mover.splits.set(splits);
            mover.free(engine, half_of(1..8).chain(0..BLOCK));
            let folios: Vec<u32> = (0..BLOCK).step_by(16).collect();
            folios.iter().for_each(|&pfn| mover.own_block(engine, pfn, Order::new(3)));
            let served = huge_page(engine, Gfp::TRANSHUGE | Gfp::NORETRY).is_some();
            let moves = mover.moves.take();
            let singles =
                moves.iter().filter(|migration| migration.from.raw() < BLOCK && migration.order == Order::ZERO);
            assert_eq!(singles.count() > 0, splits, "{served}: {} moves", moves.len());
            mover.forget_split(engine);
        });
    }
}

#[test]
fn node_without_memory_is_not_compacted() {
    with_full_machine(2, &config(), |engine, _| {
        assert_eq!(engine.zone(NodeId(0), ZoneKind::Dma).present(), 0);
        engine.tick_kcompactd(NodeId(0));
        assert_eq!(engine.run_kcompactd(NodeId(0)), Background::Asleep);
    });
}

/// Returns the number of pageblocks that compaction skips.
fn count_skipped(engine: &Engine<'_, '_>) -> usize {
    (0..8).filter(|block| engine.map().pageblock(Pfn::new(block * BLOCK)).is_skipped()).count()
}

/// Returns the number of pageblocks that compaction skips, before and after kswapd went to sleep.
fn skipped_around_kswapd(engine: &Engine<'_, '_>) -> [usize; 2] {
    let before = count_skipped(engine);
    engine.alloc_pages(Gfp::NOWAIT, Order::new(9)).expect_err("no page can be moved, so the request must fail");
    while engine.run_kswapd(NodeId(0)) == Background::Working {}
    [before, count_skipped(engine)]
}

/// Skip hints are obsolete after a request has scanned the whole zone: kswapd clears them before it sleeps, except for
/// the hint of a huge page. Hints from a run of kcompactd on its own stay. linux: mm/compaction.c:__compact_finished,
/// reset_isolation_suitable, pageblock_skip_persistent
#[test]
fn kswapd_clears_skip_hints_after_a_full_scan() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..7).chain(7 * BLOCK..8 * BLOCK));
        mover.own_block(engine, 7 * BLOCK, Order::new(9));
        (0..8 * BLOCK).for_each(|pfn| mover.pin(pfn));
        engine.tick_kcompactd(NodeId(0));
        let [before, after] = skipped_around_kswapd(engine);
        assert!(
            before > 0 && after == before,
            "skipped pageblocks {before}, then {after}: kcompactd must not request a reset of the skip hints"
        );
        assert_eq!(huge_page(engine, Gfp::TRANSHUGE | Gfp::NORETRY), None);
        let [before, after] = skipped_around_kswapd(engine);
        assert!(before > 1 && after == 1, "{before} pageblocks, then {after}");
    });
}
