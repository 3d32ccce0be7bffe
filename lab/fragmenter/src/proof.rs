//! Proof that held pages cannot be moved: all memory of the machine is compacted, and the pageblocks stay occupied.
//!
//! Compaction may give up long before it has scanned all memory, and pageblocks would stay occupied for that reason. As
//! a control, a few pageblocks have movable pages, and these pageblocks must become free. Compaction is requested
//! repeatedly as long as it makes progress, since a run ends at a large page for which it finds no target.
//!
//! linux: mm/compaction.c:compact_zone

use std::collections::BTreeSet;
use std::fs;

use freehold_record::Interrupts;

use super::census::{Census, Reader};
use super::error::Error;
use super::exact::Exact;
use super::guard::Guard;
use super::kind::Kind;
use super::page_set::{PAGEBLOCK_PAGES, PageSet};
use super::report::Proof;
use super::zones::{self, Free};

/// File that compacts all memory when it is written.
const COMPACT: &str = "/proc/sys/vm/compact_memory";
/// Pageblocks of the control, and pages in each.
const CONTROL_PAGEBLOCKS: usize = 16;
const CONTROL_PAGES: usize = 8;
/// Maximum number of runs of compaction, and of consecutive idle runs, which move at most this many pages.
const RUNS_MAX: u32 = 256;
const IDLE_RUNS_MAX: u32 = 8;
const IDLE_PAGES: u64 = 16;

/// Pageblocks with movable pages.
#[derive(Debug)]
pub(crate) struct Control(Exact);

impl Control {
    /// Allocates the pages of the control.
    pub(crate) fn place(flags: &Reader, guard: &mut Guard<'_>) -> Result<Control, Error> {
        let mut wanted = PageSet::default();
        (0..CONTROL_PAGES).for_each(|number| wanted.add(number * (PAGEBLOCK_PAGES / CONTROL_PAGES)));
        Exact::place(Kind::Movable, &[wanted; CONTROL_PAGEBLOCKS], flags, guard).map(Control)
    }

    /// Compacts all memory. Returns how many of the lost pageblocks and of the control's pageblocks became free, and
    /// the free memory after that.
    pub(crate) fn compact(
        &self,
        lost: &BTreeSet<u64>,
        flags: &Reader,
        interrupts: &Interrupts,
    ) -> Result<(Proof, Free), Error> {
        self.run(interrupts)?;
        let (free, compacted) = (Free::now()?, flags.census()?);
        let control: BTreeSet<u64> = self.0.frames().map(|frame| frame / PAGEBLOCK_PAGES as u64).collect();
        let proof = Proof {
            lost_pageblocks: lost.len() as u64,
            returned_pageblocks: count_empty(&compacted, lost),
            control_pageblocks: control.len() as u64,
            control_returned: count_empty(&compacted, &control),
        };
        Ok((proof, free))
    }

    /// Compacts until all pages of the control have moved, or hardly any page of the machine moves.
    fn run(&self, interrupts: &Interrupts) -> Result<(), Error> {
        let (mut moved, mut idle) = (zones::moved_pages()?, 0);
        for _ in 0..RUNS_MAX {
            interrupts.check()?;
            fs::write(COMPACT, "1").map_err(Error::kernel(COMPACT))?;
            let before = std::mem::replace(&mut moved, zones::moved_pages()?);
            idle = if moved - before > IDLE_PAGES { 0 } else { idle + 1 };
            if idle == IDLE_RUNS_MAX || self.0.staying()? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Counts the pageblocks that are empty in a census.
fn count_empty(census: &Census, pageblocks: &BTreeSet<u64>) -> u64 {
    pageblocks.iter().filter(|pageblock| census.content(**pageblock).is_empty()).count() as u64
}
