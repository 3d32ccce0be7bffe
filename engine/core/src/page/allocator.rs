//! The allocator itself: its tables, and how a frame, a node or a CPU leads to its zone, lists and lock.
//!
//! Everything above, from `alloc` to `compaction`, is a method of [`PageAllocator`]; everything below, zones and
//! per-CPU lists, knows nothing of it.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use super::node::Node;
use super::percpu::{Pcp, expect_there};
use super::zone::{Fragments, LockedZone, Zone};
use crate::base::lock::{Locked, Rank, Ranked};
use crate::base::memmap::MemMap;
use crate::base::pageblock::{NO_ZONE, Pageblock};
use crate::base::{CpuId, NodeId, Pfn, ZoneKind};
use crate::platform::{Event, Platform, Probe};
use crate::policy::Policy;
use crate::policy::fallback::Grouping;

/// The right to change which frames are online, which of them are Reserved, and which zone their pageblocks belong to.
#[derive(Debug)]
pub(super) struct Hotplug;

impl Ranked for Hotplug {
    const RANK: Rank = Rank::Hotplug;
}

/// A page allocator over memory metadata that lives for `'m`.
///
/// All methods take `&self` and may be called from any CPU at once, as far as the platform's lock is `Sync`.
/// What a free or a query costs is said at each method; none allocates memory of its own.
#[derive(Debug)]
pub struct PageAllocator<'m, P: Platform> {
    pub(super) platform: P,
    pub(super) map: MemMap<'m>,
    /// All zones: node by node, kind by kind.
    pub(super) zones: &'m [Zone<P::Lock>],
    /// Per-CPU lists: CPU by CPU, zone by zone.
    pub(super) pcps: &'m [Pcp<P::Lock>],
    /// Pageblocks that CPUs own in part, likewise; each under its zone's lock.
    pub(super) fragments: &'m [Fragments],
    /// For each node, the zones to try: near nodes first, within a node the highest zone first.
    pub(super) zonelists: &'m [u8],
    /// For each node, and each kind that a request may go up to: the node's own zone to try first, or [`NO_ZONE`].
    pub(super) nearest: &'m [AtomicU8],
    /// For each CPU, the node that it is near.
    pub(super) cpu_nodes: &'m [NodeId],
    /// The background tasks of each node.
    pub(super) nodes: &'m [Node],
    /// Held by calls that bring memory in or take it away.
    pub(super) hotplug: Locked<P::Lock, Hotplug>,
    /// Some request ends something. linux: mm/oom_kill.c:oom_lock
    pub(super) oom_lock: AtomicBool,
    pub(super) policy: Policy,
    pub(super) page_size: u32,
    pub(super) boost_factor: u32,
    /// Pages are not kept apart by type.
    pub(super) grouping_off: AtomicBool,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// The platform that the allocator asks for locks, CPU numbers and reclaim.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The policy that the allocator was made with.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The same, for what is asked of it while the allocator works: known when the program is built, where the platform
    /// says so. Its numbers are not to be read.
    #[inline(always)]
    pub(crate) fn rules(&self) -> &Policy {
        match const { &P::POLICY } {
            Some(fixed) => fixed,
            None => &self.policy,
        }
    }

    /// Metadata of frames and pageblocks, to be read.
    pub fn map(&self) -> &MemMap<'m> {
        &self.map
    }

    /// Bytes in a page, as configured.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Number of CPUs; CPU numbers are below it.
    pub fn cpus(&self) -> u16 {
        self.cpu_nodes.len() as u16
    }

    /// Number of nodes; node numbers are below it.
    #[inline]
    pub fn nodes(&self) -> u8 {
        if P::ONE_NODE {
            return 1;
        }
        (self.zones.len() / ZoneKind::COUNT) as u8
    }

    /// The node of a CPU.
    ///
    /// # Panics
    /// If there is no such CPU. So does every call that the platform answers with such a CPU ([`Platform::cpu`]).
    #[inline]
    pub fn node_of(&self, cpu: CpuId) -> NodeId {
        if P::ONE_NODE {
            self.expect_cpu(cpu);
            return NodeId(0);
        }
        self.cpu_nodes[cpu.index()]
    }

    /// Every zone, empty ones too: node by node, the most precious first.
    pub fn zones(&self) -> &'m [Zone<P::Lock>] {
        self.zones
    }

    /// One zone.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn zone(&self, node: NodeId, kind: ZoneKind) -> &'m Zone<P::Lock> {
        self.expect_node(node);
        &self.zones[node.index() * ZoneKind::COUNT + kind.index()]
    }

    /// The zone of a frame whose memory is online.
    #[inline]
    pub(crate) fn zone_of(&self, pfn: Pfn) -> &'m Zone<P::Lock> {
        self.zone_around(self.map.pageblock(pfn))
    }

    /// Returns the zone of a pageblock that is online.
    #[inline]
    pub(super) fn zone_around(&self, pageblock: &Pageblock) -> &'m Zone<P::Lock> {
        let zone = usize::from(pageblock.zone());
        debug_assert!(zone < self.zones.len(), "zones: a pageblock is zone {zone}'s, of {}", self.zones.len());
        &self.zones[zone]
    }

    /// A zone as this allocator's own.
    ///
    /// # Panics
    /// If it is another allocator's.
    pub(super) fn own(&self, zone: &Zone<P::Lock>) -> &'m Zone<P::Lock> {
        let own = self.zones.get(zone.index()).filter(|own| core::ptr::eq(*own, zone));
        own.expect("the zone is another allocator's")
    }

    /// Refuses a node that is not there.
    pub(super) fn expect_node(&self, node: NodeId) {
        assert!(
            node.0 < self.nodes(),
            "there is no node {}; nodes are numbered from 0 to {}",
            node.0,
            self.nodes() - 1
        );
    }

    /// Refuses a CPU that is not there.
    pub(crate) fn expect_cpu(&self, cpu: CpuId) {
        assert!(cpu.0 < self.cpus(), "there is no CPU {}; CPUs are numbered from 0 to {}", cpu.0, self.cpus() - 1);
    }

    /// The lists of one CPU for one zone.
    ///
    /// # Panics
    /// If there is no such CPU, or the zone is another allocator's.
    pub fn pcp(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> &'m Pcp<P::Lock> {
        self.expect_cpu(cpu);
        self.pcp_at(cpu, self.own(zone))
    }

    /// Returns the lists of one CPU for one zone, both of which exist.
    #[inline]
    pub(crate) fn pcp_at(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> &'m Pcp<P::Lock> {
        expect_there(cpu, self.cpu_nodes.len());
        &self.pcps[cpu.index() * self.zones.len() + zone.index()]
    }

    /// Pageblocks of a zone that a CPU owns and that have pages in the zone.
    ///
    /// # Panics
    /// If there is no such CPU, or the zone is another allocator's.
    pub fn fragments(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> &'m Fragments {
        self.expect_cpu(cpu);
        &self.fragments[cpu.index() * self.zones.len() + self.own(zone).index()]
    }

    /// Zones to try for a request that prefers `node`, in order, from its own zone of kind `highest` on. Zones of
    /// higher kinds on other nodes are still among them.
    #[inline]
    pub(super) fn zonelist(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        let zones = self.zones;
        let start = if P::ONE_NODE { 0 } else { node.index() * zones.len() };
        // A list begins with the node's own zones, the highest kind first.
        let list = &self.zonelists[start + (ZoneKind::COUNT - 1 - highest.index())..start + zones.len()];
        list.iter().map(|&zone| &zones[usize::from(zone)])
    }

    /// The first zone of [`zonelist`](Self::zonelist) with memory, at the price of two loads, if it is on this node.
    #[inline]
    pub(super) fn nearest_zone(&self, node: NodeId, highest: ZoneKind) -> Option<&'m Zone<P::Lock>> {
        let nearest = &self.nearest[node.index() * ZoneKind::COUNT + highest.index()];
        self.zones.get(usize::from(nearest.load(Relaxed)))
    }

    /// Looks for the nearest zones again, when one of a node's zones got memory.
    pub(super) fn note_nearest(&self, node: NodeId) {
        let mut nearest = NO_ZONE;
        for kind in ZoneKind::ALL {
            let zone = self.zone(node, kind);
            if zone.is_populated() {
                nearest = zone.index() as u8;
            }
            self.nearest[node.index() * ZoneKind::COUNT + kind.index()].store(nearest, Relaxed);
        }
    }

    /// Whether pages are kept apart by type.
    pub(crate) fn grouping(&self) -> Grouping {
        if self.grouping_off.load(Relaxed) { Grouping::Off } else { Grouping::On }
    }

    #[inline]
    pub(super) fn report(&self, event: Event) {
        self.platform.probe().report(event);
    }

    pub(super) fn pageblock_pages(&self) -> u64 {
        u64::from(self.map.pageblock_order().pages())
    }

    /// The background tasks of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(super) fn node(&self, node: NodeId) -> &'m Node {
        self.expect_node(node);
        &self.nodes[node.index()]
    }

    /// A node's zones that manage pages, from the most precious up to `highest`.
    pub(super) fn managed_up_to(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        self.zones_up_to(node, highest).iter().filter(|zone| zone.managed() > 0)
    }

    /// Those that have memory, managed or not.
    pub(super) fn populated_up_to(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        self.zones_up_to(node, highest).iter().filter(|zone| zone.is_populated())
    }

    fn zones_up_to(&self, node: NodeId, highest: ZoneKind) -> &'m [Zone<P::Lock>] {
        &self.zones[node.index() * ZoneKind::COUNT..][..=highest.index()]
    }

    /// Waits for a zone's lock; the probe is told when it opens again.
    pub(in crate::page) fn lock_zone<'a>(&'a self, zone: &'a Zone<P::Lock>) -> LockedZone<'a, 'm, P> {
        let fragments = (self.fragments, self.zones.len());
        LockedZone::lock(zone, self.map, self.platform.probe(), fragments, self.boost_factor, self.grouping())
    }

    /// Waits for the lock of the zone that a frame is in; `None` if its memory is not online. Under that lock the
    /// pageblock stays in the zone.
    pub(in crate::page) fn lock_zone_of(&self, pfn: Pfn) -> Option<LockedZone<'_, 'm, P>> {
        let (_, pageblock) = self.map.try_frame_and_pageblock(pfn)?;
        loop {
            let zone = self.zones.get(usize::from(pageblock.zone()))?;
            let locked = self.lock_zone(zone);
            if usize::from(pageblock.zone()) == zone.index() {
                return Some(locked);
            }
        }
    }
}
