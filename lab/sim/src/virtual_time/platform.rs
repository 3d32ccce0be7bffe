//! Virtual time as the engine's platform and as an executor of workloads.
//!
//! The memory model implements the platform's reclaim and migration. It runs in the fiber of the CPU that requests
//! them. It takes locks and spends time like any other code, and frees pages through the handle that is part of the
//! request.

use freehold::base::{CpuId, NodeId, Pfn, ZoneKind};
use freehold::platform::{FreePages, Isolation, Migrated, Migration, Platform, Reclaim, Reclaimed};
use freehold::stats::Counts;

use super::account::Account;
use super::clock::{self, Purpose};
use super::lock::VirtualLock;
use crate::costs::Costs;
use crate::executor::{Executor, Step};
use crate::machine::Machine;
use crate::memory::{Model, shrink};
use crate::outcome::Times;
use crate::task::Task;
use crate::window::Window;

/// The platform of one run.
pub struct VirtualTime {
    account: Account,
    model: Model,
    machine: Machine,
    cpus: u16,
}

impl VirtualTime {
    /// Creates a platform for a run of `cpus` CPUs that is over at the end of its window. Uses the thread's clock, so
    /// there is at most one run at a time on each thread.
    pub fn new(machine: &Machine, cpus: u16, costs: &Costs, window: Window, model: Model) -> VirtualTime {
        let of_cpus = (0..cpus).map(|cpu| machine.node_of(cpu, cpus));
        let tasks = (0..Task::count(machine.nodes)).map(|number| Task::from_number(number, machine.nodes).node());
        let nodes: Vec<NodeId> = of_cpus.chain(tasks).collect();
        clock::with_clock(|clock| clock.reset(cpus, &nodes, window, costs));
        let zones = usize::from(machine.nodes) * ZoneKind::COUNT;
        VirtualTime { account: Account::new(costs, machine.pages, cpus, zones), model, machine: *machine, cpus }
    }

    /// Returns the CPU time in the window, by activity; complete once every CPU has ended.
    pub fn times(&self) -> Times {
        clock::with_clock(|clock| clock.times())
    }

    /// Returns the counters of the engine so far.
    pub fn counts(&self) -> Counts {
        self.account.counters().counts()
    }

    /// Returns the model of the memory above the allocator.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Waits like [`wait`](Executor::wait), until this time at most.
    pub fn wait_until(&self, picoseconds: u64) {
        clock::with_clock(|clock| clock.sleep_until(picoseconds));
    }

    fn wake_task(&self, task: Task) {
        clock::with_clock(|clock| {
            if !clock.is_observed() {
                clock.wake(self.cpus + task.number(self.machine.nodes));
            }
        });
    }
}

impl Platform for VirtualTime {
    type Lock = VirtualLock;
    type Probe = Account;

    #[inline]
    fn probe(&self) -> &Account {
        &self.account
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        let number = clock::with_clock(|clock| clock.cpu());
        match number.checked_sub(self.cpus) {
            None => CpuId(number),
            // The observer frees leftover blocks after a run, as CPU 0.
            Some(_) if clock::with_clock(|clock| clock.is_observed()) => CpuId(0),
            Some(task) => {
                CpuId(self.machine.last_cpu_of(Task::from_number(task, self.machine.nodes).node(), self.cpus))
            }
        }
    }

    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        shrink::shrink_node(self, &self.model, pages, wanted)
    }

    fn can_isolate(&self, isolation: &Isolation) -> bool {
        self.model.can_isolate(isolation)
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let migrated = self.model.migrate(migration, self.now());
        if migrated == Migrated::Moved {
            self.touch(migration.from);
            self.touch(migration.to);
            self.charge_times(Step::Migrate, u64::from(migration.order.pages()));
        }
        migrated
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        if zone == ZoneKind::Normal { self.model.reclaimable(node) } else { 0 }
    }

    fn wake_kswapd(&self, node: NodeId) {
        self.wake_task(Task::Kswapd(node));
    }

    fn wake_kcompactd(&self, node: NodeId) {
        self.wake_task(Task::Kcompactd(node));
    }
}

impl Executor for VirtualTime {
    fn now(&self) -> u64 {
        clock::with_clock(|clock| clock.now())
    }

    fn is_over(&self) -> bool {
        clock::with_clock(|clock| clock.now() >= clock.end())
    }

    fn work(&self, picoseconds: u64) {
        clock::with_clock(|clock| clock.spend(picoseconds, Purpose::Work));
    }

    fn wait(&self) {
        self.wait_until(u64::MAX);
    }

    fn wake(&self, cpu: CpuId) {
        clock::with_clock(|clock| clock.wake(cpu.0));
    }

    fn take_turn(&self) {
        clock::with_clock(|clock| clock.take_turn());
    }

    fn touch(&self, pfn: Pfn) {
        clock::with_clock(|clock| self.account.touch(clock, pfn, Purpose::Operation));
    }

    #[inline]
    fn expect<'v, T: 'v>(&self, find: impl FnOnce() -> &'v T) {
        freehold_fiber::note(find());
    }

    fn charge_times(&self, step: Step, times: u64) {
        let costs = self.account.costs();
        let (price, purpose) = match step {
            Step::Alloc => (costs.alloc_ps, Purpose::Operation),
            Step::Free => (costs.free_ps, Purpose::Operation),
            Step::Parcel => (costs.parcel_ps, Purpose::Work),
            Step::Reclaim => (costs.reclaim_ps, Purpose::Reclaim),
            Step::Scan => (costs.scan_ps, Purpose::Reclaim),
            Step::Migrate => (costs.migrate_ps, Purpose::Reclaim),
        };
        clock::with_clock(|clock| clock.spend(price * times, purpose));
    }

    fn stopwatch(&self) -> Option<u64> {
        Some(self.now())
    }

    fn memory(&self) -> Option<&Model> {
        Some(&self.model)
    }
}
