//! Each fault alone: the broken promise is reported by name, only pages that were really freed count, and no page is
//! lost.

use freehold::base::{Gfp, Order, Pfn};
use freehold::page::MinFree;
use freehold::platform::{OutOfMemory, Promise, Reclaimed};
use freehold::stats::Counts;

use crate::common::{Hooks, Memory, build};
use crate::faults::faulty::{Faulty, Help, IDLE, Manners, Move, config, memory};
use crate::faults::{Engine, broken, judge};

/// Result of a request.
struct Scene {
    served: bool,
    broken: Vec<Promise>,
    counts: Counts,
}

/// Makes a request on a platform that owns all pages except those selected by `gives_up`, which are free.
fn ask(manners: Manners, gfp: Gfp, order: u8, gives_up: impl Fn(Pfn) -> bool) -> Scene {
    let (config, memory) = (config(), memory());
    let mut metadata = Memory::new(&config, &memory);
    let engine = &build(&config, &memory, &mut metadata);
    engine.release(Pfn::new(0), Pfn::new(2048)).expect("the ranges are online");
    engine.set_up_watermarks(MinFree::Pages(40));
    let faulty = Faulty::new(engine, manners);
    faulty.run_dry(Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC);
    faulty.held.borrow_mut().retain(|&page| {
        let keeps = !gives_up(page);
        if !keeps {
            engine.free_pages(page, Order::ZERO).expect("the test holds this block");
        }
        keeps
    });
    engine.drain_all_pages();
    engine.platform().answer_with(&faulty);
    broken(engine);
    let block = engine.alloc_pages(gfp, Order::new(order));
    let scene = Scene { served: block.is_ok(), broken: broken(engine), counts: engine.platform().events.counts() };
    if let Ok(block) = block {
        engine.free_pages(block, Order::new(order)).expect("the block was just allocated");
    }
    close(engine, &faulty);
    scene
}

/// Frees all pages. Afterwards only the pages that a fault has lost may be allocated.
fn close(engine: &Engine<'_, '_>, faulty: &Faulty<'_, '_>) {
    let misled = faulty.manners.migrate == Move::InName;
    let held = faulty.held.take();
    let refused = held.iter().filter(|&&page| engine.free_pages(page, Order::ZERO).is_err()).count();
    assert_eq!(refused > 0, misled, "an owner that was not informed of a move must get an error when it frees");
    engine.drain_all_pages();
    judge(engine, faulty.lost.get()).expect("the check must find no error");
}

fn nobody(_: Pfn) -> bool {
    false
}

/// Selects every other page: many free pages, and no two of them adjacent.
fn every_other(page: Pfn) -> bool {
    page.raw().is_multiple_of(2)
}

/// Requests a page where only reclaim can help.
fn ask_for_reclaim(help: Help) -> Scene {
    ask(Manners { reclaim: help, ..IDLE }, Gfp::KERNEL, 0, nobody)
}

/// Requests a block where only compaction can help.
fn ask_for_compaction(migrate: Move) -> Scene {
    ask(Manners { migrate, ..IDLE }, Gfp::KERNEL | Gfp::NORETRY, 3, every_other)
}

/// Requests a page where only the last resort can help.
fn ask_for_last_resort(help: Help) -> Scene {
    ask(Manners { last_resort: help, ..IDLE }, Gfp::KERNEL, 0, nobody)
}

#[test]
fn false_reclaim_answers_are_broken_promises() {
    for help in [Help::Claimed, Help::Denied, Help::Twice, Help::TwiceAtOnce, Help::Foreign] {
        let scene = ask_for_reclaim(help);
        assert!(!scene.broken.is_empty(), "{help:?} was not reported as a broken promise");
        assert!(scene.broken.iter().all(|&promise| promise == Promise::Reclaim), "{help:?} is {:?}", scene.broken);
        assert_eq!(scene.counts.broken_promises, scene.broken.len() as u64);
    }
    for help in [Help::Nothing, Help::One, Help::All] {
        assert_eq!(ask_for_reclaim(help).broken, [], "{help:?} is a true answer, but was reported as a broken promise");
    }
}

#[test]
fn freed_pages_count_instead_of_the_reported_number() {
    assert_eq!(ask_for_reclaim(Help::Claimed).counts.pgsteal_direct, 0);
    assert_eq!(ask_for_reclaim(Help::Foreign).counts.pgsteal_direct, 0);
    // One page at each of the thirteen priorities.
    for help in [Help::Denied, Help::One, Help::Twice, Help::TwiceAtOnce] {
        assert_eq!(ask_for_reclaim(help).counts.pgsteal_direct % 13, 0, "{help:?}");
        assert!(ask_for_reclaim(help).counts.pgsteal_direct > 0, "{help:?}");
    }
}

/// Reclaim frees only pages that it has just allocated. There is progress in every round, but no block becomes
/// available, and the request must still end.
#[test]
fn endless_reclaim_progress_still_ends_the_request() {
    let manners = Manners { reclaim: Help::Borrowed, reclaimable: 1 << 20, ..IDLE };
    let scene = ask(manners, Gfp::KERNEL, 2, |page| page.raw() % 64 == 1);
    assert!(!scene.served);
    assert_eq!(scene.broken, [], "all answers were true, but one was reported as a broken promise");
    assert!(scene.counts.pgsteal_direct > 2048, "more pages than the machine has must have been reclaimed");
}

/// Platform that reports more scanned pages than exist.
struct Boaster;

impl Hooks for Boaster {
    fn reclaim(&self, _: &dyn freehold::platform::FreePages, _: &freehold::platform::Reclaim) -> Reclaimed {
        Reclaimed { pages: 0, scanned: u64::MAX }
    }
}

#[test]
fn scanned_pages_are_capped_at_the_zone_size() {
    let boaster = Boaster;
    crate::common::with_machine(&config(), &memory(), MinFree::Pages(40), |engine| {
        engine.platform().answer_with(&boaster);
        while engine.alloc_pages(Gfp::NOWAIT, Order::ZERO).is_ok() {}
        broken(engine);
        engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect_err("no page is free, so the request must fail");
        assert!(broken(engine).contains(&Promise::Reclaim));
        assert_eq!(engine.platform().events.counts().pgscan_direct, 13 * 2048);
    });
}

#[test]
fn false_migrate_answers_are_broken_promises() {
    for migrate in [Move::FreesSource, Move::FreesTarget, Move::HoldsTarget] {
        let scene = ask_for_compaction(migrate);
        assert!(!scene.broken.is_empty(), "{migrate:?} was not reported as a broken promise");
        assert!(scene.broken.iter().all(|&promise| promise == Promise::Migrate), "{migrate:?} is {:?}", scene.broken);
    }
    for migrate in [Move::Never, Move::Always] {
        assert_eq!(
            ask_for_compaction(migrate).broken,
            [],
            "{migrate:?} is a true answer, but was reported as a broken promise"
        );
    }
    assert!(ask_for_compaction(Move::Always).served, "movable pages must let compaction serve the request");
    assert!(!ask_for_compaction(Move::Never).served, "pages that cannot be moved must let the request fail");
    // The engine cannot detect a move that was only claimed; the owner detects it (see `close`).
    assert_eq!(ask_for_compaction(Move::InName).broken, []);
}

#[test]
fn false_oom_answers_are_broken_promises() {
    for help in [Help::Claimed, Help::Denied, Help::Twice, Help::Foreign] {
        let scene = ask_for_last_resort(help);
        assert!(scene.broken.contains(&Promise::OutOfMemory), "{help:?} was not reported as a broken promise");
        assert!(!scene.broken.contains(&Promise::Reclaim), "{help:?} is {:?}", scene.broken);
    }
    for help in [Help::Nothing, Help::All] {
        assert_eq!(
            ask_for_last_resort(help).broken,
            [],
            "{help:?} is a true answer, but was reported as a broken promise"
        );
    }
    assert!(ask_for_last_resort(Help::All).served);
    assert!(
        !ask_for_last_resort(Help::Claimed).served,
        "pages that were claimed but not freed cannot serve the request"
    );
}

/// A platform that requests memory during its last resort.
struct Nested<'a, 'h> {
    engine: &'a Engine<'a, 'h>,
    depth: core::cell::Cell<u32>,
}

impl Hooks for Nested<'_, '_> {
    fn out_of_memory(&self, _: &dyn freehold::platform::FreePages, _: &freehold::platform::Request) -> OutOfMemory {
        self.depth.set(self.depth.get() + 1);
        assert_eq!(self.depth.get(), 1, "two requests called the OOM killer at the same time");
        self.engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect_err("no page is free, so the request must fail");
        self.depth.set(0);
        OutOfMemory::NothingFreed
    }
}

#[test]
fn oom_callback_does_not_nest() {
    let (config, memory) = (config(), memory());
    let mut metadata = Memory::new(&config, &memory);
    let engine = &build(&config, &memory, &mut metadata);
    engine.release(Pfn::new(0), Pfn::new(2048)).expect("the ranges are online");
    engine.set_up_watermarks(MinFree::Pages(40));
    let nested = Nested { engine, depth: core::cell::Cell::new(0) };
    engine.platform().answer_with(&nested);
    while engine.alloc_pages(Gfp::NOWAIT, Order::ZERO).is_ok() {}
    engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect_err("no page is free, so the request must fail");
    engine.check().expect("the check must find no error");
}

/// Tests the harness: it detects a platform that loses a page.
#[test]
fn planted_lost_page_is_found() {
    crate::common::with_machine(&config(), &memory(), MinFree::Pages(40), |engine| {
        let held = [0; 3].map(|_| engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free"));
        assert_eq!(judge(engine, held.len()), Ok(()));
        let forgotten = judge(engine, held.len() - 1).expect_err("the check must find the planted damage");
        assert_eq!(forgotten, "3 pages are allocated, 2 are held");
        engine.damage().set_state(held[0], freehold::base::State::Interior);
        assert!(
            judge(engine, held.len()).expect_err("the check must find the planted damage").contains("inconsistent")
        );
    });
}
