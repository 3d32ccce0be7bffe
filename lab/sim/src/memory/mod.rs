//! Memory of a simulated machine above the page allocator: the owner of each page, and the pages that can be reclaimed.
//!
//! ```text
//! parameters  a workload's parameters of memory: huge pages, pins, dirty pages
//! frames      twelve bytes for each frame: its owner, and its neighbours in a list
//! lists       a node's lists: page cache, inactive and active, and pages under writeback
//! cache       the page cache: pages are read, are used again, become dirty
//! shrink      reclaim, one scan of a node: `Platform::reclaim`
//! slabs       kernel objects that shrinkers free: a block is freed with its last object
//! anonymous   memory of tasks: ranges the size of a huge page, faulted page by page or at once
//! pins        pages that a device uses for a while: they cannot be moved
//! migrate     moving a page together with its owner's record: `Platform::migrate`
//! khugepaged  makes huge pages of small ones, periodically
//! inherited   memory that is in use when a run begins
//! on_cpu      operations that a workload calls: read, use again, map, fault, unmap
//! ```
//!
//! All state is in cells of one thread, and no function here waits while it holds a borrow. Code that spends time or
//! takes locks first removes its pages from the records, so code that runs in between finds the records consistent. A
//! frame takes twelve bytes, and a range with small pages of a task takes 2 KiB more.
//!
//! Not modelled, beside what each file lists: the locks of these lists; swap, so tasks' pages are never reclaimed and
//! their lists are only counts; control groups; files mapped into tasks; reference bits of page tables; refaults (a
//! page that is read again after reclaim counts as new); the multi-generational LRU; the OOM killer, so a request that
//! cannot be satisfied fails, and the failure is counted.
//!
//! # Design
//!
//! Every plan uses this one model. A fleet is the same model many times: each host is drawn once and is simulated under
//! each policy, so a host is compared with itself.

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
    /// Pages of a node: whole pageblocks, equally many on each node. Frames of the machine beyond these are in no zone.
    pages_per_node: u32,
    ranges: Ranges,
    pins: Pins,
    counters: Counters,
    /// Memory of tasks that started before the run and that no workload has taken over.
    inherited: RefCell<Vec<Mapping>>,
    /// Random generator that selects the objects that a shrinker frees, and the inherited ranges for which huge pages
    /// were requested.
    rng: RefCell<fastrand::Rng>,
}

/// Lists and slabs of one node.
#[derive(Default)]
struct Node {
    lists: Lists,
    /// Completion times of all blocks under writeback, earliest first.
    written: RefCell<VecDeque<u64>>,
    slabs: Slabs,
}

impl Model {
    /// Creates the memory of a machine in which no page has an owner. Takes 12 bytes per frame.
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

    /// Returns the parameters of huge pages.
    pub fn thp(&self) -> &Thp {
        &self.parameters.thp
    }

    /// Returns the number of pages of a node's page cache, including those under writeback. Kernel objects do not
    /// count. linux: mm/vmscan.c:zone_reclaimable_pages
    pub fn reclaimable(&self, node: NodeId) -> u64 {
        self.node(node).lists.pages()
    }

    /// Returns gauges and counters under the kernel's names.
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

    /// Counts a high-priority request above order 0 that cannot wait.
    pub fn count_atomic(&self, order: Order) {
        let Counters { atomic_costly, atomic_order1_3, .. } = &self.counters;
        let counter = if order > Order::COSTLY { atomic_costly } else { atomic_order1_3 };
        counter.add(1);
    }

    /// Counts the failure of such a request.
    pub fn count_atomic_failure(&self, order: Order) {
        let Counters { atomic_costly_failed, atomic_order1_3_failed, .. } = &self.counters;
        let failed = if order > Order::COSTLY { atomic_costly_failed } else { atomic_order1_3_failed };
        failed.add(1);
    }

    /// Removes all blocks from the records and passes each of them to `gone`, as when the machine is switched off.
    /// Takes a step for each frame.
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

    /// Returns the node of a frame.
    fn node_at(&self, pfn: Pfn) -> &Node {
        match &*self.nodes {
            [only] => only,
            nodes => &nodes[(pfn.raw() / self.pages_per_node).min(nodes.len() as u32 - 1) as usize],
        }
    }
}
