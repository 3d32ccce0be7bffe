//! Compaction for a request: a block is made, or the request fails for a known reason.

use freehold::Policy;
use freehold::base::{CpuId, Gfp, MigrateType, Order, Pfn};
use freehold::page::Config;
use freehold::platform::Event;
use freehold::platform::probe::{Compactor, ZoneOutcome};
use freehold::policy::compaction::{AfterDeferral, CompactionPolicy, Deferral, Sources};
use freehold::policy::{Numbers, ReserveIndex, ReservePolicy};

use crate::compaction::{
    BLOCK, Engine, config, half_of, huge_page, type_at, whole_pageblocks, with_full_machine, zone,
};

#[test]
fn compaction_makes_a_huge_page_of_single_pages() {
    with_full_machine(16, &config(), |engine, mover| {
        mover.free(engine, half_of(0..16));
        assert_eq!(whole_pageblocks(engine), 0);
        assert!(huge_page(engine, Gfp::TRANSHUGE).is_some());
        let counts = engine.platform().events.counts();
        assert_eq!((counts.compact_stall, counts.compact_success, counts.compact_fail), (1, 1, 0));
        assert!((200..300).contains(&counts.migrations), "about half a pageblock was in the way");
        assert!(counts.compact_isolated >= 2 * counts.migrations, "as much again was moved to");
    });
}

#[test]
fn pages_move_from_zone_start_to_zone_end() {
    with_full_machine(16, &config(), |engine, mover| {
        mover.free(engine, half_of(0..16));
        huge_page(engine, Gfp::TRANSHUGE).expect("compaction must be able to empty a pageblock");
        let moves = mover.moves.take();
        assert!(moves.iter().all(|migration| migration.from.raw() < 8 * BLOCK && migration.to.raw() >= 7 * BLOCK));
        let first = moves[0];
        assert_eq!(mover.place(first.from.raw()), first.to.raw());
    });
}

#[test]
fn non_waiting_request_does_not_compact() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        assert_eq!(huge_page(engine, Gfp::TRANSHUGE_LIGHT), None);
        assert_eq!(engine.platform().events.counts().compact_stall, 0);
    });
}

#[test]
fn no_free_room_means_no_migration() {
    with_full_machine(8, &config(), |engine, mover| {
        // A huge page requires a thousand free pages above the low watermark: two pageblocks, for targets and for
        // concurrent allocations.
        mover.free(engine, (0..512).map(|at| at * 2));
        assert_eq!(huge_page(engine, Gfp::TRANSHUGE | Gfp::NORETRY), None);
        let counts = engine.platform().events.counts();
        assert_eq!((counts.compact_stall, counts.compact_migrate_scanned), (0, 0));
    });
}

#[test]
fn low_fragmentation_index_skips_compaction() {
    // The free pieces are large, so the fragmentation index is low. With a threshold above the index, compaction is
    // skipped and reclaim has to help.
    let policy = Policy {
        numbers: Numbers { compaction_extfrag_threshold: Some(1000), ..Numbers::default() },
        ..config().policy
    };
    with_full_machine(8, &Config { policy, ..config() }, |engine, mover| {
        mover.free(engine, half_of(0..8));
        assert_eq!(huge_page(engine, Gfp::TRANSHUGE | Gfp::NORETRY), None);
        assert_eq!(engine.platform().events.counts().compact_stall, 0);
    });
}

/// Requests a huge page, and returns the reported outcomes of its compactions, zone by zone.
fn outcomes_of_request(engine: &Engine<'_, '_>, gfp: Gfp) -> Vec<ZoneOutcome> {
    engine.platform().events.take();
    huge_page(engine, gfp);
    let events = engine.platform().events.take().into_iter();
    events
        .filter_map(|event| match event {
            Event::CompactZone { by: Compactor::Direct, outcome, .. } => Some(outcome),
            _ => None,
        })
        .collect()
}

#[test]
fn decision_about_each_zone_is_reported() {
    let strict = Numbers { compaction_extfrag_threshold: Some(1000), ..Numbers::default() };
    let once = Gfp::TRANSHUGE | Gfp::NORETRY | Gfp::THISNODE;
    for (numbers, free, outcome) in [
        (Numbers::default(), half_of(0..16).collect(), ZoneOutcome::Made),
        (Numbers::default(), (0..512).map(|at| at * 2).collect::<Vec<_>>(), ZoneOutcome::NoRoom),
        (strict, half_of(0..16).collect(), ZoneOutcome::NotFragmented),
    ] {
        let policy = Policy { numbers, ..config().policy };
        with_full_machine(16, &Config { policy, ..config() }, |engine, mover| {
            mover.free(engine, free);
            assert_eq!(outcomes_of_request(engine, once), [outcome]);
        });
    }
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        (0..8 * BLOCK).for_each(|pfn| mover.pin(pfn));
        let retries = Gfp::TRANSHUGE;
        assert_eq!(outcomes_of_request(engine, retries), [ZoneOutcome::Complete; 2], "async, then sync light");
        assert_eq!(outcomes_of_request(engine, retries)[0], ZoneOutcome::Deferred);
        mover.unpin_all();
    });
}

#[test]
fn free_reserved_block_counts_in_the_index() {
    let strict = Numbers { compaction_extfrag_threshold: Some(1000), ..Numbers::default() };
    let apart = ReservePolicy { index: ReserveIndex::Apart, ..ReservePolicy::LINUX };
    for (reserve, compacts) in [(ReservePolicy::LINUX, true), (apart, false)] {
        let policy = Policy { numbers: strict, reserve, ..config().policy };
        // The high-atomic reserve may hold a hundredth of the zone, so the zone needs a hundred pageblocks.
        with_full_machine(101, &Config { policy, ..config() }, |engine, mover| {
            mover.free(engine, (100 * BLOCK..101 * BLOCK).chain(half_of(0..100)));
            reserve_the_whole_block(engine);
            assert_eq!(type_at(engine, 100 * BLOCK), MigrateType::HighAtomic);
            huge_page(engine, Gfp::TRANSHUGE | Gfp::NORETRY);
            // The index counts the reserved block as a suitable block, so memory does not seem short, and compaction is
            // tried.
            assert_eq!(engine.platform().events.counts().compact_stall > 0, compacts);
        });
    }
}

/// Reserves a pageblock: an atomic request below the low watermark reserves the pageblock that serves it.
fn reserve_the_whole_block(engine: &Engine<'_, '_>) {
    let zone = zone(engine);
    let marks = zone.watermarks();
    let free = zone.free_pages();
    engine.set_watermarks(zone, freehold::policy::watermark::Watermarks::given(free / 4, free + 1, free + 2));
    let pfn = engine.alloc_pages(Gfp::ATOMIC, Order::new(4)).expect("the zone must be far above the min watermark");
    engine.free_pages(pfn, Order::new(4)).expect("the block was just allocated");
    engine.set_watermarks(zone, marks);
}

#[test]
fn failed_compaction_is_deferred() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        (0..8 * BLOCK).for_each(|pfn| mover.pin(pfn));
        let mut scans = Vec::new();
        for _ in 0..24 {
            let before = engine.platform().events.counts().compact_migrate_scanned;
            assert_eq!(huge_page(engine, Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL), None);
            scans.push(engine.platform().events.counts().compact_migrate_scanned > before);
        }
        let tried = scans.iter().filter(|&&scanned| scanned).count();
        assert!(scans[0] && tried < 12, "tried {tried} times of 24: {scans:?}");
        mover.unpin_all();
        let served = (0..130).any(|_| huge_page(engine, Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL).is_some());
        assert!(served, "compaction must be tried again after some requests");
    });
}

#[test]
fn compacted_block_is_captured_for_the_request() {
    with_full_machine(8, &config(), |engine, mover| {
        mover.free(engine, half_of(0..8));
        let pfn =
            engine.alloc_pages(Gfp::TRANSHUGE, Order::new(9)).expect("compaction must be able to empty a pageblock");
        // The block was never on a free list: the free of its last page captured it for the request.
        assert_eq!(whole_pageblocks(engine), 0);
        assert_eq!(engine.platform().events.counts().compact_success, 1);
        engine.free_pages(pfn, Order::new(9)).expect("the block was just allocated");
    });
}

#[test]
fn captured_pageblock_has_no_owner() {
    with_full_machine(16, &config(), |engine, mover| {
        (0..16).for_each(|block| engine.damage().set_owner(Pfn::new(block * BLOCK), Some(CpuId(0))));
        mover.free(engine, half_of(0..16));
        let order = Order::new(9);
        let caught = engine.alloc_pages(Gfp::TRANSHUGE, order).expect("compaction must be able to empty a pageblock");
        assert_eq!(engine.map().pageblock(caught).owner(), None);
        engine.free_pages(caught, order).expect("the block was just allocated");
    });
}

#[test]
fn by_use_sources_empty_movable_pageblocks_when_async() {
    for (sources, is_served) in [(Sources::ByEffort, false), (Sources::ByUse, true)] {
        let compaction = CompactionPolicy { sources, ..CompactionPolicy::LINUX_6_12 };
        let policy = Policy { compaction, ..config().policy };
        with_full_machine(16, &Config { policy, ..config() }, |engine, mover| {
            mover.free(engine, half_of(0..16));
            let served = huge_page(engine, Gfp::KERNEL | Gfp::COMP | Gfp::NORETRY).is_some();
            assert_eq!(served, is_served, "{sources:?}");
            assert_eq!(engine.platform().events.counts().migrations > 0, is_served, "{sources:?}");
        });
    }
}

/// Requests huge pages on a machine where no page moves. Returns how often compaction was tried, and how often it was
/// deferred.
fn count_stalls(deferred: AfterDeferral) -> (u64, u64) {
    let compaction = CompactionPolicy { deferred, ..CompactionPolicy::LINUX_6_12 };
    let policy = Policy { compaction, ..config().policy };
    let mut stalls = (0, 0);
    with_full_machine(8, &Config { policy, ..config() }, |engine, mover| {
        mover.free(engine, half_of(0..8));
        (0..8 * BLOCK).for_each(|pfn| mover.pin(pfn));
        (0..24).for_each(|_| _ = huge_page(engine, Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL));
        let counts = engine.platform().events.counts();
        stalls = (counts.compact_stall, counts.compact_deferred);
    });
    stalls
}

#[test]
fn after_deferral_leave_avoids_compaction_stalls() {
    let ((tried, passed_over), (left, left_over)) =
        (count_stalls(AfterDeferral::Try), count_stalls(AfterDeferral::Leave));
    assert!(left > 0 && left < tried, "{left} stalls instead of {tried}");
    assert!(passed_over > 0 && passed_over < tried && left_over == 0, "{passed_over}, {left_over} passed over");
}

#[test]
fn no_deferral_policy_retries_immediately() {
    for (deferral, defers) in [(Deferral::Growing, true), (Deferral::None, false)] {
        let compaction = CompactionPolicy { deferral, ..CompactionPolicy::LINUX_6_12 };
        let policy = Policy { compaction, ..config().policy };
        with_full_machine(8, &Config { policy, ..config() }, |engine, mover| {
            mover.free(engine, half_of(0..8));
            (0..8 * BLOCK).for_each(|pfn| mover.pin(pfn));
            (0..24).for_each(|_| _ = huge_page(engine, Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL));
            assert_eq!(engine.platform().events.counts().compact_deferred > 0, defers, "{deferral:?}");
        });
    }
}
