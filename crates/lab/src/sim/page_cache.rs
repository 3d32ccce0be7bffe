//! The page cache of a simulated machine: blocks that nobody has, and that reclaim may free, the oldest first.
//!
//! There is one queue a node, as there is one LRU list a node in Linux; a block is in the queue of the node that it lies
//! on. Nothing is ever used again once it is in the cache, so age alone decides, and there are no active lists. The locks
//! of those lists are not simulated: the mutexes here are held for a few steps, never across a wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use freehold::base::NodeId;

use super::NODES_MAX;
use super::cpu::Block;

/// kswapd sleeps.
const ASLEEP: u8 = 0;
/// It was asked to work, and did not begin yet.
const WANTED: u8 = 1;
/// It works.
const AWAKE: u8 = 2;

/// Every node's queue.
#[derive(Debug, Default)]
pub struct PageCache {
    nodes: [Queue; NODES_MAX as usize],
}

/// One node's.
#[derive(Debug, Default)]
struct Queue {
    blocks: Mutex<VecDeque<Block>>,
    pages: AtomicU64,
    /// One of [`ASLEEP`], [`WANTED`] and [`AWAKE`].
    kswapd: AtomicU8,
}

impl PageCache {
    /// Takes a block in.
    pub fn push(&self, node: NodeId, block: Block) {
        let queue = &self.nodes[node.index()];
        queue.pages.fetch_add(u64::from(block.order.pages()), Relaxed);
        queue.open().push_back(block);
    }

    /// Takes the oldest blocks of a node out, until they have so many pages or nothing is left.
    pub fn take_oldest(&self, node: NodeId, pages: u64) -> Vec<Block> {
        let queue = &self.nodes[node.index()];
        let mut blocks = queue.open();
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < pages
            && let Some(block) = blocks.pop_front()
        {
            count += u64::from(block.order.pages());
            taken.push(block);
        }
        queue.pages.fetch_sub(count, Relaxed);
        taken
    }

    /// Pages of a node in the cache.
    pub fn pages(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].pages.load(Relaxed)
    }

    /// Asks for background reclaim of a node.
    pub fn wake_kswapd(&self, node: NodeId) {
        self.nodes[node.index()].change(ASLEEP, WANTED);
    }

    /// Whether somebody asked for it and nobody does it yet; then the caller has to, and to say when it is done.
    pub fn begins_kswapd(&self, node: NodeId) -> bool {
        self.nodes[node.index()].change(WANTED, AWAKE)
    }

    /// It is done.
    pub fn ends_kswapd(&self, node: NodeId) {
        self.nodes[node.index()].change(AWAKE, ASLEEP);
    }
}

impl Queue {
    /// Brings kswapd from one state into another; says whether it was in the first.
    fn change(&self, from: u8, to: u8) -> bool {
        // A look first: most calls change nothing.
        self.kswapd.load(Relaxed) == from && self.kswapd.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    /// A queue is whole whatever happened to a CPU that had it open.
    fn open(&self) -> MutexGuard<'_, VecDeque<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::{Order, Pfn};

    use super::*;

    fn block(pfn: u32, order: u8) -> Block {
        Block { pfn: Pfn::new(pfn), order: Order::new(order), from: 0 }
    }

    #[test]
    fn the_oldest_goes_first_and_nodes_stay_apart() {
        let (cache, near, far) = (PageCache::default(), NodeId(0), NodeId(1));
        for pfn in [0, 4, 8] {
            cache.push(near, block(pfn, 2));
        }
        cache.push(far, block(64, 0));
        let taken: Vec<u32> = cache.take_oldest(near, 5).iter().map(|block| block.pfn.raw()).collect();
        assert_eq!((taken, cache.pages(near), cache.pages(far)), (vec![0, 4], 4, 1));
        assert_eq!(cache.take_oldest(near, 100).len(), 1);
        assert!(cache.take_oldest(near, 1).is_empty());
    }

    #[test]
    fn kswapd_is_begun_once_by_whoever_looks_first() {
        let cache = PageCache::default();
        assert!(!cache.begins_kswapd(NodeId(0)));
        cache.wake_kswapd(NodeId(0));
        cache.wake_kswapd(NodeId(0));
        assert!(cache.begins_kswapd(NodeId(0)) && !cache.begins_kswapd(NodeId(0)));
        cache.wake_kswapd(NodeId(0));
        assert!(!cache.begins_kswapd(NodeId(0)), "it is awake already");
        cache.ends_kswapd(NodeId(0));
        cache.wake_kswapd(NodeId(0));
        assert!(cache.begins_kswapd(NodeId(0)));
    }
}
