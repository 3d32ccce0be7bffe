//! The slow path: the steps that a request takes if no zone is above its low watermark.
//!
//! ```text
//! wake kswapd, try down to the min watermark
//! compact, try                   only costly orders, and blocks above order 0 that are not movable
//! round: reclaim, try; unreserve a pageblock, drain every CPU's lists, try; compact, try
//!        again                   while reclaim, or compaction with more effort, can still help
//! mix types                      in defrag mode, in which types were not mixed until here
//! last resort                    try at the high watermark; the platform ends something; another round
//! ```
//!
//! `reclaim` and `compaction` do the work. This module decides the order of the steps, their number, and which reserves
//! a request may use. Every request ends, because two things are counted: rounds without progress, and pages that were
//! freed for the request. Once more pages were freed for a request than its zones manage, its rounds count as rounds
//! without progress. Only a request that must not fail continues, for as long as the platform has patience.
//!
//! linux: mm/page_alloc.c:__alloc_pages_slowpath, __alloc_pages_direct_reclaim, should_reclaim_retry,
//! should_compact_retry, __alloc_pages_may_oom

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::allocator::PageAllocator;
use super::kswapd::Wake;
use super::reclaim::ReclaimProgress;
use super::zone::Zone;
use crate::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::platform::{CompactEffort, CompactResult, Patience, Platform, Request};
use crate::policy::flags::{self, AllocFlags, SlowFacts};
use crate::policy::highatomic::Unreserve;
use crate::policy::slowpath::{self, FailedRequest, Next};

/// Maximum number of rounds of reclaim without progress. linux: MAX_RECLAIM_RETRIES
const RECLAIM_RETRIES_MAX: u32 = 16;
/// Maximum number of retries after compaction succeeded but another request took the block. linux: MAX_COMPACT_RETRIES
const COMPACT_RETRIES_MAX: u32 = 16;
/// Maximum number of rounds in which another request holds the OOM lock.
const WAITS_MAX: u32 = 16;

/// Progress of one request on the slow path.
struct Attempt<'r> {
    request: &'r Request,
    flags: AllocFlags,
    effort: CompactEffort,
    no_progress: u32,
    compact_retries: u32,
    /// Rounds in which another request held the OOM lock.
    waits: u32,
    /// Pages that were freed for this request. Other requests may have taken them.
    reclaimed: u64,
}

impl<'r> Attempt<'r> {
    fn new(request: &'r Request, flags: AllocFlags) -> Attempt<'r> {
        let effort = CompactEffort::Async;
        Attempt { request, flags, effort, no_progress: 0, compact_retries: 0, waits: 0, reclaimed: 0 }
    }

    /// Lets the request mix types from now on. Returns whether it avoided mixing until now.
    fn mix_types(&mut self) -> bool {
        let did_not = self.flags.contains(AllocFlags::NOFRAGMENT);
        self.flags -= AllocFlags::NOFRAGMENT;
        did_not
    }

    /// Decides the fate of a request that cannot reclaim. A request that relies on kswapd mixes types before it fails.
    /// A request that does not wake kswapd is opportunistic and fails at once.
    fn give_up_on_kswapd(&mut self) -> Round {
        if self.flags.contains(AllocFlags::KSWAPD) && self.mix_types() { Round::Again } else { Round::GaveUp }
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Allocates a block by all means that the flags allow, or returns `None` if the request fails.
    /// linux: mm/page_alloc.c:__alloc_pages_slowpath
    #[cold]
    #[inline(never)]
    pub(super) fn alloc_pages_slowpath(&self, request: &Request) -> Option<Pfn> {
        self.zones_for(request).next()?;
        let task = self.platform.task();
        let facts = SlowFacts { realtime: task.is_urgent(), defrag_mode: self.rules().defrag_mode };
        let flags = flags::slow(self.rules().flags, request.gfp, request.order, request.migratetype, facts);
        self.wake_all_kswapds(request, flags);
        if let Some(pfn) = self.get_page_from_freelist(request, flags) {
            return Some(pfn);
        }
        self.alloc_with_effort(Attempt::new(request, flags))
    }

    fn alloc_with_effort(&self, mut attempt: Attempt<'_>) -> Option<Pfn> {
        attempt.effort = CompactEffort::SyncLight;
        if self.compacts_first(&attempt) {
            match self.first_compaction(&mut attempt) {
                Round::Found(pfn) => return Some(pfn),
                Round::Again => {}
                Round::GaveUp => return None,
            }
        }
        loop {
            match self.round(&mut attempt) {
                Round::Found(pfn) => return Some(pfn),
                Round::Again => {}
                Round::GaveUp => match self.retry_nofail(&attempt) {
                    Round::Again => {}
                    Round::Found(pfn) => return Some(pfn),
                    Round::GaveUp => return None,
                },
            }
        }
    }

    /// Returns whether the request compacts before it reclaims: it may reclaim and compact, it is for a costly order
    /// or, above order 0, not movable, and its access to reserves does not forbid it.
    fn compacts_first(&self, attempt: &Attempt<'_>) -> bool {
        let Request { gfp, order, migratetype, .. } = *attempt.request;
        gfp.contains(Gfp::DIRECT_RECLAIM)
            && self.gfp_compaction_allowed(gfp)
            && (is_costly(order) || (order > Order::ZERO && migratetype != MigrateType::Movable))
            && self.may_compact_before_reserves(attempt.request)
    }

    /// Returns whether the request may compact first in spite of its task's access to reserves. Without access it may.
    /// With access it may not under `RetryPolicy::ByOutcome`; under `RetryPolicy::OneRound` only a task with `memalloc`
    /// may not.
    fn may_compact_before_reserves(&self, request: &Request) -> bool {
        match slowpath::compacts_first_with_reserves(self.rules().retry) {
            true => !self.platform.task().memalloc,
            false => self.reserve_override(request).is_empty(),
        }
    }

    /// Compacts before anything is reclaimed, then decides how the request continues.
    fn first_compaction(&self, attempt: &mut Attempt<'_>) -> Round {
        let Request { gfp, order, .. } = *attempt.request;
        if self.use_reserves(attempt)
            && let Some(pfn) = self.get_page_from_freelist(attempt.request, attempt.flags)
        {
            return Round::Found(pfn);
        }
        attempt.effort = CompactEffort::Async;
        let (pfn, result) = self.try_direct_compact(attempt);
        if let Some(pfn) = pfn {
            return Round::Found(pfn);
        }
        let request = FailedRequest {
            costly: is_costly(order),
            easily_content: gfp.contains(Gfp::NORETRY),
            this_node: gfp.contains(Gfp::THISNODE),
            passed_over: matches!(result, CompactResult::Skipped | CompactResult::Deferred),
        };
        match slowpath::after_first_compaction(self.rules().retry, request) {
            Next::GiveUp => return Round::GaveUp,
            Next::GoOn => {}
            Next::TryHarder => attempt.effort = CompactEffort::SyncLight,
        }
        Round::Again
    }

    /// Lets the request use reserves from now on, if its task may. Returns whether the task may.
    fn use_reserves(&self, attempt: &mut Attempt<'_>) -> bool {
        let reserve = self.reserve_override(attempt.request);
        if reserve.is_empty() {
            return false;
        }
        attempt.flags = reserve | flags::cma(attempt.request.migratetype) | (attempt.flags & AllocFlags::KSWAPD);
        true
    }

    fn round(&self, attempt: &mut Attempt<'_>) -> Round {
        let request = attempt.request;
        let gfp = request.gfp;
        self.wake_all_kswapds(request, attempt.flags);
        self.use_reserves(attempt);
        if let Some(pfn) = self.get_page_from_freelist(request, attempt.flags) {
            return Round::Found(pfn);
        }
        // Pages on the CPUs' stacks are freed to the zones before anything is reclaimed or ended, or the request fails.
        if self.flush_stacks()
            && let Some(pfn) = self.get_page_from_freelist(request, attempt.flags)
        {
            return Round::Found(pfn);
        }
        if !gfp.contains(Gfp::DIRECT_RECLAIM) {
            return attempt.give_up_on_kswapd();
        }
        if self.platform.task().memalloc {
            return Round::GaveUp;
        }
        let (pfn, progress) = self.alloc_pages_direct_reclaim(attempt);
        if let Some(pfn) = pfn {
            return Round::Found(pfn);
        }
        let (pfn, compacted) = self.try_direct_compact(attempt);
        if let Some(pfn) = pfn {
            return Round::Found(pfn);
        }
        // A costly order gets more than one round only if the caller insists and compaction is allowed.
        let hopeless =
            is_costly(request.order) && !(gfp.contains(Gfp::RETRY_MAYFAIL) && self.gfp_compaction_allowed(gfp));
        if gfp.contains(Gfp::NORETRY) || hopeless {
            return Round::GaveUp;
        }
        let again = self.should_reclaim_retry(attempt, progress)
            || (progress.is_made() && self.should_compact_retry(attempt, compacted))
            || attempt.mix_types();
        if again { Round::Again } else { self.alloc_pages_may_oom(attempt) }
    }

    /// Reclaims and, if that made progress, tries again. If that is not enough, unreserves a pageblock, unless it is
    /// the zone's last, drains every CPU's lists, and tries once more.
    /// linux: mm/page_alloc.c:__alloc_pages_direct_reclaim
    fn alloc_pages_direct_reclaim(&self, attempt: &mut Attempt<'_>) -> (Option<Pfn>, ReclaimProgress) {
        let request = attempt.request;
        let progress = self.try_to_free_pages(request);
        attempt.reclaimed += progress.pages;
        if !progress.is_made() {
            return (None, progress);
        }
        let pfn = self.get_page_from_freelist(request, attempt.flags).or_else(|| {
            self.unreserve_highatomic_pageblock(request, Unreserve::KeepLast);
            self.drain_all_pages();
            self.get_page_from_freelist(request, attempt.flags)
        });
        (pfn, progress)
    }

    fn try_direct_compact(&self, attempt: &mut Attempt<'_>) -> (Option<Pfn>, CompactResult) {
        let request = attempt.request;
        if request.order == Order::ZERO || !self.gfp_compaction_allowed(request.gfp) {
            return (None, CompactResult::Skipped);
        }
        self.alloc_pages_direct_compact(request, attempt.flags, attempt.effort)
    }

    /// Counts rounds without progress, and returns whether another round may help. It may while there were at most 16
    /// such rounds and some zone would be above its min watermark if all reclaimable pages were free. Otherwise,
    /// unreserves a pageblock, even the last one of a zone; another round may help if there was one.
    /// linux: mm/page_alloc.c:should_reclaim_retry
    fn should_reclaim_retry(&self, attempt: &mut Attempt<'_>, progress: ReclaimProgress) -> bool {
        let request = attempt.request;
        if progress.is_made() && !is_costly(request.order) && self.has_budget_left(attempt) {
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
        hope || self.unreserve_highatomic_pageblock(request, Unreserve::Force)
    }

    /// Returns whether no more pages were freed for the request than its zones manage.
    fn has_budget_left(&self, attempt: &Attempt<'_>) -> bool {
        attempt.reclaimed <= self.zones_for(attempt.request).map(Zone::managed).sum()
    }

    /// Returns whether to compact once more, which it never does for order 0, for a request that may not compact, or if
    /// more pages were freed for the request than its zones manage. If compaction was skipped for lack of free memory,
    /// the answer is yes once reclaim could free enough. If it succeeded but other requests took the block, it is
    /// repeated a few times. Otherwise the effort is raised, and the answer is no at the highest effort: light for
    /// costly orders, full for others. linux: mm/page_alloc.c:should_compact_retry
    fn should_compact_retry(&self, attempt: &mut Attempt<'_>, result: CompactResult) -> bool {
        let Request { gfp, order, .. } = *attempt.request;
        if order == Order::ZERO || !self.gfp_compaction_allowed(gfp) || !self.has_budget_left(attempt) {
            return false;
        }
        if result == CompactResult::Skipped {
            return self.compaction_zonelist_suitable(attempt.request);
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

    /// Tries once more at the high watermark. Then asks the platform to end something, for example a task, unless the
    /// request prefers failure (RETRY_MAYFAIL), is for one node or for zones below Normal, or more pages were freed for
    /// it than its zones manage. Only one request does this at a time, because the memory freed for the first may be
    /// enough for the others. Another request meanwhile gets another round, [`WAITS_MAX`] times, and then gives up.
    /// linux: mm/page_alloc.c:__alloc_pages_may_oom
    fn alloc_pages_may_oom(&self, attempt: &mut Attempt<'_>) -> Round {
        if self.oom_lock.swap(true, Acquire) {
            attempt.waits += 1;
            self.platform.relax();
            return if attempt.waits <= WAITS_MAX { Round::Again } else { Round::GaveUp };
        }
        let _ending = OomLockGuard(&self.oom_lock);
        self.alloc_pages_under_oom_lock(attempt)
    }

    fn alloc_pages_under_oom_lock(&self, attempt: &mut Attempt<'_>) -> Round {
        let request = attempt.request;
        let Request { gfp, highest, .. } = *request;
        // The high watermark makes this succeed only if other tasks have just freed memory.
        if let Some(pfn) = self.get_page_from_freelist(request, AllocFlags::WMARK_HIGH | AllocFlags::CPUSET) {
            return Round::Found(pfn);
        }
        // A costly order gets here only with `RETRY_MAYFAIL`, which prefers failure to ending something.
        let worth_it = !gfp.intersects(Gfp::RETRY_MAYFAIL | Gfp::THISNODE) && highest >= ZoneKind::Normal;
        let freed = if worth_it && self.has_budget_left(attempt) { self.out_of_memory(request) } else { 0 };
        attempt.reclaimed += freed;
        if freed > 0
            && gfp.contains(Gfp::NOFAIL)
            && let Some(pfn) = self.get_page_from_freelist(request, AllocFlags::NO_WATERMARKS)
        {
            return Round::Found(pfn);
        }
        // A task that is being ended itself gives up, once it has used the reserve or if it may not use it.
        let served = attempt.flags.contains(AllocFlags::OOM) || gfp.contains(Gfp::NOMEMALLOC);
        if freed == 0 || (self.platform.task().oom_victim && served) {
            return Round::GaveUp;
        }
        attempt.no_progress = 0;
        Round::Again
    }

    /// Retries a request that must not fail (NOFAIL) and may reclaim, with half of the min reserve, for as long as the
    /// platform has patience. Any other request gives up.
    fn retry_nofail(&self, attempt: &Attempt<'_>) -> Round {
        if !attempt.request.gfp.contains(Gfp::NOFAIL | Gfp::DIRECT_RECLAIM) {
            return Round::GaveUp;
        }
        if let Some(pfn) = self.get_page_from_freelist(attempt.request, AllocFlags::MIN_RESERVE | AllocFlags::CPUSET) {
            return Round::Found(pfn);
        }
        match self.platform.relax() {
            Patience::Wait => Round::Again,
            Patience::GiveUp => Round::GaveUp,
        }
    }

    /// Requests background reclaim on every node that the request may use, if its flags allow that. If kswapd has no
    /// work on a node and the request cannot reclaim by itself, kcompactd is woken instead, to compact the free memory.
    /// In defrag mode a whole pageblock is requested, because any request can be served from one without mixing types.
    /// linux: mm/page_alloc.c:wake_all_kswapds
    fn wake_all_kswapds(&self, request: &Request, flags: AllocFlags) {
        if !flags.contains(AllocFlags::KSWAPD) {
            return;
        }
        let Request { gfp, highest, .. } = *request;
        let order = if self.defrags() { request.order.max(self.map.pageblock_order()) } else { request.order };
        let mut last: Option<NodeId> = None;
        for zone in self.zones_for(request).filter(|zone| zone.managed() > 0) {
            let node = zone.node();
            if last.replace(node) != Some(node)
                && self.wakeup_kswapd(node, highest, order) == Wake::Needless
                && !gfp.contains(Gfp::DIRECT_RECLAIM)
            {
                self.wakeup_kcompactd(node, order, highest);
            }
        }
    }

    fn reserve_override(&self, request: &Request) -> AllocFlags {
        let task = self.platform.task();
        flags::reserve_override(request.gfp, task.may_empty_reserves().into(), task.may_dip_to_end().into())
    }
}

fn is_costly(order: Order) -> bool {
    order > Order::COSTLY
}

/// Guard of the OOM lock, which is released when the guard is dropped.
struct OomLockGuard<'a>(&'a AtomicBool);

impl Drop for OomLockGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// Result of a round of the slow path.
enum Round {
    Found(Pfn),
    Again,
    GaveUp,
}

#[cfg(all(test, not(loom)))]
mod tests;
