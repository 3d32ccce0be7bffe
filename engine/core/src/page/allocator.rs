//! The page allocator's tables, and the lookups that lead from a frame, a node or a CPU to its zone, lists and lock.
//!
//! The modules above this one, from `alloc` to `compaction`, add methods to [`PageAllocator`]. The modules below, zones
//! and per-CPU lists, do not depend on it.

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

/// Token behind the hotplug lock. Its holder may change which frames are online, which of them are Reserved, and which
/// zone their pageblocks belong to.
#[derive(Debug)]
pub(super) struct Hotplug;

impl Ranked for Hotplug {
    const RANK: Rank = Rank::Hotplug;
}

/// A page allocator over memory metadata that lives for `'m`.
///
/// All methods take `&self` and may be called from any CPU at the same time, provided that the platform's lock is
/// `Sync`. No method allocates memory for itself.
#[derive(Debug)]
pub struct PageAllocator<'m, P: Platform> {
    pub(super) platform: P,
    pub(super) map: MemMap<'m>,
    /// All zones, ordered by node, then by kind.
    pub(super) zones: &'m [Zone<P::Lock>],
    /// Per-CPU lists, ordered by CPU, then by zone.
    pub(super) pcps: &'m [Pcp<P::Lock>],
    /// For each CPU and zone, the CPU's owned pageblocks that may have free pages in the zone; ordered like `pcps`.
    /// Each entry is protected by the lock of its zone.
    pub(super) fragments: &'m [Fragments],
    /// For each node, the zones to try: near nodes first, and within a node the highest zone first.
    pub(super) zonelists: &'m [u8],
    /// For each node and each highest kind that a request allows: the first zone of the node with memory, in the order
    /// of the zonelist, or [`NO_ZONE`].
    pub(super) nearest: &'m [AtomicU8],
    /// For each CPU, its nearest node.
    pub(super) cpu_nodes: &'m [NodeId],
    /// The background tasks of each node.
    pub(super) nodes: &'m [Node],
    /// Lock held by calls that add or remove memory.
    pub(super) hotplug: Locked<P::Lock, Hotplug>,
    /// Set while a request asks the platform to end something in order to free memory. linux: mm/oom_kill.c:oom_lock
    pub(super) oom_lock: AtomicBool,
    pub(super) policy: Policy,
    pub(super) page_size: u32,
    pub(super) boost_factor: u32,
    /// Set if pages are not grouped by type.
    pub(super) grouping_off: AtomicBool,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Returns the platform, which provides locks, CPU numbers and reclaim.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Returns the policy that the allocator was created with.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the policy's rules for use while the allocator runs. If the platform fixes its rules
    /// ([`Platform::POLICY`]), they are a compile-time constant. The numbers in the returned value must not be read.
    #[inline(always)]
    pub(crate) fn rules(&self) -> &Policy {
        match const { &P::POLICY } {
            Some(fixed) => fixed,
            None => &self.policy,
        }
    }

    /// Returns the metadata of frames and pageblocks, for reading.
    pub fn map(&self) -> &MemMap<'m> {
        &self.map
    }

    /// Returns the page size in bytes, as configured.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Returns the number of CPUs. All CPU numbers are below it.
    pub fn cpus(&self) -> u16 {
        self.cpu_nodes.len() as u16
    }

    /// Returns the number of nodes. All node numbers are below it.
    #[inline]
    pub fn nodes(&self) -> u8 {
        if P::ONE_NODE {
            return 1;
        }
        (self.zones.len() / ZoneKind::COUNT) as u8
    }

    /// Returns the node of a CPU.
    ///
    /// # Panics
    /// If there is no such CPU. For this reason, calls that allocate or free panic if [`Platform::cpu`] returns a CPU
    /// that does not exist.
    #[inline]
    pub fn node_of(&self, cpu: CpuId) -> NodeId {
        if P::ONE_NODE {
            self.expect_cpu(cpu);
            return NodeId(0);
        }
        self.cpu_nodes[cpu.index()]
    }

    /// Returns every zone, including empty ones: node by node, the lowest kind first.
    pub fn zones(&self) -> &'m [Zone<P::Lock>] {
        self.zones
    }

    /// Returns the zone of a node and a kind.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn zone(&self, node: NodeId, kind: ZoneKind) -> &'m Zone<P::Lock> {
        self.expect_node(node);
        &self.zones[node.index() * ZoneKind::COUNT + kind.index()]
    }

    /// Returns the zone of a frame whose memory is online.
    #[inline]
    pub(crate) fn zone_of(&self, pfn: Pfn) -> &'m Zone<P::Lock> {
        self.zone_around(self.map.pageblock(pfn))
    }

    /// Returns the zone of a pageblock whose memory is online.
    #[inline]
    pub(super) fn zone_around(&self, pageblock: &Pageblock) -> &'m Zone<P::Lock> {
        let zone = usize::from(pageblock.zone());
        debug_assert!(
            zone < self.zones.len(),
            "zones: a pageblock belongs to zone {zone}, but there are {} zones",
            self.zones.len()
        );
        &self.zones[zone]
    }

    /// Returns the allocator's own reference to a zone.
    ///
    /// # Panics
    /// If the zone belongs to another allocator.
    pub(super) fn own(&self, zone: &Zone<P::Lock>) -> &'m Zone<P::Lock> {
        let own = self.zones.get(zone.index()).filter(|own| core::ptr::eq(*own, zone));
        own.expect("the zone must belong to this allocator")
    }

    /// Panics if the node does not exist.
    pub(super) fn expect_node(&self, node: NodeId) {
        assert!(
            node.0 < self.nodes(),
            "there is no node {}; nodes are numbered from 0 to {}",
            node.0,
            self.nodes() - 1
        );
    }

    /// Panics if the CPU does not exist.
    pub(crate) fn expect_cpu(&self, cpu: CpuId) {
        assert!(cpu.0 < self.cpus(), "there is no CPU {}; CPUs are numbered from 0 to {}", cpu.0, self.cpus() - 1);
    }

    /// Returns the lists of one CPU for one zone.
    ///
    /// # Panics
    /// If there is no such CPU, or the zone belongs to another allocator.
    pub fn pcp(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> &'m Pcp<P::Lock> {
        self.expect_cpu(cpu);
        self.pcp_at(cpu, self.own(zone))
    }

    /// Returns the lists of one CPU for one zone. Both must exist.
    #[inline]
    pub(crate) fn pcp_at(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> &'m Pcp<P::Lock> {
        expect_there(cpu, self.cpu_nodes.len());
        &self.pcps[cpu.index() * self.zones.len() + zone.index()]
    }

    /// Returns the pageblocks of a zone that a CPU owns and that may have free pages in the zone.
    ///
    /// # Panics
    /// If there is no such CPU, or the zone belongs to another allocator.
    pub fn fragments(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> &'m Fragments {
        self.expect_cpu(cpu);
        &self.fragments[cpu.index() * self.zones.len() + self.own(zone).index()]
    }

    /// Returns the zones to try for a request that prefers `node`, in order, beginning with the node's zone of kind
    /// `highest`. The iterator still contains zones without memory, and zones of higher kinds on other nodes.
    #[inline]
    pub(super) fn zonelist(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        let zones = self.zones;
        let start = if P::ONE_NODE { 0 } else { node.index() * zones.len() };
        // A zonelist begins with the node's own zones, the highest kind first.
        let list = &self.zonelists[start + (ZoneKind::COUNT - 1 - highest.index())..start + zones.len()];
        list.iter().map(|&zone| &zones[usize::from(zone)])
    }

    /// Returns the first zone of [`zonelist`](Self::zonelist) with memory, if that zone is on this node. Cost: two
    /// loads.
    #[inline]
    pub(super) fn nearest_zone(&self, node: NodeId, highest: ZoneKind) -> Option<&'m Zone<P::Lock>> {
        let nearest = &self.nearest[node.index() * ZoneKind::COUNT + highest.index()];
        self.zones.get(usize::from(nearest.load(Relaxed)))
    }

    /// Recomputes a node's entries in `nearest`, the first zone with memory for each highest kind. Called after one of
    /// the node's zones got or lost memory.
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

    /// Returns whether pages are grouped by type.
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

    /// Returns the background tasks of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(super) fn node(&self, node: NodeId) -> &'m Node {
        self.expect_node(node);
        &self.nodes[node.index()]
    }

    /// Returns the zones of a node that manage pages, from the lowest kind up to `highest`.
    pub(super) fn managed_up_to(
        &self,
        node: NodeId,
        highest: ZoneKind,
    ) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        self.zones_up_to(node, highest).iter().filter(|zone| zone.managed() > 0)
    }

    /// Returns the zones of a node that have memory, managed or not, from the lowest kind up to `highest`.
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

    /// Waits for a zone's lock and returns the locked zone. The probe is notified when the lock is released.
    #[inline(never)]
    pub(in crate::page) fn lock_zone<'a>(&'a self, zone: &'a Zone<P::Lock>) -> LockedZone<'a, 'm, P> {
        let fragments = (self.fragments, self.zones.len());
        LockedZone::lock(zone, self.map, self.platform.probe(), fragments, self.boost_factor, self.grouping())
    }

    /// Waits for the lock of the zone that a frame's pageblock belongs to. Returns `None` if the frame has no metadata,
    /// or no frame of the pageblock is online. The pageblock cannot change its zone while this lock is held, so the
    /// zone is compared again after locking.
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
