//! Per-CPU cache of a few free runs.
//!
//! Each CPU has eight slots. A run of up to 32 pages is kept in one of the first six, and a run of up to 256 pages in
//! one of the last two. A slot is one word with the start and the length of a run, and is filled and emptied by one
//! atomic step. So a signal handler never finds a lock held here, and a migration to another CPU during an operation is
//! harmless. The ABA problem does not arise: a word that changed and changed back denotes the same run, which is in the
//! cache again.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use freehold::base::CpuId;
use rustix::io::Errno;

use super::PAGE;
use crate::os::mmap::Reservation;

const PLACES: usize = 8;
/// Slots for small runs; the other slots are for large runs.
const SMALL_PLACES: usize = 6;
/// Most pages of a small run.
const SMALL: u32 = 32;
const LARGEST: u32 = 256;
/// Most CPUs with separate slots; further CPUs share them. The bound limits cached memory to 88 MiB on any machine.
const ROWS: u16 = 32;

/// Slots of one CPU, which fill one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Row([AtomicU64; PLACES]);

/// Runs that CPUs have cached.
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
        // SAFETY: the row is inside the reservation, since the index is below `count`. Zeroed memory is a valid row,
        // and all words of a row are atomic.
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

    /// Takes a run of at least `pages` pages and at most an eighth more; returns `None` if there is none.
    #[inline]
    pub(super) fn take(&self, cpu: CpuId, pages: u32) -> Option<u32> {
        let fits = pages..=pages + pages / 8;
        self.places(cpu, pages).iter().find_map(|place| {
            let word = place.load(Relaxed);
            let is_mine = fits.contains(&pages_of(word)) && place.compare_exchange(word, 0, AcqRel, Relaxed).is_ok();
            is_mine.then(|| first_page(word))
        })
    }

    /// Puts a claimed run into a free slot, and returns whether there was one.
    #[inline]
    pub(super) fn put(&self, cpu: CpuId, first: u32, pages: u32) -> bool {
        let word = u64::from(pages) << 32 | u64::from(first);
        self.places(cpu, pages)
            .iter()
            .any(|place| place.load(Relaxed) == 0 && place.compare_exchange(0, word, AcqRel, Relaxed).is_ok())
    }

    /// Returns the bytes of all runs.
    pub(super) fn bytes(&self) -> usize {
        let words = (0..self.count).flat_map(|cpu| &self.row(cpu).0).map(|place| place.load(Relaxed));
        words.map(|word| pages_of(word) as usize * PAGE).sum()
    }

    /// Empties all slots, and passes the first page and the length of each run to `take`.
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
