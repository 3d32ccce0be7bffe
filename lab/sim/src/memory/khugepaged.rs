//! khugepaged: makes huge pages of ranges with small ones, a few every ten seconds.
//!
//! It walks over all ranges in turn. A range with enough small pages, none of them pinned, is collapsed: a huge page is
//! allocated with reclaim and compaction, the pages are copied, and the small ones freed. Who gets none sleeps a
//! minute, tries once more, and gives up until the next round. Meanwhile the range may have changed, so it is looked at
//! again before anything is copied.
//!
//! Left out: whether the pages were used lately, and pages of files.
//!
//! linux: mm/khugepaged.c:khugepaged_do_scan, collapse_huge_page, alloc_charge_folio

use freehold::PageAllocator;
use freehold::base::{Gfp, NodeId, Order, Pfn};

use super::anonymous::{Contents, HUGE, RANGE_PAGES};
use super::frames::{Owner, Place};
use super::{Advice, Model};
use crate::executor::{Executor, Step};

/// Failed allocations in a round after which it gives up.
const FAILURES_MAX: u32 = 2;

/// How a look at a range ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// There was nothing to be done, or it was done.
    Done,
    /// There was no huge page.
    NoMemory,
}

/// The task.
pub(crate) struct Khugepaged<'a, 'm, X: Executor> {
    allocator: &'a PageAllocator<'m, X>,
    model: &'a Model,
    /// The range that it looks at next.
    cursor: u32,
}

impl<'a, 'm, X: Executor> Khugepaged<'a, 'm, X> {
    /// A task that begins at the first range.
    pub(crate) fn new(allocator: &'a PageAllocator<'m, X>, model: &'a Model) -> Khugepaged<'a, 'm, X> {
        Khugepaged { allocator, model, cursor: 0 }
    }

    /// One round: as many pages as are to be scanned, or as there are. Sleeps by `sleep` where it has to wait for
    /// memory.
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
        // Faults, frees and pins may have come in between.
        if self.worth_it(range).is_some() {
            self.collapse(range, huge);
        } else {
            self.free(&[(huge, HUGE)]);
        }
        Look::Done
    }

    /// Where the huge page of a range should lie; `None` if there should be none.
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

    /// Copies what is in a range to the huge page, and frees the small ones.
    fn collapse(&self, range: u32, huge: Pfn) {
        let mut left = Vec::with_capacity(RANGE_PAGES as usize);
        self.model.ranges.empty(range, |pfn, order| {
            self.model.frames.disown(pfn);
            left.push((pfn, order));
        });
        let is_filled = self.model.ranges.fill_huge(range, huge);
        debug_assert!(is_filled, "it was emptied");
        self.model.frames.set_owner(huge, Owner::task(Place { range, page: 0 }));
        self.executor().charge_times(Step::Migrate, left.len() as u64);
        self.free(&left);
    }

    fn free(&self, blocks: &[(Pfn, Order)]) {
        for &(pfn, order) in blocks {
            self.executor().touch(pfn);
            self.executor().charge(Step::Free);
            let freed = self.allocator.free_pages(pfn, order);
            freed.unwrap_or_else(|error| panic!("khugepaged freed what it does not have: {error}"));
        }
    }

    fn executor(&self) -> &'a X {
        self.allocator.platform()
    }
}
