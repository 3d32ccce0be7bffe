//! Allocation of a given range: movable blocks in the range move away, the frames around it stay as they are, and every
//! pageblock keeps its type.

use core::cell::{Cell, RefCell};

use freehold::base::{Gfp, MigrateType, Order, Pfn, State, ZoneKind};
use freehold::page::{ContigError, MinFree};
use freehold::platform::{Migrated, Migration};
use freehold::policy::ContigPolicy::Batched;

use crate::common::picture::Picture;
use crate::common::{self, Hooks, Memory, range};
use crate::contig::scene::{
    BOTH, Engine, MOVABLE, Mover, bare, config, held, is_free, page, state, take, type_at, with_frames,
};
use crate::contig::{chunks, span};

const FRAMES: u32 = 8192;
const PAGEBLOCK: u32 = 512;

#[test]
fn range_pages_are_single_with_one_reference() {
    with_frames(&config(Batched), FRAMES, |engine| {
        for gfp in [Gfp::KERNEL, MOVABLE] {
            engine.alloc_contig_range(span(700, 1300), gfp).expect("the range must be free");
            assert!((700..1300).all(|pfn| state(engine, pfn) == page(gfp)));
            assert!(is_free(engine, 699) && is_free(engine, 1300));
            assert_eq!(engine.check().expect("the check must find no error").allocated, 600);
            engine.free_contig_range(span(700, 1300)).expect("the pages must be allocated");
        }
    });
}

/// A frozen range has no references, so it consists of the largest blocks that fit. Any part of it can be freed.
#[test]
fn frozen_range_is_freeable_in_parts() {
    for contig in BOTH {
        with_frames(&config(contig), FRAMES, |engine| {
            let before = Picture::take(engine);
            engine.alloc_contig_frozen_range(span(700, 4000), Gfp::KERNEL).expect("the range must be free");
            for (pfn, order) in chunks(700, 4000) {
                assert_eq!(state(engine, pfn), held(order, 0, Gfp::KERNEL), "block {pfn:#x}");
            }
            let parts = [(1000, 1001), (2048, 3072), (3072, 3999), (3999, 4000), (700, 999), (1001, 2048), (999, 1000)];
            let mut left = 3300;
            for (start, end) in parts {
                engine.free_contig_frozen_range(span(start, end)).expect("this part is still allocated");
                left -= u64::from(end - start);
                assert_eq!(engine.check().expect("the check must find no error").allocated, left);
            }
            engine.drain_all_pages();
            assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None);
        });
    }
}

/// Blocks of every order, with any number of references, inside the range or across its borders, move as a whole.
#[test]
fn obstructing_blocks_are_migrated() {
    let mover = Mover::default();
    with_frames(&config(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        let compound = MOVABLE | Gfp::COMP;
        // Across the start, inside, of the largest order, across the end.
        let blocks =
            [(896, 7, MOVABLE), (1100, 0, MOVABLE), (1104, 4, compound), (1536, 9, MOVABLE), (3072, 10, compound)];
        let owners = blocks.map(|(pfn, order, gfp)| mover.own(engine, pfn, order, gfp));
        let allocated = engine.check().expect("the check must find no error").allocated;
        engine.alloc_contig_range(span(1000, 3100), Gfp::KERNEL).expect("all pages of the range must be movable");
        for (owner, (_, order, gfp)) in owners.into_iter().zip(blocks) {
            let (pfn, order) = (mover.place(owner), Order::new(order));
            assert_eq!(state(engine, pfn), held(order, 1, gfp), "the block that is at {pfn:#x} now");
            assert!(pfn + order.pages() <= 1000 || pfn >= 3100, "block {pfn:#x} is outside the range");
            mover.free(engine, owner);
        }
        let left = engine.check().expect("the check must find no error").allocated;
        assert_eq!((allocated, left), (128 + 1 + 16 + 512 + 1024, 2100));
        assert!((1000..3100).all(|pfn| state(engine, pfn) == page(Gfp::KERNEL)));
    });
}

#[test]
fn migrated_block_keeps_its_references() {
    let mover = Mover::default();
    with_frames(&config(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&mover);
        for (pfn, refs) in [(1024, 0), (1025, 2), (1026, 3)] {
            take(engine, pfn, 0, MOVABLE);
            (1..refs).for_each(|_| engine.get_page(Pfn::new(pfn)).expect("the pages must be allocated"));
            if refs == 0 {
                engine.free_pages(Pfn::new(pfn), Order::ZERO).expect("the pages must be allocated");
                engine.alloc_contig_frozen_range(span(pfn, pfn + 1), MOVABLE).expect("the range must be free");
            }
            mover.owners.borrow_mut().add(Pfn::new(pfn), Order::ZERO, refs);
        }
        engine.alloc_contig_range(span(1024, 1028), Gfp::KERNEL).expect("all pages of the range must be movable");
        for (owner, refs) in [(1, 0), (2, 2), (3, 3)] {
            assert_eq!(state(engine, mover.place(owner)), held(Order::ZERO, refs, MOVABLE));
        }
    });
}

/// Pages on per-CPU lists count as free.
#[test]
fn range_allocation_drains_per_cpu_lists() {
    with_frames(&config(Batched), FRAMES, |engine| {
        for cpu in [0, 1] {
            engine.platform().run_on(cpu);
            let pages: Vec<Pfn> = (0..40).filter_map(|_| engine.alloc_pages(MOVABLE, Order::ZERO).ok()).collect();
            pages.iter().for_each(|&pfn| engine.free_pages(pfn, Order::ZERO).expect("the pages must be allocated"));
        }
        let cached = (0..FRAMES).filter(|&pfn| matches!(state(engine, pfn), State::PcpCached { .. }));
        assert!(cached.count() >= 40, "both CPUs have pages on their lists");
        engine.alloc_contig_range(span(0, FRAMES), Gfp::KERNEL).expect("the range must be free");
    });
}

/// A range may be a part of one free block, or start in one and end in another. The rest of these blocks stays free and
/// merged.
#[test]
fn range_of_a_larger_free_block_leaves_the_rest_free() {
    with_frames(&bare(Batched), FRAMES, |engine| {
        for (start, end) in [(2048, 2049), (2049, 2050), (2500, 2600), (2559, 2561), (2000, 5000), (0, 1), (8191, 8192)]
        {
            let before = Picture::take(engine);
            engine.alloc_contig_range(span(start, end), Gfp::KERNEL).expect("the range must be free");
            let census = engine.check().expect("the check must find no error");
            assert_eq!((census.allocated, census.free), (u64::from(end - start), u64::from(FRAMES + start - end)));
            engine.free_contig_range(span(start, end)).expect("the pages must be allocated");
            assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None, "{start}..{end}");
        }
    });
}

/// A range that spans pageblocks of five types.
#[test]
fn pageblock_types_are_restored_after_a_range() {
    use MigrateType::{HighAtomic, Movable, Reclaimable, Unmovable};
    let types = [Unmovable, HighAtomic, HighAtomic, Reclaimable, Movable];
    let mover = Mover::default();
    let config = config(Batched);
    let ranges = [range(ZoneKind::Normal, 0, 0, FRAMES)];
    let mut memory = Memory::new(&config, &ranges);
    let engine = &common::build(&config, &ranges, &mut memory);
    for (block, migratetype) in (2 * PAGEBLOCK..).step_by(PAGEBLOCK as usize).zip(types) {
        engine.set_pageblock_type(Pfn::new(block), migratetype).expect("the pageblock must be online");
    }
    engine.release(Pfn::new(0), Pfn::new(FRAMES)).expect("the frames must be online");
    engine.set_up_watermarks(MinFree::Pages(64));
    engine.platform().answer_with(&mover);
    let before = Picture::take(engine);
    let part = span(2 * PAGEBLOCK + 3, 7 * PAGEBLOCK - 3);
    engine.alloc_contig_range(part.clone(), Gfp::KERNEL).expect("the range must be free");
    let found = [2, 3, 4, 5, 6].map(|block| type_at(engine, block * PAGEBLOCK));
    assert_eq!(found, types, "while the range is held");
    engine.free_contig_range(part.clone()).expect("the pages must be allocated");
    engine.drain_all_pages();
    assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None, "after it was freed");
    // The range contains a page that does not move. The failed attempt leaves no trace either.
    let pinned = 4 * PAGEBLOCK + 9;
    mover.own(engine, pinned, 0, MOVABLE);
    mover.pinned.borrow_mut().push(pinned);
    engine.drain_all_pages();
    let before = Picture::take(engine);
    let busy = ContigError::Busy { pfn: Pfn::new(pinned), state: page(MOVABLE) };
    assert_eq!(engine.alloc_contig_range(part, Gfp::KERNEL), Err(busy));
    engine.drain_all_pages();
    assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None, "after the attempt");
}

/// Free blocks larger than a pageblock are split for the attempt and merge again when it fails. Without per-CPU lists,
/// the machine is exactly as before.
#[test]
fn failed_range_allocation_changes_nothing() {
    for pinned in [1024, 1500, 2048, 3071] {
        let mover = Mover::default();
        with_frames(&bare(Batched), FRAMES, |engine| {
            engine.platform().answer_with(&mover);
            mover.own(engine, pinned, 0, MOVABLE);
            mover.pinned.borrow_mut().push(pinned);
            let before = Picture::take(engine);
            let busy = ContigError::Busy { pfn: Pfn::new(pinned), state: page(MOVABLE) };
            for (start, end) in [(1024, 3072), (pinned, pinned + 1), (pinned, 3800), (0, pinned + 1), (0, FRAMES)] {
                assert_eq!(engine.alloc_contig_range(span(start, end), Gfp::KERNEL), Err(busy));
                before.expect(engine, &format!("the attempt at {start}..{end}"));
            }
            assert!(!mover.asked.borrow().is_empty());
        });
    }
}

/// Platform that requests the next frame of the same pageblock while a page of a range moves, up to a given depth.
struct Nested<'a, 'h> {
    engine: &'a Engine<'a, 'h>,
    depth_max: u32,
    depth: Cell<u32>,
    answers: RefCell<Vec<Result<(), ContigError>>>,
}

impl Hooks for Nested<'_, '_> {
    fn migrate(&self, migration: &Migration) -> Migrated {
        let depth = self.depth.get() + 1;
        if depth <= self.depth_max {
            self.depth.set(depth);
            let next = migration.from.raw() + 1;
            let answer = self.engine.alloc_contig_range(span(next, next + 1), Gfp::KERNEL);
            self.answers.borrow_mut().push(answer);
            self.depth.set(depth - 1);
        }
        Migrated::Moved
    }
}

/// Nests `depth_max` requests inside another one, all for ranges in one pageblock. Returns the results, the innermost
/// first.
fn nest(depth_max: u32) -> Vec<Result<(), ContigError>> {
    let config = bare(Batched);
    let ranges = [range(ZoneKind::Normal, 0, 0, FRAMES)];
    let mut memory = Memory::new(&config, &ranges);
    let engine = &common::build(&config, &ranges, &mut memory);
    engine.release(Pfn::new(0), Pfn::new(FRAMES)).expect("the frames must be online");
    engine.set_up_watermarks(MinFree::Pages(64));
    let nested = Nested { engine, depth_max, depth: Cell::new(0), answers: RefCell::default() };
    engine.platform().answer_with(&nested);
    let before = Picture::take(engine);
    (1024..1024 + PAGEBLOCK).for_each(|pfn| take(engine, pfn, 0, MOVABLE));
    let outermost = engine.alloc_contig_range(span(1024, 1025), Gfp::KERNEL);
    nested.answers.borrow_mut().push(outermost);
    assert_eq!(engine.map().pageblock(Pfn::new(1024)).isolations(), 0);
    assert_eq!(type_at(engine, 1024), MigrateType::Movable);
    // The moved pages have no owner, so all allocated blocks are freed.
    for pfn in (0..FRAMES).map(Pfn::new) {
        if let Some(State::Allocated { order, .. }) = engine.state(pfn) {
            engine.free_pages(pfn, order).expect("the pages must be allocated");
        }
    }
    assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None);
    nested.answers.take()
}

/// The last of the nested ranges to end the isolation of the pageblock restores its type.
#[test]
fn nested_ranges_of_a_pageblock_succeed() {
    assert_eq!(nest(20), vec![Ok(()); 21]);
}

/// A pageblock counts at most 255 isolations. Further attempts fail, and the others are unaffected.
#[test]
fn isolation_count_of_a_pageblock_is_limited_to_255() {
    let answers = nest(300);
    let (refused, served): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_err);
    assert!(refused.iter().all(|answer| matches!(answer, Err(ContigError::Busy { .. }))), "{refused:?}");
    assert!(!refused.is_empty(), "301 ranges at once are too many");
    assert_eq!(served.len(), 255);
}
