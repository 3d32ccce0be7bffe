//! Ranges that cannot be freed.

use freehold::base::{Gfp, MigrateType, Order, Pfn, State, ZoneKind};
use freehold::page::{FreeError, MinFree, RangeError, Violation};
use freehold::policy::ContigPolicy;

use crate::common::picture::Picture;
use crate::common::{range, with_machine};
use crate::contig::errors::{empty_at, out_of_range};
use crate::contig::scene::{BOTH, Engine, MOVABLE, bare, config, held, page, state, take};
use crate::contig::span;

/// Single pages, each with one reference: the last pages of one zone, and the first pages of the next.
const PAGES: (u32, u32) = (3500, 4200);
/// End of the lower zone.
const BORDER: u32 = 4096;
/// A block of order 4 with one reference, in the middle of the single pages.
const BLOCK: u32 = 3600;
/// A page with two references, before the block.
const SHARED: u32 = 3520;
/// A compound block of order 3.
const COMPOUND: u32 = 3640;
/// Blocks without references.
const FROZEN: (u32, u32) = (1024, 1100);
/// A page with a reference between the frozen blocks.
const BAD: u32 = 1064;
/// A withheld frame.
const BROKEN: u32 = 2000;
/// A free page between allocated pages.
const FREE: u32 = 2200;
/// A page on a CPU's list between allocated pages.
const CACHED: u32 = 2300;

fn with_scene(contig: ContigPolicy, run: impl FnOnce(&Engine<'_, '_>)) {
    let ranges = [range(ZoneKind::Dma32, 0, 0, BORDER), range(ZoneKind::Normal, 0, BORDER, 8192)];
    with_machine(&config(contig), &ranges, MinFree::Pages(64), |engine| {
        engine.platform().run_on(1);
        for (start, end) in [(PAGES.0, BORDER), (BORDER, PAGES.1), (BROKEN - 50, BROKEN), (FREE - 20, CACHED + 20)] {
            engine.alloc_contig_range(span(start, end), MOVABLE).expect("the range must be free");
        }
        engine.free_contig_range(span(BLOCK, BLOCK + 16)).expect("the pages must be allocated");
        take(engine, BLOCK, 4, Gfp::KERNEL);
        engine.free_contig_range(span(COMPOUND, COMPOUND + 8)).expect("the pages must be allocated");
        engine
            .alloc_contig_range(span(COMPOUND, COMPOUND + 8), Gfp::KERNEL | Gfp::COMP)
            .expect("the range must be free");
        engine.get_page(Pfn::new(SHARED)).expect("the pages must be allocated");
        engine.alloc_contig_frozen_range(span(FROZEN.0, BAD), Gfp::KERNEL).expect("the range must be free");
        engine.alloc_contig_range(span(BAD, BAD + 1), Gfp::KERNEL).expect("the range must be free");
        engine.alloc_contig_frozen_range(span(BAD + 1, FROZEN.1), Gfp::KERNEL).expect("the range must be free");
        engine.poison(Pfn::new(BROKEN)).expect("the frames must be online");
        engine.free_contig_range(span(FREE, FREE + 1)).expect("the pages must be allocated");
        engine.drain_all_pages();
        engine.free_contig_range(span(CACHED, CACHED + 1)).expect("the pages must be allocated");
        run(engine);
    });
}

/// A range that cannot be freed, and the expected error.
type Refusal = ((u32, u32), FreeError);

#[track_caller]
fn expect_refusals(
    free: impl Fn(&Engine<'_, '_>, core::ops::Range<Pfn>) -> Result<(), FreeError>,
    refusals: impl Fn(&Engine<'_, '_>) -> Vec<Refusal>,
) {
    for contig in BOTH {
        with_scene(contig, |engine| {
            let before = Picture::take(engine);
            for ((start, end), error) in refusals(engine) {
                assert_eq!(free(engine, span(start, end)), Err(error), "{contig:?}: {start}..{end}");
                before.expect(engine, &format!("{contig:?}: {start}..{end}: {error}"));
            }
        });
    }
}

#[track_caller]
fn expect_referenced(refusals: impl Fn(&Engine<'_, '_>) -> Vec<Refusal>) {
    expect_refusals(|engine, range| engine.free_contig_range(range), refusals);
}

#[track_caller]
fn expect_frozen(refusals: impl Fn(&Engine<'_, '_>) -> Vec<Refusal>) {
    expect_refusals(|engine, range| engine.free_contig_frozen_range(range), refusals);
}

fn not_allocated(engine: &Engine<'_, '_>, pfn: u32) -> FreeError {
    FreeError::NotAllocated { pfn: Pfn::new(pfn), state: state(engine, pfn) }
}

fn frozen(pfn: u32, order: u8) -> FreeError {
    FreeError::Frozen { pfn: Pfn::new(pfn), state: held(Order::new(order), 0, Gfp::KERNEL) }
}

/// Ranges that are invalid regardless of their contents, and the expected errors.
fn bad_ranges(engine: &Engine<'_, '_>) -> Vec<Refusal> {
    let crosses = RangeError::CrossesZone { pfn: Pfn::new(BORDER), state: state(engine, BORDER) };
    let refusals = [
        ((3700, 3700), empty_at(3700)),
        ((3701, 3700), empty_at(3701)),
        ((u32::MAX, 0), empty_at(u32::MAX)),
        ((8192, 8193), out_of_range(8192)),
        ((1 << 15, (1 << 15) + 8), out_of_range(1 << 15)),
        ((u32::MAX - 1, u32::MAX), out_of_range(u32::MAX - 1)),
        ((BORDER - 10, PAGES.1), crosses),
        ((BORDER - 10, BORDER + 1), crosses),
    ];
    refusals.into_iter().map(|(range, error)| (range, FreeError::Range(error))).collect()
}

#[test]
fn invalid_range_free_is_an_error() {
    expect_referenced(bad_ranges);
    expect_frozen(bad_ranges);
}

/// The engine has already prepared everything before the wrong frame and must restore it: single pages, a block, a
/// compound block, and a shared page.
#[test]
fn first_frame_not_owned_by_the_caller_is_reported() {
    expect_referenced(|engine| {
        let block = FreeError::CrossesEnd { pfn: Pfn::new(BLOCK), state: held(Order::new(4), 1, Gfp::KERNEL) };
        let compound_state = held(Order::new(3), 1, Gfp::KERNEL | Gfp::COMP);
        let compound = FreeError::CrossesEnd { pfn: Pfn::new(COMPOUND), state: compound_state };
        vec![
            ((PAGES.0 - 1, PAGES.0 + 9), not_allocated(engine, PAGES.0 - 1)),
            ((BROKEN - 50, BROKEN + 1), not_allocated(engine, BROKEN)),
            ((FREE - 20, FREE + 1), not_allocated(engine, FREE)),
            ((FREE - 20, CACHED + 20), not_allocated(engine, FREE)),
            ((FREE + 1, CACHED + 20), not_allocated(engine, CACHED)),
            ((5000, 5100), not_allocated(engine, 5000)),
            ((BLOCK + 1, BLOCK + 40), not_allocated(engine, BLOCK + 1)),
            ((PAGES.0, BLOCK + 1), block),
            ((PAGES.0, BLOCK + 15), block),
            ((PAGES.0, COMPOUND + 7), compound),
            ((BLOCK, COMPOUND + 1), compound),
            ((COMPOUND + 1, BORDER), not_allocated(engine, COMPOUND + 1)),
            ((FROZEN.0, FROZEN.1), frozen(FROZEN.0, 5)),
            ((BAD, FROZEN.1), frozen(BAD + 1, 0)),
        ]
    });
}

#[test]
fn frozen_range_with_wrong_frames_is_an_error() {
    expect_frozen(|engine| {
        let block = FreeError::CrossesEnd { pfn: Pfn::new(BLOCK), state: held(Order::new(4), 1, Gfp::KERNEL) };
        vec![
            ((FROZEN.0 - 1, FROZEN.1), not_allocated(engine, FROZEN.0 - 1)),
            ((FROZEN.0, FROZEN.1 + 1), not_allocated(engine, FROZEN.1)),
            ((FROZEN.0 + 3, FROZEN.1 + 1), not_allocated(engine, FROZEN.1)),
            ((BROKEN, BROKEN + 1), not_allocated(engine, BROKEN)),
            ((CACHED, CACHED + 1), not_allocated(engine, CACHED)),
            // The bad pages before this end would be withheld, but the last block extends beyond the range.
            ((PAGES.0, BLOCK + 3), block),
        ]
    });
}

/// A free of frozen blocks as blocks with references is refused. A free of a block with references as a frozen one is
/// bad, and the block is withheld, under both policies.
#[test]
fn referenced_page_in_a_frozen_range_is_withheld() {
    let after = BOTH.map(|contig| {
        let mut after = None;
        with_scene(contig, |engine| {
            let bad = FreeError::Bad { pfn: Pfn::new(BAD), state: page(Gfp::KERNEL) };
            assert_eq!(engine.free_contig_frozen_range(span(FROZEN.0 + 5, FROZEN.1)), Err(bad));
            assert_eq!(state(engine, BAD), State::Withheld);
            let bad = FreeError::Bad { pfn: Pfn::new(SHARED), state: held(Order::ZERO, 2, MOVABLE) };
            assert_eq!(engine.free_contig_frozen_range(span(SHARED, SHARED + 1)), Err(bad));
            let bad = FreeError::Bad { pfn: Pfn::new(BLOCK), state: held(Order::new(4), 1, Gfp::KERNEL) };
            assert_eq!(engine.free_contig_frozen_range(span(BLOCK, BLOCK + 16)), Err(bad));
            let census = engine.check().expect("the check must find no error");
            assert_eq!(census.withheld, 1 + 1 + 1 + 16, "the count includes the page that was poisoned before");
            engine.drain_all_pages();
            after = Some(Picture::take(engine));
        });
        after.expect("the scene must have run")
    });
    assert_eq!(after[0].difference_but_tuning(&after[1]), None);
}

#[test]
fn second_free_of_a_range_fails() {
    for contig in BOTH {
        with_scene(contig, |engine| {
            engine.free_contig_range(span(BLOCK, BORDER)).expect("the pages must be allocated");
            let before = Picture::take(engine);
            for part in [(BLOCK, BORDER), (BLOCK - 10, BORDER), (BLOCK, BLOCK + 1), (BORDER - 1, BORDER)] {
                let error = engine
                    .free_contig_range(span(part.0, part.1))
                    .expect_err("the range is free, so a second free must fail");
                let first = part.0.max(BLOCK);
                assert_eq!(error, not_allocated(engine, first));
                before.expect(engine, "freed twice");
            }
            assert_eq!(
                engine.free_contig_range(span(PAGES.0, BLOCK)),
                Ok(()),
                "the other pages of the range must still be allocated"
            );
        });
    }
}

/// Tests the snapshots: they differ when the machines differ.
#[test]
fn pictures_of_different_machines_differ() {
    with_machine(&bare(BOTH[0]), &[range(ZoneKind::Normal, 0, 0, 4096)], MinFree::Pages(64), |engine| {
        let before = Picture::take(engine);
        take(engine, 77, 0, Gfp::KERNEL);
        assert!(before.difference(&Picture::take(engine)).is_some(), "a page was allocated");
        engine.free_pages(Pfn::new(77), Order::ZERO).expect("the pages must be allocated");
        before.expect(engine, "allocated and freed");
        engine.damage().add_isolation(Pfn::new(512));
        let isolated = Violation::Isolation { pfn: Pfn::new(512), isolations: 1, migratetype: MigrateType::Movable };
        assert_eq!(engine.check(), Err(isolated), "the check must report the isolated pageblock");
        engine.damage().drop_isolation(Pfn::new(512));
        engine.damage().set_boost(freehold::base::NodeId(0), ZoneKind::Normal, 1);
        assert!(before.difference(&Picture::take(engine)).is_some(), "a watermark is boosted");
    });
}
