//! Allocation path: zones in order, watermarks, and the lists of each zone.

use freehold::base::{Gfp, MigrateType, ZoneKind};
use freehold::platform::Context;
use freehold::policy::HighAtomicPolicy;
use freehold::policy::flags::AllocFlags;
use freehold::policy::kswapd::BusyNodes;

use super::Reference;
use super::map::AllocatedBlock;
use super::zone::{Mode, Search};

/// A request with consistent flags.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub gfp: Gfp,
    pub order: u8,
    pub node: u8,
    pub migratetype: MigrateType,
    pub highest: ZoneKind,
}

impl Reference {
    /// Returns the request for these flags, or `None` if they contradict each other.
    pub(crate) fn request(&self, gfp: Gfp, order: u8, node: Option<u8>) -> Option<Request> {
        let bits = gfp.bits();
        let highest = match bits & 0xf {
            0 | 2 | 8 => ZoneKind::Normal,
            1 | 9 => ZoneKind::Dma,
            4 | 12 => ZoneKind::Dma32,
            10 => ZoneKind::Movable,
            _ => return None,
        };
        let migratetype = match bits >> 3 & 3 {
            3 => return None,
            _ if self.grouping_off => MigrateType::Unmovable,
            number => MigrateType::from_index(number as usize),
        };
        let node = node.unwrap_or(self.node_of_cpu[self.cpu]);
        Some(Request { gfp, order, node, migratetype, highest })
    }

    /// Allocates a block. Returns `None` after all attempts have failed.
    pub(crate) fn alloc(&mut self, request: Request) -> Option<u32> {
        let mut pfn = self.walk(request, self.fast_flags(request)).or_else(|| self.slow(request));
        let may_wait = request.gfp.contains(Gfp::DIRECT_RECLAIM);
        let fails_lightly = request.order > 3 || (request.order > 0 && !may_wait);
        if pfn.is_none() && !fails_lightly && self.give_back_homecoming() {
            pfn = self.slow(request);
        }
        let pfn = pfn?;
        self.paint_allocated(pfn, request);
        Some(pfn)
    }

    fn paint_allocated(&mut self, pfn: u32, request: Request) {
        let Request { gfp, order, .. } = request;
        let (movable, compound) = (gfp.contains(Gfp::MOVABLE), gfp.contains(Gfp::COMP));
        self.map.hold(pfn, AllocatedBlock { order, movable, compound, poisoned: false });
    }

    /// Allocates several single pages.
    pub(crate) fn alloc_bulk(&mut self, request: Request, count: usize) -> Vec<u32> {
        let flags = self.fast_flags(request);
        let zones = self.zones_for(request);
        let near = zones.first().map(|&zone| self.zones[zone].node);
        let mut local = zones.into_iter().take_while(|&zone| Some(self.zones[zone].node) == near);
        let mut chosen = None;
        if count > 1 && self.has_lists {
            chosen = local.find(|&zone| self.stays_above_low(zone, count, request, flags));
        }
        let taken = chosen.map_or(Vec::new(), |zone| self.take_bulk(zone, request, flags, count));
        if taken.is_empty() && count > 0 { self.alloc(request).into_iter().collect() } else { taken }
    }

    /// Takes pages from the lists. Each is recorded before the next one is taken.
    fn take_bulk(&mut self, zone: usize, request: Request, flags: AllocFlags, count: usize) -> Vec<u32> {
        let search = self.search(request, flags);
        let mut pages = Vec::new();
        while pages.len() < count
            && let Some(pfn) = self.pop_or_refill(zone, search)
        {
            self.paint_allocated(pfn, request);
            pages.push(pfn);
        }
        pages
    }

    /// Returns whether a zone stays above its low watermark after `count` pages are taken.
    fn stays_above_low(&self, index: usize, count: usize, request: Request, flags: AllocFlags) -> bool {
        let zone = &self.zones[index];
        zone.watermark_fast(0, zone.mark(AllocFlags::WMARK_LOW) + count as i64, request.highest, flags)
    }

    fn search(&self, request: Request, flags: AllocFlags) -> Search {
        let Request { order, migratetype, .. } = request;
        Search { order, migratetype, flags, grouping_off: self.grouping_off }
    }

    /// Returns the zones that the request may use, in order.
    pub(crate) fn zones_for(&self, request: Request) -> Vec<usize> {
        self.zonelists[usize::from(request.node)].iter().copied().filter(|&zone| self.may_use(zone, request)).collect()
    }

    fn may_use(&self, index: usize, request: Request) -> bool {
        let zone = &self.zones[index];
        let is_near = !request.gfp.contains(Gfp::THISNODE) || zone.node.0 == request.node;
        zone.populated && zone.kind <= request.highest && is_near
    }

    /// Returns the allocation flags of rule 3, fast path.
    fn fast_flags(&self, request: Request) -> AllocFlags {
        let mut flags = AllocFlags::WMARK_LOW;
        if request.migratetype == MigrateType::Movable {
            flags |= AllocFlags::CMA;
        }
        if request.gfp.contains(Gfp::KSWAPD_RECLAIM) {
            flags |= AllocFlags::KSWAPD;
        }
        if let Some(&preferred) = self.zones_for(request).first() {
            let zone = &self.zones[preferred];
            let single_node = self.zonelists.len() == 1;
            if zone.kind == ZoneKind::Normal && (single_node || self.zones[preferred - 1].populated) {
                flags |= AllocFlags::NOFRAGMENT;
            }
        }
        if self.defrags {
            flags |= AllocFlags::NOFRAGMENT;
        }
        let rushed = request.gfp.contains(Gfp::HIGH) && !request.gfp.intersects(Gfp::DIRECT_RECLAIM | Gfp::NOMEMALLOC);
        if self.rival == HighAtomicPolicy::ReuseFirst && request.order > 0 && rushed {
            flags |= AllocFlags::HIGHATOMIC;
        }
        flags
    }

    /// Returns the allocation flags of rule 3, slow path.
    pub(crate) fn slow_flags(&self, request: Request) -> AllocFlags {
        let gfp = request.gfp;
        let mut flags = AllocFlags::CPUSET;
        if gfp.contains(Gfp::HIGH) {
            flags |= AllocFlags::MIN_RESERVE;
        }
        if gfp.contains(Gfp::KSWAPD_RECLAIM) {
            flags |= AllocFlags::KSWAPD;
        }
        if !gfp.contains(Gfp::DIRECT_RECLAIM) {
            if !gfp.contains(Gfp::NOMEMALLOC) {
                flags |= AllocFlags::NON_BLOCK;
                if request.order > 0 && gfp.contains(Gfp::HIGH) {
                    flags |= AllocFlags::HIGHATOMIC;
                }
            }
            if gfp.contains(Gfp::HIGH) {
                flags -= AllocFlags::CPUSET;
            }
        } else if self.task.realtime && !matches!(self.task.context, Context::Softirq | Context::Hardirq) {
            flags |= AllocFlags::MIN_RESERVE;
        }
        if self.defrags {
            flags |= AllocFlags::NOFRAGMENT;
        }
        if request.migratetype == MigrateType::Movable {
            flags |= AllocFlags::CMA;
        }
        flags
    }

    /// Returns the allocation flags of rule 3, reserve override.
    pub(crate) fn reserve_override(&self, gfp: Gfp) -> AllocFlags {
        if gfp.contains(Gfp::NOMEMALLOC) {
            return AllocFlags::empty();
        }
        if gfp.contains(Gfp::MEMALLOC) {
            return AllocFlags::NO_WATERMARKS;
        }
        match self.task.context {
            Context::Task | Context::Softirq if self.task.memalloc => AllocFlags::NO_WATERMARKS,
            Context::Task if self.task.oom_victim => AllocFlags::OOM,
            _ => AllocFlags::empty(),
        }
    }

    /// Walks the zones of a request: rule 6.
    pub(crate) fn walk(&mut self, request: Request, mut flags: AllocFlags) -> Option<u32> {
        let zones = self.zones_for(request);
        let near = self.zones[*zones.first()?].node;
        let mut spares = self.rules.kswapd.nodes == BusyNodes::Spared && self.zonelists.len() > 1;
        'restart: loop {
            let mut spared = false;
            for &zone in &zones {
                if flags.contains(AllocFlags::NOFRAGMENT) && !self.defrags && self.zones[zone].node != near {
                    flags -= AllocFlags::NOFRAGMENT;
                    continue 'restart;
                }
                if spares && self.is_busy(self.zones[zone].node) {
                    spared = true;
                    continue;
                }
                if !self.can_spare(zone, request, flags) {
                    continue;
                }
                if let Some(pfn) = self.take_from_zone(zone, request, flags) {
                    return Some(pfn);
                }
            }
            if spared {
                spares = false;
                continue;
            }
            if !flags.contains(AllocFlags::NOFRAGMENT) || self.defrags {
                return None;
            }
            flags -= AllocFlags::NOFRAGMENT;
        }
    }

    fn can_spare(&mut self, zone: usize, request: Request, flags: AllocFlags) -> bool {
        let zone = &mut self.zones[zone];
        if !zone.below_high {
            if zone.watermark_fast(request.order, zone.high + zone.boost, request.highest, flags) {
                return true;
            }
            zone.below_high = true;
        }
        let mark = zone.mark(flags & (AllocFlags::WMARK_LOW | AllocFlags::WMARK_HIGH));
        zone.watermark_fast(request.order, mark, request.highest, flags) || flags.contains(AllocFlags::NO_WATERMARKS)
    }

    fn take_from_zone(&mut self, zone: usize, request: Request, flags: AllocFlags) -> Option<u32> {
        let search = self.search(request, flags);
        let listed = self.take_from_lists(zone, search);
        let pfn = listed.or_else(|| self.take_locked(zone, search));
        if flags.contains(AllocFlags::KSWAPD) && self.zones[zone].boosted {
            self.zones[zone].boosted = false;
            let (node, kind) = (self.zones[zone].node, self.zones[zone].kind);
            self.wake_kswapd(node, kind, 0);
        }
        if let Some(pfn) = pfn
            && flags.contains(AllocFlags::HIGHATOMIC)
            && self.joins_reserve(request.order, flags, listed.is_some())
        {
            self.zones[zone].reserve(&mut self.map, pfn, request.order);
        }
        pfn
    }

    /// Returns whether a request reserves its pageblock: rule 8, and the rules of the rival policies.
    fn joins_reserve(&self, order: u8, flags: AllocFlags, listed: bool) -> bool {
        match self.rival {
            HighAtomicPolicy::Linux | HighAtomicPolicy::GiveBack => true,
            HighAtomicPolicy::SkipCostly => order >= 4,
            HighAtomicPolicy::PastLists => !listed,
            HighAtomicPolicy::ReuseFirst => !listed && !flags.contains(AllocFlags::WMARK_LOW),
        }
    }

    fn take_locked(&mut self, zone: usize, search: Search) -> Option<u32> {
        let Search { order, flags, .. } = search;
        let (zone, map) = (&mut self.zones[zone], &mut self.map);
        let reserve = flags.contains(AllocFlags::HIGHATOMIC);
        let first = if reserve { zone.smallest(map, order, MigrateType::HighAtomic) } else { None };
        first.or_else(|| zone.take(map, search, &mut Mode::Normal)).or_else(|| {
            let dire = flags.intersects(AllocFlags::OOM | AllocFlags::NON_BLOCK);
            if dire { zone.smallest(map, order, MigrateType::HighAtomic) } else { None }
        })
    }
}
