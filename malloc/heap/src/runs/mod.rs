//! Runs: whole pages side by side, exactly as many as asked for, for what is too large to be an object.
//!
//! ```text
//! table    what each page is the edge of: 16 bytes a page, of which only edges are ever touched
//! bins     free runs by size: the smallest that is large enough is found in a few steps
//! space    the address range, cut into runs; free neighbours are one run
//! cache    a few runs a CPU, taken and left by one atomic step each
//! guarded  runs before pages that nobody can access, and runs that are held inaccessible when they are given back
//! ```
//!
//! A free run is *backed*, it has memory from the last time that it was used, or *empty*: it takes none, and reads as
//! zeros. Backed ones are used first; in the course of time they are [given back](Runs::give_back) and become empty.
//! What has never been used is empty, too, and lies at the end of the range. A free run and its neighbour are joined if
//! both are backed or both are empty, so that a run's kind is true of each of its pages.

mod bins;
mod cache;
mod guarded;
mod space;
mod table;
#[cfg(test)]
mod tests;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use freehold::base::CpuId;
use rustix::io::Errno;

use crate::os::lock::Mutex;
use crate::os::mmap::Reservation;
use cache::RunCache;
pub use guarded::{ProtectedRun, RunExtent};
use space::Space;
pub use space::Usage;
use table::Table;
pub use table::{EDGE, Kind, decode_edge};

/// Bytes of a page here, whatever those of the machine are.
pub const PAGE: usize = 4096;
/// Pages of a huge page.
pub(crate) const HUGE: u32 = 512;

/// A range of addresses that hands out runs.
///
/// Methods may be called from any thread. Those that say so take a lock.
#[derive(Debug)]
pub struct Runs {
    table: Table,
    cached: RunCache,
    space: Mutex<Space>,
    /// What the space says of its usage, for those who do not wait.
    used: AtomicUsize,
    backed: AtomicUsize,
    /// Guarded runs in use, and held ones.
    guarded: AtomicU32,
    range: Reservation,
}

/// Pages that were handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they begin.
    pub start: NonNull<u8>,
    /// Whether all of their bytes are 0.
    pub is_zero: bool,
}

/// Why a run was not taken back. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It is in no run that is in use, or not at its start.
    #[error("{address:#x} is not where a run of pages begins; free the address that was given out")]
    Interior {
        /// The address that was given back.
        address: usize,
    },
    /// It is the start of a run that is free.
    #[error("the pages at {address:#x} are free already; free them once")]
    DoubleFree {
        /// The address that was given back.
        address: usize,
    },
}

impl Runs {
    /// Runs in a range of so many bytes, up to 16 TiB, rounded down to 2 MiB.
    ///
    /// # Errors
    /// If the address space has no such range.
    pub fn new(bytes: usize, cpus: u16) -> Result<Runs, Errno> {
        let pages = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX) / HUGE * HUGE;
        let range = Reservation::inaccessible(pages as usize * PAGE, HUGE as usize * PAGE)?;
        let (table, cached, space) = (Table::new(pages)?, RunCache::new(cpus)?, Mutex::new(Space::new(pages)));
        Ok(Runs { table, cached, space, used: 0.into(), backed: 0.into(), guarded: 0.into(), range })
    }

    /// The range that runs are in.
    pub fn range(&self) -> &Reservation {
        &self.range
    }

    /// Addresses of what is known of each page, and of the number of pages of which something is: for readers outside
    /// of the process, to whom [`decode_edge`] says what it means.
    pub fn table(&self) -> [u64; 2] {
        self.table.addresses()
    }

    /// Whether an address lies in the range.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.range.start().as_ptr().addr()) < self.range.bytes()
    }

    /// Takes a run from this CPU's cache: at least so many pages, and at most an eighth more. Takes no lock.
    #[inline]
    pub fn alloc_cached(&self, cpu: CpuId, pages: u32) -> Option<Run> {
        let first = self.cached.take(cpu, pages)?;
        self.table.set_kind(first, Kind::Used);
        Some(Run { start: self.address(first), is_zero: false })
    }

    /// A run of so many pages, from an address on that is a multiple of `align` of them. Takes a lock; a system call
    /// for each 32 MiB that the range has never used.
    ///
    /// # Errors
    /// If the range has no room, or the system refuses it memory.
    ///
    /// # Panics
    /// If there are no pages to get, or the alignment is no power of two.
    pub fn alloc(&self, pages: u32, align: u32) -> Result<Run, Errno> {
        assert!(pages > 0 && align.is_power_of_two(), "a run has pages, and its alignment is a power of two");
        let taken = self.locked(|space| space.take(&self.table, &self.range, pages, align))?;
        Ok(Run { start: self.address(taken.first), is_zero: taken.is_empty })
    }

    /// Takes a run back, which this CPU's cache keeps if it has room for it: then no lock is taken.
    ///
    /// # Errors
    /// If no run in use begins there.
    #[inline]
    pub fn free_cached(&self, cpu: CpuId, start: NonNull<u8>) -> Result<FreeOutcome, RunError> {
        let first = self.page_of(start.as_ptr().addr())?;
        let pages = self.table.claim(first).map_err(|kind| refusal(kind, start))?;
        let keeps = self.cached.put(cpu, first, pages);
        Ok(if keeps { FreeOutcome::Cached } else { FreeOutcome::Uncached(Claimed { first, pages }) })
    }

    /// Frees a run that no CPU cached. Takes a lock.
    pub fn free(&self, Claimed { first, pages }: Claimed, now: u32) {
        self.locked(|space| space.put(&self.table, first, pages, now));
    }

    /// Bytes of the run that begins there.
    ///
    /// # Errors
    /// If no run in use does.
    pub fn usable(&self, start: NonNull<u8>) -> Result<usize, RunError> {
        let first = self.page_of(start.as_ptr().addr())?;
        let (kind, pages) = self.table.run_at(first);
        if kind == Kind::Used { Ok(pages as usize * PAGE) } else { Err(refusal(kind, start)) }
    }

    /// Makes a run in use as many pages long, where it is; says whether that could be. Takes a lock.
    ///
    /// # Panics
    /// In builds with assertions, if no run in use begins there, or none would be left.
    pub fn resize(&self, start: NonNull<u8>, pages: u32, now: u32) -> bool {
        debug_assert!(pages > 0, "a run has pages");
        self.page_of(start.as_ptr().addr()).is_ok_and(|first| {
            let (kind, old) = self.table.run_at(first);
            debug_assert_eq!(kind, Kind::Used, "the caller owns a run");
            self.locked(|space| {
                if pages <= old {
                    space.cut(&self.table, first, pages, now);
                    return true;
                }
                space.extend(&self.table, &self.range, first, pages)
            })
        })
    }

    /// Moves what is in one run to another of at least as many pages, which was just allocated, without copying: the
    /// first one is empty afterwards, and still in use.
    ///
    /// # Errors
    /// If the kernel cannot (it can since Linux 5.7), or has too many mappings already; nothing is changed then.
    ///
    /// # Safety
    /// Both runs are the caller's, and nobody uses them meanwhile.
    pub unsafe fn move_pages(&self, from: NonNull<u8>, to: NonNull<u8>, pages: u32) -> Result<(), Errno> {
        let offsets = [from, to].map(|at| at.as_ptr().addr() - self.range.start().as_ptr().addr());
        // SAFETY: the caller promises that both runs are its own, and that nothing else uses them meanwhile.
        unsafe { self.range.move_within(offsets[0], offsets[1], pages as usize * PAGE) }
    }

    /// Takes what CPUs have cached, as runs that are free. Takes a lock for each.
    pub fn drain(&self, now: u32) {
        self.cached.drain(|first, pages| self.locked(|space| space.put(&self.table, first, pages, now)));
    }

    /// Gives the memory of backed runs back to the system, the largest first, up to so many bytes; those that were
    /// freed after the moment `until` keep theirs. Returns the bytes. At most 2 MiB a system call, during which no lock
    /// is held.
    pub fn give_back(&self, bytes: usize, until: u32) -> usize {
        let mut given = 0;
        while given < bytes {
            let Some(Claimed { first, pages }) = self.locked(|space| space.take_backed(&self.table, until)) else {
                break;
            };
            let size = pages as usize * PAGE;
            // SAFETY: the run is free, and nobody but us can reach it.
            let emptied = unsafe { self.range.give_back(first as usize * PAGE, size) };
            self.locked(|space| space.put_taken(&self.table, first, pages, emptied.is_ok(), until));
            if emptied.is_err() {
                break;
            }
            given += size;
        }
        given
    }

    /// What the range is used for, in numbers of no one moment. Takes no lock.
    #[inline]
    pub fn usage(&self) -> Usage {
        Usage { used: self.used.load(Relaxed), backed: self.backed.load(Relaxed) }
    }

    fn locked<R>(&self, change: impl FnOnce(&mut Space) -> R) -> R {
        let mut space = self.space.lock();
        let result = change(&mut space);
        let Usage { used, backed } = space.usage();
        self.used.store(used, Relaxed);
        self.backed.store(backed, Relaxed);
        result
    }

    #[inline]
    fn address(&self, first: u32) -> NonNull<u8> {
        // SAFETY: the page is one of the range.
        unsafe { self.range.start().add(first as usize * PAGE) }
    }

    #[inline]
    fn page_of(&self, address: usize) -> Result<u32, RunError> {
        let offset = address.wrapping_sub(self.range.start().as_ptr().addr());
        let page = (offset / PAGE) as u32;
        let is_page = offset < self.range.bytes() && offset.is_multiple_of(PAGE) && page < self.table.used();
        if is_page { Ok(page) } else { Err(RunError::Interior { address }) }
    }
}

/// Result of [`Runs::free_cached`].
#[derive(Debug)]
#[must_use = "a run that is not cached is lost unless it is freed"]
pub enum FreeOutcome {
    /// The CPU's cache keeps the run.
    Cached,
    /// The caller must [free](Runs::free) the run.
    Uncached(Claimed),
}

/// A run that is neither in use nor free.
#[derive(Debug)]
pub struct Claimed {
    first: u32,
    pages: u32,
}

impl Claimed {
    /// Bytes of the run.
    pub fn bytes(&self) -> usize {
        self.pages as usize * PAGE
    }
}

#[cold]
fn refusal(kind: Kind, start: NonNull<u8>) -> RunError {
    let address = start.as_ptr().addr();
    match kind {
        Kind::Inside | Kind::Used => RunError::Interior { address },
        Kind::Claimed | Kind::Backed | Kind::Empty => RunError::DoubleFree { address },
    }
}
