//! Per-CPU cache of a few free runs.
//!
//! A CPU has eight places. A run of up to 32 pages goes into one of the first six, one of up to 256 into one of the
//! last two. A place is one word, which says where a run begins and how long it is, and which is taken and left by one
//! atomic step. So no lock is held that a signal could find, and it does not matter if a thread is moved to another CPU
//! meanwhile. A step on a word that was another in between and is the same again is right: the same word is the same
//! run.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use freehold::base::CpuId;
use rustix::io::Errno;

use super::PAGE;
use crate::os::mmap::Reservation;

const PLACES: usize = 8;
/// Places for small runs; the others are for large ones.
const SMALL_PLACES: usize = 6;
/// Pages of a small run at most, and of any.
const SMALL: u32 = 32;
const LARGEST: u32 = 256;
/// CPUs that have places of their own: so all CPUs of the largest machine cache 88 MiB at most.
const ROWS: u16 = 32;

/// The places of a CPU: one line of the cache.
#[derive(Debug)]
#[repr(align(64))]
struct Row([AtomicU64; PLACES]);

/// What CPUs have cached.
#[derive(Debug)]
pub(super) struct RunCache {
    rows: Reservation,
    count: u16,
}

impl RunCache {
    pub(super) fn new(cpus: u16) -> Result<RunCache, Errno> {
        let count = cpus.clamp(1, ROWS);
        Ok(RunCache { rows: Reservation::new(usize::from(count) * size_of::<Row>(), PAGE)?, count })
    }

    #[inline]
    fn row(&self, cpu: u16) -> &Row {
        // SAFETY: within the reservation, of which zeros are rows; all of their words are atomic.
        unsafe { self.rows.start().cast::<Row>().add(usize::from(cpu % self.count)).as_ref() }
    }

    #[inline]
    fn places(&self, cpu: CpuId, pages: u32) -> &[AtomicU64] {
        let (small, large) = self.row(cpu.0).0.split_at(SMALL_PLACES);
        match pages {
            ..=SMALL => small,
            pages if pages <= LARGEST => large,
            _ => &[],
        }
    }

    /// Takes a run of at least so many pages, and at most an eighth more.
    #[inline]
    pub(super) fn take(&self, cpu: CpuId, pages: u32) -> Option<u32> {
        let fits = pages..=pages + pages / 8;
        self.places(cpu, pages).iter().find_map(|place| {
            let word = place.load(Relaxed);
            let is_mine = fits.contains(&pages_of(word)) && place.compare_exchange(word, 0, AcqRel, Relaxed).is_ok();
            is_mine.then(|| first_page(word))
        })
    }

    /// Leaves a claimed run; says whether there was room for it.
    #[inline]
    pub(super) fn put(&self, cpu: CpuId, first: u32, pages: u32) -> bool {
        let word = u64::from(pages) << 32 | u64::from(first);
        self.places(cpu, pages)
            .iter()
            .any(|place| place.load(Relaxed) == 0 && place.compare_exchange(0, word, AcqRel, Relaxed).is_ok())
    }

    /// Takes all of them.
    pub(super) fn drain(&self, mut take: impl FnMut(u32, u32)) {
        for place in (0..self.count).flat_map(|cpu| &self.row(cpu).0) {
            if place.load(Relaxed) != 0 {
                let word = place.swap(0, Acquire);
                if word != 0 {
                    take(first_page(word), pages_of(word));
                }
            }
        }
    }
}

fn first_page(word: u64) -> u32 {
    word as u32
}

fn pages_of(word: u64) -> u32 {
    (word >> 32) as u32
}
