//! Reclaim on a simulated machine: the page cache gives way when memory runs short.
//!
//! A request that finds no zone above its watermark frees the oldest pages of the cache itself, on its own CPU, 32 at a
//! time, of the preferred node first (direct reclaim). Before it comes to that, the engine asks for kswapd: a CPU of the
//! node that is about to do something else than allocate works as kswapd first, until every zone of the node is above
//! its high watermark or the node's cache is empty. So kswapd costs the tasks their time, as on a machine where all CPUs
//! are busy; it has no CPU of its own.
//!
//! Left out: compaction (the engine is told that it was skipped), writing back, swapping, and killing tasks. A request
//! that reclaim cannot help fails, and is counted.
//!
//! linux: mm/vmscan.c:try_to_free_pages, balance_pgdat

use std::iter;

use freehold::PageAllocator;
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Zone, ZoneFlag};
use freehold::platform::Request;
use freehold::policy::flags::AllocFlags;

use super::cpu::Block;
use super::executor::{Executor, Step};
use super::world::World;

/// Pages that reclaim frees before it looks again. linux: include/linux/swap.h:SWAP_CLUSTER_MAX
const CLUSTER: u64 = 32;

/// The machine's memory management: an allocator, and the page cache that it can fall back on.
#[derive(Clone, Copy)]
pub struct Memory<'a, 'm, X: Executor> {
    allocator: &'a PageAllocator<'m, X>,
    world: &'a World,
}

impl<'a, 'm, X: Executor> Memory<'a, 'm, X> {
    /// The memory of this machine.
    pub fn new(allocator: &'a PageAllocator<'m, X>, world: &'a World) -> Memory<'a, 'm, X> {
        Memory { allocator, world }
    }

    /// Frees the oldest pages for a request that found too little; says how many.
    pub fn reclaim(&self, request: &Request) -> u64 {
        let others = self.nodes().filter(|&node| node != request.node);
        let allowed = if request.gfp.contains(Gfp::THISNODE) { 0 } else { usize::MAX };
        let nodes = iter::once(request.node).chain(others.take(allowed));
        nodes.fold(0, |freed, node| match CLUSTER.checked_sub(freed) {
            Some(missing @ 1..) => freed + self.shrink(node, missing),
            _ => freed,
        })
    }

    /// Works as kswapd for a node, if somebody asked for that.
    pub fn work_as_kswapd(&self, node: NodeId) {
        if !self.world.cache.begins_kswapd(node) {
            return;
        }
        let boosts: Vec<u64> = self.zones(node).map(Zone::boost).collect();
        self.zones(node).for_each(|zone| zone.set(ZoneFlag::ReclaimActive));
        while !self.is_balanced(node) && self.shrink(node, CLUSTER) > 0 {}
        for (zone, boost) in self.zones(node).zip(boosts) {
            zone.clear(ZoneFlag::ReclaimActive);
            zone.lower_boost(boost);
        }
        self.world.cache.ends_kswapd(node);
    }

    /// The node on which a frame lies.
    pub fn node_at(&self, pfn: Pfn) -> NodeId {
        self.allocator.zones()[usize::from(self.allocator.map().pageblock(pfn).zone())].node()
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<X> {
        (0..self.allocator.nodes()).map(NodeId)
    }

    fn zones(&self, node: NodeId) -> impl Iterator<Item = &'m Zone<X::Lock>> + use<'m, X> {
        self.allocator.zones().iter().filter(move |zone| zone.node() == node && zone.is_populated())
    }

    /// Whether kswapd may rest: single pages are there above all high marks. Larger blocks would be up to compaction.
    fn is_balanced(&self, node: NodeId) -> bool {
        self.zones(node).all(|zone| {
            let mark = zone.watermarks().high + zone.boost();
            zone.watermark_ok(Order::ZERO, mark, ZoneKind::Movable, AllocFlags::empty())
        })
    }

    /// Frees the oldest pages of a node's cache; says how many.
    fn shrink(&self, node: NodeId, pages: u64) -> u64 {
        let executor = self.allocator.platform();
        executor.take_turn();
        let blocks = self.world.cache.take_oldest(node, pages);
        self.free(&blocks);
        blocks.iter().map(|block| u64::from(block.order.pages())).sum()
    }

    /// Single pages go back in one batch. linux: mm/vmscan.c:shrink_folio_list
    fn free(&self, blocks: &[Block]) {
        let executor = self.allocator.platform();
        let mut singles: Vec<Pfn> = Vec::with_capacity(blocks.len());
        for block in blocks {
            executor.charge(Step::Reclaim);
            executor.touch(block.pfn);
            executor.charge(Step::Free);
            if block.order == Order::ZERO {
                singles.push(block.pfn);
            } else {
                let freed = self.allocator.free_pages(block.pfn, block.order);
                freed.unwrap_or_else(|error| panic!("the page cache does not have what it reclaims: {error}"));
            }
        }
        let freed = self.allocator.free_pages_bulk(&singles);
        freed.unwrap_or_else(|error| panic!("the page cache does not have what it reclaims: {error}"));
    }
}
