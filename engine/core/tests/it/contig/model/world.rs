//! Shrunken machines: small pageblocks and lists, areas of a few pageblocks, adjacent zones.

use core::ops::Range;

use freehold::Policy;
use freehold::base::{NodeId, Order, ZoneKind};
use freehold::page::{self, Config};
use freehold::policy::{ContigPolicy, Numbers, PcpPolicy};

use crate::common::range;

const CPUS: [NodeId; 4] = [NodeId(0); 4];

/// Description of a machine.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub name: &'static str,
    /// Zones, each of whole pageblocks.
    pub zones: Vec<page::Range>,
    /// The CMA area, with single pages as its unit.
    pub area: Range<u32>,
    pub block: u8,
    pub cpus: u16,
    pub pcp: PcpPolicy,
}

impl World {
    pub(super) fn config(&self, contig: ContigPolicy) -> Config<'static> {
        let numbers = Numbers { pcp_batch: Some(3), ..Numbers::default() };
        Config {
            cpu_nodes: &CPUS[..usize::from(self.cpus)],
            pageblock_order: Order::new(self.block),
            policy: Policy { contig, pcp: self.pcp, numbers, ..Policy::LINUX_6_12 },
            ..Config::default()
        }
    }

    pub(super) fn start(&self) -> u32 {
        self.zones[0].start.raw()
    }

    pub(super) fn end(&self) -> u32 {
        self.zones.last().expect("a world has memory").end.raw()
    }

    /// Returns the zone of a frame, if it is in one.
    pub(super) fn zone_of(&self, pfn: u32) -> Option<ZoneKind> {
        self.zones.iter().find(|zone| (zone.start.raw()..zone.end.raw()).contains(&pfn)).map(|zone| zone.kind)
    }
}

/// Pageblocks of eight frames, so that a range spans many.
pub(super) fn tiny() -> World {
    World {
        name: "tiny pageblocks",
        zones: vec![range(ZoneKind::Normal, 0, 0, 1024), range(ZoneKind::Movable, 0, 1024, 1536)],
        area: 256..384,
        block: 3,
        cpus: 1,
        pcp: PcpPolicy::Linux,
    }
}

/// Zones in the middle of sections, and one that continues in the next section.
pub(super) fn border() -> World {
    World {
        name: "a section's border",
        zones: vec![range(ZoneKind::Dma32, 0, 31744, 32256), range(ZoneKind::Normal, 0, 32256, 33792)],
        area: 32704..32832,
        block: 5,
        cpus: 4,
        pcp: PcpPolicy::Merge,
    }
}

/// No per-CPU lists.
pub(super) fn bare() -> World {
    World {
        name: "no lists",
        zones: vec![range(ZoneKind::Normal, 0, 0, 1536)],
        area: 1024..1536,
        block: 4,
        cpus: 2,
        pcp: PcpPolicy::Off,
    }
}

/// Pageblocks of the largest order.
pub(super) fn large() -> World {
    World {
        name: "large pageblocks",
        zones: vec![range(ZoneKind::Normal, 0, 0, 6144)],
        area: 2048..3072,
        block: 10,
        cpus: 2,
        pcp: PcpPolicy::Linux,
    }
}

/// CPUs own pageblocks: their lists of at least twelve pages hold whole pageblocks.
pub(super) fn owned(pcp: PcpPolicy) -> World {
    World {
        name: "owned pageblocks",
        zones: vec![range(ZoneKind::Normal, 0, 0, 2048)],
        area: 512..768,
        block: 3,
        cpus: 3,
        pcp,
    }
}
