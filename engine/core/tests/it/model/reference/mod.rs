//! A second, deliberately simple allocator: the rules of the pinned kernel, implemented with queues and maps.
//!
//! It shares only names with the engine (orders, types, flags). It takes every decision by a literal reading of the
//! rule, and finds things by searching. It predicts the exact frame of every allocation and the exact order of every
//! list. Where the engine and the reference differ, one of them implements a rule incorrectly.
//!
//! `zone` has the buddy system and the fallbacks, `lists` the per-CPU lists, `owned` and `remote_frees` the pageblocks
//! that CPUs own, `path` the allocation path, `slow` its slow path, `range` allocations of given blocks, `compaction`
//! with `scanners` and `memory` compaction, `background` kswapd and kcompactd, and `reserve` the return of idle
//! reserves.

pub(super) mod background;
pub(super) mod compaction;
pub(super) mod lists;
pub(super) mod map;
pub(super) mod memory;
pub(super) mod owned;
pub(super) mod path;
mod range;
pub(super) mod remote_frees;
mod reserve;
mod scanners;
mod slow;
pub(super) mod zone;

use std::collections::VecDeque;

use freehold::Policy;
use freehold::base::{CpuId, MigrateType, NodeId, Order, Pfn};
use freehold::page::PageAllocator;
use freehold::platform::{CompactEffort, Migrated, Patience, Reclaim, Task};
use freehold::policy::{DefragMode, HighAtomicPolicy, PcpPolicy};

use crate::common::Host;
use crate::model::runner::Sabotage;
use crate::model::world::World;
use background::Node;
use lists::Lists;
use map::{Map, Page};
use zone::Zone;

/// A block: its first frame and its order.
pub(super) type Block = (u32, u8);

/// A call of the platform by the engine, with the answer. The reference must make the same call, and gets the same
/// answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A wakeup of kswapd.
    Kswapd(NodeId),
    /// A wakeup of kcompactd.
    Kcompactd(NodeId),
    /// Reclaim, with the freed blocks, the number of scanned pages, and whether the answer was true.
    Reclaim(Reclaim, Vec<Block>, u64, Honesty),
    /// A move: source, target, order and effort.
    Migrate((Pfn, Pfn, Order, CompactEffort), Migrated),
    /// The last resort, with the freed blocks, and whether the answer was true.
    OutOfMemory(Vec<Block>, Honesty),
    /// A pause of the engine.
    Relax(Patience),
}

/// Whether the platform's answer is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Honesty {
    Truth,
    Lie,
}

/// Counters, with the engine's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub allocstall: u64,
    pub pgscan_direct: u64,
    pub pgsteal_direct: u64,
    pub pgscan_kswapd: u64,
    pub pgsteal_kswapd: u64,
    pub pageoutrun: u64,
    pub compact_stall: u64,
    pub compact_success: u64,
    pub compact_daemon_wake: u64,
    pub migrations: u64,
    pub migrations_refused: u64,
    pub broken_promises: u64,
}

/// The whole machine.
pub(super) struct Reference {
    pub zones: Vec<Zone>,
    pub map: Map,
    /// Lists by CPU and zone.
    pub lists: Vec<Vec<Lists>>,
    /// Zones of each node, in the order in which they are tried.
    zonelists: Vec<Vec<usize>>,
    node_of_cpu: Vec<u8>,
    pub cpu: usize,
    pub task: Task,
    grouping_off: bool,
    has_lists: bool,
    /// Whether per-CPU lists merge buddies before they free them to the zone.
    merges: bool,
    rival: HighAtomicPolicy,
    /// Rules of kernels after the pinned one.
    rules: Policy,
    /// Whether types are mixed only as a last resort.
    defrags: bool,
    /// Calls that the engine made to its platform in this step.
    pub script: VecDeque<Call>,
    pub reclaimable: u64,
    /// First difference between the script and the reference's own calls.
    pub parted: Option<String>,
    nodes: Vec<Node>,
    pub tally: Tally,
    /// A rule to break, to show that the comparison finds it.
    mistake: Sabotage,
}

/// Creates empty lists of a CPU, one set for each zone, with the engine's limits.
fn copy_lists(world: &World, allocator: &PageAllocator<'_, Host<'_>>, cpu: CpuId) -> Vec<Lists> {
    let engine_lists = allocator.zones().iter().map(|zone| allocator.pcp(cpu, zone));
    engine_lists.map(|pcp| pcp.inspect(|lists| Lists::with(lists.limits(), world))).collect()
}

impl Reference {
    /// Creates a machine like the engine's, which is set up and unused. Watermarks and limits are copied; the free
    /// lists are not.
    pub(super) fn new(world: &World, allocator: &PageAllocator<'_, Host<'_>>, mistake: Sabotage) -> Reference {
        let mut zones: Vec<Zone> = allocator.zones().iter().map(Zone::like).collect();
        zones.iter_mut().for_each(|zone| zone.never_boosts = mistake == Sabotage::NoBoost);
        let mut map = Map::new(world.end(), world.block);
        for range in &world.ranges {
            map.assign(range.start.raw()..range.end.raw(), allocator.zone(range.node, range.kind).index());
        }
        for &pfn in &world.cma {
            map.set_type(pfn, MigrateType::Cma);
        }
        map.owned.outlasts_use = mistake == Sabotage::KeepThroughUse;
        let total: i64 = zones.iter().map(|zone| (zone.managed - zone.high).max(0)).sum();
        let mut reference = Reference {
            lists: allocator.cpu_ids().map(|cpu| copy_lists(world, allocator, cpu)).collect(),
            zonelists: (0..world.nodes).map(|node| world.zonelist(node)).collect(),
            node_of_cpu: world.cpu_nodes.iter().map(|node| node.0).collect(),
            zones,
            map,
            cpu: 0,
            task: Task::default(),
            grouping_off: total < i64::from(world.block.pages()) * 6,
            has_lists: world.policy.pcp != PcpPolicy::Off,
            merges: !matches!(world.policy.pcp, PcpPolicy::Linux | PcpPolicy::Off),
            rival: world.policy.highatomic,
            rules: world.policy,
            defrags: world.policy.defrag_mode == DefragMode::On,
            script: VecDeque::new(),
            reclaimable: 0,
            parted: None,
            nodes: (0..world.nodes).map(|_| Node::default()).collect(),
            tally: Tally::default(),
            mistake,
        };
        for (start, end) in world.released() {
            reference.release(start, end);
        }
        reference
    }

    fn release(&mut self, start: u32, end: u32) {
        let mut at = start;
        while at < end {
            let order = at.trailing_zeros().min((end - at).ilog2()).min(10) as u8;
            self.free_to_zone(at, order, true);
            at += 1 << order;
        }
    }

    /// Frees a block under the zone lock, pageblock by pageblock.
    pub(super) fn free_to_zone(&mut self, pfn: u32, order: u8, to_tail: bool) {
        let piece = order.min(self.map.block);
        for at in (pfn..pfn + (1 << order)).step_by(1 << piece) {
            let zone = self.map.zone(at).expect("freed frames belong to a zone");
            let migratetype = self.map.type_of(at);
            self.zones[zone].free_one(&mut self.map, at, piece, migratetype, to_tail);
        }
    }

    /// Takes a block out of the free block that contains it; the rest stays free. Returns whether there was one.
    pub(super) fn cut_out(&mut self, pfn: u32, order: u8) -> bool {
        let end = pfn + (1 << order);
        let head = (order..=10)
            .map(|order| pfn >> order << order)
            .find(|&head| self.map.free_order(head).is_some_and(|order| head + (1 << order) >= end));
        let Some(head) = head else { return false };
        let zone = self.map.zone(pfn).expect("the frame is in a zone");
        let (found, migratetype) = self.zones[zone].remove(&mut self.map, head);
        for half in (order..found).rev() {
            let buddy = (pfn >> half ^ 1) << half;
            self.zones[zone].insert(&mut self.map, buddy, half, migratetype, false);
        }
        self.map.paint(pfn, order, Page::Gone);
        true
    }

    /// Takes the first movable block of the smallest order in the zone of a frame.
    pub(super) fn take_near(&mut self, pfn: u32, order: u8) -> Option<u32> {
        let zone = self.map.zone(pfn)?;
        self.zones[zone].smallest(&mut self.map, order, MigrateType::Movable)
    }
}
