//! khugepaged: makes huge pages of ranges with small pages, a few every ten seconds.
//!
//! It walks over all ranges in turn. A range with enough small pages, none of them pinned, is collapsed: a huge page is
//! allocated with reclaim and compaction, the pages are copied, and the small ones are freed. If the allocation fails,
//! khugepaged sleeps a minute. After a second failure it gives up until the next round. The range may have changed
//! during the allocation, so it is checked again before anything is copied.
//!
//! Not modelled: whether the pages were used recently, and pages of files.
//!
//! linux: mm/khugepaged.c:khugepaged_do_scan, collapse_huge_page, alloc_charge_folio

use freehold::PageAllocator;
use freehold::base::{Gfp, NodeId, Order, Pfn};

use super::anonymous::{Contents, HUGE, RANGE_PAGES};
use super::frames::{Owner, Place};
use super::{Advice, Model};
use crate::executor::{Executor, Step};

/// Failed allocations that end a round.
const FAILURES_MAX: u32 = 2;

/// Result of scanning a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// The range was collapsed, or there was nothing to do.
    Done,
    /// No huge page could be allocated.
    NoMemory,
}

/// State of the task.
pub(crate) struct Khugepaged<'a, 'm, X: Executor> {
    allocator: &'a PageAllocator<'m, X>,
    model: &'a Model,
    /// Next range to scan.
    cursor: u32,
}

impl<'a, 'm, X: Executor> Khugepaged<'a, 'm, X> {
    /// Creates a task that begins at the first range.
    pub(crate) fn new(allocator: &'a PageAllocator<'m, X>, model: &'a Model) -> Khugepaged<'a, 'm, X> {
        Khugepaged { allocator, model, cursor: 0 }
    }

    /// Scans one round: as many ranges as fit the configured number of pages, or all ranges if these are fewer. Calls
    /// `sleep` after a failed allocation. Ends early after [`FAILURES_MAX`] failures, or at a failure when the run is
    /// over.
    pub(crate) fn scan(&mut self, mut sleep: impl FnMut(u64)) {
        let thp = self.model.thp();
        let ranges = (thp.pages_to_scan / RANGE_PAGES).min(self.model.ranges.len());
        let mut failures = 0;
        for _ in 0..ranges {
            let range = self.cursor % self.model.ranges.len();
            self.cursor = range + 1;
            if self.look_at(range) == Look::NoMemory {
                failures += 1;
                if failures == FAILURES_MAX || self.executor().is_over() {
                    return;
                }
                sleep(thp.alloc_sleep_ms);
            }
        }
    }

    fn look_at(&self, range: u32) -> Look {
        let executor = self.executor();
        executor.take_turn();
        self.model.pins.expire(&self.model.frames, executor.now());
        executor.charge(Step::Scan);
        let Some(node) = self.worth_it(range) else { return Look::Done };
        executor.charge(Step::Alloc);
        let gfp = Gfp::TRANSHUGE | Gfp::THISNODE;
        let Ok(huge) = self.allocator.alloc_pages_node(node, gfp, HUGE) else {
            self.model.counters.thp_collapse_alloc_failed.add(1);
            return Look::NoMemory;
        };
        self.model.counters.thp_collapse_alloc.add(1);
        executor.touch(huge);
        // Faults, frees and pins may have happened during the allocation.
        if self.worth_it(range).is_some() {
            self.collapse(range, huge);
        } else {
            self.free(&[(huge, HUGE)]);
        }
        Look::Done
    }

    /// Returns the node for the huge page of a range; `None` if the range is not to be collapsed.
    fn worth_it(&self, range: u32) -> Option<NodeId> {
        let (model, thp) = (self.model, self.model.thp());
        let Contents::Small(pages) = model.ranges.contents(range) else { return None };
        let shape = model.ranges.shape(range);
        let is_wanted = thp.enabled == Advice::Always || (thp.enabled == Advice::Madvise && shape.is_advised);
        let is_full = pages + u32::from(thp.max_ptes_none) >= RANGE_PAGES;
        if !(is_wanted && shape.is_whole && is_full) {
            return None;
        }
        let (mut is_free, mut first) = (true, None);
        model.ranges.small_pages(range, |pfn| {
            is_free &= !model.frames.owner(pfn).is_pinned();
            first.get_or_insert(pfn);
        });
        let first = first.filter(|_| is_free)?;
        let zone = self.allocator.map().pageblock(first).zone();
        Some(self.allocator.zones()[usize::from(zone)].node())
    }

    /// Copies the pages of a range to the huge page, and frees the small pages.
    fn collapse(&self, range: u32, huge: Pfn) {
        let mut left = Vec::with_capacity(RANGE_PAGES as usize);
        self.model.ranges.empty(range, |pfn, order| {
            self.model.frames.disown(pfn);
            left.push((pfn, order));
        });
        let is_filled = self.model.ranges.fill_huge(range, huge);
        debug_assert!(is_filled, "range {range} is not empty");
        self.model.frames.set_owner(huge, Owner::task(Place { range, page: 0 }));
        self.executor().charge_times(Step::Migrate, left.len() as u64);
        self.free(&left);
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        for &(pfn, order) in blocks {
            self.executor().touch(pfn);
            self.executor().charge(Step::Free);
            let freed = self.allocator.free_pages(pfn, order);
            freed.unwrap_or_else(|error| panic!("khugepaged freed a block that it does not own: {error}"));
        }
    }

    fn executor(&self) -> &'a X {
        self.allocator.platform()
    }
}
