//! Holes of a range: parts that are never mapped, because the program has other mappings there.
//!
//! A range grows without gaps until a mapping of the program blocks its way. The range then continues behind that
//! mapping, and the part between is a hole. Tables with an entry for each page get a hole as well, so a hole costs
//! addresses, but no memory.

use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use rustix::io::Errno;

/// Bytes of a page of [`Holes`], whatever the machine's page size is.
const PAGE: usize = 4096;
/// Most holes of a range. A range with this many holes cannot skip another mapping.
pub const HOLES_MAX: usize = 64;
/// Pages by which a range skips at least: 2 MiB. Both ends of a hole in units of this size keep blocks aligned.
const SKIP_LEAST: u32 = 512;

/// Holes of a range in ascending order, in pages of 4 KiB from the start of the range. One thread at a time may add
/// one; any thread may read.
#[derive(Debug)]
pub(crate) struct Holes {
    /// Start in the upper half, end in the lower half; 0 behind the last hole.
    words: [AtomicU64; HOLES_MAX],
}

impl Holes {
    pub(crate) const fn new() -> Holes {
        Holes { words: [const { AtomicU64::new(0) }; HOLES_MAX] }
    }

    /// Adds a hole behind all others. A hole that begins where the last one ends extends that one.
    ///
    /// # Errors
    /// If there are [`HOLES_MAX`] holes.
    pub(crate) fn push(&self, hole: Range<u32>) -> Result<(), Errno> {
        debug_assert!(hole.start < hole.end && self.last_end() <= hole.start, "the hole is not behind the others");
        let count = self.iter().count();
        let (place, start) = match self.iter().last() {
            Some(last) if last.end == hole.start => (count - 1, last.start),
            _ => (count, hole.start),
        };
        let word = self.words.get(place).ok_or(Errno::NOMEM)?;
        word.store(u64::from(start) << 32 | u64::from(hole.end), Release);
        Ok(())
    }

    /// Checks that another hole can be added.
    ///
    /// # Errors
    /// If there are [`HOLES_MAX`] holes.
    pub(crate) fn expect_room(&self) -> Result<(), Errno> {
        if self.words[HOLES_MAX - 1].load(Relaxed) == 0 { Ok(()) } else { Err(Errno::NOMEM) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words[0].load(Relaxed) == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.words.iter().map_while(|word| decode_hole(word.load(Relaxed)))
    }

    /// Returns the parts of a range of `end` pages that are no holes, each with its offset and its length in bytes. Some
    /// may be empty.
    pub(crate) fn parts(&self, end: u32) -> impl Iterator<Item = (usize, usize)> + '_ {
        let starts = core::iter::once(0).chain(self.iter().map(|hole| hole.end));
        let ends = self.iter().map(|hole| hole.start).chain(core::iter::once(end));
        starts.zip(ends).map(|(start, end)| (start as usize * PAGE, (end - start) as usize * PAGE))
    }

    /// Returns whether a page of `pages` is in a hole.
    #[inline]
    pub(crate) fn overlap(&self, pages: Range<u32>) -> bool {
        self.iter().any(|hole| hole.start < pages.end && pages.start < hole.end)
    }

    /// Returns whether a hole begins at a page.
    #[inline]
    pub(crate) fn begin_at(&self, page: u32) -> bool {
        self.iter().any(|hole| hole.start == page)
    }

    /// Returns whether a page is the first one behind a hole.
    #[inline]
    pub(crate) fn end_at(&self, page: u32) -> bool {
        self.iter().any(|hole| hole.end == page)
    }

    /// Returns the first page behind all holes, or 0 if there are none.
    pub(crate) fn last_end(&self) -> u32 {
        self.iter().last().map_or(0, |hole| hole.end)
    }

    /// Returns the address of the words, for readers outside of the process. [`decode_hole`] decodes a word.
    pub(crate) fn address(&self) -> u64 {
        self.words.as_ptr().addr() as u64
    }
}

/// Returns the page at an offset of a range.
pub(crate) fn page_of(offset: usize) -> u32 {
    u32::try_from(offset / PAGE).unwrap_or(u32::MAX)
}

/// Returns the first and the last page, excluded, of the hole that a word describes; `None` for a word that describes
/// none, which follows the last hole.
pub fn decode_hole(word: u64) -> Option<Range<u32>> {
    (word != 0).then_some((word >> 32) as u32..word as u32)
}

/// Returns the first page behind `from` for which `probe` finds no mapping in the way. Tries distances that double from
/// 2 MiB on, and, in the last part of a range that ends at page `end`, distances that approach the end by halves: less
/// than 50 in all.
///
/// # Errors
/// If all pages that were tried are blocked, or `probe` fails for another reason than [`Errno::EXIST`].
pub(crate) fn find_behind(from: u32, end: u32, mut probe: impl FnMut(u32) -> Result<(), Errno>) -> Result<u32, Errno> {
    let mut place = from.checked_next_multiple_of(SKIP_LEAST).ok_or(Errno::NOMEM)?;
    let mut step = SKIP_LEAST;
    while place < end {
        step = step.min((end - place) / 2 / SKIP_LEAST * SKIP_LEAST);
        if step == 0 {
            break;
        }
        place += step;
        match probe(place) {
            Err(Errno::EXIST) => step = (place - from).next_multiple_of(SKIP_LEAST),
            result => return result.map(|()| place),
        }
    }
    Err(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_split_a_range_into_parts() {
        let holes = Holes::new();
        assert!(holes.is_empty() && holes.parts(9).eq([(0, 9 * PAGE)]));
        holes.push(10..20).unwrap();
        holes.push(30..40).unwrap();
        holes.push(40..50).unwrap();
        assert!(holes.iter().eq([10..20, 30..50]));
        assert!(holes.parts(60).eq([(0, 10 * PAGE), (20 * PAGE, 10 * PAGE), (50 * PAGE, 10 * PAGE)]));
        assert_eq!([9, 10, 19, 20, 45].map(|page| holes.overlap(page..page + 1)), [false, true, true, false, true]);
        assert!(holes.begin_at(10) && holes.end_at(20) && !holes.begin_at(20) && !holes.end_at(40));
        assert_eq!(holes.last_end(), 50);
        let last = (0..HOLES_MAX as u32).map(|n| holes.push(100 + 2 * n..101 + 2 * n)).find(Result::is_err);
        assert_eq!((last, holes.expect_room()), (Some(Err(Errno::NOMEM)), Err(Errno::NOMEM)));
    }

    /// Searches for a page, all of which are blocked before `bound`. Returns the result and the number of tries.
    fn find_free(bound: u32) -> (Result<u32, Errno>, u32) {
        let mut tries = 0;
        let found = find_behind(100, 1 << 20, |page| {
            tries += 1;
            if page < bound { Err(Errno::EXIST) } else { Ok(()) }
        });
        (found, tries)
    }

    #[test]
    fn search_doubles_its_distance_and_reaches_the_end() {
        assert_eq!(find_free(0), (Ok(1024), 1));
        assert_eq!(find_free(100 + (1 << 18)).0, Ok(1 << 19));
        let (last, count) = find_free((1 << 20) - 2048);
        assert!(last.is_ok() && count < 25, "{last:?} after {count}");
        assert_eq!(find_free(1 << 20).0, Err(Errno::NOMEM));
        assert_eq!(find_behind(0, 1 << 20, |_| Err(Errno::MFILE)), Err(Errno::MFILE), "another error");
        assert_eq!(find_behind(1 << 20, 1 << 20, |_| Ok(())), Err(Errno::NOMEM));
    }
}
