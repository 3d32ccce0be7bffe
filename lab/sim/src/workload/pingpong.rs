//! `pingpong`: pairs of CPUs of which one allocates and the other frees, such as the receive path of a network card
//! whose buffers are consumed on another CPU, or a pipe.
//!
//! Every free is remote, and pages move in one direction only: under Linux's lists from the consumer's lists through
//! the zone back to the producer's. A CPU without a partner both allocates and frees.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;

/// Maximum number of parcels in transit for each pair.
const PARCELS_PER_PAIR: u64 = 6;

/// Parameters of `pingpong`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pingpong {
    /// Blocks per parcel.
    pub blocks_per_parcel: u32,
    /// Order of the blocks, 0 to 10.
    pub order: u8,
    /// Computing time of the producer before each block, in ns.
    pub produce_ns: u64,
    /// Computing time of the consumer before each block, in ns.
    pub consume_ns: u64,
}

impl Default for Pingpong {
    fn default() -> Pingpong {
        Pingpong { blocks_per_parcel: 32, order: 0, produce_ns: 200, consume_ns: 200 }
    }
}

impl Pingpong {
    /// Returns the maximum number of pages in use at a time.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let parcel = u64::from(self.blocks_per_parcel.max(1)) << self.order.min(Order::MAX.get());
        u64::from(cpus.div_ceil(2)) * PARCELS_PER_PAIR * parcel
    }

    /// Runs the workload on a CPU. CPUs with even numbers produce for the next CPU, those with odd numbers consume.
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
