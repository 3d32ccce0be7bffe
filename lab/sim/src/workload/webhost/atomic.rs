//! Atomic requests in bursts: packets arrive together, and what they need is there at once or not at all.
//!
//! What such a request gets is not kept long: a socket is read, an extent is written. Nobody waits for memory here, so
//! a request that fails is lost, as a packet would be; it is counted. The kernel's slabs would try once more with the
//! smallest order that holds an object, so some that are lost here are served there.
//!
//! linux: mm/slub.c:allocate_slab, with the flags that net/core/skbuff.c and fs/btrfs/extent-io-tree.c give it

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use super::pace::Runs;
use crate::block::Block;
use crate::cpu::{Cpu, PS_PER_NS};
use crate::executor::Executor;
use crate::random::LogUniform;

/// A slab that is wanted at once. linux: mm/slub.c:allocate_slab
const SLAB: Gfp = Gfp::ATOMIC.union(Gfp::NOWARN).union(Gfp::NORETRY).union(Gfp::COMP);
/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// Who asks for memory at once, how often, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Atomic {
    /// Requests in ten thousand pages turned over.
    pub per_10000_pages: u32,
    /// Requests that come together.
    pub burst: LogUniform,
    /// Of a hundred requests, so many are of order 1.
    pub order1_percent: u32,
    /// So many are of order 2.
    pub order2_percent: u32,
    /// So many are of order 3; the rest is of order 0.
    pub order3_percent: u32,
    /// How long a block is kept, in ms; longer if the next step comes later.
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
    /// Of a hundred requests, so many are above order 0.
    pub fn larger_percent(&self) -> u32 {
        [self.order1_percent, self.order2_percent, self.order3_percent].into_iter().fold(0, u32::saturating_add)
    }

    /// Pages of the largest burst.
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

/// What a CPU has of it.
pub(super) struct Bursts {
    runs: Runs,
    /// What is in use, and until when.
    held: Vec<(u64, Block)>,
}

impl Bursts {
    /// Nothing yet.
    pub(super) fn new(parameters: &Atomic, rng: &mut fastrand::Rng) -> Bursts {
        Bursts { runs: Runs::new(&parameters.burst, rng), held: Vec::new() }
    }

    /// Gives back what is no longer used; asks for more, if a burst has come together.
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

    /// Gives everything back.
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
    fn orders_come_as_often_as_they_should() {
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
    fn shares_that_are_too_large_do_not_overflow() {
        let parameters = Atomic { order1_percent: u32::MAX, order3_percent: 1, ..Atomic::default() };
        assert_eq!(parameters.larger_percent(), u32::MAX);
    }
}
