//! What surrounds the engine in a replay: CPUs that take turns, and memory that reclaim and compaction can work on.
//!
//! Where reclaim is played as recorded, none of it answers: nothing can be reclaimed, nothing moves, nobody wakes.
//! Where it is decided anew, the engine finds pages to reclaim among those that the recording shows to be cold, may
//! move every page that can move, and leaves a note for its background tasks, which run between two events.

use std::cell::{Cell, RefCell, RefMut};

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, NodeId, Order, Pfn, ZoneKind};
use freehold::platform::host::Solo;
use freehold::platform::probe::Compactor;
use freehold::platform::{FreePages, Migrated, Migration, Platform, Reclaim, Reclaimed, Reclaimer, SplitBlock, Task};
use freehold::policy::compaction::gap;

use super::lists::Lists;
use super::memory::Memory;
use super::survey::{CompactionCosts, Pace};
use super::{Probe, ReclaimMode};

/// What work takes, in nanoseconds: facts of the recorded machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// A page that kswapd looks at.
    pub(crate) kswapd_page: u64,
    /// A page that a request looks at.
    pub(crate) direct_page: u64,
    /// What compaction by requests takes.
    pub(crate) compacting: CompactionCosts,
    /// What kcompactd takes.
    pub(crate) kcompactd: CompactionCosts,
}

impl Costs {
    /// What the recorded machine took.
    pub(crate) fn from_pace(pace: &Pace) -> Costs {
        Costs {
            kswapd_page: pace.kswapd,
            direct_page: pace.direct,
            compacting: pace.compacting,
            kcompactd: pace.kcompactd,
        }
    }

    fn of_page(self, by: Reclaimer) -> u64 {
        match by {
            Reclaimer::Kswapd => self.kswapd_page,
            Reclaimer::Direct => self.direct_page,
        }
    }
}

/// What the work of the fiber that runs has come to, since it last paid.
#[derive(Debug)]
pub(crate) struct Meter {
    costs: Costs,
    debt: Cell<u64>,
    /// Frames that compaction had looked at by then, of all zones and tasks.
    scanned: Cell<u64>,
    /// For how long the fiber that just stopped wants to sleep.
    sleeps: Cell<u64>,
    /// Whose compaction it is, if the fiber that runs compacts.
    compactor: Cell<Compactor>,
}

impl Meter {
    fn new(costs: Costs) -> Meter {
        let compactor = Cell::new(Compactor::Direct);
        Meter { costs, debt: Cell::default(), scanned: Cell::default(), sleeps: Cell::default(), compactor }
    }

    /// For how long the fiber that just stopped sleeps.
    pub(crate) fn take_sleep(&self) -> u64 {
        self.sleeps.take()
    }

    /// Says who works now.
    pub(crate) fn works_as(&self, compactor: Compactor) {
        self.compactor.set(compactor);
    }

    fn compacting(&self) -> CompactionCosts {
        match self.compactor.get() {
            Compactor::Direct => self.costs.compacting,
            Compactor::Kcompactd => self.costs.kcompactd,
        }
    }

    fn owe(&self, ns: u64) {
        self.debt.set(self.debt.get() + ns);
    }

    /// All that is owed, compaction's scans among it.
    fn settle(&self, scanned: u64) -> u64 {
        let frames = scanned - self.scanned.replace(scanned);
        self.debt.take() + frames * self.compacting().scanned_frame
    }
}

/// The platform of a replay.
#[derive(Debug)]
pub(crate) struct Stage {
    solo: Solo<Probe>,
    mode: ReclaimMode,
    lists: Lists,
    memory: RefCell<Memory>,
    /// Nodes whose kswapd has work, a bit each; and whose kcompactd has.
    kswapd: Cell<u64>,
    kcompactd: Cell<u64>,
    meter: Meter,
}

impl Stage {
    /// A platform that begins on CPU 0, and on which work costs this.
    pub(crate) fn new(mode: ReclaimMode, lists: Lists, memory: Memory, costs: Costs) -> Stage {
        Stage {
            solo: Solo::new(Probe::default()),
            mode,
            lists,
            memory: RefCell::new(memory),
            kswapd: Cell::new(0),
            kcompactd: Cell::new(0),
            meter: Meter::new(costs),
        }
    }

    /// What comes next runs on this CPU.
    pub(crate) fn run_on(&self, cpu: CpuId) {
        self.solo.run_on(cpu);
    }

    /// What comes next is asked by a task like this.
    pub(crate) fn run_as(&self, task: Task) {
        self.solo.run_as(task);
    }

    /// What is allocated. Not to be held while the engine is asked for anything.
    pub(crate) fn memory(&self) -> RefMut<'_, Memory> {
        self.memory.borrow_mut()
    }

    /// Nodes whose kswapd was woken, a bit each.
    pub(crate) fn kswapds(&self) -> &Cell<u64> {
        &self.kswapd
    }

    /// Nodes whose kcompactd was woken, a bit each.
    pub(crate) fn kcompactds(&self) -> &Cell<u64> {
        &self.kcompactd
    }

    /// What work costs, and how much of it is not paid for.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The fiber that runs has worked for so long.
    pub(crate) fn owe(&self, ns: u64) {
        self.meter.owe(ns);
    }

    /// Lets the time pass that the fiber which runs has worked for: it goes on when that is over. Whoever runs on no
    /// fiber takes no time.
    pub(crate) fn pay(&self) {
        let probe = self.solo.probe();
        let ns = self.meter.settle(probe.compact_migrate_scanned.get() + probe.compact_free_scanned.get());
        if ns > 0 && freehold_fiber::is_running() {
            let (cpu, task, compactor) = (self.solo.cpu(), self.solo.task(), self.meter.compactor.get());
            self.meter.sleeps.set(ns);
            freehold_fiber::suspend();
            self.solo.run_on(cpu);
            self.solo.run_as(task);
            self.meter.works_as(compactor);
        }
    }

    /// Reclaims from inactive lists: as much as the priority says, 32 blocks at a time.
    fn take_in_batches(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let found = self.memory().reclaim(wanted);
        let batches = (found.blocks.len() as u64).div_ceil(Reclaim::CLUSTER).max(1);
        let ns = found.scanned * self.meter.costs.of_page(wanted.by);
        if found.blocks.is_empty() {
            self.meter.owe(ns);
            self.pay();
        }
        for batch in found.blocks.chunks(Reclaim::CLUSTER as usize) {
            batch.iter().for_each(|&(pfn, order)| self.give_back(pages, pfn, order));
            self.meter.owe(ns / batches);
            self.pay();
        }
        Reclaimed { pages: found.pages, scanned: found.scanned }
    }

    /// Reclaims from the oldest generation: 64 pages at a time (at least once: the kernel counts pages that nobody
    /// knows to be cold, too), until the part that the priority says was looked at, or there is enough. linux:
    /// mm/vmscan.c:try_to_shrink_lruvec
    fn evict(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let (to_scan, goal) = (self.memory().pages_to_scan(wanted), wanted.goal.max(gap(wanted.order)));
        let mut sum = Reclaimed::default();
        loop {
            let found = self.memory().reclaim_some(&Reclaim { goal: Reclaim::GENERATION_BATCH, ..*wanted }, u64::MAX);
            found.blocks.iter().for_each(|&(pfn, order)| self.give_back(pages, pfn, order));
            self.meter.owe(found.scanned * self.meter.costs.of_page(wanted.by));
            self.pay();
            sum.pages += found.pages;
            sum.scanned += found.scanned;
            if found.pages == 0 || sum.scanned >= to_scan || sum.pages >= goal || pages.has_enough() {
                return sum;
            }
        }
    }

    fn give_back(&self, pages: &dyn FreePages, pfn: Pfn, order: Order) {
        self.memory().identity.touched().touch(pfn.raw(), order.pages());
        pages.free_pages(pfn, order);
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
        match self.lists {
            Lists::Inactive => self.take_in_batches(pages, wanted),
            Lists::Generations => self.evict(pages, wanted),
        }
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let moved = self.mode == ReclaimMode::Model && self.memory().migrate(migration);
        if moved {
            self.meter.owe(u64::from(migration.order.pages()) * self.meter.compacting().moved_page);
        }
        if moved { Migrated::Moved } else { Migrated::Refused }
    }

    fn lru_gen_enabled(&self) -> bool {
        self.lists == Lists::Generations
    }

    fn cond_resched(&self) {
        self.pay();
    }

    fn split(&self, block: &dyn SplitBlock) {
        if self.mode == ReclaimMode::Model && self.memory().split(block.pfn(), block.order()) {
            block.split();
        }
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
