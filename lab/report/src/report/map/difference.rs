//! Difference between the first two sides of a map: the pageblocks that differ, and the moment at which most do.
//!
//! Two cells differ if their types, their pages in use or their movable pages do. The owning CPU does not count: policies
//! without owners would differ from policies with owners in every pageblock.

use std::cmp::Reverse;

use super::{ABSENT, Cell, FRAMES_OF_MAX, MemoryMap};

/// Moment and pageblock with which a page opens a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Number of the moment.
    pub moment: usize,
    /// Number of the pageblock.
    pub block: usize,
}

impl Cell {
    /// Returns whether the pageblock has any frame.
    pub fn is_present(&self) -> bool {
        self.migratetype < ABSENT
    }

    /// Returns whether two cells differ in type, pages in use or movable pages.
    pub fn differs(&self, other: &Cell) -> bool {
        self.distance(other) > 0
    }

    /// Returns a measure of the difference between two cells: the difference in pages, plus 512 if the types differ.
    pub(super) fn distance(&self, other: &Cell) -> u32 {
        let by_type = if self.migratetype == other.migratetype { 0 } else { 512 };
        by_type + u32::from(self.used.abs_diff(other.used)) + u32::from(self.movable.abs_diff(other.movable))
    }
}

impl MemoryMap {
    /// Returns the number of pageblocks that differ between the first two sides at each moment; nothing if the map has
    /// one side.
    pub fn difference_counts(&self) -> Vec<usize> {
        self.pairs().map(|(a, b)| a.iter().zip(b).filter(|(a, b)| a.differs(b)).count()).collect()
    }

    /// Returns the moment at which most pageblocks differ, the first of several, and the pageblock that differs most
    /// then. If no pageblock ever differs, the moment is the last one.
    pub fn opening(&self) -> Opening {
        let last = self.moments.len().saturating_sub(1);
        let counts = self.difference_counts();
        let most = (0..counts.len()).max_by_key(|&moment| (counts[moment], Reverse(moment)));
        let moment = most.filter(|&moment| counts[moment] > 0).unwrap_or(last);
        let block = self.pairs().nth(moment).and_then(|(a, b)| {
            (0..a.len().min(b.len())).max_by_key(|&block| (a[block].distance(&b[block]), Reverse(block)))
        });
        Opening { moment, block: block.unwrap_or_default() }
    }

    /// Returns the number of pageblocks that have any frame, on any side at any moment.
    pub fn present(&self) -> usize {
        let mut is_present = vec![false; self.len()];
        for cells in self.sides.iter().flat_map(|side| &side.cells) {
            for (is_present, cell) in is_present.iter_mut().zip(cells) {
                *is_present |= cell.is_present();
            }
        }
        is_present.into_iter().filter(|&is_present| is_present).count()
    }

    /// Returns the pageblocks whose frames are known on all sides, at most [`FRAMES_OF_MAX`] of them. Pageblocks in
    /// which the last moments of the first two sides differ most are first.
    pub fn differing(&self) -> Vec<usize> {
        let Some([first, rest @ ..]) = self.sides.get(..) else { return Vec::new() };
        let other = rest.first().unwrap_or(first);
        let Some((a, b)) = first.cells.last().zip(other.cells.last()) else { return Vec::new() };
        let known = |block: &u32| rest.iter().all(|side| side.frames.get(*block).is_some());
        let mut blocks: Vec<usize> = first.frames.blocks().filter(known).map(|block| block as usize).collect();
        blocks.sort_by_key(|&block| (Reverse(a[block].distance(&b[block])), block));
        blocks.truncate(FRAMES_OF_MAX);
        blocks
    }

    /// Returns the cells of the first two sides, moment by moment.
    fn pairs(&self) -> impl Iterator<Item = (&[Cell], &[Cell])> {
        let (first, second) = (self.sides.first(), self.sides.get(1));
        let pairs = first.zip(second).into_iter().flat_map(|(a, b)| a.cells.iter().zip(&b.cells));
        pairs.map(|(a, b)| (a.as_slice(), b.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    fn map(a: [[u16; 3]; 3], b: [[u16; 3]; 3]) -> MemoryMap {
        let side = |moments: [[u16; 3]; 3]| {
            let cell = |used| Cell { migratetype: 1, used, movable: 0, owner: 0 };
            Side { cells: moments.map(|cells| cells.map(cell).to_vec()).to_vec(), ..Side::default() }
        };
        MemoryMap {
            of: "build".to_owned(),
            note: String::new(),
            block_pages: 512,
            stretches: Vec::new(),
            moments: vec![0, 1, 2],
            sides: vec![side(a), side(b)],
        }
    }

    #[test]
    fn map_opens_where_most_pageblocks_differ() {
        let same = [[7, 7, 7]; 3];
        let map = map(same, [[7, 7, 7], [8, 7, 9], [7, 7, 500]]);
        assert_eq!(map.difference_counts(), [0, 2, 1]);
        assert_eq!(map.opening(), Opening { moment: 1, block: 2 });
    }

    #[test]
    fn map_without_a_difference_opens_at_its_end() {
        let same = map([[7, 7, 7]; 3], [[7, 7, 7]; 3]);
        assert_eq!(same.opening(), Opening { moment: 2, block: 0 });
        let single = MemoryMap { sides: same.sides[..1].to_vec(), ..same };
        assert_eq!((single.opening().moment, single.difference_counts()), (2, Vec::new()));
    }

    #[test]
    fn owner_is_no_difference_and_type_is() {
        let cell = Cell { migratetype: 1, used: 3, movable: 2, owner: 0 };
        assert!(!cell.differs(&Cell { owner: 4, ..cell }));
        assert!(cell.differs(&Cell { migratetype: 0, ..cell }) && cell.differs(&Cell { movable: 1, ..cell }));
    }
}
