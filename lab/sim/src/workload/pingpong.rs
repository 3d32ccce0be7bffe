//! `pingpong`: pairs of CPUs, of which one allocates and the other frees: a network card's receive path whose buffers
//! are consumed elsewhere, or a pipe.
//!
//! Every free is remote, and pages flow one way only: under Linux's lists from the consumer's lists through the zone
//! back to the producer's. A CPU without a partner allocates and frees by itself.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;

/// Parcels that may be under way for each pair.
const PARCELS_PER_PAIR: u64 = 6;

/// What `pingpong` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pingpong {
    /// Blocks that are handed over at a time.
    pub blocks_per_parcel: u32,
    /// Order of the blocks, 0 to 10.
    pub order: u8,
    /// What the producer computes before each block, in ns.
    pub produce_ns: u64,
    /// What the consumer computes before each block, in ns.
    pub consume_ns: u64,
}

impl Default for Pingpong {
    fn default() -> Pingpong {
        Pingpong { blocks_per_parcel: 32, order: 0, produce_ns: 200, consume_ns: 200 }
    }
}

impl Pingpong {
    /// Pages in use at a time, at most.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let parcel = u64::from(self.blocks_per_parcel.max(1)) << self.order.min(Order::MAX.get());
        u64::from(cpus.div_ceil(2)) * PARCELS_PER_PAIR * parcel
    }

    /// What every CPU does: even ones produce for the next, odd ones consume.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let partner = cpu.number() ^ 1;
        if cpu.number() % 2 == 1 {
            return self.consume(cpu);
        }
        while !cpu.is_over() {
            let parcel = self.produce(cpu);
            if partner < cpu.cpus() {
                cpu.send(partner, parcel);
            } else {
                self.free(cpu, parcel);
            }
        }
    }

    fn produce<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) -> Vec<Block> {
        let order = Order::from_u8(self.order).unwrap_or(Order::MAX);
        let mut parcel = Vec::with_capacity(self.blocks_per_parcel as usize);
        for _ in 0..self.blocks_per_parcel.max(1) {
            cpu.work(self.produce_ns);
            parcel.extend(cpu.alloc(Gfp::KERNEL, order));
        }
        parcel
    }

    fn consume<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        while let Some(parcel) = cpu.receive() {
            self.free(cpu, parcel);
        }
    }

    fn free<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, parcel: Vec<Block>) {
        for block in parcel {
            cpu.work(self.consume_ns);
            cpu.free(block);
        }
    }
}
