//! Fragmentation that goes on while something else runs: pins are let go, and others made elsewhere.
//!
//! Ten times a second some pageblocks are taken whole and pinned as the first ones were, and of the oldest pins as many
//! pages are let go. New ones come first, so they lie in other pageblocks. It is memory alone that this shares with
//! what runs: no file, no lock, and the CPU only when nobody else wants it. Where memory is short, a step is left out:
//! it would have others reclaim and compact.

use std::time::Duration;

use super::census::Reader;
use super::error::Error;
use super::guard::Guard;
use super::hold::Meanwhile;
use super::kind_pages::KindPages;
use super::page_set::{PAGEBLOCK_PAGES, PageSet};
use super::zones::Free;

/// Steps a second.
const STEPS: u64 = 10;
/// Pageblocks that are taken at once, at most.
const PAGEBLOCKS_MAX: u64 = 64;
/// How many times the pageblocks of a step have to be free as a whole.
const FREE_FACTOR: u64 = 4;

/// How fast.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Pageblocks a second.
    rate: u64,
    /// Parts of a pageblock that are due.
    due: u64,
}

impl Pace {
    /// The pageblocks of the next step.
    fn next(&mut self) -> usize {
        self.due += self.rate;
        let count = (self.due / STEPS).min(PAGEBLOCKS_MAX);
        self.due %= STEPS;
        count as usize
    }
}

/// What goes on.
pub(crate) struct Sustain<'w> {
    pace: Pace,
    /// What new pageblocks are to hold, in turn.
    wishes: Vec<PageSet>,
    turn: usize,
    flags: &'w Reader,
    floor: u64,
    placed: &'w mut KindPages,
    /// Pageblocks that were pinned anew.
    pub renewed: u64,
    /// Steps that were left out.
    pub left_out: u64,
}

impl<'w> Sustain<'w> {
    /// One that renews so many pageblocks a second, by pins that hold the wanted pages of each.
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

    /// The pageblocks of this step.
    fn next(&mut self) -> Vec<PageSet> {
        let begin = self.turn;
        self.turn += self.pace.next();
        (begin..self.turn).map(|number| self.wishes[number % self.wishes.len()]).collect()
    }

    fn renew(&mut self, wanted: &[PageSet]) -> Result<(), Error> {
        // Signals are looked at between steps.
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
            // For want of memory: others have it by now.
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
    fn a_second_has_as_many_pageblocks_as_were_asked_for() {
        for rate in [1, 8, 10, 55, 640] {
            let mut pace = Pace { rate, due: 0 };
            assert_eq!((0..STEPS).map(|_| pace.next() as u64).sum::<u64>(), rate);
        }
    }
}
