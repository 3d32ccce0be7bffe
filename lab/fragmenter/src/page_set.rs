//! Sets of pages within a pageblock: the pages to hold.

/// Pages of a pageblock.
pub(crate) const PAGEBLOCK_PAGES: usize = 512;
/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a pageblock.
pub(crate) const PAGEBLOCK: usize = PAGE * PAGEBLOCK_PAGES;
/// Bits of a word.
const WORD_BITS: usize = u64::BITS as usize;

/// Pages of one pageblock that are to be held, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSet([u64; PAGEBLOCK_PAGES / WORD_BITS]);

impl PageSet {
    /// Adds a page.
    ///
    /// # Panics
    /// Panics if a pageblock has no such page.
    pub fn add(&mut self, page: usize) {
        self.0[page / WORD_BITS] |= 1 << (page % WORD_BITS);
    }

    /// Returns whether this page is in the set.
    pub fn has(&self, page: usize) -> bool {
        self.0[page / WORD_BITS] >> (page % WORD_BITS) & 1 == 1
    }

    /// Returns the number of pages in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the numbers of the pages, in ascending order.
    pub fn pages(&self) -> impl Iterator<Item = usize> {
        (0..PAGEBLOCK_PAGES).filter(|page| self.has(*page))
    }

    /// Returns a row of units of `unit` pages, as many as the pages of the set fill: the first unit, and the end.
    pub fn row(&self, unit: usize) -> (usize, usize) {
        let (units, all) = (self.count().div_ceil(unit), PAGEBLOCK_PAGES / unit);
        let first = (self.pages().next().unwrap_or(0) / unit).min(all - units);
        (first, first + units)
    }
}

/// Returns the number of pageblocks with pages to hold, and the number of these pages.
pub(crate) fn totals(wanted: &[PageSet]) -> (u64, u64) {
    let counts = wanted.iter().map(PageSet::count).filter(|count| *count > 0);
    counts.fold((0, 0), |(pageblocks, pages), count| (pageblocks + 1, pages + count as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_set(pages: impl IntoIterator<Item = usize>) -> PageSet {
        let mut wanted = PageSet::default();
        pages.into_iter().for_each(|page| wanted.add(page));
        wanted
    }

    #[test]
    fn page_set_contains_the_added_pages() {
        let wanted = page_set([0, 63, 64, 511]);
        assert_eq!(wanted.pages().collect::<Vec<_>>(), [0, 63, 64, 511]);
        assert_eq!(totals(&[wanted, PageSet::default(), page_set([7])]), (2, 5));
    }

    #[test]
    fn row_fits_all_pages_within_the_pageblock() {
        assert_eq!(page_set([9, 10, 400]).row(1), (9, 12));
        assert_eq!(page_set([9, 10, 400]).row(4), (2, 3));
        assert_eq!(page_set([510, 511]).row(8), (63, 64));
        assert_eq!(page_set(500..512).row(1), (500, 512));
        assert_eq!(page_set(0..512).row(8), (0, 64));
        assert_eq!(page_set([]).row(4), (0, 0));
    }
}
