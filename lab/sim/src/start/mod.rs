//! State of a machine's memory when a run begins: as workloads leave it, not as it is right after boot.
//!
//! ```text
//! figures   numbers of pages and pageblocks by use
//! age       the figures of a machine of an age, 0 to 100
//! shares    shares that replace those of an age
//! layout    the figures of each kind of pageblock
//! draw      a random start with a layout
//! snapshot  the start that is recorded in a snapshot of a real machine
//! restore   transfers a start to the engine and the memory model
//! report    a start in figures, for people and programs
//! write     a start as a snapshot, a file for every command that takes one
//! ```
//!
//! A start is a sequence of pageblocks, each with runs of pages of one use. It has no addresses: a machine takes the
//! pageblocks one after the other, from its first frame on. So the pageblocks of a real machine, whose memory has holes
//! and several zones, become those of a simulated machine.
//!
//! # Design
//!
//! Drawn and real starts are the same data. A drawn start can therefore be written as a snapshot, and any snapshot can
//! be simulated on memory of any size. Properties that neither figures nor page flags contain are drawn at random: the
//! age of pages of files, and the order of the free lists.
//!
//! An age is one number, because its shares are correlated on real machines. Other shares are options (`freehold age
//! --fixed-blocks 50`).
//!
//! No workload frees a fixed page of a start. The tasks of a start belong to the workload `webhost`, which ends them;
//! under other workloads they stay. Files and kernel objects of a start are reclaimed when memory is short.

pub mod age;
mod draw;
pub mod figures;
pub mod layout;
pub mod report;
mod restore;
pub mod shares;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

use freehold::base::MigrateType;

pub use draw::draw_start;
pub use figures::Figures;
pub use layout::Layout;
pub use restore::restore;
pub use snapshot::{SnapshotError, read};
pub use write::{facts, state_rows, write};

/// Order of a pageblock.
pub const PAGEBLOCK_ORDER: u8 = 9;
/// Pages of a pageblock.
pub const PAGEBLOCK_PAGES: u32 = 1 << PAGEBLOCK_ORDER;

/// Use of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Not in use.
    Free,
    /// Used by the kernel or a device. Such pages can be neither moved nor reclaimed, and stay for the whole run.
    Fixed,
    /// Kernel objects that shrinkers free.
    Reclaimable,
    /// Pages of files that were used at most once recently; reclaim frees them first.
    Inactive,
    /// Pages of files that were used more often.
    Active,
    /// Memory of a task, which can be moved.
    Task,
}

/// Consecutive blocks of one order with the same use, within a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Use of the blocks.
    pub what: Use,
    /// Order of each block. Free pages are of order 0 here: their positions determine the blocks that they form.
    pub order: u8,
    /// Number of blocks.
    pub blocks: u16,
}

impl Run {
    /// Returns the number of pages of all blocks.
    pub fn pages(&self) -> u32 {
        u32::from(self.blocks) << self.order
    }
}

/// A pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pageblock<'s> {
    /// Migratetype of the pageblock.
    pub migratetype: MigrateType,
    /// Contents of the pageblock, from the first page to the last.
    pub runs: &'s [Run],
}

impl Pageblock<'_> {
    /// Returns whether some run has this use.
    fn has(&self, what: Use) -> bool {
        self.runs.iter().any(|run| run.what == what)
    }

    /// Returns whether the pageblock is one run of this use, in blocks of at least this order.
    fn is_only(&self, what: Use, order: u8) -> bool {
        matches!(self.runs, [run] if run.what == what && run.order >= order)
    }
}

/// The pageblocks of a machine, in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    runs: Vec<Run>,
    /// For each pageblock, its migratetype and the end of its runs in `runs`.
    pageblocks: Vec<(MigrateType, u32)>,
}

impl Start {
    /// Adds a pageblock.
    ///
    /// # Panics
    /// Panics if the runs do not add up to the pages of a pageblock.
    pub fn push(&mut self, migratetype: MigrateType, runs: impl IntoIterator<Item = Run>) {
        let begin = self.runs.len();
        self.runs.extend(runs);
        let pages: u32 = self.runs[begin..].iter().map(Run::pages).sum();
        assert_eq!(pages, PAGEBLOCK_PAGES, "the runs of a pageblock do not add up to all of its pages");
        self.pageblocks.push((migratetype, self.runs.len() as u32));
    }

    /// Returns a start of `pageblocks` pageblocks: those of this start, repeated if there are too few, or the first
    /// ones.
    #[must_use]
    pub fn repeated_to(&self, pageblocks: u32) -> Start {
        let mut repeated = Start::default();
        for number in 0..pageblocks {
            let Pageblock { migratetype, runs } = self.pageblock(number % self.len());
            repeated.push(migratetype, runs.iter().copied());
        }
        repeated
    }

    /// Returns the same pageblocks with one run for each use and order, free pages first: a coarser start of fewer
    /// rows.
    #[must_use]
    pub fn joined(&self) -> Start {
        let mut joined = Start::default();
        for Pageblock { migratetype, runs } in self.pageblocks() {
            let mut sums: Vec<Run> = Vec::new();
            for run in runs {
                match sums.iter_mut().find(|sum| (sum.what, sum.order) == (run.what, run.order)) {
                    Some(sum) => sum.blocks += run.blocks,
                    None => sums.push(*run),
                }
            }
            sums.sort_by_key(|run| run.what != Use::Free);
            joined.push(migratetype, sums);
        }
        joined
    }

    /// Returns the same pageblocks in random order. Only the positions change.
    #[must_use]
    pub fn shuffled(&self, seed: u64) -> Start {
        let mut numbers: Vec<u32> = (0..self.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
        let mut shuffled = Start::default();
        for number in numbers {
            let Pageblock { migratetype, runs } = self.pageblock(number);
            shuffled.push(migratetype, runs.iter().copied());
        }
        shuffled
    }

    /// Returns the number of pageblocks.
    pub fn len(&self) -> u32 {
        self.pageblocks.len() as u32
    }

    /// Returns whether there are no pageblocks.
    pub fn is_empty(&self) -> bool {
        self.pageblocks.is_empty()
    }

    /// Returns the pageblock with this number.
    ///
    /// # Panics
    /// Panics if there is no such pageblock.
    pub fn pageblock(&self, number: u32) -> Pageblock<'_> {
        let (migratetype, end) = self.pageblocks[number as usize];
        let begin = number.checked_sub(1).map_or(0, |before| self.pageblocks[before as usize].1);
        Pageblock { migratetype, runs: &self.runs[begin as usize..end as usize] }
    }

    /// Returns all pageblocks, in order.
    pub fn pageblocks(&self) -> impl Iterator<Item = Pageblock<'_>> {
        (0..self.len()).map(|number| self.pageblock(number))
    }
}
