//! Attempts of a request before it fails, and their order: compaction, reclaim, and finally the last resort.
//! linux: mm/page_alloc.c:__alloc_pages_slowpath

use core::cell::Cell;

use freehold::base::{Gfp, Order, ZoneKind};
use freehold::page::MinFree;
use freehold::platform::{Event, FreePages, OutOfMemory, Request, Task};

use crate::common::{Hooks, range, with_machine};
use crate::rules::reclaim::QUIET;
use crate::rules::{Engine, bare, exhaust};

/// A platform that moves no page, reclaims none, and frees none as the last resort.
#[derive(Default)]
struct Stubborn {
    asked_to_end: Cell<usize>,
}

impl Hooks for Stubborn {
    fn out_of_memory(&self, _: &dyn FreePages, _: &Request) -> OutOfMemory {
        self.asked_to_end.set(self.asked_to_end.get() + 1);
        OutOfMemory::NothingFreed
    }
}

/// Runs `act` on a machine of single pages, every other one of which is free: compaction has room, but no page moves.
fn with_single_pages<'h>(act: impl FnOnce(&Engine<'_, 'h>)) {
    with_machine(&bare(), &[range(ZoneKind::Normal, 0, 0, 1 << 12)], MinFree::Pages(64), |engine| {
        for page in exhaust(engine, QUIET | Gfp::MEMALLOC, 0) {
            if page.raw().is_multiple_of(2) {
                engine.free_pages(page, Order::ZERO).expect("the pages must be allocated");
            }
        }
        act(engine);
        engine.check().expect("the check must find no error");
    });
}

/// Returns the attempts of a request that fails: `C` for compaction, `R` for reclaim, `E` for the last resort.
fn tried(gfp: Gfp, order: u8, task: Task) -> String {
    let stubborn = Stubborn::default();
    let mut letters = String::new();
    with_single_pages(|engine| {
        engine.platform().answer_with(&stubborn);
        engine.platform().run_as(task);
        engine.platform().events.take();
        engine.alloc_pages(gfp, Order::new(order)).expect_err("only single pages are free, so the request must fail");
        for event in engine.platform().events.take() {
            match event {
                Event::CompactStall { .. } => letters.push('C'),
                Event::DirectReclaim { .. } => letters.push('R'),
                _ => {}
            }
        }
    });
    letters + &"E".repeat(stubborn.asked_to_end.get())
}

/// Returns the attempts of an ordinary task at an order that is not costly, at a costly one, and at that of a huge
/// page.
fn at_orders(gfp: Gfp) -> [String; 3] {
    [1, 4, 9].map(|order| tried(gfp, order, Task::default()))
}

#[test]
fn unmovable_or_costly_requests_compact_before_reclaim() {
    assert_eq!(at_orders(Gfp::KERNEL), ["CRCE", "CRC", "CRC"]);
    assert_eq!(at_orders(Gfp::HIGHUSER_MOVABLE), ["RCE", "CRC", "CRC"]);
    assert_eq!(at_orders(Gfp::KERNEL | Gfp::NOFAIL), ["CRCE", "CRC", "CRC"], "the platform has no patience");
    assert_eq!(tried(Gfp::KERNEL, 3, Task::default()), "CRCE", "order 3 is cheap");
}

#[test]
fn noio_skips_compaction_and_nowait_skips_all_steps() {
    assert_eq!(at_orders(Gfp::NOIO), ["RE", "R", "R"]);
    assert_eq!(at_orders(Gfp::NOWAIT), ["", "", ""]);
}

#[test]
fn noretry_and_retry_mayfail_skip_oom() {
    assert_eq!(at_orders(Gfp::KERNEL | Gfp::NORETRY), ["CRC", "CRC", "CRC"]);
    assert_eq!(at_orders(Gfp::KERNEL | Gfp::RETRY_MAYFAIL), ["CRC", "CRC", "CRC"]);
    assert_eq!(at_orders(Gfp::HIGHUSER_MOVABLE | Gfp::RETRY_MAYFAIL), ["RC", "CRC", "CRC"]);
}

#[test]
fn costly_thisnode_noretry_request_skips_reclaim() {
    assert_eq!(at_orders(Gfp::KERNEL | Gfp::THISNODE), ["CRC", "CRC", "CRC"]);
    assert_eq!(at_orders(Gfp::KERNEL | Gfp::THISNODE | Gfp::NORETRY), ["CRC", "C", "C"]);
}

#[test]
fn memalloc_requests_skip_first_compaction_or_reclaim() {
    assert_eq!(at_orders(Gfp::KERNEL | Gfp::MEMALLOC), ["RCE", "RC", "RC"]);
    let task = Task::default();
    assert_eq!(tried(Gfp::KERNEL, 1, Task { memalloc: true, ..task }), "");
    assert_eq!(tried(Gfp::KERNEL | Gfp::NOMEMALLOC, 1, Task { memalloc: true, ..task }), "C");
    assert_eq!(tried(Gfp::KERNEL, 1, Task { oom_victim: true, ..task }), "RCE");
    assert_eq!(tried(Gfp::KERNEL | Gfp::NOMEMALLOC, 1, Task { oom_victim: true, ..task }), "CRCE");
}
