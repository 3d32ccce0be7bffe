//! Compaction state of a zone: the positions of the scanners, and the deferral after failures.
//!
//! The scanner of sources moves up from the start of the zone, and the scanner of targets moves down from its end. A
//! run continues where the last one stopped, until the scanners meet and both start over. Runs that may not wait for
//! pages have a source position of their own, because they skip more. After a failure, compaction of the zone is
//! deferred for a number of attempts, which doubles with each failure up to a maximum.
//!
//! All of these values are hints. They are read and written without a lock, and a lost update costs one scan.
//!
//! linux: mm/compaction.c:reset_cached_positions, defer_compaction, compaction_deferred, __reset_isolation_suitable

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::base::{Order, Pfn};
use crate::platform::CompactEffort;
use crate::policy::compaction::DEFER_SHIFT_MAX;

/// Value of a position that is not set. The scanner then starts at its end of the zone.
const ANEW: u32 = u32::MAX;
/// Value of the failed order if compaction has not failed at any order.
const NEVER: u8 = u8::MAX;

/// A zone's record of compaction.
#[derive(Debug)]
pub(in crate::page) struct CompactState {
    /// Positions of the scanner of sources: for runs with async effort, and for other runs.
    sources: [AtomicU32; 2],
    /// Position of the scanner of targets.
    targets: AtomicU32,
    /// The lowest pageblock with a movable page, and the highest with free pages, at the last reset of the hints; 0
    /// before the first reset, as in Linux.
    lowest_source: AtomicU32,
    highest_target: AtomicU32,
    /// Number of attempts since the last failure.
    considered: AtomicU32,
    /// Binary logarithm of the deferral: only the last of 2^`defer_shift` attempts is made.
    defer_shift: AtomicU8,
    /// Smallest order at which compaction failed.
    failed: AtomicU8,
    /// Set if a request found the whole zone scanned, so the hints are outdated.
    is_stale: AtomicBool,
}

impl CompactState {
    pub(in crate::page) const fn new() -> CompactState {
        CompactState {
            sources: [const { AtomicU32::new(ANEW) }; 2],
            targets: AtomicU32::new(ANEW),
            lowest_source: AtomicU32::new(0),
            highest_target: AtomicU32::new(0),
            considered: AtomicU32::new(0),
            defer_shift: AtomicU8::new(0),
            failed: AtomicU8::new(NEVER),
            is_stale: AtomicBool::new(false),
        }
    }

    /// Returns the positions at which a run in the span of a zone starts to look for sources and for targets.
    pub(in crate::page) fn positions(&self, effort: CompactEffort, span: (Pfn, Pfn), block: Order) -> (Pfn, Pfn) {
        let (start, end) = span;
        let last = last_pageblock(span, block);
        let source = Pfn::new(self.source(effort).load(Relaxed));
        let target = Pfn::new(self.targets.load(Relaxed));
        let zone = start..end;
        (if zone.contains(&source) { source } else { start }, if zone.contains(&target) { target } else { last })
    }

    /// Notes that there are no sources before `pfn` for later runs with async effort and, unless this run had async
    /// effort, for other runs too.
    pub(in crate::page) fn note_source(&self, pfn: Pfn, effort: CompactEffort) {
        raise(&self.sources[0], pfn);
        if effort != CompactEffort::Async {
            raise(&self.sources[1], pfn);
        }
    }

    /// Copies the source position of runs with async effort to other runs, which is valid while no source was found.
    pub(in crate::page) fn share_source(&self) {
        self.sources[1].store(self.sources[0].load(Relaxed), Relaxed);
    }

    /// Returns whether both kinds of runs have the same source position.
    pub(in crate::page) fn shares_source(&self) -> bool {
        self.sources[0].load(Relaxed) == self.sources[1].load(Relaxed)
    }

    /// Notes that there are no targets at `pfn` and above.
    pub(in crate::page) fn note_target(&self, pfn: Pfn) {
        self.targets.fetch_min(pfn.raw(), Relaxed);
    }

    /// Notes that free pages were given back at `pfn`, so the next run looks for targets there again.
    pub(in crate::page) fn return_target(&self, pfn: Pfn) {
        if self.targets.load(Relaxed) != ANEW {
            self.targets.fetch_max(pfn.raw(), Relaxed);
        }
    }

    /// Sets the source positions to `pfn`, the first pageblock in which a reset of the hints found a movable page.
    pub(in crate::page) fn begin_sources_at(&self, pfn: Pfn) {
        self.lowest_source.store(pfn.raw(), Relaxed);
        self.sources.iter().for_each(|place| place.store(pfn.raw(), Relaxed));
    }

    /// Sets the target position to `pfn`, the first pageblock in which a reset of the hints found free pages.
    pub(in crate::page) fn begin_targets_at(&self, pfn: Pfn) {
        self.highest_target.store(pfn.raw(), Relaxed);
        self.targets.store(pfn.raw(), Relaxed);
    }

    /// Sets the positions to places where the scanners have met, after a reset of the hints has found nothing between
    /// them.
    pub(in crate::page) fn meet(&self, source: Pfn, target: Pfn) {
        self.sources.iter().for_each(|place| place.store(source.raw(), Relaxed));
        self.targets.store(target.raw(), Relaxed);
    }

    /// Returns whether a run that starts at `source` covers every pageblock that is worth a scan.
    pub(in crate::page) fn covers_all(&self, source: Pfn) -> bool {
        source.raw() <= self.lowest_source.load(Relaxed)
    }

    /// Returns whether the scanner of targets is still at its first position.
    pub(in crate::page) fn is_at_first_target(&self, target: Pfn) -> bool {
        target.raw() >= self.highest_target.load(Relaxed)
    }

    /// Notes that a quick search (of the free lists) for targets saw free blocks in pageblocks up to `highest`, and
    /// none above. Unless the target position is above `highest`, it becomes `below`, the pageblock before `highest`. A
    /// position that is not set counts as `first`, the last pageblock of the zone.
    pub(in crate::page) fn note_searched(&self, highest: Pfn, below: Pfn, first: Pfn) {
        let target = self.targets.load(Relaxed);
        if highest.raw() >= if target == ANEW { first.raw() } else { target } {
            self.targets.store(below.raw(), Relaxed);
        }
    }

    /// Resets the positions after the scanners have met, so that both start over.
    pub(in crate::page) fn reset_cached_positions(&self) {
        self.sources.iter().chain([&self.targets]).for_each(|place| place.store(ANEW, Relaxed));
    }

    /// Notes that the hints are outdated, because everything was scanned.
    pub(in crate::page) fn note_stale(&self) {
        self.is_stale.store(true, Relaxed);
    }

    /// Returns whether the hints were outdated, and clears that note.
    pub(in crate::page) fn clear_stale(&self) -> bool {
        self.is_stale.swap(false, Relaxed)
    }

    /// Returns whether an attempt at this order is deferred, and counts the attempt.
    pub(in crate::page) fn is_deferred(&self, order: Order) -> bool {
        if order.get() < self.failed.load(Relaxed) {
            return false;
        }
        let limit = 1 << self.defer_shift.load(Relaxed);
        let considered = self.considered.load(Relaxed) + 1;
        self.considered.store(considered.min(limit), Relaxed);
        considered < limit
    }

    /// Defers compaction, after an attempt that did everything it could has failed.
    pub(in crate::page) fn defer(&self, order: Order) {
        self.considered.store(0, Relaxed);
        let shift = self.defer_shift.load(Relaxed);
        self.defer_shift.store((shift + 1).min(DEFER_SHIFT_MAX), Relaxed);
        self.failed.fetch_min(order.get(), Relaxed);
    }

    /// Sets the longest deferral for attempts at `order` and above, of which the next `left` are skipped. The attempt
    /// after them finds the hints outdated, and resets them.
    pub(in crate::page) fn resume_deferral(&self, order: Order, left: u32) {
        let longest = 1 << DEFER_SHIFT_MAX;
        self.defer_shift.store(DEFER_SHIFT_MAX, Relaxed);
        self.considered.store(longest - 1 - left.min(longest - 1), Relaxed);
        self.failed.store(order.get(), Relaxed);
        self.note_stale();
    }

    /// Notes that an attempt has made a block of this order, so only larger orders count as failed.
    pub(in crate::page) fn note_success(&self, order: Order) {
        if order.get() >= self.failed.load(Relaxed) {
            self.failed.store(order.get() + 1, Relaxed);
        }
    }

    /// Notes that a request got the block that was made for it, which ends the deferral.
    pub(in crate::page) fn note_served(&self, order: Order) {
        self.considered.store(0, Relaxed);
        self.defer_shift.store(0, Relaxed);
        self.note_success(order);
    }

    /// Returns whether the longest deferral of the zone has just ended for attempts at this order.
    pub(in crate::page) fn is_restarting(&self, order: Order) -> bool {
        let longest = self.defer_shift.load(Relaxed) == DEFER_SHIFT_MAX;
        order.get() >= self.failed.load(Relaxed) && longest && self.considered.load(Relaxed) >= 1 << DEFER_SHIFT_MAX
    }

    fn source(&self, effort: CompactEffort) -> &AtomicU32 {
        &self.sources[usize::from(effort != CompactEffort::Async)]
    }
}

/// Returns the first frame of the last pageblock of this order in the span of a zone.
pub(in crate::page) fn last_pageblock((_, end): (Pfn, Pfn), block: Order) -> Pfn {
    Pfn::new(end.raw().saturating_sub(1)).align_down(block)
}

fn raise(place: &AtomicU32, pfn: Pfn) {
    let now = place.load(Relaxed);
    if now == ANEW || now < pfn.raw() {
        place.store(pfn.raw(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failures_double_the_deferral() {
        let (state, order) = (CompactState::new(), Order::new(9));
        assert!(!state.is_deferred(order), "no run failed");
        for shift in 1..=8 {
            state.defer(order);
            let passed_over = (0..).take_while(|_| state.is_deferred(order)).count();
            assert_eq!(passed_over, (1 << shift.min(DEFER_SHIFT_MAX)) - 1);
        }
        assert!(state.is_restarting(order));
        assert!(!state.is_deferred(Order::new(8)), "no run failed for a smaller order");
        state.note_served(order);
        state.defer(Order::new(3));
        assert!(state.is_deferred(Order::new(3)) && !state.is_deferred(Order::new(2)));
    }

    #[test]
    fn scanner_positions_persist_between_attempts() {
        use CompactEffort::{Async, SyncLight};
        let state = CompactState::new();
        let (span, block) = ((Pfn::new(512), Pfn::new(5120)), Order::new(9));
        let ends = (Pfn::new(512), Pfn::new(4608));
        assert_eq!(state.positions(Async, span, block), ends);
        state.note_source(Pfn::new(1024), Async);
        state.note_target(Pfn::new(4096));
        assert_eq!(state.positions(Async, span, block), (Pfn::new(1024), Pfn::new(4096)));
        assert_eq!(state.positions(SyncLight, span, block), (Pfn::new(512), Pfn::new(4096)));
        state.note_source(Pfn::new(2048), SyncLight);
        state.return_target(Pfn::new(4608));
        assert_eq!(state.positions(Async, span, block), (Pfn::new(2048), Pfn::new(4608)));
        state.reset_cached_positions();
        assert_eq!(state.positions(SyncLight, span, block), ends);
    }

    #[test]
    fn scanners_advance_and_return_within_the_zone() {
        use CompactEffort::{Async, SyncFull, SyncLight};
        let state = CompactState::new();
        state.return_target(Pfn::new(1024));
        assert_eq!(positions(&state, Async), (512, 4608), "no block was taken yet");
        [3072, 4096, 2560].into_iter().for_each(|pfn| state.note_target(Pfn::new(pfn)));
        state.return_target(Pfn::new(1024));
        assert_eq!(positions(&state, Async), (512, 2560), "the lowest");
        [1024, 2048, 1536].into_iter().for_each(|pfn| state.note_source(Pfn::new(pfn), SyncFull));
        assert_eq!(
            (positions(&state, Async), positions(&state, SyncLight)),
            ((2048, 2560), (2048, 2560)),
            "the highest"
        );
        assert!(state.shares_source());
        state.note_source(Pfn::new(2560), Async);
        assert!(!state.shares_source());
        state.share_source();
        assert!(state.shares_source() && positions(&state, SyncLight) == (2560, 2560));
        // The zone may have shrunk meanwhile.
        let smaller = (Pfn::new(3072), Pfn::new(4096));
        assert_eq!(state.positions(Async, smaller, Order::new(9)), (Pfn::new(3072), Pfn::new(3584)));
    }

    /// Returns the start positions of a run in a zone of frames 512 to 5119.
    fn positions(state: &CompactState, effort: CompactEffort) -> (u32, u32) {
        let (source, target) = state.positions(effort, (Pfn::new(512), Pfn::new(5120)), Order::new(9));
        (source.raw(), target.raw())
    }

    #[test]
    fn success_clears_deferral_up_to_its_order() {
        let state = CompactState::new();
        state.defer(Order::new(5));
        state.note_success(Order::new(4));
        assert!(
            !state.is_deferred(Order::new(4)) && state.is_deferred(Order::new(5)),
            "a success of a lower order changes nothing"
        );
        state.note_success(Order::new(7));
        assert!(!state.is_deferred(Order::new(7)) && state.failed.load(Relaxed) == 8);
        state.defer(Order::new(9));
        assert_eq!(state.failed.load(Relaxed), 8, "the lowest failed order is kept");
        assert!(state.is_deferred(Order::new(8)) && !state.is_deferred(Order::new(7)));
        assert!(!state.clear_stale());
        state.note_stale();
        assert!(state.clear_stale() && !state.clear_stale());
    }

    #[test]
    fn scan_restarts_after_the_longest_deferral() {
        let (state, order) = (CompactState::new(), Order::new(9));
        for _ in 0..DEFER_SHIFT_MAX {
            assert!(!state.is_restarting(order));
            state.defer(order);
        }
        (1..64).for_each(|_| assert!(state.is_deferred(order) && !state.is_restarting(order)));
        assert!(!state.is_deferred(order) && state.is_restarting(order));
        assert!(!state.is_restarting(Order::new(8)), "no run failed for this order");
    }

    #[test]
    fn resumed_deferral_skips_the_given_attempts() {
        let (state, huge) = (CompactState::new(), Order::new(9));
        state.resume_deferral(huge, 2);
        assert!(!state.is_deferred(Order::new(8)), "only orders from the failed one on are deferred");
        assert_eq!([huge; 4].map(|order| state.is_deferred(order)), [true, true, false, false]);
        assert!(state.is_restarting(huge) && state.clear_stale(), "the hints are reset first");
        state.note_served(huge);
        assert!(!state.is_deferred(huge) && !state.is_restarting(huge));
        state.resume_deferral(huge, 1000);
        assert_eq!((1..=64).filter(|_| state.is_deferred(huge)).count(), 63, "no deferral is longer than the longest");
    }
}
