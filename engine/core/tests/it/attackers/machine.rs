//! Machines under attack. Their locks are real, and detect a thread that takes a lock twice or against the lock order.
//! The attacker determines every answer of the platform. Metadata is laid out by hand. All of it is safe code.

use core::mem::MaybeUninit;
use std::sync::OnceLock;

use freehold::base::{CpuId, NodeId, Pfn, ZoneKind};
use freehold::page::{Config, PageAllocator, Range};
use freehold::platform::host::{CheckedSpinLock, current_cpu};
use freehold::platform::{
    Event, FreePages, Migrated, Migration, OutOfMemory, Patience, Platform, Probe, Reclaim, Reclaimed, Request, Task,
};

/// The attacker's implementation of the platform's promises. Each default does what the default of the platform trait
/// does.
pub(super) trait Hooks: Sync {
    /// See [`Probe::report`].
    fn report(&self, _event: Event) {}
    /// See [`Platform::cpu`].
    fn cpu(&self) -> CpuId {
        current_cpu()
    }
    /// See [`Platform::task`].
    fn task(&self) -> Task {
        Task::default()
    }
    /// See [`Platform::reclaim`].
    fn reclaim(&self, _pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        Reclaimed::default()
    }
    /// See [`Platform::migrate`].
    fn migrate(&self, _migration: &Migration) -> Migrated {
        Migrated::Refused
    }
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

struct Calm;

impl Hooks for Calm {}

/// Platform of real threads, each of which sets its CPU number. It forwards to the attacker's hooks once they are set.
#[derive(Default)]
pub(super) struct Host<'h> {
    hooks: OnceLock<&'h dyn Hooks>,
}

impl<'h> Host<'h> {
    /// Installs the hooks that answer from now on.
    pub(super) fn answer_with(&self, hooks: &'h dyn Hooks) {
        assert!(self.hooks.set(hooks).is_ok(), "the hooks must be set only once");
    }

    fn hooks(&self) -> &dyn Hooks {
        self.hooks.get().copied().unwrap_or(&Calm)
    }
}

impl Probe for Host<'_> {
    fn report(&self, event: Event) {
        self.hooks().report(event);
    }
}

impl<'h> Platform for Host<'h> {
    type Lock = CheckedSpinLock;
    type Probe = Host<'h>;

    fn probe(&self) -> &Host<'h> {
        self
    }

    fn cpu(&self) -> CpuId {
        self.hooks().cpu()
    }

    fn task(&self) -> Task {
        self.hooks().task()
    }

    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        self.hooks().reclaim(pages, wanted)
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        self.hooks().migrate(migration)
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

pub(super) type Engine<'m, 'h> = PageAllocator<'m, Host<'h>>;

/// Metadata bytes, with room to align them.
pub(super) type Bytes = Box<[MaybeUninit<u8>]>;

/// Bytes of a machine's metadata; they must outlive the machine.
pub(super) struct Memory {
    fixed: Bytes,
    ranges: Vec<Bytes>,
    /// Metadata bytes for attacks that pass their own.
    pub spare: Vec<Bytes>,
}

/// Allocates the bytes of a layout, and room to align them.
fn allocate_room(layout: core::alloc::Layout) -> Bytes {
    Box::new_uninit_slice(layout.size() + layout.align())
}

impl Memory {
    /// Allocates enough metadata for a machine with these ranges.
    pub(super) fn new(config: &Config<'_>, ranges: &[Range]) -> Memory {
        let layouts = ranges.iter().map(|range| config.online_layout(&(range.start..range.end)));
        Memory {
            fixed: allocate_room(config.metadata_layout::<Host<'_>>()),
            ranges: layouts.map(allocate_room).collect(),
            spare: Vec::new(),
        }
    }
}

/// Returns the range of frames `[start, end)` in a zone of a node.
pub(super) fn range(kind: ZoneKind, node: u8, start: u32, end: u32) -> Range {
    Range { start: Pfn::new(start), end: Pfn::new(end), node: NodeId(node), kind }
}

/// Builds a machine whose ranges are online and whose frames are all still Reserved. Returns the machine and the spare
/// bytes.
pub(super) fn build<'m, 'h>(
    config: &Config<'_>,
    ranges: &[Range],
    memory: &'m mut Memory,
) -> (Engine<'m, 'h>, core::slice::IterMut<'m, Bytes>) {
    let engine =
        PageAllocator::new(Host::default(), config, &mut memory.fixed).expect("the configuration must be valid");
    for (range, metadata) in ranges.iter().zip(&mut memory.ranges) {
        engine.online(range, metadata).expect("the memory range must be valid");
    }
    (engine, memory.spare.iter_mut())
}

/// Runs `run` on a machine with one zone of `frames` frames from frame 0 on, all of them free, and a minimum of 64 free
/// pages.
pub(super) fn with_frames<'h, R>(config: &Config<'_>, frames: u32, run: impl FnOnce(&Engine<'_, 'h>) -> R) -> R {
    let ranges = [range(ZoneKind::Normal, 0, 0, frames)];
    let mut memory = Memory::new(config, &ranges);
    let (engine, _) = build(config, &ranges, &mut memory);
    engine.release(Pfn::new(0), Pfn::new(frames)).expect("the frames must be Reserved");
    engine.set_up_watermarks(freehold::page::MinFree::Pages(64));
    run(&engine)
}
