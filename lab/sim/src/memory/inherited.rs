//! Memory in use when a run begins: pages of files, kernel objects, and the memory of running tasks.
//!
//! The workload `webhost` takes the tasks over until its tasks have their share of memory, and lets them exit like its
//! own. Tasks' memory that no workload takes over stays, and can be moved.

use freehold::base::{Order, Pfn};

use super::Model;
use super::anonymous::{HUGE, Mapping, RANGE_PAGES, Shape};
use super::frames::{List, Owner, Place};
use super::lists::End;
use crate::cpu::Cpu;
use crate::executor::Executor;

/// Activity of a page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileActivity {
    /// The page was used at most once recently. It is on the inactive list.
    Inactive,
    /// The page was used more often. It is on the active list.
    Active,
}

impl Model {
    /// Adds a block to the page cache of the start state. It is newer than the blocks that were added before it.
    pub fn inherit_file(&self, pfn: Pfn, order: Order, state: FileActivity) {
        let list = match state {
            FileActivity::Inactive => List::InactiveFile,
            FileActivity::Active => List::ActiveFile,
        };
        self.node_at(pfn).lists.add(&self.frames, pfn, Owner::file(list, order), End::Head);
    }

    /// Adds a block that is full of kernel objects that shrinkers can free.
    pub fn inherit_slab(&self, pfn: Pfn, order: Order) {
        let objects = self.parameters.objects_per_page.max(1) << order.get();
        self.node_at(pfn).slabs.add(&self.frames, pfn, order, objects);
    }

    /// Adds the memory of tasks: huge pages, each of which forms a range, and single pages, of which every 512 in the
    /// order of `blocks` form a range. If all range numbers are in use, the remaining blocks get no owner, so they can
    /// be neither moved nor freed.
    pub fn inherit_tasks(&self, blocks: &[(Pfn, Order)]) {
        let (huge, small): (Vec<_>, Vec<_>) = blocks.iter().partition(|&&(_, order)| order == HUGE);
        debug_assert!(
            small.iter().all(|&(_, order)| order == Order::ZERO),
            "a block of a task is neither a huge page nor a single page"
        );
        let pages: Vec<Pfn> = small.into_iter().map(|(pfn, _)| pfn).collect();
        let ranges = huge.iter().map(|(pfn, _)| (Some(*pfn), &[][..]));
        let ranges = ranges.chain(pages.chunks(RANGE_PAGES as usize).map(|pages| (None, pages)));
        for (huge, small) in ranges {
            let is_advised = self.rng.borrow_mut().u32(0..100) < self.thp().madvised_percent;
            let Some(range) = self.ranges.map(Shape { is_advised, is_whole: true }) else { return };
            self.fill_range(range, huge, small);
            self.inherited.borrow_mut().push(Mapping { ranges: vec![range], pages: RANGE_PAGES });
        }
    }

    fn fill_range(&self, range: u32, huge: Option<Pfn>, small: &[Pfn]) {
        if let Some(pfn) = huge {
            self.frames.set_owner(pfn, Owner::task(Place { range, page: 0 }));
            self.ranges.fill_huge(range, pfn);
        }
        for (page, &pfn) in (0..).zip(small) {
            let place = Place { range, page };
            self.frames.set_owner(pfn, Owner::task(place));
            self.ranges.fill(place, pfn);
        }
    }
}

impl<X: Executor> Cpu<'_, '_, X> {
    /// Takes over one range of the memory of running tasks. Also returns the number of pages in the range. Returns
    /// `None` if no inherited memory is left, or on executors without a memory model.
    pub fn inherit(&self) -> Option<(Mapping, u64)> {
        let model = self.model()?;
        let mapping = model.inherited.borrow_mut().pop()?;
        let pages = mapping.ranges.iter().map(|&range| model.ranges.pages_of(range)).sum();
        Some((mapping, pages))
    }
}
