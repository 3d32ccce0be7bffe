//! Free runs of one kind, grouped into bins by size.
//!
//! Each number of pages below 64 has a bin of its own; above, each doubling is divided into eight bins. A bitmap of
//! non-empty bins finds the next bin that has runs. The search for the smallest sufficient run is exact below 64 pages.
//! Above, it compares the first few runs of a bin, whose sizes differ by at most an eighth.

use super::table::{Links, NONE, Table};

/// Numbers of pages below this bound have a bin of their own.
const EXACT: u32 = 64;
/// Binary logarithm of the number of bins for each doubling of the size.
const STEP_SHIFT: u32 = 3;
const BINS: usize = bin_of(u32::MAX) + 1;
const WORDS: usize = BINS.div_ceil(64);
/// Runs of one bin that are compared at most before the best of them is taken.
const COMPARED: usize = 16;

const fn bin_of(pages: u32) -> usize {
    if pages < EXACT {
        return pages as usize;
    }
    let log = pages.ilog2();
    let step = (pages >> (log - STEP_SHIFT)) & ((1 << STEP_SHIFT) - 1);
    (EXACT + ((log - EXACT.ilog2()) << STEP_SHIFT) + step) as usize
}

/// Free runs by size.
#[derive(Debug)]
pub(super) struct Bins {
    first: [u32; BINS],
    filled: [u64; WORDS],
}

impl Bins {
    pub(super) const EMPTY: Bins = Bins { first: [NONE; BINS], filled: [0; WORDS] };

    /// Inserts a run at the front of its bin.
    pub(super) fn insert(&mut self, table: &Table, run: u32, pages: u32) {
        let bin = bin_of(pages);
        let next = self.first[bin];
        table.set_links(run, Links { previous: NONE, next });
        if next != NONE {
            table.set_links(next, Links { previous: run, ..table.links(next) });
        }
        self.first[bin] = run;
        self.filled[bin / 64] |= 1 << (bin % 64);
    }

    /// Removes a run from its bin.
    pub(super) fn remove(&mut self, table: &Table, run: u32, pages: u32) {
        let bin = bin_of(pages);
        let Links { previous, next } = table.links(run);
        if next != NONE {
            table.set_links(next, Links { previous, ..table.links(next) });
        }
        if previous != NONE {
            table.set_links(previous, Links { next, ..table.links(previous) });
        } else {
            self.first[bin] = next;
            if next == NONE {
                self.filled[bin / 64] &= !(1 << (bin % 64));
            }
        }
    }

    /// Returns the smallest run of at least `pages` pages, or nearly the smallest; `None` if none is found.
    pub(super) fn find(&self, table: &Table, pages: u32) -> Option<u32> {
        let mut bin = bin_of(pages);
        loop {
            bin = self.filled_from(bin)?;
            let fitting = self.runs(table, bin).take(COMPARED).map(|run| (table.run_at(run).1, run));
            if let Some((_, run)) = fitting.filter(|&(size, _)| size >= pages).min() {
                return Some(run);
            }
            bin += 1;
        }
    }

    /// Returns the first run that `wanted` accepts, in order of decreasing bins. At most [`COMPARED`] runs of each bin
    /// are tried. Returns `None` if none of these is accepted.
    pub(super) fn largest(&self, table: &Table, mut wanted: impl FnMut(u32) -> bool) -> Option<u32> {
        let filled = (0..BINS).rev().filter(|bin| self.filled[bin / 64] & 1 << (bin % 64) != 0);
        filled.flat_map(|bin| self.runs(table, bin).take(COMPARED)).find(|&run| wanted(run))
    }

    fn runs<'t>(&self, table: &'t Table, bin: usize) -> impl Iterator<Item = u32> + use<'t> {
        let first = Some(self.first[bin]).filter(|&run| run != NONE);
        core::iter::successors(first, move |&run| Some(table.links(run).next).filter(|&run| run != NONE))
    }

    fn filled_from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.filled.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.filled.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}
