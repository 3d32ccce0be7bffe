//! Deferral of compaction when the recording starts.
//!
//! After failures the kernel skips compaction of a zone, for up to 63 attempts, and the attempt after the longest
//! deferral resets the positions of the scanners. No file shows this state. Two facts of a recording do: before
//! the first compaction of the zone, requests for huge pages failed or reclaimed without compacting; and that compaction
//! began where only a reset puts the scanner of free pages, at the last frame of a pageblock. The skipped attempts are
//! counted from the requests. A machine that has just booted shows neither.
//!
//! linux: mm/compaction.c:compaction_deferred, compaction_restarting, __reset_isolation_suitable;
//! mm/page_alloc.c:__alloc_pages_slowpath

use freehold::base::{Gfp, Order};
use freehold_trace::event::NO_PFN;
use freehold_trace::{Kind, Row};
use rustc_hash::FxHashMap;

/// A zone whose compaction was deferred at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeferredZone {
    /// First frame of the zone.
    pub(crate) start_pfn: u64,
    /// Number of attempts that were skipped before the zone was compacted.
    pub(crate) skipped: u32,
}

/// Work of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Reclaimed,
    Compacted,
}

/// Detection of deferred zones.
#[derive(Debug)]
pub(crate) struct Deferrals {
    pageblock_order: Order,
    /// Attempts without a compaction so far.
    skipped: u32,
    /// Work of each task since its last allocation.
    progress: FxHashMap<u32, Progress>,
    /// First frames of the zones that were compacted so far.
    compacted: Vec<u64>,
    deferred: Vec<DeferredZone>,
}

impl Deferrals {
    /// Creates the detection, at the start of a recording with pageblocks of this order.
    pub(crate) fn new(pageblock_order: Order) -> Deferrals {
        Deferrals {
            pageblock_order,
            skipped: 0,
            progress: FxHashMap::default(),
            compacted: Vec::new(),
            deferred: Vec::new(),
        }
    }

    /// Handles an event.
    #[inline]
    pub(crate) fn observe(&mut self, row: &Row) {
        match row.kind {
            Kind::DirectReclaimBegin => _ = self.progress.entry(row.task).or_insert(Progress::Reclaimed),
            Kind::CompactionBegin => self.compacts(row),
            Kind::Alloc if row.order >= self.pageblock_order.get() => self.requests(row),
            Kind::Alloc if !self.progress.is_empty() => _ = self.progress.remove(&row.task),
            _ => {}
        }
    }

    fn compacts(&mut self, row: &Row) {
        self.progress.insert(row.task, Progress::Compacted);
        let (start_pfn, target) = (row.args[0] as u64, row.args[1] as u64);
        if self.compacted.contains(&start_pfn) {
            return;
        }
        self.compacted.push(start_pfn);
        let is_reset = target.wrapping_add(1).is_multiple_of(u64::from(self.pageblock_order.pages()));
        if is_reset && self.skipped > 0 {
            self.deferred.push(DeferredZone { start_pfn, skipped: self.skipped });
        }
    }

    /// Counts the attempts of a request that did not compact. A request that may compact attempts it before it
    /// reclaims, and again if it finds no block afterwards.
    fn requests(&mut self, row: &Row) {
        let progress = self.progress.remove(&row.task);
        let failed = u32::from(row.pfn == NO_PFN);
        if Gfp::from_bits_retain(row.gfp).contains(Gfp::DIRECT_RECLAIM | Gfp::IO) {
            self.skipped += match progress {
                None => failed,
                Some(Progress::Reclaimed) => 1 + failed,
                Some(Progress::Compacted) => 0,
            };
        }
    }

    /// Returns the zones whose compaction was deferred at the start.
    pub(crate) fn finish(self) -> Vec<DeferredZone> {
        self.deferred
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u32 = 0x3d_24ca;

    fn huge(gfp: u32, pfn: u64) -> Row {
        Row { task: 1, order: 9, gfp, pfn, ..Row::new(Kind::Alloc) }
    }

    fn compaction(target: i64) -> Row {
        Row { task: 1, args: [1 << 20, target, 2 << 20], ..Row::new(Kind::CompactionBegin) }
    }

    fn deferred(rows: &[Row]) -> Vec<DeferredZone> {
        let mut deferrals = Deferrals::new(Order::new(9));
        rows.iter().for_each(|row| deferrals.observe(row));
        deferrals.finish()
    }

    #[test]
    fn skipped_attempts_are_counted_until_the_zone_is_compacted() {
        let reclaim = Row { task: 1, order: 9, ..Row::new(Kind::DirectReclaimBegin) };
        let reset = compaction(6_434_815);
        let rows = [
            huge(FIRST, 512),
            huge(FIRST, NO_PFN),
            reclaim,
            huge(0x1c_24ca, NO_PFN),
            huge(FIRST, NO_PFN),
            reclaim,
            huge(0x1c_24ca, 1024),
            huge(0x1c_20ca, NO_PFN),
            reset,
            huge(FIRST, NO_PFN),
            compaction(6_434_815),
        ];
        let found = deferred(&rows);
        assert_eq!(found, [DeferredZone { start_pfn: 1 << 20, skipped: 1 + 2 + 1 + 1 }]);
    }

    #[test]
    fn scanner_without_a_reset_shows_no_deferral() {
        assert_eq!(deferred(&[huge(FIRST, NO_PFN), compaction(6_553_088)]), []);
        assert_eq!(deferred(&[compaction(6_434_815)]), [], "no attempt was skipped");
    }
}
