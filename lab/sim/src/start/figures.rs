//! Figures of a machine's memory: numbers of pages and pageblocks by use. They describe fragmentation without
//! addresses.

use serde::Serialize;

use super::{PAGEBLOCK_PAGES, Pageblock, Run, Start, Use};

/// Counts of a machine's pageblocks and pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Pageblocks of the machine.
    pub pageblocks: u64,
    /// Pageblocks that are wholly free.
    pub free_pageblocks: u64,
    /// Pageblocks that are one huge page of a task.
    pub huge_pageblocks: u64,
    /// Pageblocks with at least one fixed page, which can be neither moved nor reclaimed.
    pub fixed_pageblocks: u64,
    /// Pageblocks without fixed pages that contain reclaimable kernel objects.
    pub reclaimable_pageblocks: u64,
    /// Free pages.
    pub free: u64,
    /// Fixed pages, which can be neither moved nor reclaimed.
    pub fixed: u64,
    /// Pages of reclaimable kernel objects.
    pub reclaimable: u64,
    /// Pages of files.
    pub file: u64,
    /// Active pages of files.
    pub active: u64,
    /// Pages of tasks, including huge pages.
    pub task: u64,
}

impl Figures {
    /// Returns the figures of a start.
    pub fn from_start(start: &Start) -> Figures {
        Figures::from_pageblocks(start.pageblocks())
    }

    /// Returns the figures of some pageblocks.
    pub fn from_pageblocks<'s>(pageblocks: impl IntoIterator<Item = Pageblock<'s>>) -> Figures {
        let mut figures = Figures::default();
        pageblocks.into_iter().for_each(|pageblock| figures.count(&pageblock));
        figures
    }

    /// Counts another pageblock.
    pub fn count(&mut self, pageblock: &Pageblock<'_>) {
        let (is_fixed, is_reclaimable) = (pageblock.has(Use::Fixed), pageblock.has(Use::Reclaimable));
        self.pageblocks += 1;
        self.free_pageblocks += u64::from(pageblock.is_only(Use::Free, 0));
        self.huge_pageblocks += u64::from(pageblock.is_only(Use::Task, super::PAGEBLOCK_ORDER));
        self.fixed_pageblocks += u64::from(is_fixed);
        self.reclaimable_pageblocks += u64::from(is_reclaimable && !is_fixed);
        pageblock.runs.iter().for_each(|run| self.count_run(run));
    }

    fn count_run(&mut self, run: &Run) {
        let pages = u64::from(run.pages());
        match run.what {
            Use::Free => self.free += pages,
            Use::Fixed => self.fixed += pages,
            Use::Reclaimable => self.reclaimable += pages,
            Use::Inactive => self.file += pages,
            Use::Active => (self.file, self.active) = (self.file + pages, self.active + pages),
            Use::Task => self.task += pages,
        }
    }

    /// Returns the number of pages of the machine.
    pub fn pages(&self) -> u64 {
        self.pageblocks * u64::from(PAGEBLOCK_PAGES)
    }

    /// Returns the number of fixed pages and of tasks' pages. They stay in use for a whole run, unless the workload
    /// ends the tasks.
    pub fn held(&self) -> u64 {
        self.fixed + self.task
    }

    /// Returns figures with the same shares on a machine with `pageblocks` pageblocks.
    #[must_use]
    pub fn scaled_to(&self, pageblocks: u64) -> Figures {
        Figures {
            pageblocks,
            ..self.combine(&Figures::default(), |count, _| scale(count, pageblocks, self.pageblocks))
        }
    }

    /// Returns the sums of these figures and others.
    #[must_use]
    pub fn plus(&self, other: &Figures) -> Figures {
        self.combine(other, |one, other| one + other)
    }

    /// Returns these figures without others, which are part of them.
    #[must_use]
    pub fn minus(&self, other: &Figures) -> Figures {
        self.combine(other, |one, other| one - other)
    }

    /// Combines every count with the same count of `other`.
    fn combine(&self, other: &Figures, combine: impl Fn(u64, u64) -> u64) -> Figures {
        Figures {
            pageblocks: combine(self.pageblocks, other.pageblocks),
            free_pageblocks: combine(self.free_pageblocks, other.free_pageblocks),
            huge_pageblocks: combine(self.huge_pageblocks, other.huge_pageblocks),
            fixed_pageblocks: combine(self.fixed_pageblocks, other.fixed_pageblocks),
            reclaimable_pageblocks: combine(self.reclaimable_pageblocks, other.reclaimable_pageblocks),
            free: combine(self.free, other.free),
            fixed: combine(self.fixed, other.fixed),
            reclaimable: combine(self.reclaimable, other.reclaimable),
            file: combine(self.file, other.file),
            active: combine(self.active, other.active),
            task: combine(self.task, other.task),
        }
    }
}

/// Returns `count * to / whole`, rounded to the nearest integer.
pub(super) fn scale(count: u64, to: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    ((u128::from(count) * u128::from(to) + whole / 2) / whole) as u64
}
