//! Platforms that fail, lie, overdo it and call back: whatever they answer, a request ends, and nothing is lost.
//!
//! Every combination of answers meets every class of request in a machine that has run dry. A platform may claim
//! progress that it did not make for as long as it likes, and a request goes on for as long, as on Linux; so these
//! tire of lying after a while.

mod common;

use core::cell::{Cell, RefCell};

use freehold::Policy;
use freehold::base::{Gfp, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PageAllocator};
use freehold::platform::{CompactEffort, CompactResult, OutOfMemory, Patience, Reclaimed, Request, Task};
use freehold::policy::{Numbers, PcpPolicy};

use common::{Hooks, Host, Memory, build, range, with_machine};

/// Calls after which a platform tells the truth: it can do nothing.
const LIES: u32 = 40;
/// More calls than any request needs, whatever it is told until then.
const CALLS_MAX: u32 = 400;

/// What reclaim, and what the last resort, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    /// Nothing, and says so.
    None,
    /// Nothing, and claims a page.
    Claimed,
    /// Frees a page, and denies it.
    Denied,
    /// Frees all that is allocated.
    All,
}

const HELP: [Help; 4] = [Help::None, Help::Claimed, Help::Denied, Help::All];
const COMPACTION: [CompactResult; 4] =
    [CompactResult::Skipped, CompactResult::Deferred, CompactResult::Failed, CompactResult::Succeeded];

/// A platform with fixed answers, which also allocates while it is asked to free.
struct Faulty<'a, 'h> {
    engine: &'a PageAllocator<'a, Host<'h>>,
    held: RefCell<Vec<Pfn>>,
    reclaim: Help,
    compaction: CompactResult,
    last_resort: Help,
    reclaimable: u64,
    calls: Cell<u32>,
}

impl Faulty<'_, '_> {
    /// Whether the platform still plays; counts the call.
    fn plays(&self) -> bool {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < CALLS_MAX, "the request does not end");
        self.calls.get() < LIES
    }

    fn run_dry(&self) {
        while let Ok(page) = self.engine.alloc_pages(Gfp::NOWAIT, Order::ZERO) {
            self.held.borrow_mut().push(page);
        }
    }

    fn give(&self, help: Help) -> u64 {
        let mut held = self.held.borrow_mut();
        let keep = match help {
            Help::None | Help::Claimed => held.len(),
            Help::Denied => held.len().saturating_sub(1),
            Help::All => 0,
        };
        let freed = held.split_off(keep);
        freed.iter().for_each(|&pfn| self.engine.free_pages(pfn, Order::ZERO).expect("the page is held"));
        match help {
            Help::None | Help::Denied => 0,
            Help::Claimed => 1,
            Help::All => freed.len() as u64,
        }
    }

    /// Reclaim needs memory itself, and may use all reserves. Nested requests find no more help.
    fn borrow_a_page(&self) {
        self.engine.platform().run_as(Task { memalloc: true, ..Task::default() });
        if let Ok(page) = self.engine.alloc_pages(Gfp::KERNEL, Order::ZERO) {
            self.engine.free_pages(page, Order::ZERO).expect("the page was just allocated");
        }
        self.engine.platform().run_as(Task::default());
    }
}

impl Hooks for Faulty<'_, '_> {
    fn reclaim(&self, _request: &Request) -> Reclaimed {
        self.borrow_a_page();
        Reclaimed { pages: if self.plays() { self.give(self.reclaim) } else { 0 } }
    }

    fn compact(&self, _request: &Request, _effort: CompactEffort) -> CompactResult {
        self.borrow_a_page();
        if self.plays() { self.compaction } else { CompactResult::Skipped }
    }

    fn reclaimable(&self, _node: freehold::base::NodeId, _zone: ZoneKind) -> u64 {
        self.reclaimable
    }

    fn out_of_memory(&self, _request: &Request) -> OutOfMemory {
        let helps = self.plays() && self.give(self.last_resort) > 0;
        if helps { OutOfMemory::Freed } else { OutOfMemory::NothingFreed }
    }

    fn relax(&self) -> Patience {
        if self.plays() { Patience::Wait } else { Patience::GiveUp }
    }
}

const CLASSES: [Gfp; 9] = [
    Gfp::ATOMIC,
    Gfp::KERNEL,
    Gfp::NOIO,
    Gfp::HIGHUSER_MOVABLE,
    Gfp::TRANSHUGE,
    Gfp::KERNEL.union(Gfp::NORETRY),
    Gfp::KERNEL.union(Gfp::RETRY_MAYFAIL),
    Gfp::KERNEL.union(Gfp::NOFAIL),
    Gfp::KERNEL.union(Gfp::MEMALLOC),
];

/// Every class and some orders, in a machine run dry, on one platform.
fn ask_everything(reclaim: Help, compaction: CompactResult, last_resort: Help, reclaimable: u64) {
    let policy = Policy {
        pcp: PcpPolicy::Merge,
        numbers: Numbers { pcp_batch: Some(4), ..Numbers::default() },
        ..Policy::LINUX_6_12
    };
    let config = Config { policy, pageblock_order: Order::new(4), end: Pfn::new(1 << 15), ..Config::default() };
    let memory = [range(ZoneKind::Dma32, 0, 0, 512), range(ZoneKind::Normal, 0, 512, 2048)];
    // Built here and not by `with_machine`: the platform refers to the engine that it belongs to.
    let mut metadata = Memory::of(&config, &memory);
    let engine = &build(&config, &memory, &mut metadata);
    engine.release(Pfn::new(0), Pfn::new(2048)).expect("the ranges are online");
    engine.set_up_watermarks(MinFree::Pages(40));
    let calls = Cell::new(0);
    let faulty = Faulty { engine, held: RefCell::default(), reclaim, compaction, last_resort, reclaimable, calls };
    engine.platform().answer_with(&faulty);
    for gfp in CLASSES {
        for order in [0, 1, 3, 4, 10].map(Order::new) {
            faulty.run_dry();
            faulty.calls.set(0);
            if let Ok(block) = engine.alloc_pages(gfp, order) {
                assert!(block.is_aligned(order));
                engine.free_pages(block, order).expect("the block was just allocated");
            }
        }
    }
    let census = engine.check().expect("nothing is lost");
    assert_eq!(census.allocated, faulty.held.borrow().len() as u64, "only what is held is allocated");
}

#[test]
fn every_platform_lets_every_request_end() {
    for reclaim in HELP {
        for compaction in COMPACTION {
            for last_resort in HELP {
                for reclaimable in [0, 1 << 20] {
                    ask_everything(reclaim, compaction, last_resort, reclaimable);
                }
            }
        }
    }
}

/// Answers nothing, and counts who asks.
#[derive(Default)]
struct Deaf {
    reclaims: Cell<u32>,
    compactions: RefCell<Vec<CompactEffort>>,
    last_resorts: Cell<u32>,
}

impl Hooks for Deaf {
    fn reclaim(&self, _request: &Request) -> Reclaimed {
        self.reclaims.set(self.reclaims.get() + 1);
        Reclaimed::default()
    }

    fn compact(&self, _request: &Request, effort: CompactEffort) -> CompactResult {
        self.compactions.borrow_mut().push(effort);
        CompactResult::Failed
    }

    fn out_of_memory(&self, _request: &Request) -> OutOfMemory {
        self.last_resorts.set(self.last_resorts.get() + 1);
        OutOfMemory::NothingFreed
    }
}

/// How often a request that fails asks for help: reclaims, efforts of compaction, last resorts.
fn asked(gfp: Gfp, order: u8) -> (u32, Vec<CompactEffort>, u32) {
    let deaf = Deaf::default();
    let memory = [range(ZoneKind::Normal, 0, 0, 4096)];
    let config = Config { policy: Policy::LINUX_6_12, ..Config::default() };
    with_machine(&config, &memory, MinFree::Pages(64), |engine| {
        engine.platform().answer_with(&deaf);
        while engine.alloc_pages(Gfp::NOWAIT, Order::ZERO).is_ok() {}
        engine.alloc_pages(gfp, Order::new(order)).expect_err("there is no memory");
    });
    (deaf.reclaims.get(), deaf.compactions.take(), deaf.last_resorts.get())
}

#[test]
fn a_request_asks_for_as_much_help_as_its_flags_allow() {
    use CompactEffort::{Async, SyncLight};
    assert_eq!(asked(Gfp::NOWAIT, 0), (0, vec![], 0), "may not wait");
    assert_eq!(asked(Gfp::KERNEL, 0), (1, vec![], 1));
    assert_eq!(asked(Gfp::KERNEL | Gfp::NORETRY, 0), (1, vec![], 0));
    assert_eq!(asked(Gfp::KERNEL | Gfp::RETRY_MAYFAIL, 0), (1, vec![], 0), "fails rather than end somebody");
    assert_eq!(asked(Gfp::KERNEL | Gfp::THISNODE, 0), (1, vec![], 0));
    assert_eq!(asked(Gfp::KERNEL | Gfp::DMA, 0), (0, vec![], 0), "there is no such zone: no help would help");
    assert_eq!(asked(Gfp::KERNEL, 2), (1, vec![Async, SyncLight], 1), "unmovable blocks are compacted for first");
    assert_eq!(asked(Gfp::HIGHUSER_MOVABLE, 2), (1, vec![SyncLight], 1), "movable ones are reclaimed for first");
    assert_eq!(asked(Gfp::HIGHUSER_MOVABLE, 4), (1, vec![Async, SyncLight], 0), "large ones end nobody");
    assert_eq!(asked(Gfp::NOIO, 2), (1, vec![], 1), "compaction needs I/O");
    assert_eq!(asked(Gfp::TRANSHUGE | Gfp::NORETRY, 9), (1, vec![Async, Async], 0), "effort stays low");
}
