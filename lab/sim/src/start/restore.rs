//! Transfer of a start to the engine and to the memory model above it.
//!
//! Three orders are random, since neither figures nor page flags determine them, and since consecutive addresses would
//! be more favourable than on any real machine: the order in which pageblocks give their free pages to the free lists,
//! the age of pages of files, 16 pages at a time, and the assignment of pages to tasks.

use freehold::base::{Gfp, Order, Pfn};
use freehold::page::Mobility;

use super::{PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Run, Start, Use};
use crate::memory::{FileActivity, Model};
use crate::virtual_time::VirtualTime;

type Engine<'m> = freehold::PageAllocator<'m, VirtualTime>;

/// Pages of files in a piece of equal age.
const EQUALLY_OLD: u32 = 16;

/// State during the transfer.
struct Restorer<'a, 'm> {
    engine: &'a Engine<'m>,
    model: &'a Model,
    /// Pages of files, in pieces of equal age.
    files: Vec<(Pfn, Run)>,
    /// Pages of tasks, block by block.
    tasks: Vec<(Pfn, Order)>,
    /// Number of fixed pages, which are never freed.
    fixed: u64,
}

/// Fills the machine, all of whose frames must be Reserved. Pageblocks beyond those of the start are not touched.
/// Returns the number of fixed pages, which stay for the whole run. Takes some nanoseconds per page.
pub fn restore(start: &Start, engine: &mut Engine<'_>, seed: u64) -> u64 {
    let rng = &mut fastrand::Rng::with_seed(seed ^ 0x7265_7374);
    let mut restorer =
        Restorer { engine, model: engine.platform().model(), files: Vec::new(), tasks: Vec::new(), fixed: 0 };
    let mut numbers: Vec<u32> = (0..start.len()).collect();
    rng.shuffle(&mut numbers);
    numbers.into_iter().for_each(|number| restorer.fill(start, number));
    let fixed = restorer.hand_over(rng);
    engine.restore().pass_over_huge_pages();
    fixed
}

impl Restorer<'_, '_> {
    fn fill(&mut self, start: &Start, number: u32) {
        let pageblock = start.pageblock(number);
        let mut at = Pfn::new(number * PAGEBLOCK_PAGES);
        self.engine.set_pageblock_type(at, pageblock.migratetype).expect("all frames of the pageblock are Reserved");
        for run in pageblock.runs {
            self.take_in(at, run);
            at = at.offset(run.pages());
        }
    }

    fn take_in(&mut self, at: Pfn, run: &Run) {
        let order = Order::new(run.order);
        let blocks = (0..run.blocks).map(|block| at.offset(u32::from(block) << run.order));
        match run.what {
            Use::Free => self.engine.release(at, at.offset(run.pages())).expect("the frames of the run are Reserved"),
            Use::Fixed => {
                self.adopt(at, run, Mobility::Fixed);
                self.fixed += u64::from(run.pages());
            }
            Use::Reclaimable => {
                self.adopt(at, run, Mobility::Fixed);
                blocks.for_each(|pfn| self.model.inherit_slab(pfn, order));
            }
            Use::Inactive | Use::Active => {
                self.adopt(at, run, Mobility::Movable);
                let step = (EQUALLY_OLD >> run.order).max(1) as u16;
                for first in (0..run.blocks).step_by(usize::from(step)) {
                    let blocks = step.min(run.blocks - first);
                    self.files.push((at.offset(u32::from(first) << run.order), Run { blocks, ..*run }));
                }
            }
            Use::Task => self.take_in_task(at, as_a_task_has_it(run)),
        }
    }

    fn take_in_task(&mut self, at: Pfn, run: Run) {
        self.adopt(at, &run, Mobility::Movable);
        let blocks = (0..u32::from(run.blocks)).map(|block| at.offset(block << run.order));
        self.tasks.extend(blocks.map(|pfn| (pfn, Order::new(run.order))));
    }

    /// Adopts blocks as allocated. A block of several pages is compound, as pages of files and tasks are.
    fn adopt(&self, at: Pfn, run: &Run, mobility: Mobility) {
        let order = Order::new(run.order);
        if order == Order::ZERO {
            return self
                .engine
                .adopt_each(at, at.offset(run.pages()), mobility)
                .expect("the frames of the run are Reserved");
        }
        let gfp = match mobility {
            Mobility::Movable => Gfp::HIGHUSER_MOVABLE,
            Mobility::Fixed => Gfp::KERNEL,
        };
        for block in 0..run.blocks {
            let pfn = at.offset(u32::from(block) << run.order);
            self.engine.release(pfn, pfn.offset(order.pages())).expect("the frames of the run are Reserved");
            let is_taken = self.engine.isolate_free_page(pfn, order, gfp | Gfp::COMP).is_ok_and(|is_taken| is_taken);
            assert!(is_taken, "the block at {pfn:?} is not free");
        }
    }

    fn hand_over(mut self, rng: &mut fastrand::Rng) -> u64 {
        rng.shuffle(&mut self.files);
        for (at, run) in self.files {
            let state = if run.what == Use::Active { FileActivity::Active } else { FileActivity::Inactive };
            let blocks = (0..u32::from(run.blocks)).map(|block| at.offset(block << run.order));
            blocks.for_each(|pfn| self.model.inherit_file(pfn, Order::new(run.order), state));
        }
        rng.shuffle(&mut self.tasks);
        self.model.inherit_tasks(&self.tasks);
        self.fixed
    }
}

/// Converts a run to blocks that a task can have: huge pages and single pages. Other sizes become single pages.
fn as_a_task_has_it(run: &Run) -> Run {
    match run.order {
        PAGEBLOCK_ORDER => *run,
        _ => Run { order: 0, blocks: run.pages() as u16, ..*run },
    }
}
