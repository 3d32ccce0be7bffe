//! The slow path: what a request tries when no zone is above its low watermark.
//!
//! Wake kswapd and try down to the min watermark; compact, if the request wants a large block; then round after
//! round reclaim, try, compact, try, until progress ends; then the last resort. What reclaim and compaction do is
//! the platform's; which is tried when, how often, and with which reserves, is decided here.
//!
//! linux: mm/page_alloc.c:__alloc_pages_slowpath, should_reclaim_retry, should_compact_retry, __alloc_pages_may_oom

use super::PageAllocator;
use crate::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::platform::{CompactEffort, CompactResult, OutOfMemory, Patience, Platform, Request};
use crate::policy::flags::{self, AllocFlags, Caller};
use crate::policy::highatomic::Unreserve;

/// Rounds of reclaim without progress. linux: MAX_RECLAIM_RETRIES
const RECLAIM_RETRIES_MAX: u32 = 16;
/// Rounds of compaction that succeeded for others. linux: MAX_COMPACT_RETRIES
const COMPACT_RETRIES_MAX: u32 = 16;

/// Where one request stands.
struct Attempt<'r> {
    request: &'r Request,
    flags: AllocFlags,
    effort: CompactEffort,
    no_progress: u32,
    compact_retries: u32,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// A block, by whatever the flags allow; `None` when the request fails.
    #[cold]
    #[inline(never)]
    pub(super) fn take_slow(&self, request: &Request) -> Option<Pfn> {
        self.zones_for(request).next()?;
        let task = self.platform.task();
        let caller = Caller { realtime: task.realtime && !task.in_interrupt };
        let flags = flags::slow(self.policy.flags, request.gfp, request.order, request.migratetype, caller);
        self.wake_kswapds(request, flags);
        if let Some(pfn) = self.take_from_zones(request, flags) {
            return Some(pfn);
        }
        let attempt = Attempt { request, flags, effort: CompactEffort::Async, no_progress: 0, compact_retries: 0 };
        self.take_with_effort(attempt)
    }

    fn take_with_effort(&self, mut attempt: Attempt<'_>) -> Option<Pfn> {
        let Request { gfp, order, .. } = *attempt.request;
        if self.compacts_first(&attempt) {
            let (pfn, result) = self.compact_and_take(&mut attempt);
            if pfn.is_some() {
                return pfn;
            }
            if is_costly(order) && gfp.contains(Gfp::NORETRY) {
                let hopeless = matches!(result, CompactResult::Skipped | CompactResult::Deferred);
                if hopeless || gfp.contains(Gfp::THISNODE) {
                    return None;
                }
            } else {
                attempt.effort = CompactEffort::SyncLight;
            }
        } else {
            attempt.effort = CompactEffort::SyncLight;
        }
        loop {
            match self.round(&mut attempt) {
                Round::Found(pfn) => return Some(pfn),
                Round::Again => {}
                Round::GaveUp => return self.insist(&mut attempt),
            }
        }
    }

    /// Large blocks, and unmovable ones above order 0, are compacted for before anything is reclaimed.
    fn compacts_first(&self, attempt: &Attempt<'_>) -> bool {
        let Request { gfp, order, migratetype, .. } = *attempt.request;
        gfp.contains(Gfp::DIRECT_RECLAIM | Gfp::IO)
            && (is_costly(order) || (order > Order::ZERO && migratetype != MigrateType::Movable))
            && self.reserve_override(attempt.request).is_empty()
    }

    fn round(&self, attempt: &mut Attempt<'_>) -> Round {
        let request = attempt.request;
        let gfp = request.gfp;
        self.wake_kswapds(request, attempt.flags);
        let reserve = self.reserve_override(request);
        if !reserve.is_empty() {
            attempt.flags = reserve | flags::cma(request.migratetype) | (attempt.flags & AllocFlags::KSWAPD);
        }
        if let Some(pfn) = self.take_from_zones(request, attempt.flags) {
            return Round::Found(pfn);
        }
        // Nothing is reclaimed, ended or refused while pages are on their way home.
        if self.flush_stacks()
            && let Some(pfn) = self.take_from_zones(request, attempt.flags)
        {
            return Round::Found(pfn);
        }
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || self.platform.task().memalloc {
            return Round::GaveUp;
        }
        let (pfn, reclaimed) = self.reclaim_and_take(attempt);
        if let Some(pfn) = pfn {
            return Round::Found(pfn);
        }
        let (pfn, compacted) = self.compact_and_take(attempt);
        if let Some(pfn) = pfn {
            return Round::Found(pfn);
        }
        // Large blocks are tried for more than once only if the caller insists, and lets compaction work.
        let hopeless = is_costly(request.order) && !gfp.contains(Gfp::RETRY_MAYFAIL | Gfp::IO);
        if gfp.contains(Gfp::NORETRY) || hopeless {
            return Round::GaveUp;
        }
        let again = self.may_reclaim_again(attempt, reclaimed)
            || (reclaimed > 0 && may_compact_again(attempt, compacted))
            || self.last_resort(attempt);
        if again { Round::Again } else { Round::GaveUp }
    }

    /// Reclaims, and tries again; if that is not enough, gives back a reserved block and every CPU's lists, and tries
    /// once more.
    fn reclaim_and_take(&self, attempt: &Attempt<'_>) -> (Option<Pfn>, u64) {
        let request = attempt.request;
        let reclaimed = self.reclaim_directly(request);
        if reclaimed == 0 {
            return (None, 0);
        }
        let pfn = self.take_from_zones(request, attempt.flags).or_else(|| {
            self.unreserve_highatomic(request, Unreserve::KeepLast);
            self.drain_all();
            self.take_from_zones(request, attempt.flags)
        });
        (pfn, reclaimed)
    }

    fn compact_and_take(&self, attempt: &mut Attempt<'_>) -> (Option<Pfn>, CompactResult) {
        let request = attempt.request;
        if request.order == Order::ZERO || !request.gfp.contains(Gfp::IO) {
            return (None, CompactResult::Skipped);
        }
        self.direct_compact(request, attempt.flags, attempt.effort)
    }

    /// Whether another round may help: some zone would pass its min mark if all that can be reclaimed were free.
    fn may_reclaim_again(&self, attempt: &mut Attempt<'_>, reclaimed: u64) -> bool {
        let request = attempt.request;
        if reclaimed > 0 && !is_costly(request.order) {
            attempt.no_progress = 0;
        } else {
            attempt.no_progress += 1;
        }
        let hope = attempt.no_progress <= RECLAIM_RETRIES_MAX
            && self.zones_for(request).any(|zone| {
                let reclaimable = self.platform.reclaimable(zone.node(), zone.kind());
                zone.would_pass_min(reclaimable, request, attempt.flags)
            });
        if hope {
            self.platform.relax();
        }
        hope || self.unreserve_highatomic(request, Unreserve::Force)
    }

    /// Ends something, if the request is small and ordinary enough to be worth it; says whether to try again. A task
    /// that is being ended itself, and had its share of the reserve, does not.
    fn last_resort(&self, attempt: &mut Attempt<'_>) -> bool {
        let Request { gfp, order, highest, .. } = *attempt.request;
        let worth_it =
            !is_costly(order) && !gfp.intersects(Gfp::RETRY_MAYFAIL | Gfp::THISNODE) && highest >= ZoneKind::Normal;
        let freed = worth_it && self.end_something(attempt.request) == OutOfMemory::Freed;
        if freed {
            attempt.no_progress = 0;
        }
        let served = attempt.flags.contains(AllocFlags::OOM) || gfp.contains(Gfp::NOMEMALLOC);
        freed && !(self.platform.task().oom_victim && served)
    }

    /// A request that must not fail goes on with half the reserve for as long as the platform has patience.
    fn insist(&self, attempt: &mut Attempt<'_>) -> Option<Pfn> {
        if !attempt.request.gfp.contains(Gfp::NOFAIL | Gfp::DIRECT_RECLAIM) {
            return None;
        }
        loop {
            if let Some(pfn) = self.take_from_zones(attempt.request, AllocFlags::MIN_RESERVE | AllocFlags::CPUSET) {
                return Some(pfn);
            }
            if self.platform.relax() == Patience::GiveUp {
                return None;
            }
            if let Round::Found(pfn) = self.round(attempt) {
                return Some(pfn);
            }
        }
    }

    /// Asks for background reclaim on every node that the request may use.
    fn wake_kswapds(&self, request: &Request, flags: AllocFlags) {
        if !flags.contains(AllocFlags::KSWAPD) {
            return;
        }
        let mut last: Option<NodeId> = None;
        for zone in self.zones_for(request) {
            if last.replace(zone.node()) != Some(zone.node()) {
                self.wake_kswapd(zone.node(), request.highest, request.order);
            }
        }
    }

    fn reserve_override(&self, request: &Request) -> AllocFlags {
        let task = self.platform.task();
        let memalloc = task.memalloc && !task.in_interrupt;
        let victim = task.oom_victim && !task.in_interrupt;
        flags::reserve_override(request.gfp, memalloc.into(), victim.into())
    }
}

/// Whether to compact once more: a few times after success that others took, then with more effort.
fn may_compact_again(attempt: &mut Attempt<'_>, result: CompactResult) -> bool {
    let order = attempt.request.order;
    if order == Order::ZERO || result == CompactResult::Skipped {
        return false;
    }
    let retries = if is_costly(order) { COMPACT_RETRIES_MAX / 4 } else { COMPACT_RETRIES_MAX };
    if result == CompactResult::Succeeded && attempt.compact_retries < retries {
        attempt.compact_retries += 1;
        return true;
    }
    let harder = match attempt.effort {
        CompactEffort::Async => CompactEffort::SyncLight,
        CompactEffort::SyncLight if !is_costly(order) => CompactEffort::SyncFull,
        CompactEffort::SyncLight | CompactEffort::SyncFull => return false,
    };
    attempt.effort = harder;
    attempt.compact_retries = 0;
    true
}

fn is_costly(order: Order) -> bool {
    order > Order::COSTLY
}

/// How a round of the slow path ended.
enum Round {
    Found(Pfn),
    Again,
    GaveUp,
}
