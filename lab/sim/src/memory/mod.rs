//! The memory of a simulated machine, above the page allocator: who has which page, and who could do without it.
//!
//! ```text
//! parameters  what a workload says about its memory: huge pages, pins, dirty pages
//! frames      twelve bytes a frame: its owner, and its neighbours in a list
//! lists       a node's lists: page cache, inactive and active, and what is being written
//! cache       the page cache: pages come in, are used again, become dirty
//! shrink      reclaim, one look at a node: `Platform::reclaim`
//! slabs       kernel objects that shrinkers give up: a block goes back when its last object has gone
//! anonymous   the memory of tasks: ranges the size of a huge page, faulted page by page or at once
//! pins        pages that a device uses for a while: they cannot be moved
//! migrate     a page moves, and its owner's record with it: `Platform::migrate`
//! khugepaged  makes huge pages of small ones, now and then
//! inherited   what is there when a run begins
//! on_cpu      what a workload calls: read, use again, map, fault, unmap
//! ```
//!
//! Everything is a cell of one thread, and nothing here waits: code that takes time or locks first takes out of the
//! records what it is about, so whoever comes in between finds them whole. A page takes no memory beyond its twelve
//! bytes, but for 4 bytes a page of a task.
//!
//! What is left out, beside what each file says: the locks of these lists; swap, so tasks' pages are never reclaimed
//! and their lists are counts; control groups; files mapped into tasks; reference bits of page tables; pages that come
//! back after they were reclaimed (they are new, and nothing is learnt from it); the multi-generational LRU; ends of
//! tasks for lack of memory, so a request that nothing can help fails, and is counted.

mod anonymous;
mod cache;
mod counters;
mod frames;
mod inherited;
pub(crate) mod khugepaged;
mod lists;
mod migrate;
mod on_cpu;
mod parameters;
mod pins;
pub(crate) mod shrink;
mod slabs;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::VecDeque;

use freehold::base::{NodeId, Order, Pfn};

pub(crate) use anonymous::{FaultOutcome, Mapping};
pub(crate) use inherited::FileActivity;
pub(crate) use parameters::{Advice, Defrag, Parameters, Thp};

use super::machine::Machine;
use super::outcome::vmstat::Row;
use anonymous::Ranges;
use counters::Counters;
use frames::{Frames, List};
use lists::Lists;
use pins::Pins;
use slabs::Slabs;

/// The memory of one run.
pub struct Model {
    parameters: Parameters,
    frames: Frames,
    nodes: Box<[Node]>,
    /// Pages of a node: all have as many, the last one perhaps more.
    pages_per_node: u32,
    ranges: Ranges,
    pins: Pins,
    counters: Counters,
    /// The memory of tasks that ran before the run began, and that no workload has taken over.
    inherited: RefCell<Vec<Mapping>>,
    /// What decides which objects a shrinker gives up.
    rng: RefCell<fastrand::Rng>,
}

/// What lies on one node.
#[derive(Default)]
struct Node {
    lists: Lists,
    /// When each block that is being written is done, the next one first.
    written: RefCell<VecDeque<u64>>,
    slabs: Slabs,
}

impl Model {
    /// The memory of a machine where nobody has anything yet. Takes 12 bytes a frame.
    pub fn new(machine: &Machine, parameters: &Parameters, seed: u64) -> Model {
        Model {
            parameters: parameters.clone(),
            frames: Frames::new(machine.pages),
            nodes: (0..machine.nodes).map(|_| Node::default()).collect(),
            pages_per_node: machine.pages_per_node(),
            ranges: Ranges::default(),
            pins: Pins::default(),
            counters: Counters::default(),
            inherited: RefCell::default(),
            rng: RefCell::new(fastrand::Rng::with_seed(seed ^ 0x6d65_6d6f_7279)),
        }
    }

    /// How huge pages come about.
    pub fn thp(&self) -> &Thp {
        &self.parameters.thp
    }

    /// Pages of a node that reclaim could free. linux: mm/vmscan.c:zone_reclaimable_pages
    pub fn reclaimable(&self, node: NodeId) -> u64 {
        self.node(node).lists.pages()
    }

    /// What is there now, and what was counted, under the kernel's names.
    pub fn vmstat(&self) -> impl Iterator<Item = Row> {
        let [inactive, active, writeback] =
            List::ALL.map(|list| self.nodes.iter().map(|node| node.lists.pages_of(list)).sum());
        let gauges = [
            ("nr_inactive_anon", self.ranges.pages()),
            ("nr_active_anon", 0),
            ("nr_inactive_file", inactive),
            ("nr_active_file", active),
            ("nr_writeback", writeback),
            ("nr_slab_reclaimable", self.nodes.iter().map(|node| node.slabs.pages()).sum()),
            ("nr_anon_transparent_hugepages", self.ranges.huge()),
            ("nr_pinned", self.pins.count()),
        ];
        gauges.into_iter().chain(self.counters.rows())
    }

    /// Counts a request of high priority that cannot wait, above order 0.
    pub fn count_atomic(&self, order: Order) {
        let Counters { atomic_costly, atomic_order1_3, .. } = &self.counters;
        let counter = if order > Order::COSTLY { atomic_costly } else { atomic_order1_3 };
        counter.add(1);
    }

    /// Counts that such a request got nothing.
    pub fn count_atomic_failure(&self, order: Order) {
        let Counters { atomic_costly_failed, atomic_order1_3_failed, .. } = &self.counters;
        let failed = if order > Order::COSTLY { atomic_costly_failed } else { atomic_order1_3_failed };
        failed.add(1);
    }

    /// Takes everything out of the records, block by block, as when the machine is switched off. Cost: a step a frame.
    pub fn clear(&self, mut gone: impl FnMut(Pfn, Order)) {
        self.ranges.clear(|pfn, order| {
            self.frames.disown(pfn);
            gone(pfn, order);
        });
        for pfn in self.frames.iter() {
            let owner = self.frames.owner(pfn);
            if let Some(order) = owner.order() {
                self.frames.disown(pfn);
                gone(pfn, order);
            }
        }
    }

    fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// The node on which a frame lies.
    fn node_at(&self, pfn: Pfn) -> &Node {
        match &*self.nodes {
            [only] => only,
            nodes => &nodes[(pfn.raw() / self.pages_per_node).min(nodes.len() as u32 - 1) as usize],
        }
    }
}
