//! Continuous fragmentation while another program runs: pins are freed, and others are made elsewhere.
//!
//! Ten times a second some whole pageblocks are taken and pinned like the first ones, and as many of the oldest pinned
//! pages are freed. The new pins are made first, so they are in other pageblocks. This work interferes with the program
//! only by its use of memory: it uses no common files or locks, and runs with the lowest CPU priority. If memory is
//! short, a step is skipped, since it would cause reclaim and compaction for other programs.

use std::time::Duration;

use super::census::Reader;
use super::error::Error;
use super::guard::Guard;
use super::hold::Meanwhile;
use super::kind_pages::KindPages;
use super::page_set::{PAGEBLOCK_PAGES, PageSet};
use super::zones::Free;

/// Steps per second.
const STEPS: u64 = 10;
/// Maximum number of pageblocks that are taken in a step.
const PAGEBLOCKS_MAX: u64 = 64;
/// Factor between the pageblocks of a step and the wholly free pageblocks that it requires.
const FREE_FACTOR: u64 = 4;

/// Rate of renewal.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Pageblocks per second.
    rate: u64,
    /// Remainder of pageblocks that is due, in units of 1 / [`STEPS`].
    due: u64,
}

impl Pace {
    /// Returns the number of pageblocks of the next step.
    fn next(&mut self) -> usize {
        self.due += self.rate;
        let count = (self.due / STEPS).min(PAGEBLOCKS_MAX);
        self.due %= STEPS;
        count as usize
    }
}

/// State of the renewal.
pub(crate) struct Sustain<'w> {
    pace: Pace,
    /// Sets of pages that new pageblocks hold, in turn.
    wishes: Vec<PageSet>,
    turn: usize,
    flags: &'w Reader,
    floor: u64,
    placed: &'w mut KindPages,
    /// Pageblocks that were pinned in place of others.
    pub renewed: u64,
    /// Steps that were skipped.
    pub left_out: u64,
}

impl<'w> Sustain<'w> {
    /// Creates the renewal of `rate` pageblocks per second, with pins that hold the wanted pages of each.
    pub(crate) fn new(
        rate: u64,
        wanted: &[PageSet],
        placed: &'w mut KindPages,
        flags: &'w Reader,
        floor: u64,
    ) -> Sustain<'w> {
        let wishes = wanted.iter().copied().filter(|wanted| wanted.count() > 0).collect();
        Sustain { pace: Pace { rate, due: 0 }, wishes, turn: 0, flags, floor, placed, renewed: 0, left_out: 0 }
    }

    /// Returns the sets of pages of the next step.
    fn next(&mut self) -> Vec<PageSet> {
        let begin = self.turn;
        self.turn += self.pace.next();
        (begin..self.turn).map(|number| self.wishes[number % self.wishes.len()]).collect()
    }

    fn renew(&mut self, wanted: &[PageSet]) -> Result<(), Error> {
        // Signals are checked between steps.
        let mut guard = Guard::of_machine(self.floor + (wanted.len() * PAGEBLOCK_PAGES) as u64);
        guard.check()?;
        self.renewed += self.placed.renew(wanted, self.flags, &mut guard)?;
        Ok(())
    }
}

impl Meanwhile for Sustain<'_> {
    fn pause(&self) -> Option<Duration> {
        (!self.wishes.is_empty()).then_some(Duration::from_millis(1000 / STEPS))
    }

    fn step(&mut self) -> Result<(), Error> {
        let wanted = self.next();
        if wanted.is_empty() {
            return Ok(());
        }
        let is_roomy = Free::now()?.pageblocks >= wanted.len() as u64 * FREE_FACTOR;
        let renewed = if is_roomy { self.renew(&wanted) } else { Err(Error::NothingWhole) };
        match renewed {
            // Memory is short, because other programs have taken it.
            Err(Error::NothingWhole | Error::Short { .. } | Error::Refused { .. }) => self.left_out += 1,
            told => told?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_matches_the_rate_per_second() {
        for rate in [1, 8, 10, 55, 640] {
            let mut pace = Pace { rate, due: 0 };
            assert_eq!((0..STEPS).map(|_| pace.next() as u64).sum::<u64>(), rate);
        }
    }
}
