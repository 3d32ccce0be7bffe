//! Parts that the engine's tests share: a platform whose answers a test determines, and functions that build machines.

pub(crate) mod holders;
pub(crate) mod locks;
pub(crate) mod owners;
pub(crate) mod panic_hook;
pub(crate) mod picture;
pub(crate) mod random_events;
pub(crate) mod shrink;

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, NodeId, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PageAllocator, Range};
use freehold::platform::{
    Event, FreePages, Isolation, Migrated, Migration, OutOfMemory, Patience, Platform, Probe, Reclaim, Reclaimed,
    Request, SplitBlock, Task,
};
use freehold::stats::{Counters, Counts};

/// Returns the number of repetitions of a random test: `usual` times the number in the variable `TEST_FACTOR`, if it is
/// set.
pub(crate) fn repetitions(usual: u64) -> u64 {
    usual * test_factor()
}

/// Returns whether tests try every case instead of a sample, which they do if `TEST_FACTOR` is above 1.
pub(crate) fn is_exhaustive() -> bool {
    test_factor() > 1
}

fn test_factor() -> u64 {
    std::env::var("TEST_FACTOR").map_or(1, |factor| factor.parse().expect("TEST_FACTOR is a number"))
}

/// Joins all threads. ThreadSanitizer sees the join of a thread, but not the implicit wait at the end of a scope.
pub(crate) fn join_all(threads: Vec<ScopedJoinHandle<'_, ()>>) {
    let ends: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
}

/// A test's implementation of the platform's promises.
pub(crate) trait Hooks {
    /// See [`Platform::reclaim`].
    fn reclaim(&self, _pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        Reclaimed::default()
    }
    /// See [`Platform::can_isolate`].
    fn can_isolate(&self, _isolation: &Isolation) -> bool {
        true
    }
    /// See [`Platform::migrate`].
    fn migrate(&self, _migration: &Migration) -> Migrated {
        Migrated::Refused
    }
    /// See [`Platform::split`].
    fn split(&self, _block: &dyn SplitBlock) {}
    /// See [`Platform::reclaimable`].
    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        0
    }
    /// See [`Platform::out_of_memory`].
    fn out_of_memory(&self, _pages: &dyn FreePages, _request: &Request) -> OutOfMemory {
        OutOfMemory::NothingFreed
    }
    /// See [`Platform::wake_kswapd`].
    fn wake_kswapd(&self, _node: NodeId) {}
    /// See [`Platform::wake_kcompactd`].
    fn wake_kcompactd(&self, _node: NodeId) {}
    /// See [`Platform::relax`].
    fn relax(&self) -> Patience {
        Patience::GiveUp
    }
}

/// Platform of a single thread that plays any number of CPUs; a test provides its answers.
#[derive(Default)]
pub(crate) struct Host<'h> {
    cpu: Cell<u16>,
    task: Cell<Task>,
    hooks: Cell<Option<&'h dyn Hooks>>,
    pub events: Events,
}

impl<'h> Host<'h> {
    /// Sets the CPU on which the following calls run.
    pub(crate) fn run_on(&self, cpu: u16) {
        self.cpu.set(cpu);
    }

    /// Sets the task that makes the following calls.
    pub(crate) fn run_as(&self, task: Task) {
        self.task.set(task);
    }

    /// Installs the hooks that answer from now on.
    pub(crate) fn answer_with(&self, hooks: &'h dyn Hooks) {
        self.hooks.set(Some(hooks));
    }
}

struct NoHooks;

impl Hooks for NoHooks {}

impl Host<'_> {
    fn hooks(&self) -> &dyn Hooks {
        self.hooks.get().unwrap_or(&NoHooks)
    }
}

impl Platform for Host<'_> {
    type Lock = SoloLock;
    type Probe = Events;

    fn probe(&self) -> &Events {
        &self.events
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }

    fn task(&self) -> Task {
        self.task.get()
    }

    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        self.hooks().reclaim(pages, wanted)
    }

    fn can_isolate(&self, isolation: &Isolation) -> bool {
        self.hooks().can_isolate(isolation)
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        self.hooks().migrate(migration)
    }

    fn split(&self, block: &dyn SplitBlock) {
        self.hooks().split(block);
    }

    fn migrates(&self) -> bool {
        self.hooks.get().is_some()
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        self.hooks().reclaimable(node, zone)
    }

    fn out_of_memory(&self, pages: &dyn FreePages, request: &Request) -> OutOfMemory {
        self.hooks().out_of_memory(pages, request)
    }

    fn wake_kswapd(&self, node: NodeId) {
        self.hooks().wake_kswapd(node);
    }

    fn wake_kcompactd(&self, node: NodeId) {
        self.hooks().wake_kcompactd(node);
    }

    fn relax(&self) -> Patience {
        self.hooks().relax()
    }
}

/// Probe that counts events, and keeps them after the first call of [`Events::take`].
#[derive(Default)]
pub(crate) struct Events {
    counters: Counters<Cell<u64>>,
    kept: RefCell<Option<Vec<Event>>>,
}

impl Probe for Events {
    fn report(&self, event: Event) {
        self.counters.report(event);
        if let Some(kept) = &mut *self.kept.borrow_mut() {
            kept.push(event);
        }
    }
}

impl Events {
    /// Returns the events kept so far, and keeps events from now on.
    pub(crate) fn take(&self) -> Vec<Event> {
        self.kept.borrow_mut().replace(Vec::new()).unwrap_or_default()
    }

    /// Returns the counts of all events.
    pub(crate) fn counts(&self) -> Counts {
        self.counters.counts()
    }
}

/// Allocates enough bytes to place the layout at any address.
fn bytes_for(layout: Layout) -> Box<[MaybeUninit<u8>]> {
    Box::new_uninit_slice(layout.size() + layout.align())
}

/// Bytes of a machine's metadata.
pub(crate) struct Memory {
    fixed: Box<[MaybeUninit<u8>]>,
    ranges: Vec<Box<[MaybeUninit<u8>]>>,
}

impl Memory {
    /// Allocates enough metadata for a machine.
    pub(crate) fn new(config: &Config<'_>, ranges: &[Range]) -> Memory {
        Memory::on::<Host<'_>>(config, ranges)
    }

    /// Allocates enough metadata for a machine on another platform.
    pub(crate) fn on<P: Platform>(config: &Config<'_>, ranges: &[Range]) -> Memory {
        let ranges = ranges.iter().map(|range| bytes_for(config.online_layout(&(range.start..range.end))));
        Memory { fixed: bytes_for(config.metadata_layout::<P>()), ranges: ranges.collect() }
    }
}

/// Builds a machine whose ranges are online and whose frames are all still Reserved.
pub(crate) fn build<'m, 'h>(
    config: &Config<'_>,
    ranges: &[Range],
    memory: &'m mut Memory,
) -> PageAllocator<'m, Host<'h>> {
    build_on(Host::default(), config, ranges, memory)
}

/// Like [`build`], on another platform.
pub(crate) fn build_on<'m, P: Platform>(
    platform: P,
    config: &Config<'_>,
    ranges: &[Range],
    memory: &'m mut Memory,
) -> PageAllocator<'m, P> {
    let allocator = PageAllocator::new(platform, config, &mut memory.fixed).expect("the configuration must be valid");
    for (range, metadata) in ranges.iter().zip(&mut memory.ranges) {
        allocator.online(range, metadata).expect("the memory range must be valid");
    }
    allocator
}

/// Returns the range of frames `[start, end)` in a zone of a node.
pub(crate) fn range(kind: ZoneKind, node: u8, start: u32, end: u32) -> Range {
    Range { start: Pfn::new(start), end: Pfn::new(end), node: NodeId(node), kind }
}

/// Runs `run` on CPU 0 of a machine whose memory is released and whose watermarks are set up.
pub(crate) fn with_machine<'h, R>(
    config: &Config<'_>,
    ranges: &[Range],
    min_free: MinFree,
    run: impl FnOnce(&PageAllocator<'_, Host<'h>>) -> R,
) -> R {
    let mut memory = Memory::new(config, ranges);
    run(&build_released(config, ranges, min_free, &mut memory))
}

/// Builds the machine of [`with_machine`]. This is a separate function because its caller is generic and is compiled
/// once for each scene.
fn build_released<'m, 'h>(
    config: &Config<'_>,
    ranges: &[Range],
    min_free: MinFree,
    memory: &'m mut Memory,
) -> PageAllocator<'m, Host<'h>> {
    let allocator = build(config, ranges, memory);
    for range in ranges {
        allocator.release(range.start, range.end).expect("the range is online");
    }
    allocator.set_up_watermarks(min_free);
    allocator
}
