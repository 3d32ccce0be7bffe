//! Free of a range: the chunks in which it is freed, the lists to which they go, and the resulting placement.

use fastrand::Rng;
use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, MinFree, Placement};
use freehold::policy::ContigPolicy::{self, Batched, OneByOne};
use freehold::policy::{Numbers, Policy};

use crate::common::picture::Picture;
use crate::common::{self, range, repetitions};
use crate::contig::scene::{BOTH, Engine, config, holds, split, state, with_frames};
use crate::contig::{chunks, span};

/// Two sections and a part of a third.
const FRAMES: u32 = (2 << 15) + 8192;
/// End of the first section.
const SECTION: u32 = 1 << 15;

/// Returns a configuration whose lists keep what is freed to them, up to the limit derived from the watermarks.
fn patient(contig: ContigPolicy) -> Config<'static> {
    let numbers = Numbers { pcp_batch: Some(63), pcp_free_high: Some(100), ..Numbers::default() };
    let config = config(contig);
    Config { policy: Policy { numbers, ..config.policy }, ..config }
}

/// Runs `run` on a machine whose lists keep at least 2560 pages, and whose frames are all allocated.
fn with_all_allocated<R>(config: &Config<'_>, frames: u32, run: impl FnOnce(&Engine<'_, '_>) -> R) -> R {
    let ranges = [range(ZoneKind::Normal, 0, 0, frames)];
    common::with_machine(config, &ranges, MinFree::Pages(4096), |engine| {
        engine.alloc_contig_range(span(0, frames), Gfp::KERNEL).expect("the range must be free");
        run(engine)
    })
}

/// Frees a part of a zone whose frames are all allocated, after the CPU's history of recent frees was reset.
fn free_part(engine: &Engine<'_, '_>, (start, end): (u32, u32)) {
    engine.damage().forget_frees(CpuId(0), NodeId(0), ZoneKind::Normal);
    engine.free_contig_range(span(start, end)).expect("the pages must be allocated");
}

/// Returns the expected state of a block of this order that was just freed: on the CPU's list if there is a list for
/// the order, else in the zone.
fn expected(order: Order) -> State {
    let types = MigrateType::PCP_COUNT as u8;
    let list = match order.get() {
        order @ 0..=3 => order * types + MigrateType::Movable as u8,
        9 => 13,
        _ => return State::ZoneFree { order, migratetype: MigrateType::Movable },
    };
    State::PcpCached { order, list, cpu: CpuId(0) }
}

fn random_parts() -> Vec<(u32, u32)> {
    let mut rng = Rng::with_seed(1);
    let mut parts = Vec::new();
    for _ in 0..repetitions(400) {
        let longest = 2 << rng.u32(0..11);
        let length = rng.u32(1..longest);
        let start = if rng.bool() { rng.u32(0..FRAMES - length) } else { SECTION - rng.u32(0..length) };
        parts.push((start, start + length));
    }
    parts
}

#[test]
fn freed_run_is_cached_as_the_largest_aligned_blocks() {
    let corners = [(0, 1), (0, 1024), (0, 2048), (0, 2047), (1, 1024), (1023, 1025), (511, 1025), (512, 1024)];
    let borders = [(SECTION - 5, SECTION + 11), (SECTION - 1, SECTION), (SECTION, SECTION + 1), (SECTION - 9, SECTION)];
    with_all_allocated(&patient(Batched), FRAMES, |engine| {
        for (start, end) in corners.into_iter().chain(borders).chain(random_parts()) {
            free_part(engine, (start, end));
            for (pfn, order) in chunks(start, end) {
                let found = state(engine, pfn);
                assert_eq!(found, expected(order), "chunk {pfn:#x} of order {order} of {start:#x}..{end:#x}");
            }
            engine.check().expect("the check must find no error");
            engine.drain_all_pages();
            engine.alloc_contig_range(span(start, end), Gfp::KERNEL).expect("only this range is free");
        }
    });
}

/// The list of huge pages is for blocks of a pageblock's order, here 6 instead of 9.
#[test]
fn huge_lists_take_only_whole_pageblocks() {
    let config = Config { pageblock_order: Order::new(6), ..patient(Batched) };
    with_all_allocated(&config, 4096, |engine| {
        for order in Order::all() {
            let part = (1024, 1024 + order.pages());
            free_part(engine, part);
            let listed = matches!(state(engine, 1024), State::PcpCached { order: found, .. } if found == order);
            assert_eq!(listed, order <= Order::COSTLY || order.get() == 6, "order {order}");
            engine.drain_all_pages();
            engine.alloc_contig_range(span(part.0, part.1), Gfp::KERNEL).expect("the range must be free");
        }
    });
}

#[test]
fn one_by_one_free_caches_each_page() {
    with_all_allocated(&patient(OneByOne), FRAMES, |engine| {
        free_part(engine, (SECTION - 700, SECTION + 700));
        for pfn in SECTION - 700..SECTION + 700 {
            assert_eq!(state(engine, pfn), expected(Order::ZERO), "page {pfn:#x}");
        }
    });
}

/// Returns the number of free whole pageblocks in the zone after a free, and after a drain of the lists.
fn placement(contig: ContigPolicy) -> (u32, u32) {
    with_all_allocated(&patient(contig), FRAMES, |engine| {
        free_part(engine, (4096, 4096 + 2048));
        let before = count_free_pageblocks(engine);
        engine.drain_all_pages();
        (before, count_free_pageblocks(engine))
    })
}

/// Returns the number of free pageblocks in the zone.
fn count_free_pageblocks(engine: &Engine<'_, '_>) -> u32 {
    engine.zone(NodeId(0), ZoneKind::Normal).inspect(|areas| {
        let [single, double] = [9, 10].map(|order| areas.area(Order::new(order)).nr_free());
        single + 2 * double
    })
}

#[test]
fn batched_free_keeps_whole_pageblocks() {
    assert_eq!(placement(Batched), (4, 4), "four pageblocks, as two blocks of order 10");
    assert_eq!(placement(OneByOne), (0, 4), "2048 pages on a list of single pages");
}

/// Both policies free the same pages: after a drain, the machines are equal.
#[test]
fn both_contig_policies_free_the_same_pages() {
    let parts = random_parts();
    let after = BOTH.map(|contig| {
        with_frames(&config(contig), FRAMES, |engine| {
            engine.alloc_contig_range(span(0, FRAMES), Gfp::KERNEL).expect("the range must be free");
            for &(start, end) in &parts {
                // Parts overlap. A free of a part that is already free returns an error and changes nothing.
                let _ = engine.free_contig_range(span(start, end));
            }
            engine.drain_all_pages();
            assert!(engine.check().expect("the check must find no error").free > 0);
            Picture::take(engine)
        })
    });
    assert_eq!(after[0].difference_but_tuning(&after[1]), None);
}

#[test]
fn range_over_three_sections_round_trips() {
    for contig in BOTH {
        with_frames(&config(contig), FRAMES, |engine| {
            let before = Picture::take(engine);
            let range = span(SECTION - 3, 2 * SECTION + 5);
            engine.alloc_contig_range(range.clone(), Gfp::KERNEL).expect("the range must be free");
            let held = u64::from(range.end.raw() - range.start.raw());
            assert_eq!(engine.check().expect("the check must find no error").allocated, held);
            assert!(range.start.up_to(range.end).all(|pfn| engine.allocated_block(pfn) == Some((pfn, Order::ZERO))));
            engine.free_contig_range(range).expect("the pages must be allocated");
            engine.drain_all_pages();
            assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None);
            assert_eq!(
                engine.state(Pfn::new(FRAMES)),
                None,
                "the frame after the zone has no state, although the section contains it"
            );
        });
    }
}

/// Pages of a range are claimed in parts of 4096, each under one hold of the zone lock. One more hold frees all of
/// them.
#[test]
fn long_range_free_takes_few_lock_holds() {
    with_frames(&config(Batched), 1 << 15, |engine| {
        for (pages, expected) in [(4096, 2), (3 * 4096, 4), (3 * 4096 + 8, 5)] {
            engine.alloc_contig_range(span(0, pages), Gfp::KERNEL).expect("the range must be free");
            let held = holds(engine, || engine.free_contig_range(span(0, pages)).expect("the pages must be allocated"));
            assert_eq!(held, expected, "{pages} pages");
        }
    });
}

/// A page that is freed alone turns the 64 pages around it into ordinary pages, and no others.
#[test]
fn single_free_makes_64_ranged_pages_ordinary() {
    with_frames(&config(Batched), 1 << 13, |engine| {
        engine.alloc_contig_range(span(0, 256), Gfp::KERNEL).expect("the range must be free");
        let ranged = engine.damage().word(Pfn::new(0));
        engine.free_pages(Pfn::new(67), Order::ZERO).expect("the pages must be allocated");
        let is_ranged = [0, 63, 64, 66, 68, 127, 128, 255].map(|pfn| engine.damage().word(Pfn::new(pfn)) == ranged);
        assert_eq!(is_ranged, [true, true, false, false, false, false, true, true]);
    });
}

/// Pages of a split block are pages of a range if there are at least 64 of them and they are not movable. One hold of
/// the zone lock claims them, and another one frees them.
#[test]
fn split_block_of_64_unmovable_pages_is_a_range() {
    assert_eq!([5, 6].map(|order| count_holds_of_split(Order::new(order), Gfp::KERNEL)), [1, 2]);
    assert_eq!(
        count_holds_of_split(Order::new(6), Gfp::HIGHUSER_MOVABLE),
        1,
        "movable pages are not freed as one range"
    );
}

/// Returns the number of holds of the zone lock in which the pages of a split block are freed.
fn count_holds_of_split(order: Order, gfp: Gfp) -> u64 {
    with_frames(&config(Batched), 1 << 13, |engine| {
        let block = engine.alloc_frozen_pages(gfp, order).expect("enough memory must be free");
        engine.split_page(block, order).expect("the pages must be allocated");
        let range = block..block.offset(order.pages());
        let held = holds(engine, || engine.free_contig_frozen_range(range).expect("the pages must be allocated"));
        engine.check().expect("the check must find no error");
        held
    })
}

/// After one page has left its range, the rest of the range is still freed together.
#[test]
fn rest_of_a_range_is_freed_together_after_a_put() {
    with_frames(&config(Batched), 1 << 13, |engine| {
        engine.alloc_contig_range(span(0, 1024), Gfp::KERNEL).expect("the range must be free");
        let page = Pfn::new(5);
        engine.get_page(page).expect("it has a reference");
        engine.put_page(page).expect("the page must have two references");
        let held = holds(engine, || engine.free_contig_range(span(0, 1024)).expect("the pages must be allocated"));
        assert_eq!(held, 2, "one lock hold to claim, one to take");
        engine.check().expect("the check must find no error");
    });
}

/// Under the policy that frees ranges page by page, no pages are marked as pages of a range.
#[test]
fn one_by_one_policy_marks_no_ranged_pages() {
    with_frames(&config(OneByOne), 1 << 13, |engine| {
        let block = split(engine, Gfp::KERNEL, Order::new(6)).start;
        let page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
        let range =
            engine.alloc_contig_pages(Gfp::KERNEL, 64, Placement::aligned(64)).expect("enough memory must be free");
        let [split, single, ranged] = [block, page, range].map(|pfn| engine.damage().word(pfn));
        assert_eq!((split, ranged), (single, single));
    });
}

/// A page that leaves its range affects only its own pageblock, because the next pageblock may belong to another zone.
#[test]
fn range_marks_are_cleared_within_one_pageblock_only() {
    with_frames(&Config { pageblock_order: Order::new(3), ..config(Batched) }, 1 << 13, |engine| {
        engine.alloc_contig_range(span(0, 64), Gfp::KERNEL).expect("the range must be free");
        let ranged = engine.damage().word(Pfn::new(0));
        engine.free_pages(Pfn::new(17), Order::ZERO).expect("the pages must be allocated");
        let is_ranged = [15, 16, 23, 24].map(|pfn| engine.damage().word(Pfn::new(pfn)) == ranged);
        assert_eq!(is_ranged, [true, false, false, true]);
    });
}

/// Pages that cannot be freed as a range are checked one by one: shared, broken, or already free pages.
#[test]
fn unusual_pages_of_a_split_block_are_checked_singly() {
    with_frames(&config(Batched), 1 << 13, |engine| {
        let range = split(engine, Gfp::KERNEL, Order::new(7));
        let block = range.start;
        let [shared, broken, freed] = [5, 9, 70].map(|page| block.offset(page));
        engine.poison(broken).expect("it can be marked");
        engine.get_page(shared).expect("it has a reference");
        engine.free_pages(freed, Order::ZERO).expect("the page must be allocated");
        assert!(engine.free_contig_range(range.clone()).is_err(), "a page of it is free");
        for untouched in [0, 4, 6, 69, 71, 127].map(|page| block.offset(page)) {
            assert!(matches!(engine.state(untouched), Some(State::Allocated { refs: 1, .. })), "{untouched}");
        }
        engine.free_contig_range(range.start..freed).expect("the pages must be allocated");
        engine.free_contig_range(freed.offset(1)..range.end).expect("the pages must be allocated");
        engine.put_page(shared).expect("one reference is left");
        engine.check().expect("the check must find no error");
    });
}
