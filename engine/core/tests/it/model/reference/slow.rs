//! The slow path of a request: rules 8 and 9, round by round, including reclaim.

use freehold::base::{Gfp, MigrateType, NodeId, ZoneKind};
use freehold::platform::{CompactEffort, Patience, Reclaim, Reclaimer};
use freehold::policy::compaction::SparedZones;
use freehold::policy::flags::AllocFlags;
use freehold::policy::slowpath::RetryPolicy;

use super::compaction::Ended;
use super::path::Request;
use super::{Block, Call, Honesty, Reference};
use crate::model::runner::Sabotage;

/// State of a request across rounds.
struct Progress {
    flags: AllocFlags,
    effort: CompactEffort,
    no_progress: u32,
    compact_retries: u32,
    /// Pages that were freed on its behalf.
    came: i64,
}

enum Next {
    Found(u32),
    Retry,
    Stop,
}

impl Reference {
    /// Allocates in the slow path: rule 9.
    pub(crate) fn slow(&mut self, request: Request) -> Option<u32> {
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
        let mut progress =
            Progress { flags, effort: CompactEffort::SyncLight, no_progress: 0, compact_retries: 0, came: 0 };
        let wants_room = order > 3 || order > 0 && request.migratetype != MigrateType::Movable;
        let can_compact = gfp.contains(Gfp::DIRECT_RECLAIM) && gfp.contains(Gfp::IO);
        if can_compact && wants_room {
            match self.compact_first(request, &mut progress) {
                Next::Found(pfn) => return Some(pfn),
                Next::Retry => {}
                Next::Stop => return None,
            }
        }
        loop {
            match self.round(request, &mut progress) {
                Next::Found(pfn) => return Some(pfn),
                Next::Retry => {}
                Next::Stop if gfp.contains(Gfp::NOFAIL) && gfp.contains(Gfp::DIRECT_RECLAIM) => {
                    let pfn = self.walk(request, AllocFlags::MIN_RESERVE | AllocFlags::CPUSET);
                    if pfn.is_some() || self.relax() == Patience::GiveUp {
                        return pfn;
                    }
                }
                Next::Stop => return None,
            }
        }
    }

    /// Compacts before any reclaim, by the rules of the pinned kernel or by those since 7.0.
    fn compact_first(&mut self, request: Request, progress: &mut Progress) -> Next {
        let Request { gfp, order, .. } = request;
        let reserve = self.reserve_override(gfp);
        if self.rules.retry == RetryPolicy::OneRound {
            if self.task.memalloc {
                return Next::Retry;
            }
            if !reserve.is_empty() {
                self.use_reserve(request, progress, reserve);
                if let Some(pfn) = self.walk(request, progress.flags) {
                    return Next::Found(pfn);
                }
            }
        } else if !reserve.is_empty() {
            return Next::Retry;
        }
        let (pfn, ended) = self.compact(request, progress.flags, CompactEffort::Async);
        if let Some(pfn) = pfn {
            return Next::Found(pfn);
        }
        if self.rules.retry == RetryPolicy::OneRound {
            if gfp.contains(Gfp::NORETRY | Gfp::THISNODE) {
                return Next::Stop;
            }
            if gfp.contains(Gfp::NORETRY) {
                progress.effort = CompactEffort::Async;
            }
        } else if order > 3 && gfp.contains(Gfp::NORETRY) {
            let fails_here = self.rules.retry == RetryPolicy::ByOutcome && gfp.contains(Gfp::THISNODE);
            if matches!(ended, Ended::Skipped | Ended::Deferred) || fails_here {
                return Next::Stop;
            }
            progress.effort = CompactEffort::Async;
        }
        Next::Retry
    }

    fn use_reserve(&mut self, request: Request, progress: &mut Progress, reserve: AllocFlags) {
        let cma = if request.migratetype == MigrateType::Movable { AllocFlags::CMA } else { AllocFlags::empty() };
        progress.flags = reserve | cma | (progress.flags & AllocFlags::KSWAPD);
    }

    fn round(&mut self, request: Request, progress: &mut Progress) -> Next {
        let Request { gfp, order, .. } = request;
        self.wake_kswapds(request, progress.flags);
        let reserve = self.reserve_override(gfp);
        if !reserve.is_empty() {
            self.use_reserve(request, progress, reserve);
        }
        if let Some(pfn) = self.walk(request, progress.flags) {
            return Next::Found(pfn);
        }
        if self.flush_stacks()
            && let Some(pfn) = self.walk(request, progress.flags)
        {
            return Next::Found(pfn);
        }
        let mixes = !progress.flags.contains(AllocFlags::NOFRAGMENT);
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || self.task.memalloc {
            if mixes || gfp.contains(Gfp::DIRECT_RECLAIM) || !gfp.contains(Gfp::KSWAPD_RECLAIM) {
                return Next::Stop;
            }
            progress.flags -= AllocFlags::NOFRAGMENT;
            return Next::Retry;
        }
        let (pfn, progressed) = self.reclaim(request, progress);
        if let Some(pfn) = pfn {
            return Next::Found(pfn);
        }
        let may_compact = order > 0 && gfp.contains(Gfp::IO);
        let (pfn, compacted) =
            if may_compact { self.compact(request, progress.flags, progress.effort) } else { (None, Ended::Skipped) };
        if let Some(pfn) = pfn {
            return Next::Found(pfn);
        }
        let costly = order > 3;
        let persists = gfp.contains(Gfp::RETRY_MAYFAIL) && gfp.contains(Gfp::IO);
        if gfp.contains(Gfp::NORETRY) || costly && !persists {
            return Next::Stop;
        }
        if self.should_reclaim_again(request, progress, progressed) {
            return Next::Retry;
        }
        if progressed && may_compact && self.should_compact_again(request, progress, compacted) {
            return Next::Retry;
        }
        if !mixes {
            progress.flags -= AllocFlags::NOFRAGMENT;
            return Next::Retry;
        }
        self.end_something(request, progress)
    }

    /// Reclaims, and tries again. Returns the block, and whether there was progress.
    fn reclaim(&mut self, request: Request, progress: &mut Progress) -> (Option<u32>, bool) {
        let (pages, spared) = self.reclaim_directly(request);
        progress.came += pages;
        if pages == 0 && !spared {
            return (None, false);
        }
        let pfn = self.walk(request, progress.flags);
        if pfn.is_some() {
            return (pfn, true);
        }
        self.unreserve(request, false);
        self.drain_all_pages();
        (self.walk(request, progress.flags), true)
    }

    /// Reclaims directly. Returns the number of freed pages, and whether a zone was spared because compaction can run
    /// there.
    fn reclaim_directly(&mut self, request: Request) -> (i64, bool) {
        let Request { gfp, order, highest, .. } = request;
        self.tally.allocstall += 1;
        let (mut pages, mut spared) = (0, false);
        for step in 0..=12 {
            let priority = if self.mistake == Sabotage::NeverUrgent { 12 } else { 12 - step };
            let mut asked = None;
            for zone in self.zones_for(request) {
                if order > 3 && gfp.contains(Gfp::IO) && self.is_ready_to_compact(zone, order, highest) {
                    spared = true;
                    continue;
                }
                let node = self.zones[zone].node;
                if asked.replace(node) != Some(node) {
                    let order = freehold::base::Order::new(order);
                    let by = Reclaimer::Direct;
                    pages += self.shrink_node(Reclaim { node, highest, goal: 32, order, priority, by, gfp }).0;
                }
            }
            if pages >= 32 || spared {
                break;
            }
        }
        (pages, spared)
    }

    fn is_ready_to_compact(&self, zone: usize, order: u8, highest: ZoneKind) -> bool {
        let (zone, none) = (&self.zones[zone], AllocFlags::empty());
        let room = zone.high + zone.boost + (2 << order);
        let suits = match self.rules.compaction.spared {
            SparedZones::WithRoom => zone.is_suitable(order, highest) && zone.watermark_ok(0, room, highest, none, 0),
            SparedZones::AtHighMark => {
                let room = room + zone.low - zone.min;
                zone.watermark_ok(0, room, highest, AllocFlags::CMA, 0) && zone.is_in_pieces(order)
            }
        };
        suits || zone.watermark_ok(order, zone.min + zone.boost, highest, none, 0)
    }

    /// Reclaims from a node at one priority, repeatedly for large blocks. Returns the numbers of freed and of scanned
    /// pages.
    pub(crate) fn shrink_node(&mut self, wanted: Reclaim) -> (i64, i64) {
        let (mut pages, mut scanned) = (0, 0);
        let (node, highest, order) = (wanted.node.0, wanted.highest, wanted.order.get());
        while let Some(Call::Reclaim(asked, freed, looked, honesty)) = self.next_call("reclaim") {
            if asked != wanted {
                self.part(format!("{asked:?}, expected {wanted:?}"));
            }
            self.tally.broken_promises += u64::from(honesty == Honesty::Lie);
            let came: i64 = freed.iter().map(|&(_, order)| 1 << order).sum();
            let (scan, steal) = match wanted.by {
                Reclaimer::Direct => (&mut self.tally.pgscan_direct, &mut self.tally.pgsteal_direct),
                Reclaimer::Kswapd => (&mut self.tally.pgscan_kswapd, &mut self.tally.pgsteal_kswapd),
            };
            *scan += looked;
            *steal += came as u64;
            self.free_all(freed);
            (pages, scanned) = (pages + came, scanned + looked as i64);
            let goes_on = order > 3 || order > 0 && wanted.priority < 10;
            if came == 0 || !goes_on || !wanted.gfp.contains(Gfp::IO) {
                break;
            }
            let zones: Vec<_> = self.managed_of(node, highest).into_iter().map(|zone| &self.zones[zone]).collect();
            let done = zones.iter().any(|zone| {
                zone.watermark_ok(order, zone.min + zone.boost, highest, AllocFlags::empty(), 0)
                    || zone.is_suitable(order, highest)
            });
            let enough: i64 = zones.iter().map(|zone| zone.high + zone.boost).sum::<i64>() + (2 << order);
            if done || pages >= enough || (self.reclaimable * zones.len() as u64) <= 2 << order {
                break;
            }
        }
        if pages > 0 {
            self.hope_after_reclaim(node, order, highest);
        }
        (pages, scanned)
    }

    fn should_reclaim_again(&mut self, request: Request, progress: &mut Progress, progressed: bool) -> bool {
        if progressed && request.order <= 3 && self.may_have_luck(request, progress) {
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

    fn should_compact_again(&mut self, request: Request, progress: &mut Progress, ended: Ended) -> bool {
        let Request { order, highest, .. } = request;
        if !self.may_have_luck(request, progress) {
            return false;
        }
        if ended == Ended::Skipped {
            let extra = self.reclaimable as i64 / i64::from(order);
            return self.zones_for(request).into_iter().any(|zone| self.zones[zone].has_room(order, highest, extra));
        }
        if ended == Ended::Made {
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

    /// Returns whether the request may retry. This rule is the library's own: a request for which more pages were freed
    /// than its zones have does not retry.
    fn may_have_luck(&self, request: Request, progress: &Progress) -> bool {
        progress.came <= self.zones_for(request).into_iter().map(|zone| self.zones[zone].managed).sum()
    }

    fn end_something(&mut self, request: Request, progress: &mut Progress) -> Next {
        let Request { gfp, order, highest, .. } = request;
        if let Some(pfn) = self.walk(request, AllocFlags::WMARK_HIGH | AllocFlags::CPUSET) {
            return Next::Found(pfn);
        }
        let spares = order > 3 || gfp.intersects(Gfp::RETRY_MAYFAIL | Gfp::THISNODE) || highest < ZoneKind::Normal;
        if spares || !self.may_have_luck(request, progress) {
            return Next::Stop;
        }
        let Some(Call::OutOfMemory(freed, honesty)) = self.next_call("out_of_memory") else { return Next::Stop };
        self.tally.broken_promises += u64::from(honesty == Honesty::Lie);
        if freed.is_empty() {
            return Next::Stop;
        }
        progress.came += freed.iter().map(|&(_, order)| 1 << order).sum::<i64>();
        self.free_all(freed);
        if gfp.contains(Gfp::NOFAIL)
            && let Some(pfn) = self.walk(request, AllocFlags::NO_WATERMARKS)
        {
            return Next::Found(pfn);
        }
        let served = progress.flags.contains(AllocFlags::OOM) || gfp.contains(Gfp::NOMEMALLOC);
        if self.task.oom_victim && served {
            return Next::Stop;
        }
        progress.no_progress = 0;
        Next::Retry
    }

    fn unreserve(&mut self, request: Request, force: bool) -> bool {
        let zones = self.zones_for(request);
        zones.into_iter().any(|zone| self.zones[zone].unreserve(&mut self.map, request.migratetype, force))
    }

    fn wake_kswapds(&mut self, request: Request, flags: AllocFlags) {
        if flags.contains(AllocFlags::KSWAPD) {
            let mut nodes: Vec<NodeId> =
                self.zones_for(request).into_iter().map(|zone| self.zones[zone].node).collect();
            nodes.dedup();
            for node in nodes {
                let order = if self.defrags { request.order.max(self.map.block) } else { request.order };
                let awake = self.wake_kswapd(node, request.highest, order);
                if !awake && !request.gfp.contains(Gfp::DIRECT_RECLAIM) {
                    self.wake_kcompactd(node, request.highest, order);
                }
            }
        }
    }

    pub(crate) fn relax(&mut self) -> Patience {
        match self.next_call("relax") {
            Some(Call::Relax(patience)) => patience,
            _ => Patience::GiveUp,
        }
    }

    fn free_all(&mut self, blocks: Vec<Block>) {
        for (pfn, order) in blocks {
            self.map.unhold(pfn);
            self.free(pfn, order);
        }
    }

    /// Takes the engine's next call, which must be equal to this one.
    pub(crate) fn expect_call(&mut self, expected: &Call) {
        let call = self.script.pop_front();
        if call.as_ref() != Some(expected) {
            self.part(format!("{call:?}, expected {expected:?}"));
        }
    }

    /// Returns the engine's next call if it is of this kind; records a difference otherwise.
    pub(crate) fn next_call(&mut self, expected: &str) -> Option<Call> {
        let call = self.script.pop_front();
        let kind = match call {
            Some(Call::Kswapd(..)) => "wake_kswapd",
            Some(Call::Kcompactd(..)) => "wake_kcompactd",
            Some(Call::Reclaim(..)) => "reclaim",
            Some(Call::Migrate(..)) => "migrate",
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

    pub(crate) fn part(&mut self, how: String) {
        self.parted.get_or_insert(format!("the engine asked its platform for {how}"));
    }
}
