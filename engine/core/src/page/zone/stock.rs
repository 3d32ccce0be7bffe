//! Counters of a zone's free pages, which are written under its lock.

use core::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::Zone;
use crate::base::MigrateType;

impl<L> Zone<L> {
    /// Returns the smallest number of free pages that the high-atomic reserve had at any time since the last call, and
    /// restarts the measurement. The caller holds the zone lock.
    pub(in crate::page) fn reset_idle_highatomic(&self) -> u64 {
        self.stock.idle_highatomic.swap(self.stock.free_highatomic.load(Relaxed), Relaxed).max(0) as u64
    }

    /// Counts pages of a type that joined the free lists, or left them if negative. Isolated pages are not counted. The
    /// caller holds the zone lock. linux: mm/page_alloc.c:account_freepages
    #[inline(never)]
    pub(super) fn account_freepages(&self, pages: i64, migratetype: MigrateType) {
        match migratetype {
            MigrateType::Isolate => return,
            MigrateType::Cma => add(&self.stock.free_cma, pages),
            MigrateType::HighAtomic => {
                add(&self.stock.free_highatomic, pages);
                let free = self.stock.free_highatomic.load(Relaxed);
                self.stock.idle_highatomic.store(self.stock.idle_highatomic.load(Relaxed).min(free), Relaxed);
            }
            _ => {}
        }
        add(&self.stock.free, pages);
        self.expect_in_stock(pages, migratetype);
    }

    /// Checks, in debug builds, that the counters are within their bounds. The caller holds the zone lock. The counters
    /// need not add up, because a block that changes its type may have left one counter without having joined the
    /// other.
    #[inline]
    fn expect_in_stock(&self, pages: i64, migratetype: MigrateType) {
        if cfg!(debug_assertions) {
            let stock = &self.stock;
            let [free, cma, reserve] =
                [&stock.free, &stock.free_cma, &stock.free_highatomic].map(|count| count.load(Relaxed));
            assert!(
                free >= 0 && cma >= 0 && reserve >= 0,
                "zone: {free} pages are free, {cma} of CMA and {reserve} of the reserve, after a change by {pages} \
                 {migratetype:?} pages"
            );
            assert!(
                free as u64 <= self.managed(),
                "zone: {free} pages are free, but only {} are managed",
                self.managed()
            );
            assert!(cma as u64 <= self.cma(), "zone: {cma} pages of CMA are free, but only {} exist", self.cma());
        }
    }
}

/// Adds to a counter that only the holder of the zone lock writes.
#[inline]
fn add(counter: &AtomicI64, pages: i64) {
    counter.store(counter.load(Relaxed) + pages, Relaxed);
}
