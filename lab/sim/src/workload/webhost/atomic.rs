//! Atomic requests in bursts: packets arrive together, and a request is served at once or fails.
//!
//! Blocks are kept for a short time: a socket is read, an extent is written. These requests never wait for memory, so a
//! failed request is lost, like a packet, and is counted. The kernel's slab would try once more with the smallest order
//! that holds an object, so some requests that fail here succeed there.
//!
//! linux: mm/slub.c:allocate_slab, with the flags that net/core/skbuff.c and fs/btrfs/extent-io-tree.c give it

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use super::pace::Runs;
use crate::block::Block;
use crate::cpu::{Cpu, PS_PER_NS};
use crate::executor::Executor;
use crate::random::LogUniform;

/// Flags of an atomic request for a slab. linux: mm/slub.c:allocate_slab
const SLAB: Gfp = Gfp::ATOMIC.union(Gfp::NOWARN).union(Gfp::NORETRY).union(Gfp::COMP);
/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// Parameters of atomic requests: frequency, orders and lifetimes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Atomic {
    /// Requests per ten thousand pages turned over.
    pub per_10000_pages: u32,
    /// Requests per burst.
    pub burst: LogUniform,
    /// Percentage of requests of order 1.
    pub order1_percent: u32,
    /// Percentage of requests of order 2.
    pub order2_percent: u32,
    /// Percentage of requests of order 3; the rest is of order 0.
    pub order3_percent: u32,
    /// Lifetime of a block, in ms; longer if the next step is later.
    pub lifetime_ms: LogUniform,
}

impl Default for Atomic {
    fn default() -> Atomic {
        Atomic {
            per_10000_pages: 25,
            burst: LogUniform::new(1, 16),
            order1_percent: 4,
            order2_percent: 0,
            order3_percent: 50,
            lifetime_ms: LogUniform::new(138, 337),
        }
    }
}

impl Atomic {
    /// Returns the percentage of requests above order 0.
    pub fn larger_percent(&self) -> u32 {
        [self.order1_percent, self.order2_percent, self.order3_percent].into_iter().fold(0, u32::saturating_add)
    }

    /// Returns the maximum number of pages of a burst.
    pub fn pages_at_once(&self) -> u64 {
        u64::from(self.burst.most) * u64::from(Order::COSTLY.pages())
    }

    fn draw_order(&self, rng: &mut fastrand::Rng) -> Order {
        let drawn = rng.u32(0..100);
        let from_two = self.order2_percent + self.order3_percent;
        Order::new(match drawn {
            drawn if drawn < self.order3_percent => 3,
            drawn if drawn < from_two => 2,
            drawn if drawn < from_two + self.order1_percent => 1,
            _ => 0,
        })
    }
}

/// State of atomic requests on a CPU.
pub(super) struct Bursts {
    runs: Runs,
    /// Blocks in use, with the end of their lifetime.
    held: Vec<(u64, Block)>,
}

impl Bursts {
    /// Creates the state without any block.
    pub(super) fn new(parameters: &Atomic, rng: &mut fastrand::Rng) -> Bursts {
        Bursts { runs: Runs::new(&parameters.burst, rng), held: Vec::new() }
    }

    /// Frees blocks whose lifetime has ended, and makes requests if a burst is due.
    pub(super) fn step<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, parameters: &Atomic, pages: u64) {
        let now = cpu.now();
        while let Some(done) = self.held.iter().position(|&(until, _)| until <= now) {
            cpu.free(self.held.swap_remove(done).1);
        }
        self.runs.pass(pages, parameters.per_10000_pages.into(), 10_000);
        while let Some(burst) = self.runs.next(&parameters.burst, cpu.rng()) {
            (0..burst).for_each(|_| self.alloc_block(cpu, parameters));
        }
    }

    /// Frees all blocks.
    pub(super) fn end<X: Executor>(self, cpu: &mut Cpu<'_, '_, X>) {
        self.held.into_iter().for_each(|(_, block)| cpu.free(block));
    }

    fn alloc_block<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, parameters: &Atomic) {
        let order = parameters.draw_order(cpu.rng());
        let lifetime = u64::from(parameters.lifetime_ms.draw(cpu.rng())) * NS_PER_MS * PS_PER_NS;
        self.held.extend(cpu.alloc(SLAB, order).map(|block| (cpu.now() + lifetime, block)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_orders_match_their_percentages() {
        let parameters = Atomic { order1_percent: 30, order2_percent: 20, order3_percent: 10, ..Atomic::default() };
        let mut rng = fastrand::Rng::with_seed(5);
        let mut counts = [0; 4];
        for _ in 0..10_000 {
            counts[usize::from(parameters.draw_order(&mut rng).get())] += 1;
        }
        for (count, percent) in counts.into_iter().zip([40_i32, 30, 20, 10]) {
            assert!((count - percent * 100).abs() < 200, "{counts:?}");
        }
    }

    #[test]
    fn oversized_percentages_do_not_overflow() {
        let parameters = Atomic { order1_percent: u32::MAX, order3_percent: 1, ..Atomic::default() };
        assert_eq!(parameters.larger_percent(), u32::MAX);
    }
}
