//! The proof that what is held cannot be moved: all memory of the machine is compacted, and the pageblocks stay lost.
//!
//! Compaction may give up long before it has seen all memory, and then nothing comes back for another reason. So there
//! is a control: a few pageblocks with pages that can be moved. They have to come back. It is asked for as long as it
//! gets on, since a run that meets a large page without a place for it ends there.
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

/// What compacts all memory when it is written to.
const COMPACT: &str = "/proc/sys/vm/compact_memory";
/// Pageblocks of the control, and pages in each.
const CONTROL_PAGEBLOCKS: usize = 16;
const CONTROL_PAGES: usize = 8;
/// Runs of compaction at most; and how many in a row may move how few pages.
const RUNS_MAX: u32 = 256;
const IDLE_RUNS_MAX: u32 = 8;
const IDLE_PAGES: u64 = 16;

/// Pageblocks with pages that can be moved.
#[derive(Debug)]
pub(crate) struct Control(Exact);

impl Control {
    /// Places it.
    pub(crate) fn place(flags: &Reader, guard: &mut Guard<'_>) -> Result<Control, Error> {
        let mut wanted = PageSet::default();
        (0..CONTROL_PAGES).for_each(|number| wanted.add(number * (PAGEBLOCK_PAGES / CONTROL_PAGES)));
        Exact::place(Kind::Movable, &[wanted; CONTROL_PAGEBLOCKS], flags, guard).map(Control)
    }

    /// Compacts all memory: how many of the lost pageblocks came back, how many of the control, and what is free then.
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

    /// Compacts until all pages of the control have moved, or hardly any of the machine do.
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

/// Counts the pageblocks in which a census found nothing.
fn count_empty(census: &Census, pageblocks: &BTreeSet<u64>) -> u64 {
    pageblocks.iter().filter(|pageblock| census.content(**pageblock).is_empty()).count() as u64
}
