//! Memory of tasks: mappings of ranges the size of a huge page, filled by faults.
//!
//! A mapping has a range for every 512 pages. A range is empty, or one huge page, or 512 entries for small pages. A
//! task's page is reachable only through its entry, so moving the page changes that entry and the records of the two
//! frames (`frames`).
//!
//! Tasks' pages are counted, not linked: without swap, their lists are never walked. Entries take 2 KiB for each range
//! with small pages, and are reused.
//!
//! linux: mm/memory.c:do_anonymous_page, mm/huge_memory.c:do_huge_pmd_anonymous_page

use std::cell::{Cell, RefCell};

use freehold::base::{Order, Pfn};

use super::frames::{Place, RANGE_SHIFT, RANGES_MAX};

/// Order of a huge page.
pub(super) const HUGE: Order = Order::new(RANGE_SHIFT as u8);
/// Pages of a range.
pub(super) const RANGE_PAGES: u32 = 1 << RANGE_SHIFT;
/// Entry without a page.
const ABSENT: u32 = u32::MAX;

/// Memory of a task: a span of addresses, counted in pages, of which faults populate some.
///
/// Release it with [`Cpu::unmap`](crate::cpu::Cpu::unmap). Memory that is not released stays until the run ends.
#[must_use = "mapped memory stays in use until it is unmapped"]
#[derive(Debug, Default)]
pub struct Mapping {
    pub(super) ranges: Vec<u32>,
    pub(super) pages: u32,
}

impl Mapping {
    /// Returns the size of the span of addresses, in pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the position of a page. `None` beyond the end of the mapping, and on executors without a memory model.
    pub(super) fn place(&self, page: u32) -> Option<Place> {
        let range = *self.ranges.get((page >> RANGE_SHIFT) as usize)?;
        (page < self.pages).then_some(Place { range, page: page % RANGE_PAGES })
    }

    /// Returns whether the range of this page lies completely within the mapping, so that it may become a huge page.
    pub(super) fn is_whole(&self, page: u32) -> bool {
        (page | (RANGE_PAGES - 1)) < self.pages
    }
}

/// Outcome of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// A huge page was allocated.
    Huge,
    /// A small page was allocated.
    Small,
    /// Nothing was needed: the page was present, or became present during the allocation, whose block was then freed.
    Present,
    /// No page: there was no memory, the page is beyond the end of the mapping, or the executor has no memory model.
    Failed,
}

/// Contents of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// No page; the range may also be unused.
    Empty,
    /// A huge page.
    Huge(Pfn),
    /// This number of small pages.
    Small(u32),
}

/// A range.
struct Range {
    contents: Contents,
    /// Entries, while there are small pages.
    entries: Option<Box<Entries>>,
    /// The task requested huge pages with `madvise`.
    is_advised: bool,
    /// The range lies completely within its mapping, so it may become a huge page.
    is_whole: bool,
}

type Entries = [u32; RANGE_PAGES as usize];

/// All ranges.
#[derive(Default)]
pub(super) struct Ranges {
    table: RefCell<Vec<Range>>,
    unused: RefCell<Vec<u32>>,
    #[expect(clippy::vec_box, reason = "boxes move between ranges as pointers")]
    spare: RefCell<Vec<Box<Entries>>>,
    pages: Cell<u64>,
    huge: Cell<u64>,
}

/// Properties of a range that is to be mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The task requested huge pages with `madvise`.
    pub is_advised: bool,
    /// The range may become a huge page.
    pub is_whole: bool,
}

impl Ranges {
    /// Returns the number of pages of all tasks.
    pub(super) fn pages(&self) -> u64 {
        self.pages.get()
    }

    /// Returns the number of huge pages among them.
    pub(super) fn huge(&self) -> u64 {
        self.huge.get()
    }

    /// Returns the number of ranges that exist, used or not.
    pub(super) fn len(&self) -> u32 {
        self.table.borrow().len() as u32
    }

    /// Returns an empty range; `None` if all range numbers are in use.
    pub(super) fn map(&self, shape: Shape) -> Option<u32> {
        let mut table = self.table.borrow_mut();
        let range =
            Range { contents: Contents::Empty, entries: None, is_advised: shape.is_advised, is_whole: shape.is_whole };
        if let Some(number) = self.unused.borrow_mut().pop() {
            table[number as usize] = range;
            return Some(number);
        }
        let number = table.len() as u32;
        (number < RANGES_MAX).then(|| {
            table.push(range);
            number
        })
    }

    /// Returns the number of pages in a range.
    pub(super) fn pages_of(&self, range: u32) -> u64 {
        match self.contents(range) {
            Contents::Empty => 0,
            Contents::Huge(_) => u64::from(RANGE_PAGES),
            Contents::Small(pages) => u64::from(pages),
        }
    }

    /// Returns the contents of a range.
    pub(super) fn contents(&self, range: u32) -> Contents {
        self.table.borrow()[range as usize].contents
    }

    /// Returns whether the range's task requested huge pages, and whether the range may become one.
    pub(super) fn shape(&self, range: u32) -> Shape {
        let range = &self.table.borrow()[range as usize];
        Shape { is_advised: range.is_advised, is_whole: range.is_whole }
    }

    /// Returns whether there is a page at this position.
    pub(super) fn has(&self, place: Place) -> bool {
        let range = &self.table.borrow()[place.range as usize];
        match (&range.entries, range.contents) {
            (_, Contents::Huge(_)) => true,
            (Some(entries), _) => entries[place.page as usize] != ABSENT,
            (None, _) => false,
        }
    }

    /// Puts a small page at a position. Returns `false` if there is a page already.
    pub(super) fn fill(&self, place: Place, pfn: Pfn) -> bool {
        if self.has(place) {
            return false;
        }
        let range = &mut self.table.borrow_mut()[place.range as usize];
        range.entries.get_or_insert_with(|| self.take_entries())[place.page as usize] = pfn.raw();
        let count = if let Contents::Small(count) = range.contents { count } else { 0 };
        range.contents = Contents::Small(count + 1);
        self.pages.set(self.pages.get() + 1);
        true
    }

    /// Puts a huge page into an empty range. Returns `false` if the range is not empty any more.
    pub(super) fn fill_huge(&self, range: u32, pfn: Pfn) -> bool {
        let range = &mut self.table.borrow_mut()[range as usize];
        let is_empty = range.contents == Contents::Empty;
        if is_empty {
            range.contents = Contents::Huge(pfn);
            self.count_huge(1);
        }
        is_empty
    }

    /// Replaces page `from` at a position with page `to`. Returns `false` if `from` is not there.
    pub(super) fn replace(&self, place: Place, from: Pfn, to: Pfn) -> bool {
        let range = &mut self.table.borrow_mut()[place.range as usize];
        if range.contents == Contents::Huge(from) {
            range.contents = Contents::Huge(to);
            return true;
        }
        let entry = range.entries.as_mut().map(|entries| &mut entries[place.page as usize]);
        match entry.filter(|entry| **entry == from.raw()) {
            Some(entry) => {
                *entry = to.raw();
                true
            }
            None => false,
        }
    }

    /// Calls `look` on the small pages of a range.
    pub(super) fn small_pages(&self, range: u32, mut look: impl FnMut(Pfn)) {
        let table = self.table.borrow();
        let entries = table[range as usize].entries.iter().flat_map(|entries| entries.iter());
        entries.filter(|&&entry| entry != ABSENT).for_each(|&entry| look(Pfn::new(entry)));
    }

    /// Empties a range, and passes ownership of each of its blocks to `gone`.
    pub(super) fn empty(&self, range: u32, mut gone: impl FnMut(Pfn, Order)) {
        let (contents, entries) = {
            let range = &mut self.table.borrow_mut()[range as usize];
            (std::mem::replace(&mut range.contents, Contents::Empty), range.entries.take())
        };
        if let Contents::Huge(pfn) = contents {
            self.count_huge(-1);
            gone(pfn, HUGE);
        }
        let Some(mut entries) = entries else { return };
        for entry in entries.iter_mut().filter(|entry| **entry != ABSENT) {
            gone(Pfn::new(std::mem::replace(entry, ABSENT)), Order::ZERO);
            self.pages.set(self.pages.get() - 1);
        }
        self.spare.borrow_mut().push(entries);
    }

    /// Makes an empty range available for reuse.
    pub(super) fn unmap(&self, range: u32) {
        debug_assert_eq!(self.contents(range), Contents::Empty);
        self.table.borrow_mut()[range as usize].is_whole = false;
        self.unused.borrow_mut().push(range);
    }

    /// Empties all ranges.
    pub(super) fn clear(&self, mut gone: impl FnMut(Pfn, Order)) {
        (0..self.len()).for_each(|range| self.empty(range, &mut gone));
    }

    /// Takes an array of absent entries, a spare one if there is one.
    fn take_entries(&self) -> Box<Entries> {
        self.spare.borrow_mut().pop().unwrap_or_else(|| Box::new([ABSENT; RANGE_PAGES as usize]))
    }

    fn count_huge(&self, by: i64) {
        self.huge.set(self.huge.get().wrapping_add_signed(by));
        self.pages.set(self.pages.get().wrapping_add_signed(by * i64::from(RANGE_PAGES)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Shape = Shape { is_advised: false, is_whole: true };

    #[test]
    fn range_holds_small_pages_or_a_huge_page() {
        let ranges = Ranges::default();
        let range = ranges.map(WHOLE).unwrap();
        assert!(
            ranges.fill(Place { range, page: 3 }, Pfn::new(30)) && !ranges.fill(Place { range, page: 3 }, Pfn::new(31))
        );
        assert!(!ranges.fill_huge(range, Pfn::new(512)), "it is not empty");
        assert!(ranges.replace(Place { range, page: 3 }, Pfn::new(30), Pfn::new(40)));
        assert!(
            !ranges.replace(Place { range, page: 3 }, Pfn::new(30), Pfn::new(50))
                && !ranges.replace(Place { range, page: 4 }, Pfn::new(30), Pfn::new(50))
        );
        let mut gone = Vec::new();
        ranges.empty(range, |pfn, order| gone.push((pfn.raw(), order)));
        assert!(ranges.fill_huge(range, Pfn::new(512)) && ranges.has(Place { range, page: 511 }));
        assert_eq!((ranges.pages(), ranges.huge()), (512, 1));
        assert!(ranges.replace(Place { range, page: 0 }, Pfn::new(512), Pfn::new(1024)));
        ranges.empty(range, |pfn, order| gone.push((pfn.raw(), order)));
        assert_eq!(gone, [(40, Order::ZERO), (1024, HUGE)]);
        assert_eq!((ranges.pages(), ranges.huge()), (0, 0));
    }

    #[test]
    fn unmapped_range_numbers_are_reused() {
        let ranges = Ranges::default();
        let first = ranges.map(WHOLE).unwrap();
        ranges.unmap(first);
        assert_eq!(ranges.map(WHOLE), Some(first));
        assert_eq!(ranges.map(WHOLE), Some(first + 1));
    }

    #[test]
    fn only_whole_ranges_can_be_huge() {
        let mapping = Mapping { ranges: vec![7, 9], pages: 600 };
        assert!(mapping.is_whole(0) && mapping.is_whole(511) && !mapping.is_whole(512));
        assert_eq!(mapping.place(599), Some(Place { range: 9, page: 87 }));
        assert_eq!(mapping.place(600), None);
    }
}
