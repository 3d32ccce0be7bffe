//! The front door: a request, the zones it may use, and the watermark it must respect in each.
//!
//! The first attempt respects the low watermark and would rather use another zone than mix types in a pageblock.
//! If no zone will do, `slowpath` goes on. Cost: from a filled per-CPU list, one uncontended lock and
//! two list links; else a zone lock, once per refill.
//!
//! linux: mm/page_alloc.c:__alloc_frozen_pages_noprof, get_page_from_freelist, rmqueue

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
    /// With [`Gfp::COMP`] the block is compound: it is freed whole. The contents are whatever was there.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`] after everything that the flags allow was tried; [`AllocError::Flags`] for flags
    /// that contradict each other.
    #[inline]
    pub fn alloc_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let cpu = self.platform.cpu();
        self.alloc_on(cpu, self.node_of(cpu), gfp, order, Holder::Caller)
    }

    /// As [`alloc_pages`](Self::alloc_pages), for a handle: the block does not move before it is
    /// [unpinned](Self::unpin), even if the request is movable.
    ///
    /// # Errors
    /// As there.
    #[cfg_attr(loom, expect(dead_code, reason = "handles are the kernel module's"))]
    #[inline]
    pub(crate) fn alloc_pinned_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let cpu = self.platform.cpu();
        self.alloc_on(cpu, self.node_of(cpu), gfp, order, Holder::Handle)
    }

    /// As [`alloc_pages`](Self::alloc_pages), near a node.
    ///
    /// # Errors
    /// As there; [`AllocError::Node`] if there is no such node.
    pub fn alloc_pages_node(&self, node: NodeId, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if node.0 >= self.nodes() {
            return Err(AllocError::Node);
        }
        self.alloc(node, gfp, order, Holder::Caller)
    }

    /// As [`alloc_pages`](Self::alloc_pages), without a reference: free it with
    /// [`free_frozen_pages`](Self::free_frozen_pages).
    ///
    /// # Errors
    /// As there.
    pub fn alloc_frozen_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let cpu = self.platform.cpu();
        self.alloc_on(cpu, self.node_of(cpu), gfp, order, Holder::Nobody)
    }

    /// As [`alloc_frozen_pages`](Self::alloc_frozen_pages), near a node.
    ///
    /// # Errors
    /// As [`alloc_pages_node`](Self::alloc_pages_node).
    pub fn alloc_frozen_pages_node(&self, node: NodeId, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if node.0 >= self.nodes() {
            return Err(AllocError::Node);
        }
        self.alloc(node, gfp, order, Holder::Nobody)
    }

    /// As [`alloc_frozen_pages_node`](Self::alloc_frozen_pages_node), for a slab, which alone can give the block back.
    pub(crate) fn alloc_slab_pages(&self, node: NodeId, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if node.0 >= self.nodes() {
            return Err(AllocError::Node);
        }
        self.alloc(node, gfp, order, Holder::Slab)
    }

    /// Allocates a block for a slab if the node can spare one at once: above the low watermark, in a pageblock of the
    /// right type. Drains and wakes nothing, and does not count as a failed request if there is none.
    pub(crate) fn try_alloc_slab_pages(&self, node: NodeId, gfp: Gfp, order: Order) -> Option<Pfn> {
        let (migratetype, highest) = self.resolve_gfp(gfp)?;
        let request = Request { gfp: gfp | Gfp::THISNODE, order, migratetype, node, highest };
        let word = Holder::Slab.holds(fresh(gfp, order));
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
        let word = holder.holds(fresh(gfp, order));
        match self.rmqueue_fast(cpu, &request, word) {
            Some(pfn) => Ok(pfn),
            None => self.alloc_from_zonelist(request, word),
        }
    }

    /// Makes the first attempt in full, then takes the slow path. The block that either of them returns is claimed, so
    /// no other call can free it before it is the caller's.
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

    /// Takes a block from this CPU's list if the preferred zone is well above its watermarks; the block becomes `word`.
    /// Decides nothing that the first attempt of [`get_page_from_freelist`](Self::get_page_from_freelist) would decide
    /// differently, and changes nothing if it finds nothing: it skips the checks that such a zone makes needless, half
    /// of the work.
    #[inline]
    fn rmqueue_fast(&self, cpu: CpuId, request: &Request, word: Word) -> Option<Pfn> {
        let Request { order, migratetype, node, highest, .. } = *request;
        let zone = self.nearest_zone(node, highest).filter(|zone| zone.is_well_above_high())?;
        // Of the flags of the first attempt, the watermark heeds this one only.
        let spares = order == Order::ZERO || zone.has_block(order, flags::cma(migratetype));
        let pfn = if spares { self.pop_pcplist(cpu, zone, order, migratetype, word) } else { None }?;
        if !highatomic::at_first(self.rules().highatomic, request.gfp, order).is_empty() {
            self.report(Event::HighAtomicServed { order, from: ServedFrom::List });
        }
        Some(pfn)
    }

    /// Returns the type that the flags ask for and the highest zone that they allow; `None` if they contradict each
    /// other. linux: mm/page_alloc.c:prepare_alloc_pages
    #[inline]
    pub(super) fn resolve_gfp(&self, gfp: Gfp) -> Option<(MigrateType, ZoneKind)> {
        let (wanted, highest) = (gfp.migratetype()?, gfp.highest_zone()?);
        let migratetype = if self.grouping() == Grouping::Off { MigrateType::Unmovable } else { wanted };
        Some((migratetype, highest))
    }

    #[inline]
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

    /// Zones with memory that the request may use, the preferred one first.
    #[inline]
    pub(super) fn zones_for(&self, request: &Request) -> impl Iterator<Item = &'m Zone<P::Lock>> + use<'m, P> {
        let Request { highest, node, gfp, .. } = *request;
        let this_node = gfp.contains(Gfp::THISNODE);
        self.zonelist(node, highest)
            .filter(move |zone| zone.kind() <= highest && zone.is_populated() && (!this_node || zone.node() == node))
    }

    /// Takes a block from the first zone that can spare one. In defrag mode the flags are kept: a request that avoids
    /// mixing types gets nothing here, and the slow path decides when it has waited long enough. linux:
    /// mm/page_alloc.c:get_page_from_freelist
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
            // Mixing types nearby is better than failing, or than going to another node.
            flags -= AllocFlags::NOFRAGMENT;
        }
    }

    /// Whether types are mixed only at last.
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

    /// Whether a zone is above the watermark of the flags. On the way, notes if it fell below the high one.
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

    /// Takes a block of a zone from this CPU's list or from the free lists; wakes kswapd if the zone was boosted.
    /// linux: mm/page_alloc.c:rmqueue
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

    /// Takes a block from the free lists, under the zone lock. Linux takes the lock to find that there is none; where
    /// CPUs own pageblocks, the lists are looked at without it first. linux: mm/page_alloc.c:rmqueue_buddy
    #[cold]
    #[inline(never)]
    fn rmqueue_buddy(&self, zone: &Zone<P::Lock>, wanted: BlockRequest) -> Option<Pfn> {
        if self.rules().pcp.owns() && !zone.may_serve(wanted, self.map.pageblock_order()) {
            return None;
        }
        self.lock_zone(zone).rmqueue_buddy(wanted)
    }
}

/// The state of a block that was just allocated, before it has references.
#[inline]
pub(super) fn fresh(gfp: Gfp, order: Order) -> Word {
    let mut word = Word::allocated(order);
    if gfp.contains(Gfp::MOVABLE) {
        word = word.movable();
    }
    if gfp.contains(Gfp::COMP) {
        word = word.compound();
    }
    word
}

/// How a block that was just allocated is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The caller, by one reference.
    Caller,
    /// A handle, by one reference: the block is pinned.
    Handle,
    /// By this many references.
    Many(u32),
    /// By no reference: it is frozen.
    Nobody,
    /// By no reference, as a slab's.
    Slab,
}

impl Holder {
    #[inline]
    fn holds(self, word: Word) -> Word {
        match self {
            Holder::Caller => word.with_refs(1),
            Holder::Handle => word.pinned().with_refs(1),
            Holder::Many(refs) => word.with_refs(refs),
            Holder::Nobody => word,
            Holder::Slab => word.slab(),
        }
    }
}

/// How a walk over the zones ended.
enum Walk {
    Found(Pfn),
    /// The next zone is on another node, and the request would rather not mix types on this one.
    Remote,
    /// It passed nodes over whose kswapd works, and no other would do.
    Spared,
    Exhausted,
}

/// Whether nothing comes to an end if a request fails: it is for a large block, or for more than a page and may not
/// reclaim. As in Linux, it takes nothing from CPUs' lists.
#[cold]
fn fails_lightly(request: &Request) -> bool {
    let Request { order, gfp, .. } = *request;
    order > Order::COSTLY || (order > Order::ZERO && !gfp.contains(Gfp::DIRECT_RECLAIM))
}
