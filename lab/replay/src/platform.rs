//! Platform of a replay: simulated CPUs that run in turns, and memory on which reclaim and compaction can work.
//!
//! Under [`ReclaimMode::Recorded`], the platform's promises do nothing: no page can be reclaimed or moved, and no
//! background task is woken. Under [`ReclaimMode::Model`], the engine can reclaim the pages that the recording shows to
//! be cold and then page cache, and can move every movable page. A bit for each background task that the engine wakes
//! is set; the tasks run between two events.

use std::cell::{Cell, RefCell, RefMut};

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::platform::host::Solo;
use freehold::platform::probe::Compactor;
use freehold::platform::{
    FreePages, Isolation, Migrated, Migration, Platform, Reclaim, Reclaimed, Reclaimer, SplitBlock, Task,
};
use freehold::policy::compaction::gap;

use super::ReclaimMode;
use super::lists::Lists;
use super::memory::Memory;
use super::probe::{Journal, ReplayProbe};
use super::survey::{CompactionCosts, Pace};

/// Cost of work in nanoseconds, measured on the recorded machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// A page that kswapd scans.
    pub(crate) kswapd_page: u64,
    /// A page that direct reclaim scans.
    pub(crate) direct_page: u64,
    /// Costs of compaction by requests.
    pub(crate) compacting: CompactionCosts,
    /// Long wait of each run of compaction by a request.
    pub(crate) compaction_waits: Vec<u64>,
    /// Costs of compaction by kcompactd.
    pub(crate) kcompactd: CompactionCosts,
}

impl Costs {
    /// Returns the costs on the recorded machine.
    pub(crate) fn from_pace(pace: &Pace) -> Costs {
        Costs {
            kswapd_page: pace.kswapd,
            direct_page: pace.direct,
            compacting: pace.compacting,
            compaction_waits: pace.compaction_waits.clone(),
            kcompactd: pace.kcompactd,
        }
    }

    fn of_page(&self, by: Reclaimer) -> u64 {
        match by {
            Reclaimer::Kswapd => self.kswapd_page,
            Reclaimer::Direct => self.direct_page,
        }
    }
}

/// Time that the running fiber has worked since its last payment.
#[derive(Debug)]
pub(crate) struct Meter {
    costs: Costs,
    debt: Cell<u64>,
    /// Frames that compaction had scanned at the last payment, over all zones and tasks.
    scanned: Cell<u64>,
    /// Sleep time of the fiber that just stopped, in nanoseconds.
    sleeps: Cell<u64>,
    /// Number of runs of compaction by requests whose waits were paid.
    waited: Cell<usize>,
    /// Kind of task that compacts, if the running fiber does.
    compactor: Cell<Compactor>,
}

impl Meter {
    fn new(costs: Costs) -> Meter {
        let compactor = Cell::new(Compactor::Direct);
        let [debt, scanned, sleeps] = Default::default();
        Meter { costs, debt, scanned, sleeps, waited: Cell::default(), compactor }
    }

    /// Returns the sleep time of the fiber that just stopped, and resets it.
    pub(crate) fn take_sleep(&self) -> u64 {
        self.sleeps.take()
    }

    /// Sets the kind of task that runs.
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

    /// Returns all owed time, including compaction's scans and waits, and resets it. `runs` is the number of
    /// compactions that requests have ended.
    fn settle(&self, scanned: u64, runs: u64) -> u64 {
        let frames = scanned - self.scanned.replace(scanned);
        let wait = if frames > 0 && self.compactor.get() == Compactor::Direct { self.take_wait(runs) } else { 0 };
        self.debt.take() + frames * self.compacting().scanned_frame + wait
    }

    /// Returns the recorded wait of the run after `runs` others, unless it was paid.
    fn take_wait(&self, runs: u64) -> u64 {
        let current = runs as usize;
        let is_new = self.waited.get() <= current;
        self.waited.set(self.waited.get().max(current + 1));
        self.costs.compaction_waits.get(current).copied().filter(|_| is_new).unwrap_or(0)
    }
}

/// The platform of a replay.
#[derive(Debug)]
pub(crate) struct Stage {
    solo: Solo<ReplayProbe>,
    mode: ReclaimMode,
    lists: Lists,
    memory: RefCell<Memory>,
    /// Nodes whose kswapd (first field) or kcompactd (second field) has work, one bit per node.
    kswapd: Cell<u64>,
    kcompactd: Cell<u64>,
    meter: Meter,
}

impl Stage {
    /// Creates a platform that starts on CPU 0 and on which work has these costs.
    pub(crate) fn new(mode: ReclaimMode, lists: Lists, memory: Memory, costs: Costs) -> Stage {
        Stage {
            solo: Solo::new(ReplayProbe::default()),
            mode,
            lists,
            memory: RefCell::new(memory),
            kswapd: Cell::new(0),
            kcompactd: Cell::new(0),
            meter: Meter::new(costs),
        }
    }

    /// Sets the CPU for the following calls of the engine.
    pub(crate) fn run_on(&self, cpu: CpuId) {
        self.solo.run_on(cpu);
    }

    /// Sets the task for the following calls of the engine.
    pub(crate) fn run_as(&self, task: Task) {
        self.solo.run_as(task);
    }

    /// Returns the allocated memory. The borrow must end before the engine is called.
    pub(crate) fn memory(&self) -> RefMut<'_, Memory> {
        self.memory.borrow_mut()
    }

    /// Returns the nodes whose kswapd was woken, one bit per node.
    pub(crate) fn kswapds(&self) -> &Cell<u64> {
        &self.kswapd
    }

    /// Returns the nodes whose kcompactd was woken, one bit per node.
    pub(crate) fn kcompactds(&self) -> &Cell<u64> {
        &self.kcompactd
    }

    /// Returns the journal of decisions.
    pub(crate) fn journal(&self) -> &Journal {
        &self.solo.probe().journal
    }

    /// Returns the meter of work.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Adds work of the running fiber, in nanoseconds.
    pub(crate) fn owe(&self, ns: u64) {
        self.meter.owe(ns);
    }

    /// Suspends the running fiber for the time that it has worked since its last payment. Code that runs on no fiber
    /// takes no time.
    pub(crate) fn pay(&self) {
        let ReplayProbe { counters, journal } = self.solo.probe();
        let scanned = counters.compact_migrate_scanned.get() + counters.compact_free_scanned.get();
        let ns = self.meter.settle(scanned, counters.compact_stall.get());
        if ns > 0 && freehold_fiber::is_running() {
            let (cpu, task, compactor) = (self.solo.cpu(), self.solo.task(), self.meter.compactor.get());
            self.meter.sleeps.set(ns);
            let events = journal.suspend();
            freehold_fiber::suspend();
            journal.resume(events);
            self.solo.run_on(cpu);
            self.solo.run_as(task);
            self.meter.works_as(compactor);
        }
    }

    /// Reclaims from inactive lists, until the request's goal is met or as many pages as the priority gives were
    /// scanned. Frees the blocks in batches of 32, and pays for each batch.
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

    /// Reclaims from the oldest generation, 64 pages at a time, until the share given by the priority was scanned, the
    /// goal (at least the compaction gap of the order) is reached, the engine has enough, or no page is left. The first
    /// batch is always taken, since the kernel's count also includes pages that no recording shows to be cold. linux:
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
    type Probe = ReplayProbe;

    #[inline]
    fn probe(&self) -> &ReplayProbe {
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

    /// Keeps pages with a mapping in place if the request must not call into a file system. Which pages are under
    /// writeback or locked is not known. linux: mm/compaction.c:isolate_migratepages_block
    fn can_isolate(&self, isolation: &Isolation) -> bool {
        isolation.gfp.contains(Gfp::FS) || !self.memory().has_mapping(isolation.pfn)
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
