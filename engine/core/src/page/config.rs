//! Construction of an allocator: configuration, the size of its metadata, and the layout of its tables in that memory.
//!
//! ```text
//! Config ── metadata_layout() ──> bytes the caller provides ──> PageAllocator::new ──> online(range) ...
//! ```
//!
//! This module sizes the fixed part: zones, per-CPU lists and the section table. Each section of memory brings its own
//! metadata when it comes online (see `boot`).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops;
use core::sync::atomic::{AtomicBool, AtomicU8};

use super::allocator::{Hotplug, PageAllocator};
use super::node::Node;
use super::percpu::Pcp;
use super::zone::{Fragments, Zone};
use crate::base::carve::{Carver, Plan};
use crate::base::lock::Locked;
use crate::base::memmap::{Geometry, MemMap, Section};
use crate::base::pageblock::NO_ZONE;
use crate::base::{NodeId, Order, Pfn, RawLock, ZoneKind};
use crate::platform::Platform;
use crate::policy::{Policy, watermark};

/// Settings that are fixed when the allocator is created.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// Node of each CPU; its length is the number of CPUs.
    pub cpu_nodes: &'c [NodeId],
    /// Distances between nodes, row by row, in any unit. If empty, the distance of two nodes is the difference of their
    /// numbers.
    pub distances: &'c [u8],
    /// Number of nodes, at least 1.
    pub nodes: u8,
    /// The lowest frame that may ever come online. Frames below it have no metadata.
    pub first: Pfn,
    /// One more than the highest frame that may ever come online. At most [`Config::END_MAX`].
    pub end: Pfn,
    /// Bytes in a page, a power of two.
    pub page_size: u32,
    /// Order of a pageblock, which is the order of a huge page: from [`Order::COSTLY`] to [`Order::MAX`].
    pub pageblock_order: Order,
    /// Pages of the data cache that each CPU has to itself. They decide how long blocks of order 1 to 3 stay on a
    /// per-CPU list. linux: PCPF_FREE_HIGH_BATCH
    pub cache_slice: u32,
    /// Rules and numbers of the allocator, fixed for its life. If the platform fixes its rules ([`Platform::POLICY`]),
    /// the policy must have the same rules, but may have other numbers.
    pub policy: Policy,
}

impl Default for Config<'_> {
    /// Returns a configuration with one CPU, one node, 4 KiB pages, 2 MiB pageblocks, and at most 16 GiB.
    fn default() -> Self {
        Config {
            cpu_nodes: &[NodeId(0)],
            distances: &[],
            nodes: 1,
            first: Pfn::new(0),
            end: Pfn::new(1 << 22),
            page_size: 4096,
            pageblock_order: Order::new(9),
            cache_slice: 512,
            policy: Policy::default(),
        }
    }
}

/// Reason why a configuration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The number of CPUs is 0, or above 65535.
    Cpus,
    /// There is no node, there are more than 63, there are several although the platform is for one
    /// ([`Platform::ONE_NODE`]), a CPU is on a node that does not exist, or the number of distances is neither 0 nor
    /// the square of the number of nodes.
    Nodes,
    /// The page size is not a power of two, or is below 1 KiB.
    PageSize,
    /// The pageblock order is below [`Order::COSTLY`], the highest order below pageblocks that per-CPU lists hold.
    PageblockOrder,
    /// The end is not above the first frame, or is above [`Config::END_MAX`].
    End,
    /// The platform fixes its rules ([`Platform::POLICY`]), and the policy has different ones.
    Policy,
    /// The metadata memory is smaller than [`Config::metadata_layout`] requires.
    Metadata,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ConfigError::Cpus => "the number of CPUs must be between 1 and 65535",
            ConfigError::Nodes => {
                "the number of nodes must be between 1 and 63, each CPU on one of them, and distances a square table \
                 or empty"
            }
            ConfigError::PageSize => "the page size must be a power of two of at least 1024 bytes",
            ConfigError::PageblockOrder => "the pageblock order must be between 3 and 10",
            ConfigError::End => {
                "the end must be above the first frame, and at most the last multiple of 1024 in 32 bits"
            }
            ConfigError::Policy => "the policy is not the one that the platform fixes",
            ConfigError::Metadata => "the metadata memory is smaller than metadata_layout() requires",
        })
    }
}

impl core::error::Error for ConfigError {}

impl Config<'_> {
    /// The highest value of [`end`](Config::end).
    pub const END_MAX: Pfn = Pfn::END_MAX;

    /// Returns the size of the memory that [`PageAllocator::new`] needs, without the metadata of any section.
    pub fn metadata_layout<P: Platform>(&self) -> Layout {
        let zones = self.zones();
        Plan::EMPTY
            .array::<Section<'_>>(self.geometry().sections())
            .and_then(|plan| plan.array::<Zone<P::Lock>>(zones))
            .and_then(|plan| plan.array::<Pcp<P::Lock>>(zones * self.cpu_nodes.len()))
            .and_then(|plan| plan.array::<Fragments>(zones * self.cpu_nodes.len()))
            .and_then(|plan| plan.array::<u8>(zones * usize::from(self.nodes)))
            .and_then(|plan| plan.array::<AtomicU8>(zones))
            .and_then(|plan| plan.array::<NodeId>(self.cpu_nodes.len()))
            .and_then(|plan| plan.array::<Node>(usize::from(self.nodes)))
            .expect("metadata of 65535 CPUs and 63 nodes fits the address space")
            .layout()
    }

    /// Returns the size of the metadata that [`PageAllocator::online`] needs, if no section of the frames is present
    /// yet: 12 bytes per frame and 32 per pageblock, in whole sections. A section has 2^15 frames, counted from the
    /// first frame of the configuration. The last section ends with the last frame of the configuration.
    pub fn online_layout(&self, frames: &ops::Range<Pfn>) -> Layout {
        self.geometry().layout_of(self.geometry().sections_of(frames))
    }

    pub(crate) fn geometry(&self) -> Geometry {
        Geometry::new(self.first, self.end, self.pageblock_order)
    }

    fn zones(&self) -> usize {
        usize::from(self.nodes) * ZoneKind::COUNT
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let nodes = usize::from(self.nodes);
        if self.cpu_nodes.is_empty() || self.cpu_nodes.len() > usize::from(u16::MAX) {
            return Err(ConfigError::Cpus);
        }
        let square = self.distances.is_empty() || self.distances.len() == nodes * nodes;
        if !(1..=63).contains(&nodes) || self.cpu_nodes.iter().any(|node| node.index() >= nodes) || !square {
            return Err(ConfigError::Nodes);
        }
        if !self.page_size.is_power_of_two() || self.page_size < 1024 {
            return Err(ConfigError::PageSize);
        }
        if self.pageblock_order < Order::COSTLY {
            return Err(ConfigError::PageblockOrder);
        }
        if self.first >= self.end || self.end > Config::END_MAX {
            return Err(ConfigError::End);
        }
        Ok(())
    }

    fn distance(&self, from: usize, to: usize) -> u8 {
        let nodes = usize::from(self.nodes);
        self.distances.get(from * nodes + to).copied().unwrap_or(from.abs_diff(to) as u8)
    }

    /// Returns the node of the given rank in the order of [`nearness`](Self::nearness) to `node`.
    fn nth_node(&self, node: usize, rank: usize) -> usize {
        let nodes = 0..usize::from(self.nodes);
        nodes.into_iter().find(|&to| self.nodes_before(node, to) == rank).unwrap_or(node)
    }

    /// Returns the number of nodes that are nearer to `node` than `to` is.
    fn nodes_before(&self, node: usize, to: usize) -> usize {
        let nodes = 0..usize::from(self.nodes);
        nodes.filter(|&other| self.nearness(node, other) < self.nearness(node, to)).count()
    }

    /// Returns a sort key for nodes as seen from `node`: the node itself first, then by distance and by number.
    fn nearness(&self, node: usize, to: usize) -> (bool, u8, usize) {
        (to != node, self.distance(node, to), to)
    }

    /// Returns the zone at `index` in the array that holds the zonelists of all nodes one after the other.
    fn zonelist_entry(&self, index: usize) -> u8 {
        let (node, place) = (index / self.zones(), index % self.zones());
        let near = self.nth_node(node, place / ZoneKind::COUNT);
        (near * ZoneKind::COUNT + (ZoneKind::COUNT - 1 - place % ZoneKind::COUNT)) as u8
    }
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Creates an allocator without memory. Bring memory [`online`](PageAllocator::online), release or adopt it, then
    /// call [`set_up_watermarks`](PageAllocator::set_up_watermarks).
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(platform: P, config: &Config<'_>, metadata: &'m mut [MaybeUninit<u8>]) -> Result<Self, ConfigError> {
        config.validate()?;
        if P::ONE_NODE && config.nodes != 1 {
            return Err(ConfigError::Nodes);
        }
        if P::POLICY.is_some_and(|fixed| !fixed.has_rules_of(&config.policy)) {
            return Err(ConfigError::Policy);
        }
        PageAllocator::carve(platform, config, Carver::new(metadata)).ok_or(ConfigError::Metadata)
    }

    /// Places the allocator's tables in the metadata memory. Returns `None` if the memory is too small.
    fn carve(platform: P, config: &Config<'_>, mut carver: Carver<'m>) -> Option<Self> {
        let zones = config.zones();
        let cpus = config.cpu_nodes.len();
        let sections = carver.array(config.geometry().sections(), |_| Section::absent())?;
        let zone_table = carver.array(zones, |index| empty_zone(index, config))?;
        let pcps = carver.array(zones * cpus, |_| Pcp::new(config.cache_slice))?;
        let fragments = carver.array(zones * cpus, |_| Fragments::new())?;
        let zonelists = carver.array(zones * usize::from(config.nodes), |i| config.zonelist_entry(i))?;
        let nearest = carver.array(zones, |_| AtomicU8::new(NO_ZONE))?;
        let cpu_nodes = carver.array(cpus, |cpu| config.cpu_nodes[cpu])?;
        let nodes = carver.array(usize::from(config.nodes), |_| Node::default())?;
        Some(PageAllocator {
            platform,
            map: MemMap::new(sections, config.geometry()),
            hotplug: Locked::new(Hotplug),
            zones: zone_table,
            pcps,
            fragments,
            zonelists,
            nearest,
            cpu_nodes,
            nodes,
            oom_lock: AtomicBool::new(false),
            policy: config.policy,
            page_size: config.page_size,
            boost_factor: config.policy.numbers.watermark_boost_factor.unwrap_or(watermark::BOOST_FACTOR),
            grouping_off: AtomicBool::new(false),
        })
    }
}

/// Creates the zone at `index` in the table of all zones, without memory.
fn empty_zone<L: RawLock>(index: usize, config: &Config<'_>) -> Zone<L> {
    let node = NodeId((index / ZoneKind::COUNT) as u8);
    let kind = ZoneKind::ALL[index % ZoneKind::COUNT];
    let near = config.cpu_nodes.iter().filter(|&&of_cpu| of_cpu == node).count();
    let cpus = if near == 0 { config.cpu_nodes.len() } else { near };
    Zone::new(index as u8, node, kind, cpus as u32, config.policy.reserve, config.pageblock_order)
}
