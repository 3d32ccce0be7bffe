//! The way of a request: zones in order, watermarks, and the slow path with its rounds.

use freehold::base::{Gfp, MigrateType, NodeId, Order, ZoneKind};
use freehold::platform::{CompactEffort, CompactResult, Patience};
use freehold::policy::flags::AllocFlags;

use super::zone::{Mode, Page, Search};
use super::{Block, Call, Reference};

/// A request whose flags make sense.
#[derive(Clone, Copy)]
pub struct Request {
    pub gfp: Gfp,
    pub order: u8,
    pub node: u8,
    pub migratetype: MigrateType,
    pub highest: ZoneKind,
}

/// What a request remembers from round to round.
struct Progress {
    flags: AllocFlags,
    effort: CompactEffort,
    no_progress: u32,
    compact_retries: u32,
}

enum Next {
    Found(u32),
    Retry,
    Stop,
}

impl Reference {
    /// The request behind these flags; `None` if they contradict each other.
    pub fn request(&self, gfp: Gfp, order: u8, node: Option<u8>) -> Option<Request> {
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

    /// One block, or none after everything was tried.
    pub fn alloc(&mut self, request: Request) -> Option<u32> {
        let pfn = self.walk(request, self.fast_flags(request)).or_else(|| self.slow(request))?;
        self.paint_allocated(pfn, request);
        Some(pfn)
    }

    fn paint_allocated(&mut self, pfn: u32, request: Request) {
        let page = if request.gfp.contains(Gfp::MOVABLE) { Page::Movable } else { Page::Fixed };
        self.map.paint(pfn, request.order, page);
    }

    /// Several single pages.
    pub fn alloc_bulk(&mut self, request: Request, count: usize) -> Vec<u32> {
        let flags = self.fast_flags(request);
        let zones = self.zones_for(request);
        let near = zones.first().map(|&zone| self.zones[zone].node);
        let spares = |&&zone: &&usize| {
            let zone = &self.zones[zone];
            zone.watermark_fast(0, zone.mark(AllocFlags::WMARK_LOW) + count as i64, request.highest, flags)
        };
        let local = zones.iter().take_while(|&&zone| Some(self.zones[zone].node) == near);
        let chosen = if count > 1 { local.into_iter().find(spares).copied() } else { None };
        let search = self.search(request, flags);
        let taken = chosen.map_or(Vec::new(), |zone| self.take_bulk(zone, search, count));
        for &pfn in &taken {
            self.paint_allocated(pfn, request);
        }
        if taken.is_empty() && count > 0 { self.alloc(request).into_iter().collect() } else { taken }
    }

    fn search(&self, request: Request, flags: AllocFlags) -> Search {
        let Request { order, migratetype, .. } = request;
        Search { order, migratetype, flags, grouping_off: self.grouping_off }
    }

    /// Zones the request may use, in order.
    fn zones_for(&self, request: Request) -> Vec<usize> {
        let local = request.gfp.contains(Gfp::THISNODE);
        let may = |&zone: &usize| {
            let zone = &self.zones[zone];
            zone.populated && zone.kind <= request.highest && (!local || zone.node.0 == request.node)
        };
        self.zonelists[usize::from(request.node)].iter().copied().filter(may).collect()
    }

    /// Rule 3, fast path.
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
        flags
    }

    /// Rule 3, slow path.
    fn slow_flags(&self, request: Request) -> AllocFlags {
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
        } else if self.task.realtime && !self.task.in_interrupt {
            flags |= AllocFlags::MIN_RESERVE;
        }
        if request.migratetype == MigrateType::Movable {
            flags |= AllocFlags::CMA;
        }
        flags
    }

    /// Rule 3, reserve override.
    fn reserve_override(&self, gfp: Gfp) -> AllocFlags {
        if gfp.contains(Gfp::NOMEMALLOC) {
            AllocFlags::empty()
        } else if gfp.contains(Gfp::MEMALLOC) || self.task.memalloc && !self.task.in_interrupt {
            AllocFlags::NO_WATERMARKS
        } else if self.task.oom_victim && !self.task.in_interrupt {
            AllocFlags::OOM
        } else {
            AllocFlags::empty()
        }
    }

    /// Rule 6.
    fn walk(&mut self, request: Request, mut flags: AllocFlags) -> Option<u32> {
        let zones = self.zones_for(request);
        let near = self.zones[*zones.first()?].node;
        'restart: loop {
            for &zone in &zones {
                if flags.contains(AllocFlags::NOFRAGMENT) && self.zones[zone].node != near {
                    flags -= AllocFlags::NOFRAGMENT;
                    continue 'restart;
                }
                if !self.can_spare(zone, request, flags) {
                    continue;
                }
                if let Some(pfn) = self.take_from_zone(zone, request, flags) {
                    if flags.contains(AllocFlags::HIGHATOMIC) {
                        self.zones[zone].reserve(&mut self.map, pfn, request.order);
                    }
                    return Some(pfn);
                }
            }
            if !flags.contains(AllocFlags::NOFRAGMENT) {
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
        let pfn = self.take_from_lists(zone, search).or_else(|| self.take_locked(zone, search));
        if flags.contains(AllocFlags::KSWAPD) && self.zones[zone].boosted {
            self.zones[zone].boosted = false;
            let Self { zones, .. } = self;
            let (node, kind) = (zones[zone].node, zones[zone].kind);
            self.wake_kswapd(node, kind, 0);
        }
        pfn
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

    /// Rule 9.
    fn slow(&mut self, request: Request) -> Option<u32> {
        let Request { gfp, order, .. } = request;
        if self.zones_for(request).is_empty() {
            return None;
        }
        let flags = self.slow_flags(request);
        self.wake_kswapds(request, flags);
        let pfn = self.walk(request, flags);
        if pfn.is_some() {
            return pfn;
        }
        let mut progress = Progress { flags, effort: CompactEffort::SyncLight, no_progress: 0, compact_retries: 0 };
        let first = order > 3 || order > 0 && request.migratetype != MigrateType::Movable;
        let may = gfp.contains(Gfp::DIRECT_RECLAIM) && gfp.contains(Gfp::IO);
        if first && may && self.reserve_override(gfp).is_empty() {
            let (pfn, result) = self.compact(request, flags, CompactEffort::Async);
            if pfn.is_some() {
                return pfn;
            }
            if order > 3 && gfp.contains(Gfp::NORETRY) {
                let pointless = result == CompactResult::Skipped || result == CompactResult::Deferred;
                if pointless || gfp.contains(Gfp::THISNODE) {
                    return None;
                }
                progress.effort = CompactEffort::Async;
            }
        }
        loop {
            match self.round(request, &mut progress) {
                Next::Found(pfn) => return Some(pfn),
                Next::Retry => {}
                Next::Stop => return self.insist(request, &mut progress),
            }
        }
    }

    fn round(&mut self, request: Request, progress: &mut Progress) -> Next {
        let Request { gfp, order, .. } = request;
        self.wake_kswapds(request, progress.flags);
        let reserve = self.reserve_override(gfp);
        if !reserve.is_empty() {
            let cma = if request.migratetype == MigrateType::Movable { AllocFlags::CMA } else { AllocFlags::empty() };
            progress.flags = reserve | cma | progress.flags & AllocFlags::KSWAPD;
        }
        if let Some(pfn) = self.walk(request, progress.flags) {
            return Next::Found(pfn);
        }
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || self.task.memalloc {
            return Next::Stop;
        }
        let (pfn, reclaimed) = self.reclaim(request, progress.flags);
        if let Some(pfn) = pfn {
            return Next::Found(pfn);
        }
        let (pfn, compacted) = self.compact(request, progress.flags, progress.effort);
        if let Some(pfn) = pfn {
            return Next::Found(pfn);
        }
        let costly = order > 3;
        let persists = gfp.contains(Gfp::RETRY_MAYFAIL) && gfp.contains(Gfp::IO);
        if gfp.contains(Gfp::NORETRY) || costly && !persists {
            return Next::Stop;
        }
        if self.should_reclaim_again(request, progress, reclaimed) {
            return Next::Retry;
        }
        if reclaimed > 0 && should_compact_again(order, progress, compacted) {
            return Next::Retry;
        }
        let worth_it =
            !costly && !gfp.intersects(Gfp::RETRY_MAYFAIL | Gfp::THISNODE) && request.highest >= ZoneKind::Normal;
        if worth_it && self.out_of_memory() {
            progress.no_progress = 0;
            let served = progress.flags.contains(AllocFlags::OOM) || gfp.contains(Gfp::NOMEMALLOC);
            return if self.task.oom_victim && served { Next::Stop } else { Next::Retry };
        }
        Next::Stop
    }

    fn reclaim(&mut self, request: Request, flags: AllocFlags) -> (Option<u32>, u64) {
        let Some(Call::Reclaim(freed, pages)) = self.next_call("reclaim") else { return (None, 0) };
        self.free_all(freed);
        if pages == 0 {
            return (None, 0);
        }
        let pfn = self.walk(request, flags);
        if pfn.is_some() {
            return (pfn, pages);
        }
        self.unreserve(request, false);
        self.drain_all();
        (self.walk(request, flags), pages)
    }

    fn compact(&mut self, request: Request, flags: AllocFlags, effort: CompactEffort) -> (Option<u32>, CompactResult) {
        if request.order == 0 || !request.gfp.contains(Gfp::IO) {
            return (None, CompactResult::Skipped);
        }
        let Some(Call::Compact(asked, result)) = self.next_call("compact") else {
            return (None, CompactResult::Skipped);
        };
        if asked != effort {
            self.part(format!("compaction with effort {asked:?}, expected {effort:?}"));
        }
        let tried = result == CompactResult::Failed || result == CompactResult::Succeeded;
        (if tried { self.walk(request, flags) } else { None }, result)
    }

    fn should_reclaim_again(&mut self, request: Request, progress: &mut Progress, reclaimed: u64) -> bool {
        if reclaimed > 0 && request.order <= 3 {
            progress.no_progress = 0;
        } else {
            progress.no_progress += 1;
        }
        let extra = self.reclaimable as i64;
        let hope = progress.no_progress <= 16
            && self.zones_for(request).into_iter().any(|zone| {
                let zone = &self.zones[zone];
                zone.watermark_ok(request.order, zone.min + zone.boost, request.highest, progress.flags, extra)
            });
        if hope {
            self.relax();
        }
        hope || self.unreserve(request, true)
    }

    fn unreserve(&mut self, request: Request, force: bool) -> bool {
        let zones = self.zones_for(request);
        zones.into_iter().any(|zone| self.zones[zone].unreserve(&mut self.map, request.migratetype, force))
    }

    fn insist(&mut self, request: Request, progress: &mut Progress) -> Option<u32> {
        if !request.gfp.contains(Gfp::NOFAIL) || !request.gfp.contains(Gfp::DIRECT_RECLAIM) {
            return None;
        }
        loop {
            let pfn = self.walk(request, AllocFlags::MIN_RESERVE | AllocFlags::CPUSET);
            if pfn.is_some() {
                return pfn;
            }
            if self.relax() == Patience::GiveUp {
                return None;
            }
            if let Next::Found(pfn) = self.round(request, progress) {
                return Some(pfn);
            }
        }
    }

    fn wake_kswapds(&mut self, request: Request, flags: AllocFlags) {
        if flags.contains(AllocFlags::KSWAPD) {
            let mut nodes: Vec<NodeId> =
                self.zones_for(request).into_iter().map(|zone| self.zones[zone].node).collect();
            nodes.dedup();
            for node in nodes {
                self.wake_kswapd(node, request.highest, request.order);
            }
        }
    }

    fn wake_kswapd(&mut self, node: NodeId, highest: ZoneKind, order: u8) {
        let expected = Call::Kswapd(node, highest, Order::new(order));
        let call = self.script.pop_front();
        if call.as_ref() != Some(&expected) {
            self.part(format!("{call:?}, expected {expected:?}"));
        }
    }

    fn relax(&mut self) -> Patience {
        match self.next_call("relax") {
            Some(Call::Relax(patience)) => patience,
            _ => Patience::GiveUp,
        }
    }

    fn out_of_memory(&mut self) -> bool {
        let Some(Call::OutOfMemory(freed, claimed)) = self.next_call("out_of_memory") else { return false };
        self.free_all(freed);
        claimed
    }

    fn free_all(&mut self, blocks: Vec<Block>) {
        for (pfn, order) in blocks {
            self.free(pfn, order);
        }
    }

    /// The engine's next call, if it is of this kind.
    fn next_call(&mut self, expected: &str) -> Option<Call> {
        let call = self.script.pop_front();
        let kind = match call {
            Some(Call::Kswapd(..)) => "wake_kswapd",
            Some(Call::Reclaim(..)) => "reclaim",
            Some(Call::Compact(..)) => "compact",
            Some(Call::OutOfMemory(..)) => "out_of_memory",
            Some(Call::Relax(..)) => "relax",
            None => "nothing",
        };
        if kind == expected {
            return call;
        }
        self.part(format!("{kind}, expected {expected}"));
        None
    }

    fn part(&mut self, how: String) {
        self.parted.get_or_insert(format!("the engine asked its platform for {how}"));
    }
}

fn should_compact_again(order: u8, progress: &mut Progress, result: CompactResult) -> bool {
    if order == 0 || result == CompactResult::Skipped {
        return false;
    }
    if result == CompactResult::Succeeded {
        progress.compact_retries += 1;
        if progress.compact_retries <= if order > 3 { 4 } else { 16 } {
            return true;
        }
    }
    progress.effort = match progress.effort {
        CompactEffort::Async => CompactEffort::SyncLight,
        CompactEffort::SyncLight if order <= 3 => CompactEffort::SyncFull,
        _ => return false,
    };
    progress.compact_retries = 0;
    true
}
