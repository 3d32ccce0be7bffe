//! Calls from inside callbacks: a probe that calls the engine while the engine holds its locks, and promises that call
//! every function of the engine.
//!
//! A probe must not do this. Its call either panics in the lock that it needs, because the host's locks detect
//! recursion, or succeeds if no held lock is in the way. In either case the engine stays in order. Promises are allowed
//! to call the engine.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, Mobility};
use freehold::platform::host::run_on_cpu;
use freehold::platform::{Event, FreePages, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request};
use freehold::policy::{ContigPolicy, PcpPolicy};

use crate::attackers::machine::{Engine, Hooks, Memory, build, range};
use crate::attackers::races::{PCP, config};
use crate::common::panic_hook;

std::thread_local! {
    /// Nesting depth of this thread in hooks.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

type Misdeed = fn(&Engine<'_, '_>, Pfn);

/// Calls made from inside a hook. The frame is that of a page that is, or was, allocated.
const MISDEEDS: [(&str, Misdeed); 16] = [
    ("alloc_pages", |engine, _| _ = engine.alloc_pages(Gfp::KERNEL, Order::ZERO)),
    ("alloc_pages of order 5", |engine, _| _ = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::new(5))),
    ("free_pages", |engine, page| _ = engine.free_pages(page, Order::ZERO)),
    ("put_page", |engine, page| _ = engine.put_page(page)),
    ("get_page", |engine, page| _ = engine.get_page(page)),
    ("free_pages_bulk", |engine, page| _ = engine.free_pages_bulk(&[page, page])),
    ("poison", |engine, page| _ = engine.poison(page)),
    ("drain_all_pages", |engine, _| engine.drain_all_pages()),
    ("decay_pcp", |engine, _| engine.decay_pcp(CpuId(0), engine.zone(NodeId(0), ZoneKind::Normal))),
    ("cpu_dead", |engine, _| engine.cpu_dead(CpuId(0))),
    ("alloc_contig_range", |engine, _| _ = engine.alloc_contig_range(Pfn::new(512)..Pfn::new(600), Gfp::KERNEL)),
    ("offline", |engine, _| _ = engine.offline(Pfn::new(1024)..Pfn::new(2048))),
    ("release", |engine, _| _ = engine.release(Pfn::new(2048), Pfn::new(2100))),
    ("adopt", |engine, _| _ = engine.adopt(Pfn::new(2104), Order::new(3), Mobility::Movable)),
    ("set_up_watermarks", |engine, _| engine.set_up_watermarks(MinFree::Pages(100))),
    ("check", |engine, _| _ = engine.check()),
];

/// Number of misdeeds per run.
const MISDEEDS_MAX: u32 = 80;

/// Hooks that perform their misdeed in every call.
struct Meddler<'e> {
    engine: &'e Engine<'e, 'e>,
    misdeed: Misdeed,
    from_probe: bool,
    page: AtomicU32,
    done: AtomicU32,
}

impl Meddler<'_> {
    fn meddle(&self) {
        if DEPTH.get() > 0 || self.done.load(SeqCst) > MISDEEDS_MAX {
            return;
        }
        DEPTH.set(1);
        self.done.fetch_add(1, SeqCst);
        let page = Pfn::new(self.page.load(SeqCst));
        _ = catch_unwind(AssertUnwindSafe(|| (self.misdeed)(self.engine, page)));
        DEPTH.set(0);
    }
}

impl Hooks for Meddler<'_> {
    fn report(&self, _: Event) {
        if self.from_probe {
            self.meddle();
        }
    }

    fn reclaim(&self, _: &dyn FreePages, _: &Reclaim) -> Reclaimed {
        self.meddle();
        Reclaimed::default()
    }

    fn migrate(&self, _: &Migration) -> Migrated {
        self.meddle();
        Migrated::Refused
    }

    fn out_of_memory(&self, _: &dyn FreePages, _: &Request) -> OutOfMemory {
        self.meddle();
        OutOfMemory::NothingFreed
    }

    fn relax(&self) -> Patience {
        self.meddle();
        Patience::GiveUp
    }
}

/// Calls a little of everything, with one page that the meddler may use.
fn work(engine: &Engine<'_, '_>, meddler: &Meddler<'_>) {
    for order in [0, 0, 2, 5, 10].map(Order::new) {
        let Ok(block) = engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, order) else { continue };
        meddler.page.store(block.raw(), SeqCst);
        let wanted = Pfn::new(100)..Pfn::new(300);
        if engine.alloc_contig_range(wanted.clone(), Gfp::KERNEL).is_ok() {
            _ = engine.free_contig_range(wanted);
        }
        _ = engine.poison(Pfn::new(700 + u32::from(order.get())));
        _ = engine.offline(Pfn::new(2048)..Pfn::new(2560));
        _ = engine.online(&range(ZoneKind::Normal, 0, 2048, 2560), &mut []);
        _ = engine.free_pages(block, order);
        engine.drain_all_pages();
    }
    while engine.alloc_pages(Gfp::NOWAIT, Order::new(3)).is_ok() {}
    _ = engine.alloc_pages(Gfp::KERNEL, Order::ZERO);
    _ = engine.alloc_pages(Gfp::KERNEL, Order::new(5));
}

fn meddle_with(config: &Config<'_>, (name, misdeed): (&str, Misdeed), from_probe: bool) {
    run_on_cpu(CpuId(0));
    let ranges = [range(ZoneKind::Normal, 0, 0, 2560)];
    let mut memory = Memory::new(config, &ranges);
    let (engine, _) = build(config, &ranges, &mut memory);
    let engine = &engine;
    engine.release(Pfn::new(0), Pfn::new(2048)).expect("the frames must be Reserved");
    engine.set_up_watermarks(MinFree::Pages(32));
    let (page, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let meddler = Meddler { engine, misdeed, from_probe, page, done };
    engine.platform().answer_with(&meddler);
    work(engine, &meddler);
    meddler.done.store(u32::MAX, SeqCst);
    engine.check().unwrap_or_else(|violation| {
        panic!("{name}, from the probe: {from_probe}, {:?}: {violation}", config.policy.pcp)
    });
}

#[test]
fn reentrant_calls_keep_the_state_valid() {
    panic_hook::silence(|_| DEPTH.get() != 0);
    for pcp in PCP {
        for misdeed in MISDEEDS {
            for from_probe in [true, false] {
                let config = config(pcp, ContigPolicy::Batched);
                meddle_with(&Config { pageblock_order: Order::new(5), ..config }, misdeed, from_probe);
            }
        }
    }
}

/// Hooks for a race between `offline` and a `release` of frames in the same range that are still Reserved. When
/// `offline` has taken the other frames, the probe waits there until the release has started, or a bounded number of
/// rounds has passed.
struct Waiter<'e> {
    engine: &'e Engine<'e, 'e>,
    armed: AtomicU32,
}

impl Hooks for Waiter<'_> {
    fn report(&self, event: Event) {
        let is_taking = matches!(event, Event::ZoneLockReleased { pages: 512, .. });
        if is_taking && self.armed.swap(0, SeqCst) == 1 {
            self.armed.store(2, SeqCst);
            for _ in 0..2000 {
                if self.engine.state(Pfn::new(600)) != Some(freehold::base::State::Reserved) {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn release_during_offline_keeps_the_state_valid() {
    let config = config(PcpPolicy::Linux, ContigPolicy::Batched);
    let ranges = [range(ZoneKind::Normal, 0, 0, 4096)];
    let mut memory = Memory::new(&config, &ranges);
    let (engine, _) = build(&config, &ranges, &mut memory);
    let engine = &engine;
    engine.release(Pfn::new(1024), Pfn::new(4096)).expect("the frames must be Reserved");
    engine.set_up_watermarks(MinFree::Pages(32));
    let waiter = Waiter { engine, armed: AtomicU32::new(0) };
    engine.platform().answer_with(&waiter);
    for round in 0..if cfg!(miri) { 1 } else { 5 } {
        waiter.armed.store(1, SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..2_000_000).take_while(|_| waiter.armed.load(SeqCst) == 1).for_each(|_| std::thread::yield_now());
                _ = engine.release(Pfn::new(512), Pfn::new(1024));
            });
            _ = engine.offline(Pfn::new(512)..Pfn::new(1536));
            waiter.armed.store(0, SeqCst);
        });
        engine.check().unwrap_or_else(|violation| panic!("round {round}: {violation}"));
        _ = engine.offline(Pfn::new(512)..Pfn::new(1536));
        engine
            .online(&range(ZoneKind::Normal, 0, 512, 1536), &mut [])
            .expect("the range is offline, so it can be onlined");
        engine.release(Pfn::new(1024), Pfn::new(1536)).expect("the frames must be Reserved");
    }
}
