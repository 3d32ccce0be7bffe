//! Runs of contiguous whole pages, of exactly the requested number, for requests that are too large for an object.
//!
//! ```text
//! table    boundary tags: 16 bytes a page, of which only those at the edges of runs are ever touched
//! bins     free runs by size: finds the smallest one that is large enough in a few steps
//! space    the address range, divided into runs; adjacent free runs are merged
//! cache    a few free runs per CPU, each taken and put by one atomic step
//! guarded  runs that end before inaccessible pages, and runs that stay inaccessible for a while after they are freed
//! ```
//!
//! A free run is either *backed*, which means that it still has the memory of its last use, or *empty*, which means
//! that it has no memory and reads as zeros. Requests use backed runs first. Over time backed runs are [given
//! back](Runs::give_back) to the system and become empty. Pages that have never been used are empty as well; they are
//! at the end of the range. Two adjacent free runs are merged if both are backed or both are empty, so the kind of a
//! run applies to each of its pages.
//!
//! # Design
//!
//! Requests above 32 KiB are runs of exactly as many pages as needed, in an address range of their own. The alternative
//! is blocks of the engine's page allocator. Their sizes are powers of two, and splitting a block for each request
//! would need two zone locks and ten list operations. Here bins by size, with a bitmap of those that have runs, find a
//! run in a few steps. Objects up to 32 KiB are the engine's. Its range comes online in steps when a request finds no
//! memory.
//!
//! The range of an address distinguishes runs from objects. Both ranges are mapped as they are used, so the limits of a
//! process and the accounting of the system count the used memory.

mod bins;
mod cache;
mod guarded;
mod space;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use freehold::base::CpuId;
use rustix::io::Errno;

use crate::os::budget::{MemoryBudget, UNLIMITED};
use crate::os::lock::Mutex;
use crate::os::mmap::{Region, Reservation};
use cache::RunCache;
pub use guarded::{ProtectedRun, RunExtent};
use space::Space;
pub use space::Usage;
use table::Table;
pub use table::{EDGE, Kind, decode_edge};

/// Bytes of a page in this module, whatever the machine's page size is.
pub const PAGE: usize = 4096;
/// Pages of a huge page.
pub(crate) const HUGE: u32 = 512;

/// An address range that is divided into runs.
///
/// All methods may be called from any thread. The documentation of a method states whether it takes the lock of the
/// range.
#[derive(Debug)]
pub struct Runs {
    table: Table,
    cached: RunCache,
    space: Mutex<Space>,
    /// Bytes of [`Usage::used`] at the last release of the lock, for readers that do not take it.
    used: AtomicUsize,
    backed: AtomicUsize,
    empty: AtomicUsize,
    /// Number of guarded runs that are in use or held.
    guarded: AtomicU32,
    range: Reservation,
}

/// A run that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Address of the first byte.
    pub start: NonNull<u8>,
    /// Whether all bytes are zero.
    pub is_zero: bool,
}

/// Reason why a run was not freed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The address is not the start of a run that is in use.
    #[error("no run of pages begins at {address:#x}; free the address that was allocated")]
    Interior {
        /// The address that was to be freed.
        address: usize,
    },
    /// The address is the start of a run that is already free.
    #[error("the pages at {address:#x} are already free; free them once")]
    DoubleFree {
        /// The address that was to be freed.
        address: usize,
    },
}

impl Runs {
    /// Chooses a range of `bytes` bytes for runs, at most 16 TiB, rounded down to a multiple of 2 MiB.
    ///
    /// # Errors
    /// If the address space has no room for such a range.
    pub fn new(bytes: usize, cpus: u16) -> Result<Runs, Errno> {
        Runs::with_budget(bytes, cpus, &UNLIMITED)
    }

    /// Chooses a range as [`new`](Self::new) does. Pages that have memory, and their table, are charged to the budget.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_budget(bytes: usize, cpus: u16, budget: &'static MemoryBudget) -> Result<Runs, Errno> {
        let pages = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX) / HUGE * HUGE;
        let range = Reservation::growing(pages as usize * PAGE, HUGE as usize * PAGE, Region::Upper)?;
        let (table, cached, space) = (Table::new(pages)?, RunCache::new(cpus)?, Mutex::new(Space::new(pages, budget)));
        let (used, backed, empty) = (0.into(), 0.into(), 0.into());
        Ok(Runs { table, cached, space, used, backed, empty, guarded: 0.into(), range })
    }

    /// Returns the address range that contains the runs.
    pub fn range(&self) -> &Reservation {
        &self.range
    }

    /// Unmaps free pages at the end of the used part of the range that have no memory. Takes the lock.
    pub fn unmap_end(&self) {
        self.locked(|space| space.unmap_end(&self.table, &self.range));
    }

    /// Returns three addresses for readers outside of the process: that of the table of edges, that of the number of
    /// the page up to which pages have an entry in it, and that of the holes before that page, which have none.
    /// [`decode_edge`] decodes an entry, and [`decode_hole`](crate::os::holes::decode_hole) a hole.
    pub fn table(&self) -> [u64; 3] {
        self.table.addresses()
    }

    /// Returns whether an address is inside the range.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.range.start().as_ptr().addr()) < self.range.bytes()
    }

    /// Takes a run from this CPU's cache, or returns `None` if the cache has none that fits. The run has at least
    /// `pages` pages and at most an eighth more. Takes no lock.
    #[inline]
    pub fn alloc_cached(&self, cpu: CpuId, pages: u32) -> Option<Run> {
        let first = self.cached.take(cpu, pages)?;
        self.table.set_kind(first, Kind::Used);
        Some(Run { start: self.address(first), is_zero: false })
    }

    /// Allocates a run of `pages` pages, at an address that is a multiple of `align` pages. Takes the lock, and makes
    /// two system calls for each 32 MiB of the range that are used for the first time. If another mapping blocks the
    /// range, up to 200 more find a place behind that mapping.
    ///
    /// # Errors
    /// If the range has no room, or the system refuses memory.
    ///
    /// # Panics
    /// If `pages` is 0 or `align` is not a power of two.
    pub fn alloc(&self, pages: u32, align: u32) -> Result<Run, Errno> {
        assert!(pages > 0 && align.is_power_of_two(), "a run must have pages, and an alignment that is a power of two");
        let taken = self.locked(|space| space.take(&self.table, &self.range, pages, align))?;
        Ok(Run { start: self.address(taken.first), is_zero: taken.is_empty })
    }

    /// Frees a run into this CPU's cache. If the cache has no room, the run is returned, and the caller must free it by
    /// [`free`](Self::free). Takes no lock.
    ///
    /// # Errors
    /// If the address is not the start of a run that is in use.
    #[inline]
    pub fn free_cached(&self, cpu: CpuId, start: NonNull<u8>) -> Result<FreeOutcome, RunError> {
        let first = self.page_of(start.as_ptr().addr())?;
        let pages = self.table.claim(first).map_err(|kind| refusal(kind, start))?;
        let keeps = self.cached.put(cpu, first, pages);
        Ok(if keeps { FreeOutcome::Cached } else { FreeOutcome::Uncached(Claimed { first, pages }) })
    }

    /// Frees a run that no CPU's cache kept. Takes the lock.
    pub fn free(&self, Claimed { first, pages }: Claimed, now: u32) {
        self.locked(|space| space.put(&self.table, first, pages, now));
    }

    /// Returns the bytes of the run that starts at an address.
    ///
    /// # Errors
    /// If the address is not the start of a run that is in use.
    pub fn usable(&self, start: NonNull<u8>) -> Result<usize, RunError> {
        let first = self.page_of(start.as_ptr().addr())?;
        let (kind, pages) = self.table.run_at(first);
        if kind == Kind::Used { Ok(pages as usize * PAGE) } else { Err(refusal(kind, start)) }
    }

    /// Changes the length of a run in use without moving it, and returns whether that was possible. Takes the lock.
    ///
    /// # Panics
    /// In builds with debug assertions, if no run in use starts at the address, or if `pages` is 0.
    pub fn resize(&self, start: NonNull<u8>, pages: u32, now: u32) -> bool {
        debug_assert!(pages > 0, "a run must have pages");
        self.page_of(start.as_ptr().addr()).is_ok_and(|first| {
            let (kind, old) = self.table.run_at(first);
            debug_assert_eq!(kind, Kind::Used, "the run is not in use");
            self.locked(|space| {
                if pages <= old {
                    space.cut(&self.table, first, pages, now);
                    return true;
                }
                space.extend(&self.table, &self.range, first, pages)
            })
        })
    }

    /// Moves the contents of one run to another run without copying. The destination was just allocated and has at
    /// least `pages` pages. The source is empty afterwards, and still in use.
    ///
    /// # Errors
    /// If the kernel cannot move pages (it can since Linux 5.7), or if the process has too many mappings. Nothing is
    /// changed then.
    ///
    /// # Safety
    /// Both runs belong to the caller, and neither is used during the call.
    pub unsafe fn move_pages(&self, from: NonNull<u8>, to: NonNull<u8>, pages: u32) -> Result<(), Errno> {
        let offsets = [from, to].map(|at| at.as_ptr().addr() - self.range.start().as_ptr().addr());
        // SAFETY: the caller promises that both runs belong to it and that neither is used during the call.
        unsafe { self.range.move_within(offsets[0], offsets[1], pages as usize * PAGE) }
    }

    /// Frees all runs that CPUs have cached. Takes the lock for each run.
    pub fn drain(&self, now: u32) {
        self.cached.drain(|first, pages| self.locked(|space| space.put(&self.table, first, pages, now)));
    }

    /// Returns the memory of free backed runs to the system, largest runs first, until at least `bytes` bytes are
    /// returned, no run is left, or the system refuses. Runs that were freed after the time `until` keep their memory.
    /// Returns the number of bytes. Each system call covers at most 2 MiB, and no lock is held during the call.
    pub fn give_back(&self, bytes: usize, until: u32) -> usize {
        let mut given = 0;
        while given < bytes {
            let Some(Claimed { first, pages }) = self.locked(|space| space.take_backed(&self.table, until)) else {
                break;
            };
            let size = pages as usize * PAGE;
            // SAFETY: `take_backed` has claimed the pages, so no other thread can reach them, and their contents are
            // not needed.
            let emptied = unsafe { self.range.give_back(first as usize * PAGE, size) };
            self.locked(|space| space.put_taken(&self.table, first, pages, emptied.is_ok(), until));
            if emptied.is_err() {
                break;
            }
            given += size;
        }
        given
    }

    /// Returns what the range is used for. The numbers are read one after the other and need not be consistent with
    /// each other. Takes no lock.
    #[inline]
    pub fn usage(&self) -> Usage {
        Usage { used: self.used.load(Relaxed), backed: self.backed.load(Relaxed), empty: self.empty.load(Relaxed) }
    }

    /// Returns the bytes of runs in CPUs' caches. Takes no lock.
    pub fn cached_bytes(&self) -> usize {
        self.cached.bytes()
    }

    /// Walks the used part of the range. Takes the lock.
    ///
    /// # Errors
    /// The first invariant that is violated.
    pub fn check(&self) -> Result<(), &'static str> {
        self.space.lock().check(&self.table)
    }

    fn locked<R>(&self, change: impl FnOnce(&mut Space) -> R) -> R {
        let mut space = self.space.lock();
        let result = change(&mut space);
        let Usage { used, backed, empty } = space.usage();
        self.used.store(used, Relaxed);
        self.backed.store(backed, Relaxed);
        self.empty.store(empty, Relaxed);
        result
    }

    #[inline]
    fn address(&self, first: u32) -> NonNull<u8> {
        // SAFETY: callers pass a page of the range, so the offset stays inside the reservation.
        unsafe { self.range.start().add(first as usize * PAGE) }
    }

    #[inline]
    fn page_of(&self, address: usize) -> Result<u32, RunError> {
        let offset = address.wrapping_sub(self.range.start().as_ptr().addr());
        let page = (offset / PAGE) as u32;
        let is_page = offset < self.range.bytes() && offset.is_multiple_of(PAGE) && self.table.has(page);
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
    /// Returns the bytes of the run.
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
