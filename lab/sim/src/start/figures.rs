//! How much of everything a machine's memory holds, and in how many pageblocks: what can be said of fragmentation
//! without addresses.

use serde::Serialize;

use super::{PAGEBLOCK_PAGES, Pageblock, Run, Start, Use};

/// Counts of a machine's pageblocks and pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Pageblocks of the machine.
    pub pageblocks: u64,
    /// Those that are free as a whole.
    pub free_pageblocks: u64,
    /// Those that are one huge page of a task.
    pub huge_pageblocks: u64,
    /// Those that hold at least one page that can be neither moved nor given up.
    pub fixed_pageblocks: u64,
    /// Those of the others that hold kernel objects which shrinkers give up.
    pub reclaimable_pageblocks: u64,
    /// Free pages.
    pub free: u64,
    /// Pages that can be neither moved nor given up.
    pub fixed: u64,
    /// Pages of kernel objects that shrinkers give up.
    pub reclaimable: u64,
    /// Pages of files.
    pub file: u64,
    /// Those of them that are active.
    pub active: u64,
    /// Pages of tasks, those of huge pages among them.
    pub task: u64,
}

impl Figures {
    /// The figures of a start.
    pub fn of(start: &Start) -> Figures {
        Figures::of_all(start.pageblocks())
    }

    /// The figures of some pageblocks.
    pub fn of_all<'s>(pageblocks: impl IntoIterator<Item = Pageblock<'s>>) -> Figures {
        let mut figures = Figures::default();
        pageblocks.into_iter().for_each(|pageblock| figures.count(&pageblock));
        figures
    }

    /// Counts another pageblock.
    pub fn count(&mut self, pageblock: &Pageblock<'_>) {
        let is_only = |what, order| matches!(pageblock.runs, [run] if run.what == what && run.order >= order);
        let has = |what| pageblock.runs.iter().any(|run| run.what == what);
        let by_one = |counter: &mut u64, is_one: bool| *counter += u64::from(is_one);
        by_one(&mut self.pageblocks, true);
        by_one(&mut self.free_pageblocks, is_only(Use::Free, 0));
        by_one(&mut self.huge_pageblocks, is_only(Use::Task, super::PAGEBLOCK_ORDER));
        by_one(&mut self.fixed_pageblocks, has(Use::Fixed));
        by_one(&mut self.reclaimable_pageblocks, has(Use::Reclaimable) && !has(Use::Fixed));
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

    /// Pages of the machine.
    pub fn pages(&self) -> u64 {
        self.pageblocks * u64::from(PAGEBLOCK_PAGES)
    }

    /// Pages that stay for a whole run, whatever is asked for.
    pub fn held(&self) -> u64 {
        self.fixed + self.task
    }

    /// The same shares on a machine with so many pageblocks.
    #[must_use]
    pub fn scaled_to(&self, pageblocks: u64) -> Figures {
        Figures { pageblocks, ..self.each(&Figures::default(), |count, _| scaled(count, pageblocks, self.pageblocks)) }
    }

    /// These and others together.
    #[must_use]
    pub fn plus(&self, other: &Figures) -> Figures {
        self.each(other, |one, other| one + other)
    }

    /// These without others, which are part of them.
    #[must_use]
    pub fn minus(&self, other: &Figures) -> Figures {
        self.each(other, |one, other| one - other)
    }

    /// Every count, made of those here and there.
    fn each(&self, other: &Figures, made: impl Fn(u64, u64) -> u64) -> Figures {
        Figures {
            pageblocks: made(self.pageblocks, other.pageblocks),
            free_pageblocks: made(self.free_pageblocks, other.free_pageblocks),
            huge_pageblocks: made(self.huge_pageblocks, other.huge_pageblocks),
            fixed_pageblocks: made(self.fixed_pageblocks, other.fixed_pageblocks),
            reclaimable_pageblocks: made(self.reclaimable_pageblocks, other.reclaimable_pageblocks),
            free: made(self.free, other.free),
            fixed: made(self.fixed, other.fixed),
            reclaimable: made(self.reclaimable, other.reclaimable),
            file: made(self.file, other.file),
            active: made(self.active, other.active),
            task: made(self.task, other.task),
        }
    }
}

/// `count` of `whole`, in as much as `to`; to the nearest.
pub(super) fn scaled(count: u64, to: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    ((u128::from(count) * u128::from(to) + whole / 2) / whole) as u64
}
