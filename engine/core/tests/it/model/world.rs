//! Shrunken machines: a few thousand frames, tiny pageblocks and batches, so that rare branches are common.

use freehold::Policy;
use freehold::base::{NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, Range};
use freehold::policy::{ContigPolicy, DefragMode, HighAtomicPolicy, Numbers, PcpPolicy};

use crate::common::range;

/// Description of a machine.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub name: &'static str,
    pub ranges: Vec<Range>,
    pub cpu_nodes: Vec<NodeId>,
    pub nodes: u8,
    pub distances: Vec<u8>,
    pub block: Order,
    pub cache_slice: u32,
    pub policy: Policy,
    pub min_free: MinFree,
    /// Pageblocks of CMA, by first frame.
    pub cma: Vec<u32>,
    /// Frames that are never released.
    pub holes: Vec<(u32, u32)>,
    /// Whether most memory is freed at times and stays idle for a while.
    pub has_lulls: bool,
}

impl World {
    /// Returns the configuration of the engine.
    pub(super) fn config(&self) -> Config<'_> {
        Config {
            cpu_nodes: &self.cpu_nodes,
            distances: &self.distances,
            nodes: self.nodes,
            end: Pfn::new(self.end().next_multiple_of(Order::MAX.pages())),
            pageblock_order: self.block,
            cache_slice: self.cache_slice,
            policy: self.policy,
            ..Config::default()
        }
    }

    pub(super) fn cpus(&self) -> u16 {
        self.cpu_nodes.len() as u16
    }

    /// Returns the highest frame number plus one.
    pub(super) fn end(&self) -> u32 {
        self.ranges.iter().map(|range| range.end.raw()).max().expect("a world has memory")
    }

    /// Returns the frames that are released: the ranges without the holes.
    pub(super) fn released(&self) -> Vec<(u32, u32)> {
        let mut parts = Vec::new();
        for range in &self.ranges {
            let mut start = range.start.raw();
            for &(from, to) in &self.holes {
                if range.start.raw() <= from && to <= range.end.raw() {
                    parts.push((start, from));
                    start = to;
                }
            }
            parts.push((start, range.end.raw()));
        }
        parts
    }

    /// Returns the distance between two nodes: the configured one, or the difference of their numbers.
    fn distance(&self, node: usize, other: usize) -> u8 {
        let configured = self.distances.get(node * usize::from(self.nodes) + other);
        configured.copied().unwrap_or(node.abs_diff(other) as u8)
    }

    /// Returns the zones in the order in which a request near `node` tries them.
    pub(super) fn zonelist(&self, node: u8) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..usize::from(self.nodes)).collect();
        nodes.sort_by_key(|&other| (self.distance(node.into(), other), other));
        nodes.into_iter().flat_map(|other| (0..4).rev().map(move |kind| other * 4 + kind)).collect()
    }

    /// Returns the range that contains a frame.
    pub(super) fn range_of(&self, pfn: u32) -> Option<&Range> {
        self.ranges.iter().find(|range| (range.start.raw()..range.end.raw()).contains(&pfn))
    }
}

fn policy(pcp_batch: Option<u32>) -> Policy {
    Policy { numbers: Numbers { pcp_batch, ..Numbers::default() }, ..Policy::LINUX_6_12 }
}

/// Four zones on one node and one CPU. Pageblocks have eight frames, so the largest blocks consist of 128 pageblocks.
pub(super) fn tiny_blocks() -> World {
    World {
        name: "tiny blocks",
        ranges: vec![
            range(ZoneKind::Dma, 0, 0, 256),
            range(ZoneKind::Dma32, 0, 256, 1280),
            range(ZoneKind::Normal, 0, 1280, 4096),
            range(ZoneKind::Movable, 0, 4096, 5120),
        ],
        cpu_nodes: vec![NodeId(0)],
        nodes: 1,
        distances: vec![],
        block: Order::new(3),
        cache_slice: 512,
        policy: policy(Some(4)),
        min_free: MinFree::BySize,
        cma: vec![2048, 2056, 2064, 2072],
        holes: vec![(0, 5), (700, 703)],
        has_lulls: false,
    }
}

/// Two nodes, four CPUs, a hole in the middle, CMA, and a node without a Normal zone.
pub(super) fn two_nodes() -> World {
    World {
        name: "two nodes",
        ranges: vec![
            range(ZoneKind::Dma32, 0, 32, 1024),
            range(ZoneKind::Normal, 0, 1024, 3056),
            range(ZoneKind::Dma32, 1, 4096, 5120),
            range(ZoneKind::Movable, 1, 5120, 6144),
        ],
        cpu_nodes: vec![NodeId(0), NodeId(0), NodeId(1), NodeId(1)],
        nodes: 2,
        distances: vec![10, 20, 20, 10],
        block: Order::new(4),
        cache_slice: 8,
        policy: policy(Some(3)),
        min_free: MinFree::Pages(64),
        cma: vec![1024, 1040],
        holes: vec![(1500, 1601)],
        has_lulls: false,
    }
}

/// One zone, two CPUs, and pageblocks of a medium order. The zone starts and ends in the middle of a pageblock.
pub(super) fn ragged() -> World {
    World {
        name: "ragged",
        ranges: vec![range(ZoneKind::Normal, 0, 100, 7000)],
        cpu_nodes: vec![NodeId(0), NodeId(0)],
        nodes: 1,
        distances: vec![],
        block: Order::new(6),
        cache_slice: 512,
        policy: policy(None),
        min_free: MinFree::ForHugePages,
        cma: vec![],
        holes: vec![],
        has_lulls: false,
    }
}

/// Huge-page blocks as on a PC, in a zone just large enough to reserve some.
pub(super) fn pc_blocks() -> World {
    World {
        name: "PC blocks",
        ranges: vec![range(ZoneKind::Dma32, 0, 512, 4096), range(ZoneKind::Normal, 0, 4096, 16384)],
        cpu_nodes: vec![NodeId(0)],
        nodes: 1,
        distances: vec![],
        block: Order::new(9),
        cache_slice: 512,
        policy: policy(Some(7)),
        min_free: MinFree::Pages(256),
        cma: vec![8192],
        holes: vec![],
        has_lulls: false,
    }
}

/// Pageblocks of the largest order, lists of a fixed length, and too few pageblocks to group pages by mobility.
pub(super) fn largest_blocks() -> World {
    let numbers = Numbers { pcp_batch: Some(2), pcp_high_fraction: Some(8), ..Numbers::default() };
    World {
        name: "largest blocks",
        ranges: vec![range(ZoneKind::Normal, 0, 1024, 6144)],
        cpu_nodes: vec![NodeId(0), NodeId(0), NodeId(0)],
        nodes: 1,
        distances: vec![],
        block: Order::new(10),
        cache_slice: 4,
        policy: Policy { numbers, ..Policy::LINUX_6_12 },
        min_free: MinFree::BySize,
        cma: vec![],
        holes: vec![],
        has_lulls: false,
    }
}

/// Returns the world with lists that merge buddies before they free them to the zone.
pub(super) fn merged(mut world: World) -> World {
    world.policy.pcp = PcpPolicy::Merge;
    world
}

/// Returns the world with CPUs that own pageblocks.
pub(super) fn owned(pcp: PcpPolicy, mut world: World) -> World {
    assert!(pcp.owns(), "CPUs own no pageblocks under {pcp:?}");
    world.policy.pcp = pcp;
    world
}

/// Returns the world under the library's own rules: CPUs own pageblocks, and have stacks for pages that other CPUs
/// free.
pub(super) fn shipped(world: World) -> World {
    of_kernel(Policy::FREEHOLD, world)
}

/// Returns the world, which must have one node, with another number of CPUs.
pub(super) fn with_cpus(cpus: usize, mut world: World) -> World {
    assert_eq!(world.nodes, 1, "all CPUs are near one node");
    world.cpu_nodes = vec![NodeId(0); cpus];
    world
}

/// Returns the world without per-CPU lists.
pub(super) fn without_lists(mut world: World) -> World {
    world.policy.pcp = PcpPolicy::Off;
    world
}

/// Returns the world with another rule for the high-atomic reserve.
pub(super) fn under(highatomic: HighAtomicPolicy, mut world: World) -> World {
    world.policy.highatomic = highatomic;
    world
}

/// Returns the world with lulls in which memory is idle.
pub(super) fn with_lulls(world: World) -> World {
    World { has_lulls: true, ..world }
}

/// Returns the world in defrag mode.
pub(super) fn defragged(mut world: World) -> World {
    world.policy.defrag_mode = DefragMode::On;
    world
}

/// Returns the world under the rules of another kernel, except for the free of ranges, which has a separate model.
pub(super) fn of_kernel(kernel: Policy, mut world: World) -> World {
    let numbers = Numbers { pcp_free_high: kernel.numbers.pcp_free_high, ..world.policy.numbers };
    world.policy = Policy { contig: ContigPolicy::OneByOne, numbers, ..kernel };
    world
}
