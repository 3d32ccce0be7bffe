//! Holes of a range: parts that are never mapped, because the program has other mappings there.
//!
//! A range grows without gaps until a mapping of the program blocks its way. The range then continues behind that
//! mapping, and the part between is a hole. Most tables with an entry for each page skip the same pages. A hole
//! therefore costs addresses, and a range with holes one page of memory for their list.

use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of a page of [`Holes`], whatever the machine's page size is.
const PAGE: usize = 4096;
/// Most holes of a range. A range with this many holes cannot skip another mapping.
pub const HOLES_MAX: usize = PAGE / size_of::<u64>();
/// Pages by which a range skips at least: 2 MiB. Both ends of a hole in units of this size keep blocks aligned.
const SKIP_LEAST: u32 = 512;

/// Holes of a range in ascending order, in pages of 4 KiB from the start of the range. One thread at a time may add
/// one; any thread may read. The list is a page that is mapped for the first hole.
#[derive(Debug)]
pub(crate) struct Holes {
    /// Null, or [`HOLES_MAX`] words: start in the upper half, end in the lower half; 0 behind the last hole.
    words: AtomicPtr<AtomicU64>,
}

impl Holes {
    pub(crate) const fn new() -> Holes {
        Holes { words: AtomicPtr::new(null_mut()) }
    }

    /// Maps the list if necessary, and checks that another hole can be added.
    ///
    /// # Errors
    /// If there are [`HOLES_MAX`] holes, or the system or a limit of the process does not allow the list.
    pub(crate) fn reserve(&self) -> Result<(), Errno> {
        if self.words.load(Acquire).is_null() {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: this creates a mapping at an address that the kernel chooses, so no existing one is affected.
            let list = unsafe { mmap_anonymous(null_mut(), HOLES_MAX * size_of::<u64>(), access, MapFlags::PRIVATE)? };
            self.words.store(list.cast(), Release);
        }
        if self.words()[HOLES_MAX - 1].load(Relaxed) == 0 { Ok(()) } else { Err(Errno::NOMEM) }
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        let words = self.words.load(Acquire);
        if words.is_null() {
            return &[];
        }
        // SAFETY: the list has this many words, which the kernel zeroed, and is mapped as long as this value exists.
        unsafe { core::slice::from_raw_parts(words, HOLES_MAX) }
    }

    /// Adds a hole behind all others. A hole that begins where the last one ends extends that one.
    ///
    /// # Errors
    /// As for [`reserve`](Self::reserve), after which this succeeds.
    pub(crate) fn push(&self, hole: Range<u32>) -> Result<(), Errno> {
        debug_assert!(hole.start < hole.end && self.last_end() <= hole.start, "the hole is not behind the others");
        self.reserve()?;
        let count = self.iter().count();
        let (place, start) = match self.iter().last() {
            Some(last) if last.end == hole.start => (count - 1, last.start),
            _ => (count, hole.start),
        };
        self.words()[place].store(u64::from(start) << 32 | u64::from(hole.end), Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words().first().is_none_or(|word| word.load(Relaxed) == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.words().iter().map_while(|word| decode_hole(word.load(Relaxed)))
    }

    /// Returns the parts of a range of `end` pages that are no holes, each with its offset and its length in bytes.
    /// Some may be empty.
    pub(crate) fn parts(&self, end: u32) -> impl Iterator<Item = (usize, usize)> + '_ {
        let starts = core::iter::once(0).chain(self.iter().map(|hole| hole.end));
        let ends = self.iter().map(|hole| hole.start).chain(core::iter::once(end));
        starts.zip(ends).map(|(start, end)| (start as usize * PAGE, (end - start) as usize * PAGE))
    }

    /// Returns whether a page of `pages` is in a hole.
    #[inline]
    pub(crate) fn overlap(&self, pages: Range<u32>) -> bool {
        self.first_ending_after(pages.start).is_some_and(|hole| hole.start < pages.end)
    }

    /// Returns whether a hole begins at a page.
    #[inline]
    pub(crate) fn begin_at(&self, page: u32) -> bool {
        self.first_ending_after(page).is_some_and(|hole| hole.start == page)
    }

    /// Returns whether a page is the first one behind a hole.
    #[inline]
    pub(crate) fn end_at(&self, page: u32) -> bool {
        page > 0 && self.first_ending_after(page - 1).is_some_and(|hole| hole.end == page)
    }

    /// Returns the first hole whose end is behind a page, by a binary search.
    #[inline]
    fn first_ending_after(&self, page: u32) -> Option<Range<u32>> {
        let words = self.words();
        let place = words.partition_point(|word| decode_hole(word.load(Relaxed)).is_some_and(|hole| hole.end <= page));
        words.get(place).and_then(|word| decode_hole(word.load(Relaxed)))
    }

    /// Returns the first page behind all holes, or 0 if there are none.
    pub(crate) fn last_end(&self) -> u32 {
        self.iter().last().map_or(0, |hole| hole.end)
    }

    /// Returns the address of a pointer, for readers outside of the process. It is null, or points to [`HOLES_MAX`]
    /// words. [`decode_hole`] decodes a word.
    pub(crate) fn address(&self) -> u64 {
        core::ptr::from_ref(&self.words).addr() as u64
    }
}

impl Drop for Holes {
    fn drop(&mut self) {
        let words = *self.words.get_mut();
        if !words.is_null() {
            // SAFETY: `reserve` mapped the list with this size, and `&mut self` shows that it is not borrowed.
            let _unmapped = unsafe { munmap(words.cast(), HOLES_MAX * size_of::<u64>()) };
        }
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
        let failed = (0..HOLES_MAX as u32).map(|n| holes.push(100 + 2 * n..101 + 2 * n)).find(Result::is_err);
        assert_eq!((failed, holes.reserve()), (Some(Err(Errno::NOMEM)), Err(Errno::NOMEM)));
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
