//! How a machine's memory lies when a run begins: a machine as workloads leave it, not one that just booted.
//!
//! ```text
//! figures   how much of everything there is, and in how many pageblocks
//! age       the figures of a machine of this age, 0 to 100
//! shares    shares that take the place of an age's
//! layout    the figures of each kind of pageblock
//! draw      a start with this layout, drawn by chance
//! snapshot  the start that a snapshot of a real machine shows
//! restore   puts it into the engine and the memory model
//! report    a start in figures, for people and programs
//! write     a start as a snapshot, a file for every command that takes one
//! ```
//!
//! A start is a row of pageblocks, each with runs of pages of one use. It has no addresses: a machine takes the
//! pageblocks one after the other, from its first frame on. So the pageblocks of a real machine, whose memory has holes
//! and several zones, become those of a simulated one.

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

/// Pages of a pageblock, as a power of two, and as a number.
pub const PAGEBLOCK_ORDER: u8 = 9;
/// Pages of a pageblock.
pub const PAGEBLOCK_PAGES: u32 = 1 << PAGEBLOCK_ORDER;

/// What pages are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// For nothing.
    Free,
    /// By the kernel or a device: they can be neither moved nor given up, and stay for the whole run.
    Fixed,
    /// By kernel objects that shrinkers give up.
    Reclaimable,
    /// By files, and used at most once lately: reclaim takes them first.
    Inactive,
    /// By files, and used more often.
    Active,
    /// By a task's memory: they can be moved.
    Task,
}

/// Blocks of one order that follow each other, all for the same use. They lie within a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What they are used for.
    pub what: Use,
    /// The order of each. Free pages are of order 0 here: which blocks they form follows from where they lie.
    pub order: u8,
    /// How many there are.
    pub blocks: u16,
}

impl Run {
    /// Pages of all its blocks.
    pub fn pages(&self) -> u32 {
        u32::from(self.blocks) << self.order
    }
}

/// A pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pageblock<'s> {
    /// What it is for.
    pub migratetype: MigrateType,
    /// What is in it, from the first page to the last.
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

/// The pageblocks of a machine, in the order in which they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    runs: Vec<Run>,
    /// Of each pageblock, what it is for, and where its runs end.
    pageblocks: Vec<(MigrateType, u32)>,
}

impl Start {
    /// Adds a pageblock.
    ///
    /// # Panics
    /// If the runs are not a pageblock's pages.
    pub fn push(&mut self, migratetype: MigrateType, runs: impl IntoIterator<Item = Run>) {
        let begin = self.runs.len();
        self.runs.extend(runs);
        let pages: u32 = self.runs[begin..].iter().map(Run::pages).sum();
        assert_eq!(pages, PAGEBLOCK_PAGES, "the runs of a pageblock are all of its pages");
        self.pageblocks.push((migratetype, self.runs.len() as u32));
    }

    /// A start of so many pageblocks: these, from the first on, again and again.
    #[must_use]
    pub fn repeated_to(&self, pageblocks: u32) -> Start {
        let mut repeated = Start::default();
        for number in 0..pageblocks {
            let Pageblock { migratetype, runs } = self.pageblock(number % self.len());
            repeated.push(migratetype, runs.iter().copied());
        }
        repeated
    }

    /// The same pageblocks, each with one run of every use and order, free pages first: a coarser start of fewer rows.
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

    /// The same pageblocks in an order by chance: all that is lost is where they lie.
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

    /// How many pageblocks there are.
    pub fn len(&self) -> u32 {
        self.pageblocks.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pageblocks.is_empty()
    }

    /// The pageblock of this number.
    ///
    /// # Panics
    /// If there is none.
    pub fn pageblock(&self, number: u32) -> Pageblock<'_> {
        let (migratetype, end) = self.pageblocks[number as usize];
        let begin = number.checked_sub(1).map_or(0, |before| self.pageblocks[before as usize].1);
        Pageblock { migratetype, runs: &self.runs[begin as usize..end as usize] }
    }

    /// All pageblocks, in order.
    pub fn pageblocks(&self) -> impl Iterator<Item = Pageblock<'_>> {
        (0..self.len()).map(|number| self.pageblock(number))
    }
}
