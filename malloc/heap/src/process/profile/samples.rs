//! Samples in use: the address, the requested size and the stack of each sampled block.
//!
//! A sampled block has a run of pages of its own. So a free of an ordinary object needs no lookup, and a free of a run
//! reads one word for its first page: the number of its sample, or 0. These words and the samples are in separate
//! address ranges, which become accessible as needed. No memory is allocated, except from the kernel.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use rustix::io::Errno;

use super::stack::Stack;
use crate::os::lock::Mutex;
use crate::os::mmap::{Region, Reservation};
use crate::runs::PAGE;

/// Bytes by which the accessible part of a range grows.
const STEP: usize = 256 << 10;
/// Bytes of a page's word.
const WORD: usize = size_of::<AtomicU32>();

/// A sampled block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Requested bytes; 0 in a free entry.
    pub size: usize,
    pub stack: Stack,
    /// Number of the next free entry, in a free entry.
    next: u32,
}

impl Sample {
    pub(super) const NONE: Sample = Sample { size: 0, stack: Stack::EMPTY, next: 0 };
}

/// All samples, and the word of each page.
#[derive(Debug)]
pub(super) struct Samples<'r> {
    places: Mutex<Places>,
    /// A word for each page of the runs, except for pages in holes.
    pages: Reservation,
    /// Range of the runs.
    runs: &'r Reservation,
    /// Number of samples for which there was no entry.
    lost: AtomicUsize,
}

/// Entries for samples, numbered from 1.
#[derive(Debug)]
struct Places {
    range: Reservation,
    /// Number of entries that were ever used.
    used: u32,
    /// Number of the first free entry, or 0.
    free: u32,
    total: Total,
}

/// Number of samples in use, and their requested bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub count: usize,
    pub bytes: usize,
}

impl<'r> Samples<'r> {
    /// Creates a table for blocks in the range `runs`, with `count` entries, rounded up to whole steps.
    ///
    /// # Errors
    /// If the address space has no room.
    pub(super) fn new(runs: &'r Reservation, count: usize) -> Result<Samples<'r>, Errno> {
        let range = Reservation::growing(count * size_of::<Sample>(), STEP, Region::Middle)?;
        let pages = Reservation::growing(runs.bytes() / PAGE * WORD, STEP, Region::Middle)?;
        let places = Places { range, used: 0, free: 0, total: Total::default() };
        Ok(Samples { places: Mutex::new(places), pages, runs, lost: 0.into() })
    }

    /// Adds a block, which is a run of pages. If no entry is left, the block is not a sample, and is counted as lost.
    /// Takes a lock.
    pub(super) fn put(&self, block: NonNull<u8>, size: usize, stack: Stack) {
        let mut places = self.places.lock();
        let place = places.take().ok().filter(|_| self.cover(self.offset(block)));
        match place.zip(self.word(block)) {
            Some((place, word)) => {
                *places.sample_mut(place) = Sample { size, stack, next: 0 };
                places.total = Total { count: places.total.count + 1, bytes: places.total.bytes + size };
                word.store(place, Relaxed);
            }
            None => {
                if let Some(place) = place {
                    places.leave(place);
                }
                self.lost.fetch_add(1, Relaxed);
            }
        }
    }

    /// Returns whether a block is a sample.
    #[inline]
    pub(super) fn has(&self, block: NonNull<u8>) -> bool {
        self.word(block).is_some_and(|word| word.load(Relaxed) != 0)
    }

    /// Removes the sample of a block that its owner is freeing, if it is a sample. Takes a lock in that case.
    #[inline]
    pub(super) fn remove(&self, block: NonNull<u8>) {
        if self.has(block)
            && let Some(word) = self.word(block)
        {
            let mut places = self.places.lock();
            let place = word.swap(0, Relaxed);
            if place != 0 {
                let size = places.sample_mut(place).size;
                places.total = Total { count: places.total.count - 1, bytes: places.total.bytes - size };
                places.leave(place);
            }
        }
    }

    /// Returns the number and bytes of the samples in use. Takes a lock.
    pub(super) fn total(&self) -> Total {
        self.places.lock().total
    }

    /// Returns the number of samples for which there was no entry.
    pub(super) fn lost(&self) -> usize {
        self.lost.load(Relaxed)
    }

    /// Copies the first sample in use whose number is at least `from`. Returns the number after it, or 0 if there is
    /// none. Takes a lock.
    pub(super) fn copy(&self, from: u32, to: &mut Sample) -> u32 {
        let mut places = self.places.lock();
        let used = places.used;
        match (from..=used).find(|&place| places.sample_mut(place).size != 0) {
            Some(place) => {
                *to = *places.sample_mut(place);
                place + 1
            }
            None => 0,
        }
    }

    fn offset(&self, block: NonNull<u8>) -> usize {
        (block.as_ptr().addr() - self.runs.start().as_ptr().addr()) / PAGE * WORD
    }

    /// Returns the word of a block's first page, if that word is mapped.
    #[inline]
    fn word(&self, block: NonNull<u8>) -> Option<&AtomicU32> {
        let offset = self.offset(block);
        // SAFETY: the offset is mapped and a multiple of the word size, and the range holds only such words.
        self.pages.has(offset).then(|| unsafe { self.pages.start().add(offset).cast().as_ref() })
    }

    /// Maps the words up to an offset, except for those of holes; returns whether that succeeded. Called under the
    /// lock.
    fn cover(&self, offset: usize) -> bool {
        let holes = self.runs.holes().iter().map(|hole| [hole.start, hole.end].map(|page| page as usize * WORD));
        let mut skipped = holes.take_while(|&[_, end]| end <= offset);
        skipped.all(|[start, end]| self.pages.grow(start).is_ok() && self.pages.skip_to(end).is_ok())
            && self.pages.grow((offset + 1).next_multiple_of(STEP)).is_ok()
    }
}

impl Places {
    fn take(&mut self) -> Result<u32, Errno> {
        if self.free != 0 {
            let place = self.free;
            self.free = self.sample_mut(place).next;
            return Ok(place);
        }
        self.range.grow(((self.used as usize + 1) * size_of::<Sample>()).next_multiple_of(STEP))?;
        self.used += 1;
        Ok(self.used)
    }

    fn leave(&mut self, place: u32) {
        let next = self.free;
        let sample = self.sample_mut(place);
        (sample.size, sample.next) = (0, next);
        self.free = place;
    }

    fn sample_mut(&mut self, place: u32) -> &mut Sample {
        assert!((1..=self.used).contains(&place), "the place is not in use");
        let index = place as usize - 1;
        // SAFETY: entries up to `used` are mapped and aligned, zeroed memory is a valid sample, and `&mut self` is
        // exclusive.
        unsafe { self.range.start().cast::<Sample>().add(index).as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(runs: &Reservation, page: usize) -> NonNull<u8> {
        // SAFETY: the tests pass a page inside the range.
        unsafe { runs.start().add(page * PAGE) }
    }

    fn sizes(samples: &Samples<'_>) -> impl Iterator<Item = usize> {
        let (mut place, mut sample) = (1, Sample::NONE);
        core::iter::from_fn(move || {
            place = samples.copy(place, &mut sample);
            (place != 0).then_some(sample.size)
        })
    }

    #[test]
    fn samples_are_kept_until_removed() {
        let runs = Reservation::growing(1 << 30, PAGE, Region::Upper).unwrap();
        let samples = Samples::new(&runs, 1000).unwrap();
        for page in 0..900 {
            samples.put(block(&runs, page * 7), page + 1, Stack::EMPTY);
        }
        assert_eq!(samples.total(), Total { count: 900, bytes: 900 * 901 / 2 });
        assert!(samples.has(block(&runs, 7)) && !samples.has(block(&runs, 8)));
        assert!(!samples.has(block(&runs, (1 << 18) - 1)), "no caller has requested such a distant end yet");
        for page in 1..900 {
            samples.remove(block(&runs, page * 7));
            samples.remove(block(&runs, page * 7 + 1));
        }
        assert_eq!((samples.total(), sizes(&samples).sum::<usize>()), (Total { count: 1, bytes: 1 }, 1));
        samples.put(block(&runs, (1 << 18) - 1), 5, Stack::EMPTY);
        assert_eq!((sizes(&samples).count(), samples.lost()), (2, 0));
    }

    #[test]
    fn words_of_a_hole_are_not_mapped() {
        let runs = Reservation::growing(1 << 40, PAGE, Region::Upper).unwrap();
        let samples = Samples::new(&runs, 1).unwrap();
        runs.grow(1 << 20).unwrap();
        runs.skip_to(1 << 39).unwrap();
        let behind = (1 << 39) / PAGE + 5;
        samples.put(block(&runs, behind), 7, Stack::EMPTY);
        samples.put(block(&runs, 3), 8, Stack::EMPTY);
        assert!(samples.has(block(&runs, behind)) && samples.has(block(&runs, 3)));
        assert!(!samples.has(block(&runs, behind - (1 << 20))), "its word is not accessed");
        samples.remove(block(&runs, behind));
        assert_eq!((samples.total().count, samples.pages.holes().iter().count()), (1, 1));
    }

    #[test]
    fn samples_beyond_the_capacity_are_counted_as_lost() {
        let runs = Reservation::growing(1 << 30, PAGE, Region::Upper).unwrap();
        let samples = Samples::new(&runs, 1).unwrap();
        let room = STEP / size_of::<Sample>();
        for page in 0..room + 3 {
            samples.put(block(&runs, page), 1, Stack::EMPTY);
        }
        assert_eq!((samples.total().count, samples.lost()), (room, 3));
        samples.remove(block(&runs, 5));
        samples.put(block(&runs, room + 1), 1, Stack::EMPTY);
        assert_eq!((samples.total().count, samples.lost()), (room, 3));
    }
}
