//! Kinds whose pages the kernel places. The kernel allocates the pages of a pageblock one after the other, and uses
//! another pageblock when that is full. So pages are selected by their position in the order of allocation: 512
//! consecutive pages are a pageblock.
//!
//! Pages for all pageblocks of the request are allocated, each into a box that stays or into a temporary box. After all
//! kinds, the temporary boxes are dropped, and the pages of the other boxes remain in their pageblocks. The position of
//! pageblock borders in this order is unknown. The wanted pages of a pageblock are therefore allocated consecutively.
//! If the boxes occupy too many pageblocks, according to a census, some are dropped again.

use super::error::Error;
use super::guard::Guard;
use super::page_set::{PAGEBLOCK_PAGES, PageSet};

/// Pages of one temporary box.
const BOX_PAGES: usize = 1 << 14;

/// An allocator of pages of a kind.
pub(crate) trait Store {
    /// Owner of pages, which are freed when it is dropped.
    type Box;
    /// Pages that are allocated at once.
    const UNIT: usize;
    /// Creates a box for `units` units that stay. It allocates its own memory now, not when it is filled.
    fn kept(&self, units: usize) -> Result<Self::Box, Error>;
    /// Creates a temporary box for `units` units.
    fn passing(&self, units: usize) -> Result<Self::Box, Error>;
    /// Allocates a unit into a box.
    fn add(&self, to: &mut Self::Box) -> Result<(), Error>;
}

/// Boxes of one kind, with the units that were allocated into them.
#[derive(Debug)]
pub(crate) struct Boxes<B> {
    /// Boxes that stay, and the number of units in each.
    kept: Vec<(B, usize)>,
    passing: Vec<B>,
}

/// Allocates the pages of one pageblock for each set.
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
    /// Drops the temporary boxes.
    pub(crate) fn release(&mut self) {
        self.passing.clear();
    }

    /// Drops some of the boxes that stay if more pageblocks were found than wanted. Half of the excess is dropped,
    /// since some boxes share a pageblock with others. At least `least` boxes remain; a larger excess must be due to
    /// other programs. Small boxes are dropped first: each of them costs a pageblock, and few pages are lost with it.
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
    fn thinning_drops_the_excess_from_small_boxes_first() {
        let mut some = filled(9);
        some.thin(3, 9, 0);
        assert_eq!(some.kept, (3..9).rev().map(|number| (number, number)).collect::<Vec<_>>());
        some.thin(9, 6, 0);
        assert_eq!(some.kept.len(), 6, "there are not too many");
        some.thin(0, 100, 5);
        assert_eq!(some.kept.len(), 5, "the rest is not of these boxes");
    }
}
