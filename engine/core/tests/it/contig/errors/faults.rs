//! Each operation that a range needs from its environment fails once: the platform refuses to move a block, there is no
//! target for a block, reclaim frees nothing. Blocks that were moved before stay where they are. Apart from that, and
//! after a drain of the per-CPU lists, the machine is unchanged.

use core::cell::{Cell, RefCell};

use freehold::base::{Gfp, Order, Pfn};
use freehold::page::ContigError;
use freehold::platform::{FreePages, Migrated, Migration, OutOfMemory, Reclaim, Reclaimed, Request};
use freehold::policy::ContigPolicy::Batched;

use crate::common::Hooks;
use crate::common::owners::Owners;
use crate::common::picture::Picture;
use crate::contig::scene::{Engine, MOVABLE, Mover, config, page, take, with_frames};
use crate::contig::span;

const FRAMES: u32 = 8192;
/// The range, and the number of movable pages in it: one at the start of every eighth part.
const RANGE: (u32, u32) = (2100, 2900);
const PAGES: usize = 8;

/// Platform that moves a limited number of blocks. Its reclaim finds nothing, and is counted.
struct Tiring {
    mover: Mover,
    moves_left: Cell<usize>,
    /// Number of moves that are refused before the first one is made.
    refusals_left: Cell<usize>,
    reclaims: Cell<u32>,
}

impl Tiring {
    fn after(moves: usize) -> Tiring {
        let (refusals_left, reclaims) = (Cell::new(0), Cell::new(0));
        Tiring { mover: Mover::default(), moves_left: Cell::new(moves), refusals_left, reclaims }
    }
}

impl Hooks for Tiring {
    fn migrate(&self, migration: &Migration) -> Migrated {
        let (refusals, moves) = (self.refusals_left.get(), self.moves_left.get());
        self.refusals_left.set(refusals.saturating_sub(1));
        if refusals > 0 || moves == 0 {
            return Migrated::Refused;
        }
        self.moves_left.set(moves - 1);
        self.mover.migrate(migration)
    }

    fn reclaim(&self, _pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        self.reclaims.set(self.reclaims.get() + 1);
        Reclaimed::default()
    }

    fn out_of_memory(&self, _pages: &dyn FreePages, request: &Request) -> OutOfMemory {
        panic!("a range request must not end a task: {request:?}");
    }
}

/// Allocates the movable pages in the range. Returns their owners.
fn fill(mover: &Mover, engine: &Engine<'_, '_>) -> Vec<u32> {
    let places = (RANGE.0..RANGE.1).step_by((RANGE.1 - RANGE.0) as usize / PAGES);
    places.map(|pfn| mover.own(engine, pfn, 0, MOVABLE)).collect()
}

fn ask(engine: &Engine<'_, '_>) -> Result<(), ContigError> {
    let answer = engine.alloc_contig_range(span(RANGE.0, RANGE.1), Gfp::KERNEL);
    engine.check().expect("the check must find no error");
    engine.drain_all_pages();
    answer
}

/// Frees all owned pages. Panics unless the machine is as before the first allocation.
fn undo(mover: &Mover, engine: &Engine<'_, '_>, owners: Vec<u32>, fresh: &Picture) {
    owners.into_iter().for_each(|owner| mover.free(engine, owner));
    engine.drain_all_pages();
    assert_eq!(fresh.difference_but_tuning(&Picture::take(engine)), None, "after all was freed");
}

#[test]
fn busy_range_fails_after_any_number_of_moves() {
    for moves in 0..PAGES {
        let tiring = Tiring::after(moves);
        with_frames(&config(Batched), FRAMES, |engine| {
            engine.platform().answer_with(&tiring);
            let fresh = Picture::take(engine);
            let owners = fill(&tiring.mover, engine);
            engine.drain_all_pages();
            let before = Picture::take(engine);
            let first = tiring.mover.place(owners[moves]);
            let busy = ContigError::Busy { pfn: Pfn::new(first), state: page(MOVABLE) };
            assert_eq!(ask(engine), Err(busy), "after {moves} moves");
            let places = owners.iter().map(|&owner| tiring.mover.place(owner));
            assert_eq!(places.filter(|place| !(RANGE.0..RANGE.1).contains(place)).count(), moves);
            if moves == 0 {
                assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None, "no page may have moved");
            }
            undo(&tiring.mover, engine, owners, &fresh);
        });
    }
}

/// A refused move is tried again in a bounded number of rounds. Each round tries every page that is left.
#[test]
fn refused_moves_are_retried_in_bounded_rounds() {
    for (refusals, rounds) in [(0, 1), (1, 2), (PAGES, 2), (3 * PAGES, 4), (4 * PAGES, 5), (4 * PAGES + 1, 0)] {
        let tiring = Tiring::after(PAGES);
        tiring.refusals_left.set(refusals);
        with_frames(&config(Batched), FRAMES, |engine| {
            engine.platform().answer_with(&tiring);
            let fresh = Picture::take(engine);
            let owners = fill(&tiring.mover, engine);
            let answer = ask(engine);
            assert_eq!(answer.is_ok(), rounds > 0, "{refusals} refusals: {answer:?}");
            if answer.is_ok() {
                engine.free_contig_range(span(RANGE.0, RANGE.1)).expect("the pages must be allocated");
            }
            undo(&tiring.mover, engine, owners, &fresh);
        });
    }
}

/// There is room for some of the pages outside the range, and reclaim frees nothing.
#[test]
fn missing_targets_fail_after_any_number_of_moves() {
    for room in 0..PAGES {
        let tiring = Tiring::after(PAGES);
        with_frames(&config(Batched), FRAMES, |engine| {
            engine.platform().answer_with(&tiring);
            let owners = fill(&tiring.mover, engine);
            // The zone keeps exactly `room` pages above the watermark of a request that can wait.
            let zone = engine.zone(freehold::base::NodeId(0), freehold::base::ZoneKind::Normal);
            let around = [(0, 2048), (3072, FRAMES)];
            around.iter().for_each(|&(start, end)| {
                engine.alloc_contig_range(span(start, end), Gfp::KERNEL).expect("the range must be free");
            });
            // The frames of the range's own pageblocks cannot be targets, because these pageblocks are isolated.
            let spare = zone.watermarks().min as u32 + room as u32;
            engine.free_contig_range(span(0, spare)).expect("the pages must be allocated");
            engine.drain_all_pages();
            let before = Picture::take(engine);
            let answer = ask(engine);
            let moved = owners.iter().filter(|&&owner| tiring.mover.place(owner) < 2048).count();
            let first = tiring.mover.place(owners[moved.min(PAGES - 1)]);
            assert_eq!(
                answer,
                Err(ContigError::Busy { pfn: Pfn::new(first), state: page(MOVABLE) }),
                "room for {room}"
            );
            assert_eq!(moved, room, "pages that moved");
            assert!(tiring.reclaims.get() > 0, "reclaim must have been called");
            if moved == 0 {
                assert_eq!(before.difference_but_tuning(&Picture::take(engine)), None, "no page may have moved");
            }
            assert_eq!(
                engine.check().expect("the check must find no error").allocated,
                u64::from(FRAMES - 1024 - spare) + 8
            );
        });
    }
}

/// Platform whose reclaim frees the block that is about to move.
#[derive(Default)]
struct Helpful {
    owners: RefCell<Owners>,
    in_the_way: Cell<Option<u32>>,
}

impl Hooks for Helpful {
    fn migrate(&self, migration: &Migration) -> Migrated {
        self.owners.borrow_mut().migrate(migration)
    }

    fn reclaim(&self, pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let Some(owner) = self.in_the_way.take() else { return Reclaimed::default() };
        let (pfn, order) = self.owners.borrow_mut().remove(owner);
        pages.free_pages(pfn, order);
        Reclaimed { pages: 1, scanned: 1 }
    }
}

/// The reclaim that should find a target frees the obstructing block itself.
#[test]
fn reclaim_may_free_the_obstructing_block() {
    let helpful = Helpful::default();
    with_frames(&config(Batched), FRAMES, |engine| {
        engine.platform().answer_with(&helpful);
        take(engine, RANGE.0, 0, MOVABLE);
        let owner = helpful.owners.borrow_mut().add(Pfn::new(RANGE.0), Order::ZERO, 1);
        helpful.in_the_way.set(Some(owner));
        for (start, end) in [(0, 2048), (3072, FRAMES)] {
            engine.alloc_contig_range(span(start, end), Gfp::KERNEL).expect("the range must be free");
        }
        assert_eq!(ask(engine), Ok(()));
        assert_eq!(helpful.in_the_way.get(), None, "reclaim must have been called");
        assert_eq!(
            engine.check().expect("the check must find no error").allocated,
            u64::from(FRAMES - 1024 + RANGE.1 - RANGE.0)
        );
    });
}
