//! Loom's threads as CPUs: the platform on which lock-free protocols run under every order of steps.

use std::alloc::Layout;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Once};

use freehold::base::fault::{Fault, plant};
use freehold::base::lock::{Rank, RawLock};
use freehold::base::{CpuId, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PageAllocator, Range};
use freehold::platform::{NoProbe, Platform};
use freehold::policy::Policy;
use loom::sync::atomic::{AtomicBool, Ordering};

loom::thread_local! {
    /// CPU that a thread represents.
    pub static CPU: Cell<u16> = Cell::new(0);
}

/// Platform of loom's threads, each of which represents a CPU.
#[derive(Debug, Default)]
pub struct Loom;

/// A lock that lets another thread run while it is held.
#[derive(Debug)]
pub struct Lock(AtomicBool);

// SAFETY: the exchange with Acquire admits one caller until the store with Release.
unsafe impl RawLock for Lock {
    fn new() -> Lock {
        Lock(AtomicBool::new(false))
    }

    fn lock(&self, rank: Rank) {
        while !self.try_lock(rank) {
            loom::thread::yield_now();
        }
    }

    fn try_lock(&self, _rank: Rank) -> bool {
        // A failed swap would also write, and loom does not order that write with the store that releases the lock.
        self.0.compare_exchange(false, true, Ordering::Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _rank: Rank) {
        self.0.store(false, Ordering::Release);
    }
}

impl Platform for Loom {
    type Lock = Lock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.with(Cell::get))
    }
}

/// Number of frames of a machine.
pub const FRAMES: u32 = 64;

/// Page allocator of a machine.
pub type Engine = PageAllocator<'static, Loom>;

/// Creates a machine that is never freed, since loom's threads have no scope that bounds their lifetime.
pub fn engine(policy: Policy, cpu_nodes: &[NodeId]) -> &'static Engine {
    let config = Config {
        cpu_nodes,
        distances: &[],
        nodes: 1,
        first: Pfn::new(0),
        end: Pfn::new(FRAMES),
        page_size: 4096,
        pageblock_order: Order::new(3),
        cache_slice: 512,
        policy,
    };
    let range = Range { start: Pfn::new(0), end: Pfn::new(FRAMES), node: NodeId(0), kind: ZoneKind::Normal };
    let engine = PageAllocator::new(Loom, &config, bytes(config.metadata_layout::<Loom>())).expect("it is valid");
    engine.online(&range, bytes(engine.online_layout(&range))).expect("it is valid");
    engine.release(range.start, range.end).expect("it is online");
    engine.set_up_watermarks(MinFree::Pages(2));
    Box::leak(Box::new(engine))
}

/// Allocates bytes for metadata that are never freed.
pub fn bytes(layout: Layout) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(Box::new_uninit_slice(layout.size() + layout.align()))
}

/// Runs a scene in every order of steps with at most `preemptions` preemptions, or in `most` of them; returns their
/// number.
#[track_caller]
pub fn in_every_order(preemptions: usize, most: usize, scene: impl Fn() + Send + Sync + 'static) -> usize {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.max_permutations = Some(most);
    // Loom checks its limit only when it would write a checkpoint.
    model.checkpoint_interval = most;
    let orders = Arc::new(AtomicUsize::new(0));
    let counter = orders.clone();
    model.check(move || {
        counter.fetch_add(1, Relaxed);
        scene();
    });
    orders.load(Relaxed)
}

thread_local! {
    /// Whether a panic on this thread is expected by the test.
    static IS_PANIC_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Checks the harness: with one step of a protocol done wrong, the scene that depends on this step must fail.
#[track_caller]
pub fn finds(fault: Fault, scene: impl FnOnce() + panic::UnwindSafe) {
    hush_wanted_panics();
    IS_PANIC_WANTED.set(true);
    plant(Some(fault));
    let outcome = panic::catch_unwind(scene);
    plant(None);
    IS_PANIC_WANTED.set(false);
    assert!(outcome.is_err(), "{fault:?} was not found");
}

/// Suppresses the output of expected panics: loom's threads have 32 KiB of stack, too little for a backtrace.
fn hush_wanted_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_PANIC_WANTED.get() {
                hook(info);
            }
        }));
    });
}
