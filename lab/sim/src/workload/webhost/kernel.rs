//! Kernel objects: unmovable slabs, page tables and stacks, and reclaimable inodes and directory entries.
//!
//! Unmovable objects grow to their share of memory. From then on a random one is freed for each that is allocated, so
//! that ages vary widely and no pageblock is emptied systematically. Reclaimable objects are handed to the shrinkers,
//! and grow until these free them.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use super::pace::Meter;
use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::random::occurs;

/// Flags of slabs, page tables and stacks.
const UNMOVABLE: Gfp = Gfp::KERNEL.union(Gfp::COMP);
/// Flags of inodes and directory entries.
const RECLAIMABLE: Gfp = UNMOVABLE.union(Gfp::RECLAIMABLE);

/// Parameters of kernel objects: amount and turnover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kernel {
    /// Unmovable pages per thousand pages of memory.
    pub unmovable_permille: u32,
    /// Unmovable blocks per ten thousand pages turned over.
    pub unmovable_per_10000_pages: u32,
    /// Reclaimable blocks per ten thousand pages turned over.
    pub reclaimable_per_10000_pages: u32,
    /// Percentage of these blocks of order 1 to 3, with equal probability; the others are single pages.
    pub high_order_percent: u32,
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel {
            unmovable_permille: 14,
            unmovable_per_10000_pages: 348,
            reclaimable_per_10000_pages: 18,
            high_order_percent: 2,
        }
    }
}

/// Kernel objects of a CPU.
pub(super) struct Objects {
    /// Maximum number of unmovable pages.
    room: u64,
    /// Current number of unmovable pages.
    pages: u64,
    held: Vec<Block>,
    unmovable: Meter,
    reclaimable: Meter,
}

impl Objects {
    /// Creates the state without objects, with a limit on unmovable pages.
    pub(super) fn new(room: u64) -> Objects {
        Objects { room, pages: 0, held: Vec::new(), unmovable: Meter::default(), reclaimable: Meter::default() }
    }

    /// Allocates the objects that are due, and frees unmovable ones above the limit.
    pub(super) fn step<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, parameters: &Kernel, pages: u64) {
        for _ in 0..self.unmovable.due(pages, parameters.unmovable_per_10000_pages.into(), 10_000) {
            let order = parameters.draw_order(cpu.rng());
            if let Some(block) = cpu.alloc(UNMOVABLE, order) {
                self.pages += u64::from(block.order.pages());
                self.held.push(block);
            }
            self.make_room(cpu);
        }
        for _ in 0..self.reclaimable.due(pages, parameters.reclaimable_per_10000_pages.into(), 10_000) {
            let order = parameters.draw_order(cpu.rng());
            if let Some(block) = cpu.alloc(RECLAIMABLE, order) {
                cpu.shrinkable(block);
            }
        }
    }

    /// Frees all unmovable objects. The reclaimable ones stay with the shrinkers.
    pub(super) fn end<X: Executor>(mut self, cpu: &mut Cpu<'_, '_, X>) {
        cpu.free_all(&mut self.held);
    }

    fn make_room<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        while self.pages > self.room && !self.held.is_empty() {
            let victim = cpu.rng().usize(0..self.held.len());
            let block = self.held.swap_remove(victim);
            self.pages -= u64::from(block.order.pages());
            cpu.free(block);
        }
    }
}

impl Kernel {
    fn draw_order(&self, rng: &mut fastrand::Rng) -> Order {
        if occurs(rng, self.high_order_percent) { Order::new(rng.u8(1..=3)) } else { Order::ZERO }
    }
}
