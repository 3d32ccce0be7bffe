//! `purge`: CPUs allocate pages, and a few CPUs free them in bursts. This models jemalloc and tcmalloc with a
//! background thread that returns unused memory to the kernel.
//!
//! A producer faults in a burst of pages, thinking before each, and sends them to its purger. The purger frees a burst
//! at once and waits for the next. Under Linux's lists the pages move to the lists of the purger, from there to the
//! zone, and back to the producers: every page crosses the zone lock twice. A purger without any other CPU in its group
//! also produces.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;

/// Maximum number of bursts in use for each producer: one that grows, one that is sent, one that is freed, and its
/// share of a full mailbox.
const BURSTS_PER_CPU: u64 = 6;

/// Parameters of `purge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Purge {
    /// Pages of a burst, in percent of the limit (`high`) that per-CPU lists have right after boot.
    pub burst_percent_of_high: u32,
    /// CPUs of a group, including its purger, so at least 2; the last group may be smaller.
    pub cpus_per_purger: u16,
    /// Computing time of a producer before each page, in ns: a fault clears the page, and the program uses it.
    pub think_ns: u64,
    /// Computing time of a purger before each burst, in ns: a system call, and a walk over page tables.
    pub purge_ns: u64,
}

impl Default for Purge {
    fn default() -> Purge {
        Purge { burst_percent_of_high: 100, cpus_per_purger: 8, think_ns: 500, purge_ns: 1000 }
    }
}

impl Purge {
    /// Returns the number of pages of a burst.
    pub fn burst(&self, list_high: u32) -> u32 {
        (u64::from(list_high) * u64::from(self.burst_percent_of_high) / 100).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Returns the maximum number of pages in use at a time.
    pub fn pages_in_use(&self, cpus: u16, list_high: u32) -> u64 {
        u64::from(cpus) * u64::from(self.burst(list_high)) * BURSTS_PER_CPU
    }

    /// Runs the workload on a CPU. The first CPU of each group is the purger.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let purger = cpu.number() / self.cpus_per_purger * self.cpus_per_purger;
        let is_alone = purger + 1 == cpu.cpus();
        if cpu.number() == purger && !is_alone { self.purge(cpu) } else { self.produce(cpu, purger) }
    }

    fn purge<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        while let Some(mut burst) = cpu.receive() {
            cpu.work(self.purge_ns);
            cpu.free_all(&mut burst);
        }
    }

    /// Produces for a purger, which may be this CPU.
    fn produce<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, purger: u16) {
        while !cpu.is_over() {
            let mut burst = self.fault(cpu);
            if purger == cpu.number() {
                cpu.work(self.purge_ns);
                cpu.free_all(&mut burst);
            } else {
                cpu.send(purger, burst);
            }
        }
    }

    fn fault<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) -> Vec<Block> {
        let pages = self.burst(cpu.list_high());
        let mut burst = Vec::with_capacity(pages as usize);
        for _ in 0..pages {
            cpu.work(self.think_ns);
            burst.extend(cpu.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO));
        }
        burst
    }
}
