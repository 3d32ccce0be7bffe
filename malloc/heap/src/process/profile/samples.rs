//! The samples that are in use: where each block is, what was asked for it, and who did.
//!
//! A sampled block has a run of pages of its own. So a free of an ordinary object has nothing to look up, and a free of
//! a run looks into one word of its first page: the place of its sample, or 0. Those words and the samples lie in
//! address ranges of their own, accessible as far as they were needed; they take no memory from anybody but the kernel.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use rustix::io::Errno;

use super::stack::Stack;
use crate::os::lock::Mutex;
use crate::os::mmap::Reservation;
use crate::runs::PAGE;

/// Bytes by which the ranges become accessible.
const STEP: usize = 256 << 10;
/// Bytes of a page's word.
const WORD: usize = size_of::<AtomicU32>();

/// A block that was sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Bytes that were asked for; 0 in a place that is free.
    pub size: usize,
    pub stack: Stack,
    /// The next free place, in one that is free.
    next: u32,
}

impl Sample {
    pub(super) const NONE: Sample = Sample { size: 0, stack: Stack::EMPTY, next: 0 };
}

/// The samples, and what pages say of them.
#[derive(Debug)]
pub(super) struct Samples {
    places: Mutex<Places>,
    /// A word for each page of the runs.
    pages: Reservation,
    /// Bytes of it that are accessible.
    pages_end: AtomicUsize,
    /// The address of the first page.
    base: usize,
    /// Samples that found no place.
    lost: AtomicUsize,
}

/// Places for samples, numbered from 1 on.
#[derive(Debug)]
struct Places {
    range: Reservation,
    /// Bytes of it that are accessible.
    end: usize,
    /// Places that were ever used.
    used: u32,
    /// The first of those that are free again, or 0.
    free: u32,
    total: Total,
}

/// Samples in use, and bytes that were asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub count: usize,
    pub bytes: usize,
}

impl Samples {
    /// For blocks of this range, and so many samples at a time.
    ///
    /// # Errors
    /// If the address space has no room.
    pub(super) fn new(runs: &Reservation, count: usize) -> Result<Samples, Errno> {
        let range = Reservation::inaccessible((count * size_of::<Sample>()).next_multiple_of(STEP), STEP)?;
        let pages = Reservation::inaccessible((runs.bytes() / PAGE * WORD).next_multiple_of(STEP), STEP)?;
        let places = Places { range, end: 0, used: 0, free: 0, total: Total::default() };
        let base = runs.start().as_ptr().addr();
        Ok(Samples { places: Mutex::new(places), pages, pages_end: 0.into(), base, lost: 0.into() })
    }

    /// Takes a block down, which is a run of pages. One that finds no place is counted, and is no sample. Takes a lock.
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

    /// Whether a block is a sample.
    #[inline]
    pub(super) fn has(&self, block: NonNull<u8>) -> bool {
        self.word(block).is_some_and(|word| word.load(Relaxed) != 0)
    }

    /// Forgets the sample that a block is, if it is one: its owner has freed it. Takes a lock then.
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

    /// What there is. Takes a lock.
    pub(super) fn total(&self) -> Total {
        self.places.lock().total
    }

    /// Samples that found no place.
    pub(super) fn lost(&self) -> usize {
        self.lost.load(Relaxed)
    }

    /// Copies the first sample from this place on; says which place comes after it, or 0 if there was none. Takes a
    /// lock.
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
        (block.as_ptr().addr() - self.base) / PAGE * WORD
    }

    /// The word of a page, if it was ever needed.
    #[inline]
    fn word(&self, block: NonNull<u8>) -> Option<&AtomicU32> {
        let offset = self.offset(block);
        // SAFETY: within the range and accessible, aligned, and used as this alone.
        (offset < self.pages_end.load(Acquire)).then(|| unsafe { self.pages.start().add(offset).cast().as_ref() })
    }

    /// Makes the words up to this one accessible; says whether they are. Under the lock.
    fn cover(&self, offset: usize) -> bool {
        let (end, wanted) = (self.pages_end.load(Relaxed), (offset + 1).next_multiple_of(STEP));
        if wanted <= end {
            return true;
        }
        let is_covered = self.pages.commit(end, wanted - end).is_ok();
        if is_covered {
            self.pages_end.store(wanted, Release);
        }
        is_covered
    }
}

impl Places {
    fn take(&mut self) -> Result<u32, Errno> {
        if self.free != 0 {
            let place = self.free;
            self.free = self.sample_mut(place).next;
            return Ok(place);
        }
        let end = (self.used as usize + 1) * size_of::<Sample>();
        if end > self.end {
            self.range.commit(self.end, STEP)?;
            self.end += STEP;
        }
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
        assert!((1..=self.used).contains(&place), "a place was taken before");
        let index = place as usize - 1;
        // SAFETY: within the range and accessible, aligned; zeros are a sample, and the lock keeps others out.
        unsafe { self.range.start().cast::<Sample>().add(index).as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(runs: &Reservation, page: usize) -> NonNull<u8> {
        // SAFETY: a page within the range.
        unsafe { runs.start().add(page * PAGE) }
    }

    fn sizes(samples: &Samples) -> impl Iterator<Item = usize> {
        let (mut place, mut sample) = (1, Sample::NONE);
        core::iter::from_fn(move || {
            place = samples.copy(place, &mut sample);
            (place != 0).then_some(sample.size)
        })
    }

    #[test]
    fn what_is_put_is_there_until_it_is_removed() {
        let runs = Reservation::inaccessible(1 << 30, PAGE).unwrap();
        let samples = Samples::new(&runs, 1000).unwrap();
        for page in 0..900 {
            samples.put(block(&runs, page * 7), page + 1, Stack::EMPTY);
        }
        assert_eq!(samples.total(), Total { count: 900, bytes: 900 * 901 / 2 });
        assert!(samples.has(block(&runs, 7)) && !samples.has(block(&runs, 8)));
        assert!(!samples.has(block(&runs, (1 << 18) - 1)), "nobody has asked for so far an end yet");
        for page in 1..900 {
            samples.remove(block(&runs, page * 7));
            samples.remove(block(&runs, page * 7 + 1));
        }
        assert_eq!((samples.total(), sizes(&samples).sum::<usize>()), (Total { count: 1, bytes: 1 }, 1));
        samples.put(block(&runs, (1 << 18) - 1), 5, Stack::EMPTY);
        assert_eq!((sizes(&samples).count(), samples.lost()), (2, 0));
    }

    #[test]
    fn what_finds_no_place_is_counted() {
        let runs = Reservation::inaccessible(1 << 30, PAGE).unwrap();
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
