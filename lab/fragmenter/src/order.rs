//! Kinds that the kernel places: it hands out one page after the other of a pageblock, and opens another when that is
//! full. So what is to stay is chosen by its place in the order of allocation: 512 pages in a row are a pageblock.
//!
//! As many pages are allocated as are worked on, each into a box that stays or into one that goes. When all kinds are
//! done, the boxes that go are dropped, and the pageblocks of the others have what stayed. Where a pageblock begins in
//! the order is not known. So what is wanted of one is allocated in a row, and boxes that made too many pageblocks are
//! dropped again, by what a census finds.

use super::error::Error;
use super::guard::Guard;
use super::page_set::{PAGEBLOCK_PAGES, PageSet};

/// Pages that one box of those that go is for.
const BOX_PAGES: usize = 1 << 14;

/// What allocates pages of a kind.
pub(crate) trait Store {
    /// What holds some, until it is dropped.
    type Box;
    /// Pages that are allocated at once.
    const UNIT: usize;
    /// Makes a box for so many units that stay. It takes its own memory now, not when it is filled.
    fn kept(&self, units: usize) -> Result<Self::Box, Error>;
    /// Makes a box for so many units that go.
    fn passing(&self, units: usize) -> Result<Self::Box, Error>;
    /// Allocates a unit.
    fn add(&self, to: &mut Self::Box) -> Result<(), Error>;
}

/// The boxes of one kind, with the units that were allocated into them.
#[derive(Debug)]
pub(crate) struct Boxes<B> {
    /// Boxes that stay, and the units in each.
    kept: Vec<(B, usize)>,
    passing: Vec<B>,
}

/// Allocates the pages of as many pageblocks as there are wishes.
pub(crate) fn fill<S: Store>(store: &S, wanted: &[PageSet], guard: &mut Guard<'_>) -> Result<Boxes<S::Box>, Error> {
    let units = PAGEBLOCK_PAGES / S::UNIT;
    let mut filled = Boxes { kept: Vec::new(), passing: Vec::new() };
    for (first, end) in wanted.iter().map(|wanted| wanted.row(S::UNIT)).filter(|(first, end)| first < end) {
        filled.kept.push((store.kept(end - first)?, end - first));
    }
    let box_units = BOX_PAGES / S::UNIT;
    let passing = (wanted.len() * units).div_ceil(box_units);
    filled.passing = (0..passing).map(|_| store.passing(box_units)).collect::<Result<_, _>>()?;
    let (mut kept, mut gone) = (0, 0);
    for wanted in wanted {
        guard.took(PAGEBLOCK_PAGES as u64)?;
        let (first, end) = wanted.row(S::UNIT);
        for unit in 0..units {
            if (first..end).contains(&unit) {
                store.add(&mut filled.kept[kept].0)?;
            } else {
                store.add(&mut filled.passing[gone / box_units])?;
                gone += 1;
            }
        }
        kept += usize::from(first < end);
    }
    Ok(filled)
}

impl<B> Boxes<B> {
    /// Drops the boxes that go.
    pub(crate) fn release(&mut self) {
        self.passing.clear();
    }

    /// Drops some of the boxes that stay if more pageblocks were found than wanted: half of what is too much, since
    /// some boxes share a pageblock with others; and never more than can be too many: `least` are left. What is found
    /// beyond that is other programs'. Small boxes go first: each costs a pageblock, and few pages are lost with it.
    pub(crate) fn thin(&mut self, wanted: u64, found: u64, least: u64) {
        let boxes = self.kept.len() as u64;
        let left = (boxes * wanted.midpoint(found) / found.max(1)).max(least).min(boxes);
        self.kept.sort_by_key(|(_, units)| std::cmp::Reverse(*units));
        self.kept.truncate(left as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(boxes: usize) -> Boxes<usize> {
        Boxes { kept: (0..boxes).map(|number| (number, number)).collect(), passing: vec![7] }
    }

    #[test]
    fn what_is_too_much_goes_and_small_boxes_first() {
        let mut some = filled(9);
        some.thin(3, 9, 0);
        assert_eq!(some.kept, (3..9).rev().map(|number| (number, number)).collect::<Vec<_>>());
        some.thin(9, 6, 0);
        assert_eq!(some.kept.len(), 6, "there are not too many");
        some.thin(0, 100, 5);
        assert_eq!(some.kept.len(), 5, "the rest is not of these boxes");
    }
}
