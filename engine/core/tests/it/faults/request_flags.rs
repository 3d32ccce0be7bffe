//! The help that a request asks for: as much as its flags allow, and no more.

use core::cell::{Cell, RefCell};

use freehold::Policy;
use freehold::base::{Gfp, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::platform::{CompactEffort, FreePages, Migrated, Migration, OutOfMemory, Reclaim, Reclaimed, Request};

use crate::common::{Hooks, range, with_machine};

/// Platform that never helps, and records the calls.
#[derive(Default)]
struct Deaf {
    priorities: RefCell<Vec<u8>>,
    efforts: RefCell<Vec<CompactEffort>>,
    last_resorts: Cell<u32>,
}

impl Hooks for Deaf {
    fn reclaim(&self, _pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        self.priorities.borrow_mut().push(wanted.priority);
        Reclaimed::default()
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        self.efforts.borrow_mut().push(migration.effort);
        Migrated::Refused
    }

    fn out_of_memory(&self, _pages: &dyn FreePages, _request: &Request) -> OutOfMemory {
        self.last_resorts.set(self.last_resorts.get() + 1);
        OutOfMemory::NothingFreed
    }
}

/// Makes a request that fails, in a machine full of movable pages of which those selected by `is_free` are free.
fn ask(deaf: &Deaf, gfp: Gfp, order: u8, is_free: impl Fn(Pfn) -> bool) {
    let memory = [range(ZoneKind::Normal, 0, 0, 4096)];
    let config = Config { policy: Policy::LINUX_6_12, ..Config::default() };
    with_machine(&config, &memory, MinFree::Pages(64), |engine| {
        engine.platform().answer_with(deaf);
        let all = Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC;
        while engine.alloc_pages(all - Gfp::DIRECT_RECLAIM, Order::ZERO).is_ok() {}
        (0..4096).map(Pfn::new).filter(|&page| is_free(page)).for_each(|page| {
            engine.free_pages(page, Order::ZERO).expect("all pages are allocated");
        });
        engine.drain_all_pages();
        engine
            .alloc_pages(gfp, Order::new(order))
            .expect_err("no block of this order is free, so the request must fail");
    });
}

/// Returns how often a request calls for help when no page is free: rounds of reclaim, each from priority 12 down to 0,
/// and calls of the last resort.
fn asked(gfp: Gfp, order: u8) -> (usize, u32) {
    let deaf = Deaf::default();
    ask(&deaf, gfp, order, |_| false);
    let priorities = deaf.priorities.take();
    let rounds = priorities.len() / 13;
    assert_eq!(priorities, (0..rounds).flat_map(|_| (0..=12).rev()).collect::<Vec<u8>>());
    (rounds, deaf.last_resorts.get())
}

#[test]
fn request_flags_bound_reclaim_and_oom_calls() {
    assert_eq!(asked(Gfp::NOWAIT, 0), (0, 0), "may not wait");
    assert_eq!(asked(Gfp::KERNEL, 0), (1, 1));
    assert_eq!(asked(Gfp::KERNEL | Gfp::NORETRY, 0), (1, 0));
    assert_eq!(asked(Gfp::KERNEL | Gfp::RETRY_MAYFAIL, 0), (1, 0), "the request fails instead of ending a process");
    assert_eq!(asked(Gfp::KERNEL | Gfp::THISNODE, 0), (1, 0));
    assert_eq!(
        asked(Gfp::KERNEL | Gfp::DMA, 0),
        (0, 0),
        "the zone does not exist, so neither reclaim nor the OOM killer is called"
    );
    assert_eq!(asked(Gfp::KERNEL, 2), (1, 1));
    assert_eq!(asked(Gfp::HIGHUSER_MOVABLE, 2), (1, 1));
    assert_eq!(asked(Gfp::HIGHUSER_MOVABLE, 4), (1, 0), "a costly request ends no process");
    assert_eq!(asked(Gfp::NOIO, 2), (1, 1), "reclaim needs no I/O, compaction does");
    assert_eq!(asked(Gfp::TRANSHUGE | Gfp::NORETRY, 9), (0, 0), "no room for compaction, so reclaim is not called");
}

/// Returns the efforts with which a request tries to move pages when there is room and no page moves, without
/// repetitions.
fn efforts(gfp: Gfp, order: u8) -> Vec<CompactEffort> {
    let deaf = Deaf::default();
    ask(&deaf, gfp, order, |page| page.raw().is_multiple_of(2));
    let mut efforts = deaf.efforts.take();
    efforts.dedup();
    efforts
}

#[test]
fn request_flags_bound_compaction_effort() {
    use CompactEffort::{Async, SyncLight};
    // At async effort, a request does not move pages in pageblocks of another type.
    assert_eq!(efforts(Gfp::KERNEL, 2), [SyncLight]);
    assert_eq!(efforts(Gfp::HIGHUSER_MOVABLE, 2), [SyncLight], "a movable request reclaims before it compacts");
    assert_eq!(efforts(Gfp::HIGHUSER_MOVABLE, 4), [Async, SyncLight], "the second attempt may wait");
    assert_eq!(efforts(Gfp::TRANSHUGE | Gfp::NORETRY, 9), [Async], "the effort of the request stays asynchronous");
    assert_eq!(efforts(Gfp::NOIO, 2), [], "compaction needs I/O");
    assert_eq!(efforts(Gfp::NOWAIT, 2), [], "may not wait");
}
