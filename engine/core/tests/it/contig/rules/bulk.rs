//! `free_pages_bulk`: every slice of single pages, in any order and with any mistake, has the same result under both
//! policies.

use core::mem::{Discriminant, discriminant};

use fastrand::Rng;
use freehold::base::{Gfp, Order, Pfn, State};
use freehold::page::FreeError;
use freehold::policy::ContigPolicy::Batched;

use crate::common::picture::Picture;
use crate::common::repetitions;
use crate::contig::scene::{BOTH, Engine, bare, config, holds, is_free, state, with_frames};
use crate::contig::span;

const FRAMES: u32 = 4096;
/// Single pages, each with one reference.
const PAGES: (u32, u32) = (1000, 1300);
/// Single pages without references.
const FROZEN: (u32, u32) = (1300, 1310);
/// A block of order 1.
const PAIR: u32 = 1310;
/// A free frame, after the block.
const END: u32 = 1312;

/// Returns the kind and the frame of an error. The other details depend on how far other pages of the slice have been
/// freed.
fn gist(result: Result<(), FreeError>) -> Option<(Discriminant<FreeError>, Pfn)> {
    let error = result.err()?;
    let (FreeError::OutOfRange { pfn }
    | FreeError::NotAllocated { pfn, .. }
    | FreeError::WrongOrder { pfn, .. }
    | FreeError::CrossesEnd { pfn, .. }
    | FreeError::Frozen { pfn, .. }
    | FreeError::Bad { pfn, .. }) = error
    else {
        panic!("a free of a slice must not return the error of a range: {error}");
    };
    Some((discriminant(&error), pfn))
}

fn furnish(engine: &Engine<'_, '_>) {
    engine.alloc_contig_range(span(PAGES.0, PAGES.1), Gfp::KERNEL).expect("the range must be free");
    engine.alloc_contig_frozen_range(span(FROZEN.0, FROZEN.1), Gfp::KERNEL).expect("the range must be free");
    for pfn in FROZEN.0..FROZEN.1 {
        engine.free_contig_frozen_range(span(pfn, pfn + 1)).expect("the pages must have no references");
        engine.alloc_contig_frozen_range(span(pfn, pfn + 1), Gfp::KERNEL).expect("the range must be free");
    }
    engine.drain_all_pages();
    assert_eq!(engine.isolate_free_page(Pfn::new(PAIR), Order::new(1), Gfp::KERNEL), Ok(true));
}

/// Frees a slice under both policies. Panics unless both return the same result and leave the same machine. Returns the
/// result.
#[track_caller]
fn free(slice: &[Pfn]) -> Option<(Discriminant<FreeError>, Pfn)> {
    let [one_by_one, batched] = BOTH.map(|contig| {
        with_frames(&config(contig), FRAMES, |engine| {
            furnish(engine);
            let answer = gist(engine.free_pages_bulk(slice));
            engine.drain_all_pages();
            (answer, Picture::take(engine))
        })
    });
    assert_eq!(one_by_one.0, batched.0, "the answer to {slice:?}");
    assert_eq!(one_by_one.1.difference_but_tuning(&batched.1), None, "after {slice:?}");
    batched.0
}

fn pages(range: (u32, u32)) -> Vec<Pfn> {
    (range.0..range.1).map(Pfn::new).collect()
}

#[test]
fn bulk_free_is_independent_of_slice_order() {
    let sorted = pages(PAGES);
    let reversed: Vec<Pfn> = sorted.iter().rev().copied().collect();
    let (odd, even): (Vec<Pfn>, Vec<Pfn>) = sorted.iter().partition(|pfn| pfn.raw() % 2 == 1);
    let mut shuffled = sorted.clone();
    Rng::with_seed(3).shuffle(&mut shuffled);
    for slice in [vec![], sorted[..1].to_vec(), sorted, reversed, [odd, even].concat(), shuffled] {
        assert_eq!(free(&slice), None, "{slice:?}");
    }
}

/// A sorted slice is freed as a range: one hold of the zone lock claims the pages, and a second one frees them. In
/// reverse order the pages leave their range under one hold, and each is freed under a separate hold.
#[test]
fn adjacent_pages_in_a_slice_share_lock_holds() {
    let sorted = pages((1024, 1088));
    let reversed: Vec<_> = sorted.iter().rev().copied().collect();
    let holds_of_each = [sorted, reversed].map(|slice| {
        with_frames(&bare(Batched), FRAMES, |engine| {
            engine.alloc_contig_range(span(0, FRAMES), Gfp::KERNEL).expect("the range must be free");
            engine.platform().events.take();
            holds(engine, || engine.free_pages_bulk(&slice).expect("the pages must be allocated"))
        })
    });
    assert_eq!(holds_of_each, [2, 1 + 64]);
}

#[test]
fn bulk_free_reports_a_wrong_page_and_frees_the_rest() {
    let [first, last] = [PAGES.0, PAGES.1 - 1].map(Pfn::new);
    let wrong = [
        Pfn::new(FROZEN.0),
        Pfn::new(PAIR),
        Pfn::new(PAIR + 1),
        Pfn::new(END),
        Pfn::new(FRAMES),
        Pfn::new(1 << 20),
        Pfn::new(u32::MAX),
        first,
        last,
    ];
    for wrong in wrong {
        for place in [0, 1, 150, 299, 300] {
            let mut slice = pages(PAGES);
            slice.insert(place, wrong);
            let (_, named) = free(&slice).expect("one of the two frees must fail");
            assert_eq!(named, wrong, "at {place}");
        }
    }
}

/// A run extends beyond its last page into frozen pages. Each page before these is freed.
#[test]
fn bulk_run_into_frozen_pages_frees_the_pages_before() {
    for contig in BOTH {
        with_frames(&config(contig), FRAMES, |engine| {
            furnish(engine);
            let error = engine.free_pages_bulk(&pages((PAGES.1 - 20, END)));
            let frozen = Pfn::new(FROZEN.0);
            let expected =
                FreeError::Frozen { pfn: frozen, state: engine.state(frozen).expect("the frames must be online") };
            assert_eq!(error, Err(expected));
            assert!((PAGES.1 - 20..PAGES.1).all(|pfn| is_free(engine, pfn)));
            assert!((FROZEN.0..END).all(|pfn| !is_free(engine, pfn)));
        });
    }
}

#[test]
fn duplicate_pages_in_a_bulk_are_freed_once() {
    let twice = [pages(PAGES), pages(PAGES)].concat();
    let (_, named) = free(&twice).expect("the second free must fail");
    assert_eq!(named, Pfn::new(PAGES.0));
    let mut rng = Rng::with_seed(11);
    for _ in 0..repetitions(40) {
        let (longest, count) = (rng.u32(1..20), rng.u32(1..30));
        let mut slice = Vec::new();
        for _ in 0..count {
            let start = rng.u32(PAGES.0..END + 3);
            let mut run = pages((start, start + rng.u32(1..=longest)));
            if rng.u8(0..4) == 0 {
                run.reverse();
            }
            slice.extend(run);
        }
        free(&slice);
    }
}

#[test]
fn bulk_free_drops_one_reference_of_shared_pages() {
    for contig in BOTH {
        with_frames(&config(contig), FRAMES, |engine| {
            furnish(engine);
            let shared = Pfn::new(PAGES.0 + 5);
            engine.get_page(shared).expect("the pages must be allocated");
            engine.free_pages_bulk(&pages(PAGES)).expect("the pages must be allocated");
            let left = state(engine, shared.raw());
            assert!(matches!(left, State::Allocated { refs: 1, order: Order::ZERO, .. }), "{left:?}");
            assert_eq!((PAGES.0..PAGES.1).filter(|&pfn| !is_free(engine, pfn)).count(), 1);
        });
    }
}
