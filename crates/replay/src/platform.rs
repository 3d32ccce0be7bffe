//! What surrounds the engine in a replay: CPUs that take turns, and memory that reclaim and compaction can work on.
//!
//! Where reclaim is played as recorded, none of it answers: nothing can be reclaimed, nothing moves, nobody wakes. Where it is decided
//! anew, the engine finds pages to reclaim among those that the recording shows to be cold, may move every page
//! that can move, and leaves a note for its background tasks, which run between two events.

use std::cell::{Cell, RefCell, RefMut};

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, NodeId, ZoneKind};
use freehold::platform::host::Solo;
use freehold::platform::{FreePages, Migrated, Migration, Platform, Reclaim, Reclaimed, Task};

use super::memory::Memory;
use super::{Probe, ReclaimMode};

/// The platform of a replay.
#[derive(Debug)]
pub struct Stage {
    solo: Solo<Probe>,
    mode: ReclaimMode,
    memory: RefCell<Memory>,
    /// Nodes whose kswapd has work, a bit each; and whose kcompactd has.
    kswapd: Cell<u64>,
    kcompactd: Cell<u64>,
}

impl Stage {
    /// A platform that begins on CPU 0.
    pub fn new(mode: ReclaimMode, memory: Memory) -> Stage {
        Stage {
            solo: Solo::new(Probe::default()),
            mode,
            memory: RefCell::new(memory),
            kswapd: Cell::new(0),
            kcompactd: Cell::new(0),
        }
    }

    /// What comes next runs on this CPU.
    pub fn run_on(&self, cpu: CpuId) {
        self.solo.run_on(cpu);
    }

    /// What comes next is asked by a task like this.
    pub fn run_as(&self, task: Task) {
        self.solo.run_as(task);
    }

    /// What is allocated. Not to be held while the engine is asked for anything.
    pub fn memory(&self) -> RefMut<'_, Memory> {
        self.memory.borrow_mut()
    }

    /// Nodes whose kswapd was woken, a bit each.
    pub fn kswapds(&self) -> &Cell<u64> {
        &self.kswapd
    }

    /// Nodes whose kcompactd was woken, a bit each.
    pub fn kcompactds(&self) -> &Cell<u64> {
        &self.kcompactd
    }

    fn wake(&self, tasks: &Cell<u64>, node: NodeId) {
        if self.mode == ReclaimMode::Model {
            tasks.set(tasks.get() | 1 << node.0);
        }
    }
}

impl Platform for Stage {
    type Lock = SoloLock;
    type Probe = Probe;

    #[inline]
    fn probe(&self) -> &Probe {
        self.solo.probe()
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        self.solo.cpu()
    }

    #[inline]
    fn task(&self) -> Task {
        self.solo.task()
    }

    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        if self.mode == ReclaimMode::Recorded {
            return Reclaimed::default();
        }
        let found = self.memory().reclaim(wanted);
        for (pfn, order) in found.blocks {
            pages.free_pages(pfn, order);
        }
        Reclaimed { pages: found.pages, scanned: found.scanned }
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let moved = self.mode == ReclaimMode::Model && self.memory().migrate(migration);
        if moved { Migrated::Moved } else { Migrated::Refused }
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        match self.mode {
            ReclaimMode::Model => self.memory().reclaimable(node, zone),
            ReclaimMode::Recorded => 0,
        }
    }

    fn wake_kswapd(&self, node: NodeId) {
        self.wake(&self.kswapd, node);
    }

    fn wake_kcompactd(&self, node: NodeId) {
        self.wake(&self.kcompactd, node);
    }
}
