//! `steady`: every CPU has its own working set, frees random blocks of it and allocates others in their place.
//!
//! No block crosses from one CPU to another, and per-CPU lists serve nearly all requests. A policy that improves other
//! workloads must not regress on this one.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::random::occurs;

/// Largest order of a request.
const ORDER_MAX: Order = Order::COSTLY;

/// Parameters of `steady`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Steady {
    /// Slots for blocks in a CPU's working set; half of them are used on average.
    pub blocks_per_cpu: u32,
    /// Percentage of blocks of order 1 to 3, with equal probability; the others are single pages.
    pub high_order_percent: u32,
    /// Computing time of a CPU between two operations, in ns.
    pub think_ns: u64,
}

impl Default for Steady {
    fn default() -> Steady {
        Steady { blocks_per_cpu: 1024, high_order_percent: 5, think_ns: 200 }
    }
}

impl Steady {
    /// Returns a likely upper bound of the pages in use at a time.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let larger: u32 = Order::new(1).to(ORDER_MAX).map(Order::pages).sum();
        let mean_percent = 100 + self.high_order_percent * larger / u32::from(ORDER_MAX.get());
        u64::from(cpus) * u64::from(self.blocks_per_cpu) * u64::from(mean_percent) / 100
    }

    /// Runs the workload on a CPU.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let mut set: Vec<Option<Block>> = vec![None; self.blocks_per_cpu.max(1) as usize];
        while !cpu.is_over() {
            cpu.work(self.think_ns);
            let slot = cpu.rng().usize(0..set.len());
            match set[slot].take() {
                Some(block) => {
                    expect_next(cpu, &set);
                    cpu.free(block);
                }
                None => set[slot] = self.alloc(cpu, &set),
            }
        }
        set.into_iter().flatten().for_each(|block| cpu.free(block));
    }

    fn alloc<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, set: &[Option<Block>]) -> Option<Block> {
        let (gfp, order) = if occurs(cpu.rng(), self.high_order_percent) {
            (Gfp::KERNEL, Order::new(cpu.rng().u8(1..=ORDER_MAX.get())))
        } else {
            (Gfp::HIGHUSER_MOVABLE, Order::ZERO)
        };
        expect_next(cpu, set);
        cpu.alloc(gfp, order)
    }
}

/// Announces the block of the next operation. No other number may be drawn before that operation.
fn expect_next<X: Executor>(cpu: &mut Cpu<'_, '_, X>, set: &[Option<Block>]) {
    let mut rng = cpu.rng().clone();
    cpu.expect_next(|| &set[rng.usize(0..set.len())]);
}
