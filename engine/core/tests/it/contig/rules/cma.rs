//! CMA areas: movable requests borrow their pages, the area's owner gets the pages back, and no other request gets
//! them.

use freehold::base::{Gfp, Order, Pfn, State};
use freehold::page::{ContigError, FreeError, RangeError};
use freehold::policy::ContigPolicy::Batched;

use crate::common::picture::Picture;
use crate::contig::scene::{BOTH, Engine, MOVABLE, Mover, bare, config, holds, is_free, page, state, take, with_area};
use crate::contig::span;

const FRAMES: u32 = 8192;
/// Two pageblocks of order 9, with single pages as units.
const AREA: (u32, u32, u8) = (2048, 3072, 0);
/// The same two pageblocks, with blocks of four pages as units.
const AREA_BY_FOUR: (u32, u32, u8) = (2048, 3072, 2);

fn in_area(pfn: u32) -> bool {
    (AREA.0..AREA.1).contains(&pfn)
}

#[test]
fn cma_alloc_takes_the_first_aligned_gap() {
    with_area(&config(Batched), FRAMES, AREA, |engine, area| {
        for (pages, align, expected) in [
            (3, 1, Some(0)),
            (3, 8, Some(8)),
            (5, 1, Some(3)),
            (1, 4096, None),
            (1, 512, Some(512)),
            (500, 1, Some(11)),
            (511, 1, Some(513)),
            (2, 1, None),
            (1, 1, Some(511)),
            (1, 1, None),
        ] {
            let found = engine.cma_alloc(area, pages, align, Gfp::KERNEL);
            assert_eq!(found, expected.map(|at| Pfn::new(AREA.0 + at)).ok_or(ContigError::NoRange), "{pages}, {align}");
        }
        assert_eq!(area.allocated(), 1024);
        let pages = AREA.0..AREA.1;
        assert!(pages.clone().all(|pfn| state(engine, pfn) == page(Gfp::KERNEL)));
        engine.cma_release(area, Pfn::new(AREA.0 + 3), 5).expect("the pages must be allocated");
        assert_eq!(engine.cma_alloc(area, 4, 1, Gfp::KERNEL), Ok(Pfn::new(AREA.0 + 3)));
    });
}

/// An alignment is relative to frame 0, not to the start of the area.
#[test]
fn cma_alignment_is_relative_to_frame_0() {
    with_area(&config(Batched), FRAMES, (512, 2560, 2), |engine, area| {
        assert_eq!(engine.cma_alloc(area, 6, 1024, Gfp::KERNEL), Ok(Pfn::new(1024)));
        assert_eq!(engine.cma_alloc(area, 6, 1, Gfp::KERNEL), Ok(Pfn::new(512)));
        assert_eq!(engine.cma_alloc(area, 1, 2, Gfp::KERNEL), Ok(Pfn::new(520)), "units of four pages");
        assert_eq!(area.allocated(), 8 + 8 + 4);
    });
}

/// The last unit is allocated and released as a whole, including its pages beyond the request. No page is left without
/// an owner.
#[test]
fn cma_units_are_allocated_and_released_whole() {
    with_area(&bare(Batched), FRAMES, AREA_BY_FOUR, |engine, area| {
        let before = Picture::take(engine);
        let pfn = engine.cma_alloc(area, 10, 1, Gfp::KERNEL).expect("enough memory must be free").raw();
        assert_eq!(area.allocated(), 12);
        assert!((pfn..pfn + 12).all(|pfn| !is_free(engine, pfn)) && is_free(engine, pfn + 12));
        engine.cma_release(area, Pfn::new(pfn), 5).expect("the pages must be allocated");
        assert_eq!(area.allocated(), 4, "two units are back");
        assert!((pfn..pfn + 8).all(|pfn| is_free(engine, pfn)) && !is_free(engine, pfn + 8));
        engine.cma_release(area, Pfn::new(pfn + 8), 2).expect("the rest of the pages must be allocated");
        assert_eq!(area.allocated(), 0);
        before.expect(engine, "handed out and released");
    });
}

/// A page that cannot be moved makes the search continue after that page.
#[test]
fn cma_alloc_skips_a_busy_range() {
    let mover = Mover::default();
    with_area(&config(Batched), FRAMES, AREA, |engine, area| {
        engine.platform().answer_with(&mover);
        let moved = mover.own(engine, AREA.0 + 1, 0, MOVABLE);
        let pinned = mover.own(engine, AREA.0 + 100, 2, MOVABLE);
        mover.pinned.borrow_mut().push(AREA.0 + 100);
        assert_eq!(engine.cma_alloc(area, 200, 1, Gfp::KERNEL), Ok(Pfn::new(AREA.0 + 104)));
        assert_eq!(area.allocated(), 200, "pages that could not be allocated must not be counted");
        assert_eq!(engine.cma_alloc(area, 100, 1, Gfp::KERNEL), Ok(Pfn::new(AREA.0)));
        let place = mover.place(moved);
        assert!(!(AREA.0..AREA.0 + 100).contains(&place));
        assert_eq!(mover.place(pinned), AREA.0 + 100);
        // Poisoned pages never move.
        engine.poison(Pfn::new(AREA.0 + 400)).expect("the frames must be online");
        assert_eq!(engine.cma_alloc(area, 624, 1, Gfp::KERNEL), Err(ContigError::NoRange));
        assert_eq!(engine.cma_alloc(area, 623, 1, Gfp::KERNEL), Ok(Pfn::new(AREA.0 + 401)));
        assert_eq!(area.allocated(), 923);
    });
}

/// However many gaps fail, a search asks each block in the way once and isolates each pageblock once.
#[test]
fn cma_alloc_does_not_repeat_steps() {
    // A block in every other place: none moves, every fourth stays, or none stays but the last.
    for (pages, stays) in [(2, 1), (16, 4), (1024, 512)] {
        let mover = Mover::default();
        with_area(&config(Batched), FRAMES, AREA, |engine, area| {
            engine.platform().answer_with(&mover);
            for (at, pfn) in (AREA.0..AREA.1).step_by(2).enumerate() {
                mover.own(engine, pfn, 0, MOVABLE);
                if (at + 1) % stays == 0 {
                    mover.pinned.borrow_mut().push(pfn);
                }
            }
            engine.drain_all_pages();
            let taken = holds(engine, || {
                assert_eq!(engine.cma_alloc(area, pages, 1, Gfp::KERNEL), Err(ContigError::NoRange));
            });
            let asked: Vec<u32> = mover.asked.borrow().iter().map(|migration| migration.from.raw()).collect();
            assert!(asked.is_sorted_by(|one, next| one < next), "a block was asked twice: {asked:?}");
            let pageblocks = u64::from((AREA.1 - AREA.0) >> engine.map().pageblock_order().get());
            let bound = 3 * pageblocks + 3 * asked.len() as u64 + 32;
            assert!(taken <= bound, "{pages} pages: {taken} holds of the zone lock for {} blocks", asked.len());
        });
    }
}

/// Allocates all pages that this kind of request can get.
fn exhaust(engine: &Engine<'_, '_>, gfp: Gfp) -> Vec<u32> {
    core::iter::from_fn(|| engine.alloc_pages(gfp, Order::ZERO).ok()).map(Pfn::raw).collect()
}

#[test]
fn only_movable_requests_use_cma_pages() {
    for gfp in [Gfp::KERNEL, Gfp::KERNEL | Gfp::RECLAIMABLE, Gfp::ATOMIC, Gfp::KERNEL | Gfp::MEMALLOC] {
        with_area(&config(Batched), FRAMES, AREA, |engine, _| {
            let pages = exhaust(engine, gfp);
            assert!(!pages.is_empty() && !pages.iter().any(|&pfn| in_area(pfn)), "{gfp:?}");
        });
    }
    with_area(&config(Batched), FRAMES, AREA, |engine, _| {
        let pages = exhaust(engine, MOVABLE | Gfp::MEMALLOC);
        assert_eq!(
            pages.iter().filter(|&&pfn| in_area(pfn)).count(),
            1024,
            "the request must use all pages of the area"
        );
    });
}

/// Movable requests use the areas first once the areas hold more than half of the free pages.
#[test]
fn cma_is_used_first_above_half_of_the_free_pages() {
    with_area(&bare(Batched), FRAMES, AREA, |engine, _| {
        let zone = engine.zone(freehold::base::NodeId(0), freehold::base::ZoneKind::Normal);
        let mut borrowed = 0;
        loop {
            let cma_first = zone.free_cma() > zone.free_pages() / 2;
            let others = zone.free_pages() > zone.free_cma();
            let Ok(pfn) = engine.alloc_pages(MOVABLE | Gfp::MEMALLOC, Order::ZERO) else { break };
            assert_eq!(in_area(pfn.raw()), cma_first || !others, "{} of {}", zone.free_cma(), zone.free_pages());
            borrowed += u32::from(in_area(pfn.raw()) && others);
        }
        assert!(borrowed > 500, "the area was used first only {borrowed} times");
    });
}

#[test]
fn cma_alloc_migrates_borrowed_pages() {
    for contig in BOTH {
        let mover = Mover::default();
        with_area(&config(contig), FRAMES, AREA, |engine, area| {
            engine.platform().answer_with(&mover);
            let before = Picture::take(engine);
            let lent: Vec<u32> = (AREA.0..AREA.1)
                .step_by(8)
                .map(|pfn| mover.own(engine, pfn, 1 + u8::from(pfn % 16 == 0), MOVABLE))
                .collect();
            let pfn = engine.cma_alloc(area, 1024, 1, Gfp::KERNEL).expect("all pages of the range must be movable");
            assert!(lent.iter().all(|&owner| !in_area(mover.place(owner))));
            engine.cma_release(area, pfn, 1024).expect("the pages must be allocated");
            lent.into_iter().for_each(|owner| mover.free(engine, owner));
            engine.drain_all_pages();
            assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None);
            assert_eq!(area.allocated(), 0);
        });
    }
}

/// Releases a range in parts. Pages with additional references stay allocated.
#[test]
fn cma_range_is_releasable_in_parts() {
    for contig in BOTH {
        with_area(&bare(contig), FRAMES, AREA, |engine, area| {
            let before = Picture::take(engine);
            let pfn = engine.cma_alloc(area, 100, 1, Gfp::KERNEL).expect("enough memory must be free");
            engine.get_page(pfn.offset(60)).expect("the pages must be allocated");
            engine.cma_release(area, pfn.offset(50), 50).expect("the pages must be allocated");
            assert_eq!((area.allocated(), state(engine, pfn.raw() + 60)), (50, page(Gfp::KERNEL)));
            assert_eq!(engine.cma_alloc(area, 51, 1, Gfp::KERNEL), Ok(pfn.offset(61)), "past the page in use");
            engine.cma_release(area, pfn.offset(61), 51).expect("the pages must be allocated");
            engine.cma_release(area, pfn, 50).expect("the pages must be allocated");
            engine.put_page(pfn.offset(60)).expect("the pages must be allocated");
            before.expect(engine, "all of it released");
        });
    }
}

fn not_handed_out(engine: &Engine<'_, '_>, pfn: Pfn) -> FreeError {
    FreeError::NotHandedOut { pfn, state: state(engine, pfn.raw()) }
}

fn out_of_range(pfn: Pfn) -> FreeError {
    FreeError::Range(RangeError::OutOfRange { pfn })
}

#[test]
fn cma_release_of_unallocated_pages_is_an_error() {
    for contig in BOTH {
        let mover = Mover::default();
        with_area(&bare(contig), FRAMES, AREA_BY_FOUR, |engine, area| {
            let pfn = engine.cma_alloc(area, 16, 1, Gfp::KERNEL).expect("enough memory must be free");
            engine.cma_release(area, pfn, 16).expect("the pages must be allocated");
            let lent = AREA.0 + 600;
            mover.own(engine, lent, 2, MOVABLE);
            let held = engine.cma_alloc(area, 8, 1, Gfp::KERNEL).expect("enough memory must be free");
            let before = Picture::take(engine);
            for (pfn, pages, error) in [
                (pfn.offset(8), 8, not_handed_out(engine, pfn.offset(8))),
                (pfn, 16, not_handed_out(engine, pfn.offset(8))),
                (Pfn::new(lent), 4, not_handed_out(engine, Pfn::new(lent))),
                (held.offset(2), 4, FreeError::Range(RangeError::Misaligned { pfn: held.offset(2), pages: 4 })),
                (Pfn::new(AREA.0 - 4), 8, out_of_range(Pfn::new(AREA.0 - 4))),
                (Pfn::new(AREA.1 - 4), 8, out_of_range(Pfn::new(AREA.1 - 4))),
                (held, u32::MAX, out_of_range(held)),
                (held, 0, FreeError::Range(RangeError::Empty { start: held })),
            ] {
                assert_eq!(engine.cma_release(area, pfn, pages), Err(error), "{pages} pages at {pfn}");
                before.expect(engine, "a release that was refused");
                assert_eq!(area.allocated(), 8);
            }
        });
    }
}

#[test]
fn contradictory_cma_requests_are_errors() {
    with_area(&config(Batched), FRAMES, AREA, |engine, area| {
        let before = Picture::take(engine);
        let compound = Gfp::KERNEL | Gfp::COMP;
        for (pages, align, gfp, error) in [
            (0, 1, Gfp::KERNEL, ContigError::Range(RangeError::Empty { start: Pfn::new(AREA.0) })),
            (1, 0, Gfp::KERNEL, ContigError::Range(RangeError::PowerOfTwo { pages: 0 })),
            (1, 3, Gfp::KERNEL, ContigError::Range(RangeError::PowerOfTwo { pages: 3 })),
            (5, 1, compound, ContigError::Range(RangeError::PowerOfTwo { pages: 5 })),
            (1, 1, Gfp::MOVABLE | Gfp::RECLAIMABLE, ContigError::Flags),
            (1025, 1, Gfp::KERNEL, ContigError::NoRange),
            (u32::MAX, 1 << 31, Gfp::KERNEL, ContigError::NoRange),
        ] {
            assert_eq!(engine.cma_alloc(area, pages, align, gfp), Err(error), "{pages} pages with alignment {align}");
            before.expect(engine, "a request that was refused");
            assert_eq!(area.allocated(), 0);
        }
    });
}

/// A general request for a range never takes frames of an area, whether they are free or not.
#[test]
fn general_range_request_never_takes_cma_frames() {
    with_area(&config(Batched), FRAMES, AREA, |engine, _| {
        take(engine, 1000, 0, Gfp::KERNEL);
        let before = Picture::take(engine);
        let cma = ContigError::Cma { pfn: Pfn::new(AREA.0), state: state(engine, AREA.0) };
        assert!(matches!(state(engine, AREA.0), State::ZoneFree { .. }));
        assert_eq!(engine.alloc_contig_range(span(AREA.0, AREA.0 + 1), Gfp::KERNEL), Err(cma));
        assert_eq!(engine.alloc_contig_frozen_range(span(1001, AREA.1), Gfp::KERNEL), Err(cma));
        before.expect(engine, "a range that is an area's");
    });
}
