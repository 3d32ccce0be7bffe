//! The recorded machine, rebuilt for the engine: its zones, CPUs, watermarks, and the limits of its per-CPU lists.

use freehold::Policy;
use freehold::base::{NodeId, Order, Pfn, ZoneKind};
use freehold::machine::MachineError;
use freehold::page::{Config, Range};
use freehold::policy::watermark::Watermarks;
use freehold_trace::facts::{Facts, ZoneFacts};

use super::platform::Stage;
use super::{Engine, Options, settings};
use crate::error::Error;

/// Pages of CPU cache per CPU where the recording lacks this number. It is large enough for blocks of order 1 to 3 to
/// stay on per-CPU lists.
const CACHE_SLICE_DEFAULT: u32 = 512;
/// Setting in which a recording gives the cache slice of a CPU, in bytes.
const CACHE_SLICE_SETTING: &str = "cpu.cache_slice";

/// Highest node number that the engine can represent.
const NODE_MAX: u16 = 62;

/// Configuration from which the allocator is built.
pub(crate) struct Shape {
    cpu_nodes: Vec<NodeId>,
    nodes: u8,
    ranges: Vec<Range>,
    page_size: u32,
    pageblock_order: Order,
    cache_slice: u32,
    policy: Policy,
}

/// Checks that the engine can represent the recorded machine.
///
/// # Errors
/// If it cannot.
pub(crate) fn check(facts: &Facts) -> Result<(), Error> {
    match obstacle(facts) {
        Some(obstacle) => Err(Error::Machine(format!("this recording cannot be replayed: {obstacle}"))),
        None => Ok(()),
    }
}

/// Returns the reason why the engine cannot represent this machine; `None` if it can.
fn obstacle(facts: &Facts) -> Option<String> {
    if zones(facts).next().is_none() {
        return Some("none of its zones with memory is DMA, DMA32, Normal or Movable".to_owned());
    }
    if Order::from_u8(facts.pageblock_order).is_none() {
        return Some(format!("its pageblocks have order {}, above 10", facts.pageblock_order));
    }
    if let Some((zone, _)) = zones(facts).find(|(zone, _)| zone.node > NODE_MAX) {
        return Some(format!("zone {} is on node {}, above {NODE_MAX}", zone.name, zone.node));
    }
    let (zone, _) = zones(facts).find(|(zone, _)| end_pfn(zone).is_none())?;
    Some(format!("zone {} ends above 16 TiB (pages of 4 KiB)", zone.name))
}

/// Returns the first frame after a zone; `None` if the engine has no number for that frame.
fn end_pfn(zone: &ZoneFacts) -> Option<Pfn> {
    zone.start_pfn.checked_add(zone.spanned).and_then(Pfn::from_u64)
}

/// Returns the recorded zones that the engine builds: those with memory, of a kind that the engine has.
pub(crate) fn zones(facts: &Facts) -> impl Iterator<Item = (&ZoneFacts, ZoneKind)> {
    facts
        .zones_start
        .iter()
        .filter(|zone| zone.spanned > 0 && zone.present > 0)
        .filter_map(|zone| Some((zone, ZoneKind::from_name(&zone.name)?)))
}

impl Shape {
    /// Computes the configuration of a recorded machine under a policy. The policy is adjusted to the recorded settings
    /// by [`settings::heeded`].
    pub(crate) fn new(facts: &Facts, policy: Policy, options: Options) -> Shape {
        let nodes = zones(facts).map(|(zone, _)| zone.node + 1).max().unwrap_or(1) as u8;
        let cpus = options.cpus.map_or(facts.cpus, u16::from);
        let bytes = facts.settings.get(CACHE_SLICE_SETTING).and_then(|text| text.parse::<u32>().ok());
        Shape {
            cpu_nodes: (0..cpus).map(|cpu| NodeId((cpu % u16::from(nodes)) as u8)).collect(),
            nodes,
            ranges: zones(facts).map(|(zone, kind)| range(zone, kind)).collect(),
            page_size: facts.page_size.max(1024).next_power_of_two(),
            pageblock_order: Order::new(facts.pageblock_order),
            cache_slice: bytes.map_or(CACHE_SLICE_DEFAULT, |bytes| bytes / facts.page_size.max(1)),
            policy: settings::heeded(policy, facts),
        }
    }

    /// Returns the ranges of memory, one per zone.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Builds the machine on a platform, with all frames Reserved, and passes it to `run`.
    pub(crate) fn build<R>(&self, stage: Stage, run: impl FnOnce(&mut Engine<'_>) -> R) -> Result<R, MachineError> {
        let end = self.ranges.iter().map(|range| range.end).max().unwrap_or(Pfn::new(0));
        let config = Config {
            cpu_nodes: &self.cpu_nodes,
            distances: &[],
            nodes: self.nodes,
            first: Pfn::new(0),
            end,
            page_size: self.page_size,
            pageblock_order: self.pageblock_order,
            cache_slice: self.cache_slice,
            policy: self.policy,
        };
        freehold::machine::with_ranges(stage, &config, &self.ranges, run)
    }
}

/// Gives every zone the recorded watermarks, boost and lowmem reserve. The limits of the per-CPU lists follow from the
/// watermarks by Linux's rule, or from the policy's numbers.
pub(crate) fn restore_watermarks(engine: &mut Engine<'_>, facts: &Facts) {
    for (recorded, kind) in zones(facts) {
        let zone = engine.zone(NodeId(recorded.node as u8), kind);
        engine.set_watermarks(zone, watermarks(engine.policy(), recorded));
        engine.restore().set_boost(zone.node(), zone.kind(), recorded.boost);
        for (&pages, highest) in recorded.protection.iter().zip(ZoneKind::ALL) {
            engine.set_lowmem_reserve(zone, highest, pages);
        }
    }
    engine.set_up_grouping();
}

/// Returns the recorded watermarks, or watermarks at the policy's own distance if it sets one.
fn watermarks(policy: &Policy, recorded: &ZoneFacts) -> Watermarks {
    match policy.numbers.watermark_scale_factor {
        None => Watermarks::given(recorded.min, recorded.low, recorded.high),
        Some(factor) => {
            let gap = (recorded.min / 4).max(recorded.managed * u64::from(factor) / 10_000);
            Watermarks::given(recorded.min, recorded.min + gap, recorded.min + 2 * gap)
        }
    }
}

fn range(zone: &ZoneFacts, kind: ZoneKind) -> Range {
    let [start, end] = [zone.start_pfn, zone.start_pfn + zone.spanned]
        .map(|pfn| Pfn::from_u64(pfn).expect("the zone was checked to end below 16 TiB"));
    Range { start, end, node: NodeId(zone.node as u8), kind }
}
