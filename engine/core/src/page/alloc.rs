//! Allocation: the entry points, the zones that a request may use, and the watermark that it must respect in each.
//!
//! A request first tries this CPU's list for the nearest zone, if that zone is well above its watermarks. Otherwise it
//! walks the zonelist at the low watermark; a request with NOFRAGMENT prefers another zone to mixing types in a
//! pageblock. If no zone can serve the request, `slowpath` continues. The blocks are taken from `pcp` and `zone`. Cost:
//! one uncontended lock and two list links if the per-CPU list has a block. A refill of the list takes the zone lock in
//! addition, and a request of an order without a list takes only the zone lock.
//!
//! linux: mm/page_alloc.c:__alloc_pages_noprof, get_page_from_freelist, rmqueue
//!
//! # Design
//!
//! The fast path reads nothing that other CPUs write frequently. A request needs the number of free pages only if a
//! watermark could refuse it. `ZoneFlag::NearHigh` shows this: it is clear while the zone has more free pages, without
//! those of CMA areas and of the high-atomic reserve, than the high watermark, the boost, the largest lowmem reserve
//! and the largest block together. It is updated when the zone lock is released, and when one of these values changes.
//! If requests avoid a node whose kswapd is awake (`kswapd.nodes=spared`), a flag in the same byte is set meanwhile.
//! While these two flags and the flags of memory pressure are clear, a request reads one byte of the zone, in a cache
//! line that rarely changes. The decisions are the same as with the counters: the model test predicts every frame.

use super::allocator::PageAllocator;
use super::error::AllocError;
use super::zone::{BlockRequest, Zone, ZoneFlag};
use crate::base::word::Word;
use crate::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::platform::probe::ServedFrom;
use crate::platform::{Event, Platform, Request};
use crate::policy::DefragMode;
use crate::policy::fallback::Grouping;
use crate::policy::flags::{self, AllocFlags, NoFragmentFacts};
use crate::policy::highatomic::{self, ServedRequest};
use crate::policy::kswapd::BusyNodes;

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Allocates a block of `order` with one reference, near the calling CPU.
    ///
    /// With [`Gfp::COMP`] the block is compound, which means that it can only be freed whole. The contents are not
    /// initialised.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] if every attempt that the flags allow has failed; [`AllocError::Flags`] if the flags
    /// contradict each other.
    #[inline]
    pub fn alloc_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let cpu = self.platform.cpu();
        self.alloc_on(cpu, self.node_of(cpu), gfp, order, Holder::CALLER)
    }

    /// Allocates a block like [`alloc_pages`](Self::alloc_pages), for a handle of the `kernel` module. The block is not
    /// migrated before it is [unpinned](Self::unpin), even if the request is movable.
    ///
    /// # Errors
    /// See [`alloc_pages`](Self::alloc_pages).
    #[cfg_attr(loom, expect(dead_code, reason = "only the kernel module has handles"))]
    #[inline]
    pub(crate) fn alloc_pinned_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let cpu = self.platform.cpu();
        self.alloc_on(cpu, self.node_of(cpu), gfp, order, Holder::HANDLE)
    }

    /// Allocates a block like [`alloc_pages`](Self::alloc_pages), near a given node.
    ///
    /// # Errors
    /// See [`alloc_pages`](Self::alloc_pages); [`AllocError::Node`] if there is no such node.
    pub fn alloc_pages_node(&self, node: NodeId, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if node.0 >= self.nodes() {
            return Err(AllocError::Node);
        }
        self.alloc(node, gfp, order, Holder::CALLER)
    }

    /// Allocates a block like [`alloc_pages`](Self::alloc_pages), but without a reference. Free the block with
    /// [`free_frozen_pages`](Self::free_frozen_pages).
    ///
    /// # Errors
    /// See [`alloc_pages`](Self::alloc_pages).
    pub fn alloc_frozen_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let cpu = self.platform.cpu();
        self.alloc_on(cpu, self.node_of(cpu), gfp, order, Holder::FROZEN)
    }

    /// Allocates a block like [`alloc_frozen_pages`](Self::alloc_frozen_pages), near a given node.
    ///
    /// # Errors
    /// See [`alloc_pages_node`](Self::alloc_pages_node).
    pub fn alloc_frozen_pages_node(&self, node: NodeId, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if node.0 >= self.nodes() {
            return Err(AllocError::Node);
        }
        self.alloc(node, gfp, order, Holder::FROZEN)
    }

    /// Allocates a block like [`alloc_frozen_pages_node`](Self::alloc_frozen_pages_node), for a slab. Only the slab
    /// allocator can free the block.
    ///
    /// # Errors
    /// See [`alloc_pages_node`](Self::alloc_pages_node).
    pub(crate) fn alloc_slab_pages(&self, node: NodeId, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if node.0 >= self.nodes() {
            return Err(AllocError::Node);
        }
        self.alloc(node, gfp, order, Holder::SLAB)
    }

    /// Allocates a block for a slab from the node, which must exist, if this needs neither the slow path nor a mix of
    /// types: some zone of the node stays above its low watermark, and has a block of the request's type or a wholly
    /// free pageblock. Otherwise, or if the flags contradict each other, returns `None`; this does not count as a
    /// failed request. The call drains no lists, and wakes kswapd only if a watermark was boosted.
    pub(crate) fn try_alloc_slab_pages(&self, node: NodeId, gfp: Gfp, order: Order) -> Option<Pfn> {
        let (migratetype, highest) = self.resolve_gfp(gfp)?;
        let request = Request { gfp: gfp | Gfp::THISNODE, order, migratetype, node, highest };
        let word = Holder::SLAB.word(gfp, order);
        self.rmqueue_fast(self.platform.cpu(), &request, word).or_else(|| {
            let flags = self.fast_flags(&request) | AllocFlags::NOFRAGMENT;
            let Walk::Found(pfn) = self.walk_zonelist(&request, flags, BusyNodes::Used) else { return None };
            self.map.frame(pfn).set(word);
            Some(pfn)
        })
    }

    #[inline]
    pub(super) fn alloc(&self, node: NodeId, gfp: Gfp, order: Order, holder: Holder) -> Result<Pfn, AllocError> {
        self.alloc_on(self.platform.cpu(), node, gfp, order, holder)
    }

    #[inline]
    fn alloc_on(&self, cpu: CpuId, node: NodeId, gfp: Gfp, order: Order, holder: Holder) -> Result<Pfn, AllocError> {
        let (migratetype, highest) = self.resolve_gfp(gfp).ok_or(AllocError::Flags)?;
        let request = Request { gfp, order, migratetype, node, highest };
        let word = holder.word(gfp, order);
        match self.rmqueue_fast(cpu, &request, word) {
            Some(pfn) => Ok(pfn),
            None => self.alloc_from_zonelist(request, word),
        }
    }

    /// Makes the first attempt over the whole zonelist, then takes the slow path. If that fails and this CPU's lists
    /// could be drained, takes the slow path once more, unless the request [`fails_lightly`]. The block that an attempt
    /// returns is claimed until its word is set, so no other call can free it before the caller has it.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] if no attempt finds a block, which is also reported to the probe.
    #[inline(never)]
    fn alloc_from_zonelist(&self, request: Request, word: Word) -> Result<Pfn, AllocError> {
        let at_first = self.get_page_from_freelist(&request, self.fast_flags(&request));
        let mut found = at_first.or_else(|| self.alloc_pages_slowpath(&request));
        if found.is_none() && !fails_lightly(&request) && self.drain_local_pages() {
            found = self.alloc_pages_slowpath(&request);
        }
        let Some(pfn) = found else {
            self.report(Event::Failed { order: request.order });
            return Err(AllocError::OutOfMemory);
        };
        self.map.frame(pfn).set(word);
        Ok(pfn)
    }

    /// Takes a block from this CPU's list for the node's nearest zone, if that zone is well above its high watermark,
    /// and sets the block's word to `word`. The first attempt of
    /// [`get_page_from_freelist`](Self::get_page_from_freelist) would take the same block. Returns `None`, and changes
    /// nothing, if the zone has less free memory, or the list has no block or is locked. The function skips the checks
    /// that a zone with that much free memory makes unnecessary, about half of the work.
    #[inline]
    fn rmqueue_fast(&self, cpu: CpuId, request: &Request, word: Word) -> Option<Pfn> {
        let Request { order, migratetype, node, highest, .. } = *request;
        let zone = self.nearest_zone(node, highest).filter(|zone| zone.is_well_above_high())?;
        // Of the first attempt's flags, CMA and HIGHATOMIC affect the check of such a zone. HIGHATOMIC is left out: if
        // the check fails for lack of it, the whole attempt follows.
        let spares = order == Order::ZERO || zone.has_block(order, flags::cma(migratetype));
        let pfn = if spares { self.pop_pcplist(cpu, zone, order, migratetype, word) } else { None }?;
        if !highatomic::at_first(self.rules().highatomic, request.gfp, order).is_empty() {
            self.report(Event::HighAtomicServed { order, from: ServedFrom::List });
        }
        Some(pfn)
    }

    /// Returns the type that the flags request and the highest zone that they allow, or `None` if the flags contradict
    /// each other. While pages are not grouped by type, the type is always Unmovable.
    /// linux: mm/page_alloc.c:prepare_alloc_pages
    #[inline]
    pub(super) fn resolve_gfp(&self, gfp: Gfp) -> Option<(MigrateType, ZoneKind)> {
        let (wanted, highest) = gfp.migratetype_and_zone()?;
        let migratetype = if self.grouping() == Grouping::Off { MigrateType::Unmovable } else { wanted };
        Some((migratetype, highest))
    }

    #[inline(never)]
    pub(super) fn fast_flags(&self, request: &Request) -> AllocFlags {
        let preferred = self.zones_for(request).next();
        let has_other_zone = preferred.is_some_and(|zone| {
            zone.kind() == ZoneKind::Normal
                && (self.nodes() == 1 || self.zone(zone.node(), ZoneKind::Dma32).is_populated())
        });
        let facts = NoFragmentFacts { has_other_zone, defrag_mode: self.rules().defrag_mode };
        flags::fast(self.rules().flags, request.gfp, request.migratetype, facts)
            | highatomic::at_first(self.rules().highatomic, request.gfp, request.order)
    }

    /// Returns the zones with memory that the request may use, the preferred zone first.
    #[inline]
    pub(super) fn zones_for(&self, request: &Request) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        let Request { highest, node, gfp, .. } = *request;
        let this_node = gfp.contains(Gfp::THISNODE);
        self.zonelist(node, highest)
            .filter(move |zone| zone.kind() <= highest && zone.is_populated() && (!this_node || zone.node() == node))
    }

    /// Takes a block, claimed, from the first zone that can spare one, or returns `None`. Nodes whose kswapd is awake
    /// are skipped at first, if the policy requires it. With `NOFRAGMENT` the walk ends with the zones of the preferred
    /// zone's node; if none of them can serve the request without mixing types, the walk is repeated over all zones
    /// without the flag. In defrag mode the first walk covers all zones, and the flag is kept: if no zone can serve the
    /// request, it gets no block here, and the slow path decides when mixing types is allowed.
    /// linux: mm/page_alloc.c:get_page_from_freelist
    pub(super) fn get_page_from_freelist(&self, request: &Request, mut flags: AllocFlags) -> Option<Pfn> {
        let mut busy = if self.spares_busy_nodes() { BusyNodes::Spared } else { BusyNodes::Used };
        loop {
            match self.walk_zonelist(request, flags, busy) {
                Walk::Found(pfn) => return Some(pfn),
                Walk::Remote => {}
                Walk::Spared => {
                    busy = BusyNodes::Used;
                    continue;
                }
                Walk::Exhausted if flags.contains(AllocFlags::NOFRAGMENT) && !self.defrags() => {}
                Walk::Exhausted => return None,
            }
            // Mixing types on the near node is better than failing, and better than taking memory from another node.
            flags -= AllocFlags::NOFRAGMENT;
        }
    }

    /// Returns whether defrag mode is on, in which types are mixed only as a last resort.
    #[inline]
    pub(super) fn defrags(&self) -> bool {
        self.rules().defrag_mode == DefragMode::On
    }

    #[inline]
    fn walk_zonelist(&self, request: &Request, flags: AllocFlags, busy: BusyNodes) -> Walk {
        let (mut preferred, mut end) = (None, Walk::Exhausted);
        for zone in self.zones_for(request) {
            let near = *preferred.get_or_insert(zone.node());
            if flags.contains(AllocFlags::NOFRAGMENT) && zone.node() != near && !self.defrags() {
                return Walk::Remote;
            }
            if busy == BusyNodes::Spared && !self.node(zone.node()).kswapd.is_asleep() {
                end = Walk::Spared;
                continue;
            }
            if !self.can_spare(zone, request, flags) {
                continue;
            }
            if let Some(pfn) = self.rmqueue(zone, request, flags) {
                return Walk::Found(pfn);
            }
        }
        end
    }

    /// Returns whether a zone may give a block to a request: the zone stays above the watermark that the flags select
    /// and, above order 0, has a block that the request may use. With `NO_WATERMARKS` every zone may. If the zone does
    /// not pass this check at its high watermark, the zone is flagged [`ZoneFlag::BelowHigh`].
    /// linux: mm/page_alloc.c:get_page_from_freelist
    #[inline]
    pub(super) fn can_spare(&self, zone: &Zone<P::Lock>, request: &Request, flags: AllocFlags) -> bool {
        let Request { order, highest, .. } = *request;
        if !zone.has(ZoneFlag::BelowHigh) {
            if zone.watermark_fast(order, zone.mark(AllocFlags::WMARK_HIGH), highest, flags) {
                return true;
            }
            zone.set(ZoneFlag::BelowHigh);
        }
        zone.watermark_fast(order, zone.mark(flags), highest, flags) || flags.contains(AllocFlags::NO_WATERMARKS)
    }

    /// Takes a block of a zone, claimed, from this CPU's list, or else from the free lists; returns `None` if neither
    /// has one. Wakes kswapd if the zone's watermarks were boosted and the flags allow it. If the flags have
    /// HIGHATOMIC, the block's pageblock may join the high-atomic reserve. linux: mm/page_alloc.c:rmqueue
    #[inline]
    fn rmqueue(&self, zone: &Zone<P::Lock>, request: &Request, flags: AllocFlags) -> Option<Pfn> {
        let wanted = BlockRequest { order: request.order, migratetype: request.migratetype, flags };
        let listed = self.rmqueue_pcplist(zone, wanted);
        let pfn = listed.or_else(|| self.rmqueue_buddy(zone, wanted));
        if flags.contains(AllocFlags::KSWAPD) && zone.clear(ZoneFlag::BoostedWatermark) {
            self.wakeup_kswapd(zone.node(), zone.kind(), Order::ZERO);
        }
        if flags.contains(AllocFlags::HIGHATOMIC)
            && let Some(pfn) = pfn
        {
            self.reserve_highatomic_pageblock(
                zone,
                pfn,
                ServedRequest { order: request.order, flags, by_list: listed.is_some() },
            );
        }
        pfn
    }

    /// Takes a block from the free lists, under the zone lock. Linux takes the lock even if there is no such block. If
    /// CPUs own pageblocks, the free lists are checked without the lock first. linux: mm/page_alloc.c:rmqueue_buddy
    #[cold]
    #[inline(never)]
    fn rmqueue_buddy(&self, zone: &Zone<P::Lock>, wanted: BlockRequest) -> Option<Pfn> {
        if self.rules().pcp.owns() && !zone.may_serve(wanted, self.map.pageblock_order()) {
            return None;
        }
        self.lock_zone(zone).rmqueue_buddy(wanted)
    }
}

/// Holder of a block that was just allocated, as the state word of a single page that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder(Word);

impl Holder {
    /// The caller, with one reference.
    pub(super) const CALLER: Holder = Holder::many(1);
    /// A handle, with one reference. The block is pinned.
    pub(super) const HANDLE: Holder = Holder(Holder::CALLER.0.pinned());
    /// No reference: the block is frozen.
    pub(super) const FROZEN: Holder = Holder::many(0);
    /// No reference; the block belongs to a slab.
    pub(super) const SLAB: Holder = Holder(Holder::FROZEN.0.slab());

    /// Returns the caller with this many references as the holder.
    pub(super) const fn many(refs: u32) -> Holder {
        Holder(Word::allocated(Order::ZERO).with_refs(refs))
    }

    /// Returns the state word of a block that was allocated with these flags.
    #[inline]
    pub(super) fn word(self, gfp: Gfp, order: Order) -> Word {
        let mut word = self.0.with_order(order);
        if gfp.contains(Gfp::MOVABLE) {
            word = word.movable();
        }
        if gfp.contains(Gfp::COMP) {
            word = word.compound();
        }
        word
    }
}

/// Result of a walk over the zones.
enum Walk {
    Found(Pfn),
    /// No zone of the near node could serve the request without mixing types, and the next zone is on another node.
    Remote,
    /// No zone could serve the request, but nodes were skipped because their kswapd is awake.
    Spared,
    Exhausted,
}

/// Returns whether the request may fail without serious consequences: it is above [`Order::COSTLY`], or it is above
/// order 0 and may not reclaim. The lists of its CPU are not drained for another attempt before it fails.
#[cold]
fn fails_lightly(request: &Request) -> bool {
    let Request { order, gfp, .. } = *request;
    order > Order::COSTLY || (order > Order::ZERO && !gfp.contains(Gfp::DIRECT_RECLAIM))
}
