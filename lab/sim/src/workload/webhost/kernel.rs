//! Kernel objects: slabs, page tables and stacks that cannot move, inodes and directory entries that shrinkers take
//! back.
//!
//! What cannot move grows to its share of memory; from then on one goes, by chance, whenever one comes, so that ages
//! differ widely and no pageblock is emptied on purpose. What can be reclaimed is handed to the shrinkers, and grows
//! until they take it.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use super::pace::Meter;
use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::random::occurs;

/// Slabs, page tables, stacks.
const UNMOVABLE: Gfp = Gfp::KERNEL.union(Gfp::COMP);
/// Inodes, directory entries.
const RECLAIMABLE: Gfp = UNMOVABLE.union(Gfp::RECLAIMABLE);

/// How much of it there is, and how fast it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kernel {
    /// Of a thousand pages of memory, so many hold what cannot move.
    pub unmovable_permille: u32,
    /// Blocks that cannot move, in ten thousand pages turned over.
    pub unmovable_per_10000_pages: u32,
    /// Blocks that can be reclaimed, in ten thousand pages turned over.
    pub reclaimable_per_10000_pages: u32,
    /// Of a hundred of these blocks, so many are of an order from 1 to 3, each alike; the others are single pages.
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

/// What a CPU asked for.
pub(super) struct Objects {
    /// Pages that may be held.
    room: u64,
    /// Pages that are.
    pages: u64,
    held: Vec<Block>,
    unmovable: Meter,
    reclaimable: Meter,
}

impl Objects {
    /// Nothing yet, and room for so many pages that cannot move.
    pub(super) fn new(room: u64) -> Objects {
        Objects { room, pages: 0, held: Vec::new(), unmovable: Meter::default(), reclaimable: Meter::default() }
    }

    /// Objects come, and others go.
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

    /// Gives everything back.
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
