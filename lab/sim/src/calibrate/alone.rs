//! Costs of the steps of one CPU, from small scenarios on the real engine.
//!
//! A scenario allocates and frees blocks repeatedly, through the same [`Cpu`] as workloads, including its counting. The
//! first scenario is served by the per-CPU list alone and gives the cost of an allocation and of a free. The other
//! scenarios each emphasise other steps. Their allocations and frees have known costs, the engine's probe counts the
//! other steps, and `fit` derives the costs of these steps from the remaining time.

use fastrand::Rng;
use freehold::PageAllocator;
use freehold::base::{Gfp, Order};
use freehold::stats::Counts;
use freehold_timing::clock::Sample;
use freehold_timing::clock::time;

use super::fit::Bill;
use crate::block::Block;
use crate::cpu::{Cpu, PS_PER_NS};
use crate::error::Error;
use crate::machine::Machine;
use crate::threads::Threads;
use crate::window::Window;
use crate::world::World;

/// Machine of 256 MiB. Its metadata fits into most level-2 caches, as the metadata of a workload's pages usually does.
const MACHINE: Machine = Machine { pages: 1 << 16, nodes: 1 };
/// A window that covers the whole run.
const ALWAYS: Window = Window { begin: 0, end: u64::MAX };
/// Rounds before the timed rounds.
const WARM_UP: u32 = 4;
/// Minimum number of allocations in a sample.
const ALLOCATIONS: u32 = 1 << 14;

/// A loop that allocates a number of blocks and frees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    policy: &'static str,
    order: u8,
    blocks: u32,
    free_order: FreeOrder,
}

/// Order in which blocks are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FreeOrder {
    AsTaken,
    Shuffled,
}

/// Scenario in which the per-CPU list serves all requests. The order of frees is random, so the processor cannot
/// predict it, as in most workloads.
pub(super) const LISTED: Scenario =
    Scenario { policy: "linux-6.12", order: 0, blocks: 512, free_order: FreeOrder::Shuffled };

/// Scenario in which lists hold a quarter of the blocks, so most blocks come from the zone and return to it.
const FILL: Scenario =
    Scenario { policy: "linux-6.12,pcp.high_fraction=64", blocks: 4096, free_order: FreeOrder::AsTaken, ..LISTED };

/// All other scenarios. Each of them emphasises other steps.
pub(super) const SCENARIOS: [Scenario; 13] = [
    FILL,
    Scenario { free_order: FreeOrder::Shuffled, ..FILL },
    Scenario { policy: "linux-6.12,pcp.high_fraction=64,pcp.batch=7", ..FILL },
    Scenario { order: 2, blocks: 1024, free_order: FreeOrder::Shuffled, ..FILL },
    Scenario { policy: "linux-6.12,pcp=off", blocks: 64, free_order: FreeOrder::AsTaken, ..LISTED },
    Scenario { policy: "linux-6.12,pcp=off", blocks: 4096, ..LISTED },
    Scenario { order: 4, blocks: 64, ..LISTED },
    Scenario { order: 10, blocks: 32, ..LISTED },
    Scenario { policy: "linux-6.12,pcp=merge,pcp.high_fraction=64", free_order: FreeOrder::Shuffled, ..FILL },
    Scenario { policy: "linux-6.12,pcp=owned,pcp.high_fraction=64", ..FILL },
    Scenario { policy: "linux-6.12,pcp=owned,pcp.high_fraction=64", free_order: FreeOrder::Shuffled, ..FILL },
    Scenario { policy: "linux-6.12,pcp=owned-remote,pcp.high_fraction=64", ..FILL },
    Scenario { policy: "linux-6.12,pcp=owned-remote,pcp.high_fraction=64", free_order: FreeOrder::Shuffled, ..FILL },
];

/// Time of a scenario, and the number of engine steps in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    /// Time of the allocations.
    pub alloc: Sample,
    /// Time of the frees.
    pub free: Sample,
    /// Steps that the engine took for both.
    counts: Counts,
}

impl Measurement {
    /// Returns the cost that remains for the counted steps, given the costs of an allocation and a free in picoseconds.
    pub(super) fn bill(&self, alloc_ps: f64, free_ps: f64) -> Bill<STEPS> {
        let whole = (self.alloc + self.free).nanoseconds as f64 * PS_PER_NS as f64;
        let known = self.alloc.operations as f64 * alloc_ps + self.free.operations as f64 * free_ps;
        let Counts { zone_lock_acquisitions, zone_lock_links, pcp_split_blocks, pcp_merge_blocks, .. } = self.counts;
        let blocks = self.counts.zone_locked_blocks + self.counts.pcp_drain_blocks;
        let steps = [zone_lock_acquisitions, zone_lock_links, blocks, pcp_split_blocks, pcp_merge_blocks];
        Bill { steps: steps.map(|count| count as f64), cost: whole - known, whole }
    }
}

/// Number of kinds of steps in a bill: zone locks, links, blocks, splits, merges.
pub(super) const STEPS: usize = 5;

/// Returns the picoseconds per operation.
pub(super) fn ps_per_operation(sample: Sample) -> f64 {
    sample.per_operation() * PS_PER_NS as f64
}

impl Scenario {
    /// Measures the scenario once.
    ///
    /// # Errors
    /// Returns an error if its machine cannot be built.
    pub(super) fn measure(&self) -> Result<Measurement, Error> {
        let policy = freehold_policies::parse(self.policy)?.policy;
        let measured = MACHINE.run_released(Threads::new(1, ALWAYS), 1, policy, |allocator| self.measure_on(allocator));
        measured.map_err(|error| Error::Input(format!("cannot build a machine for the calibration: {error}")))
    }

    fn measure_on(&self, allocator: &PageAllocator<'_, Threads>) -> Measurement {
        let world = World::new(1, ALWAYS, 0);
        let mut cpu = Cpu::new(allocator, &world, 0, 1);
        allocator.platform().start(0);
        let mut turns: Vec<u32> = (0..self.blocks).collect();
        if self.free_order == FreeOrder::Shuffled {
            Rng::with_seed(1).shuffle(&mut turns);
        }
        (0..WARM_UP).for_each(|_| {
            self.round(&mut cpu, &turns);
        });
        let before = allocator.platform().counts(0);
        let rounds: Vec<_> = (0..ALLOCATIONS.div_ceil(self.blocks)).map(|_| self.round(&mut cpu, &turns)).collect();
        Measurement {
            alloc: rounds.iter().map(|&(alloc, _)| alloc).sum(),
            free: rounds.iter().map(|&(_, free)| free).sum(),
            counts: allocator.platform().counts(0).since(&before),
        }
    }

    fn round(&self, cpu: &mut Cpu<'_, '_, Threads>, turns: &[u32]) -> (Sample, Sample) {
        let order = Order::new(self.order);
        let mut taken: Vec<Block> = Vec::with_capacity(turns.len());
        let alloc = time(u64::from(self.blocks), || {
            for _ in 0..self.blocks {
                taken.extend(cpu.alloc(Gfp::HIGHUSER_MOVABLE, order));
            }
        });
        assert_eq!(taken.len(), turns.len(), "the machine has too little memory for all blocks");
        let free = time(u64::from(self.blocks), || turns.iter().for_each(|&turn| cpu.free(taken[turn as usize])));
        (alloc, free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_scenario_is_served_by_the_list_alone() {
        let measured = LISTED.measure().unwrap();
        assert_eq!(measured.counts, Counts::default());
        assert!(
            measured.alloc.operations == measured.free.operations
                && measured.alloc.operations >= u64::from(ALLOCATIONS)
        );
    }

    #[test]
    fn every_cost_step_occurs_in_a_scenario() {
        let bills: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.measure().unwrap().bill(0.0, 0.0)).collect();
        for kind in 0..STEPS {
            assert!(bills.iter().any(|bill| bill.steps[kind] > 100.0), "kind {kind}: {bills:?}");
        }
    }
}
