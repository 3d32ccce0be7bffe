//! Virtual time as the engine's platform and as an executor of workloads.
//!
//! Reclaim frees pages through the allocator that asks for it, on which a platform has no hand. So it asks the scheduler,
//! which lets other code run on this CPU meanwhile: the CPU's fiber stays where it is, and a second one on top of it
//! frees pages, takes locks and spends time like any other code.

use std::cell::Cell;
use std::sync::Arc;

use freehold::base::{CpuId, NodeId, Pfn, ZoneKind};
use freehold::platform::{FreePages, Platform, Reclaim, Reclaimed, Request};
use freehold::stats::Counts;

use super::account::Account;
use super::clock::{self, Purpose};
use super::lock::VirtualLock;
use crate::sim::costs::Costs;
use crate::sim::executor::{Executor, Step};
use crate::sim::machine::Machine;
use crate::sim::measure::outcome::Times;
use crate::sim::page_cache::PageCache;
use crate::sim::world::Window;

/// The platform of one run.
pub struct VirtualTime {
    account: Account,
    cache: Arc<PageCache>,
    /// What each CPU asks of the scheduler, and what came of it.
    reclaims: Vec<Asked>,
}

/// A CPU's reclaim.
#[derive(Default)]
struct Asked {
    asked: Cell<Option<Request>>,
    freed: Cell<u64>,
}

impl VirtualTime {
    /// A platform for a run of so many CPUs that is over when its window is. Takes the thread's clock: at most one run at
    /// a time on each thread.
    pub fn new(machine: &Machine, cpus: u16, costs: &Costs, window: Window, cache: Arc<PageCache>) -> VirtualTime {
        let nodes: Vec<NodeId> = (0..cpus).map(|cpu| machine.node_of(cpu, cpus)).collect();
        clock::with(|clock| clock.reset(&nodes, window, costs));
        let zones = usize::from(machine.nodes) * ZoneKind::COUNT;
        VirtualTime {
            account: Account::new(costs, machine.pages, cpus, zones),
            cache,
            reclaims: nodes.iter().map(|_| Asked::default()).collect(),
        }
    }

    /// What CPU time was spent on in the window: all of it once every CPU has ended.
    pub fn times(&self) -> Times {
        clock::with(|clock| clock.times())
    }

    /// What the engine did so far.
    pub fn counts(&self) -> Counts {
        self.account.counters().counts()
    }

    /// What a CPU wants reclaimed, once.
    pub(super) fn asked(&self, cpu: u16) -> Option<Request> {
        self.reclaims[usize::from(cpu)].asked.take()
    }

    /// Says how many pages that freed.
    pub(super) fn answer(&self, cpu: u16, pages: u64) {
        self.reclaims[usize::from(cpu)].freed.set(pages);
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
        // The observer frees what is left after a run, as CPU 0.
        clock::with(|clock| CpuId(if clock.is_observed() { 0 } else { clock.cpu() }))
    }

    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let mut freed = 0;
        for block in self.cache.take_oldest(wanted.node, wanted.goal) {
            self.charge(Step::Reclaim);
            self.touch(block.pfn);
            self.charge(Step::Free);
            pages.free_pages(block.pfn, block.order);
            freed += u64::from(block.order.pages());
        }
        Reclaimed { pages: freed, scanned: freed }
    }

    fn reclaimable(&self, node: NodeId, _zone: ZoneKind) -> u64 {
        self.cache.pages(node)
    }

    fn wake_kswapd(&self, node: NodeId) {
        self.cache.wake_kswapd(node);
    }
}

impl Executor for VirtualTime {
    fn now(&self) -> u64 {
        clock::with(|clock| clock.now())
    }

    fn is_over(&self) -> bool {
        clock::with(|clock| clock.now() >= clock.end())
    }

    fn work(&self, picoseconds: u64) {
        clock::with(|clock| clock.spend(picoseconds, Purpose::Work));
    }

    fn wait(&self) {
        clock::with(|clock| clock.sleep());
    }

    fn wake(&self, cpu: CpuId) {
        clock::with(|clock| clock.wake(cpu.0));
    }

    fn take_turn(&self) {
        clock::with(|clock| clock.take_turn());
    }

    fn touch(&self, pfn: Pfn) {
        clock::with(|clock| self.account.touch(clock, pfn, Purpose::Operation));
    }

    fn charge(&self, step: Step) {
        let costs = self.account.costs();
        let (price, purpose) = match step {
            Step::Alloc => (costs.alloc_ps, Purpose::Operation),
            Step::Free => (costs.free_ps, Purpose::Operation),
            Step::Parcel => (costs.parcel_ps, Purpose::Work),
            Step::Reclaim => (costs.reclaim_ps, Purpose::Reclaim),
        };
        clock::with(|clock| clock.spend(price, purpose));
    }

    fn stopwatch(&self) -> Option<u64> {
        Some(self.now())
    }
}
