//! Runs for a hardened process. Each run ends before inaccessible guard pages. A freed run is held for a while, without
//! memory and inaccessible. So an access beyond the end of a run or after its free terminates the process at once.
//!
//! Each change of protection splits a mapping, and a process may have some 65,000 mappings for all purposes. So beyond
//! a number of guarded runs, further runs get no guard, and freed runs stay accessible.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::table::Kind;
use super::{Claimed, PAGE, Run, RunError, Runs, refusal};

/// Inaccessible pages behind a run. They take up addresses, but no memory.
const GUARD: u32 = 4;

/// Number of runs in use or held, from which on runs are neither guarded nor made inaccessible. Two mappings for each
/// are a quarter of those that a process may have. linux: DEFAULT_MAX_MAP_COUNT
const GUARDED_MAX: u32 = 8 << 10;

/// A freed run that is held: it is not in use, and in most cases it has no memory and is not charged for any.
#[derive(Debug)]
pub struct ProtectedRun {
    run: Claimed,
    memory: HeldMemory,
}

/// Memory of a held run. No value is 0, so that an `Option` of a run is zero if it has none: a static array of them
/// then takes no space in the library's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum HeldMemory {
    /// The memory was returned.
    Returned = 1,
    /// The run still has its memory, because the system refused to take it. Kernels before 5.18 do that if the program
    /// has locked it with `mlock`.
    Kept,
}

impl ProtectedRun {
    /// Returns the bytes of the run, including its guard.
    pub fn bytes(&self) -> usize {
        self.run.bytes()
    }
}

/// The run that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunExtent {
    /// Address of the run's first byte.
    pub start: NonNull<u8>,
    /// Bytes of the run, including its guard.
    pub bytes: usize,
    /// Whether the run is in use.
    pub is_used: bool,
}

impl Runs {
    /// Allocates a run of `pages` pages that ends before inaccessible pages. With 8192 such runs in use or held, or if
    /// the system refuses, the pages behind the run stay accessible. Takes the lock, and makes two system calls.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc), and if the system refuses to make the run accessible.
    pub fn alloc_guarded(&self, pages: u32, align: u32) -> Result<Run, Errno> {
        let all = pages.checked_add(GUARD).ok_or(Errno::NOMEM)?;
        let run = self.alloc(all, align)?;
        let offset = self.offset_of(run.start);
        // The pages of a run that was held are still inaccessible.
        if let Err(errno) = self.range.commit(offset, all as usize * PAGE) {
            self.locked(|space| space.put_unused(&self.table, (offset / PAGE) as u32, all, run.is_zero));
            return Err(errno);
        }
        if self.guarded.fetch_add(1, Relaxed) >= GUARDED_MAX {
            return Ok(run);
        }
        let guard = offset + pages as usize * PAGE;
        // SAFETY: the guard pages were just allocated, and are never passed to the caller for use.
        let _guarded = unsafe { self.range.protect(guard, GUARD as usize * PAGE) };
        Ok(run)
    }

    /// Returns the bytes of a guarded run without its guard.
    ///
    /// # Errors
    /// If the address is not the start of a run that is in use.
    pub fn usable_guarded(&self, start: NonNull<u8>) -> Result<usize, RunError> {
        self.usable(start).map(|bytes| bytes - GUARD as usize * PAGE)
    }

    /// Frees a guarded run and holds it: its memory is returned to the system, and it becomes inaccessible, unless too
    /// many runs are in use or held or the system refuses. If two threads free the same run, one of them succeeds.
    /// Takes the lock, and makes two system calls.
    ///
    /// # Errors
    /// If the address is not the start of a run that is in use.
    ///
    /// # Safety
    /// The caller gives up the run.
    pub unsafe fn hold(&self, start: NonNull<u8>) -> Result<ProtectedRun, RunError> {
        let first = self.page_of(start.as_ptr().addr())?;
        let pages = self.table.claim(first).map_err(|kind| refusal(kind, start))?;
        let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
        // SAFETY: the caller gave up the run, and this thread alone claimed it, so its contents are not needed.
        let is_returned = unsafe { self.range.give_back(offset, bytes) }.is_ok();
        let memory = if is_returned { HeldMemory::Returned } else { HeldMemory::Kept };
        if self.guarded.load(Relaxed) <= GUARDED_MAX {
            // SAFETY: the caller gave up the run, so a later access is an error of the program and should terminate it.
            let _protected = unsafe { self.range.protect(offset, bytes) };
        }
        if memory == HeldMemory::Returned {
            self.locked(|space| space.uncharge(pages));
        }
        Ok(ProtectedRun { run: Claimed { first, pages }, memory })
    }

    /// Makes a held run available for allocation again. It becomes accessible when it is allocated. Takes the lock.
    pub fn release(&self, ProtectedRun { run: Claimed { first, pages }, memory }: ProtectedRun) {
        self.guarded.fetch_sub(1, Relaxed);
        self.locked(|space| match memory {
            HeldMemory::Returned => space.put_held(&self.table, first, pages),
            HeldMemory::Kept => space.put(&self.table, first, pages, 0),
        });
    }

    /// Returns the run that contains an address, if it is in use or claimed. Searches page by page from the address
    /// back to the start of the run.
    pub fn run_around(&self, address: usize) -> Option<RunExtent> {
        let start = self.range.start().as_ptr().addr();
        let page = u32::try_from(address.checked_sub(start)? / PAGE).ok()?;
        let mut pages = (0..=page).rev().take_while(|&page| self.table.has(page));
        let first = pages.find(|&page| self.table.run_at(page).0 != Kind::Inside)?;
        let (kind, pages) = self.table.run_at(first);
        let is_it = page - first < pages && matches!(kind, Kind::Used | Kind::Claimed);
        let bytes = pages as usize * PAGE;
        is_it.then(|| RunExtent { start: self.address(first), bytes, is_used: kind == Kind::Used })
    }

    fn offset_of(&self, start: NonNull<u8>) -> usize {
        start.as_ptr().addr() - self.range.start().as_ptr().addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::budget::MemoryBudget;

    #[test]
    fn held_run_is_not_charged() {
        static BUDGET: MemoryBudget = MemoryBudget::unlimited();
        const LIMIT: usize = 8 << 20;
        BUDGET.set_limit(LIMIT);
        let runs = Runs::with_budget(64 << 20, 1, &BUDGET).unwrap();
        // Together these runs are larger than the limit, and all of them are held.
        let held = [(); 6].map(|()| {
            let run = runs.alloc_guarded(1000, 1).unwrap();
            // SAFETY: the test allocated the run and does not use it any more.
            unsafe { runs.hold(run.start) }.unwrap()
        });
        held.into_iter().for_each(|run| runs.release(run));
        let again = runs.alloc_guarded(1000, 1).unwrap();
        // SAFETY: the run was just allocated with a thousand pages before its guard.
        unsafe { again.start.write_bytes(1, 1000 * PAGE) };
        assert_eq!(runs.alloc_guarded(1200, 1), Err(Errno::NOMEM));
        assert_eq!(runs.check(), Ok(()));
    }

    #[test]
    fn no_held_run_is_zero() {
        // SAFETY: all fields may be zero but the memory, whose zero means that there is no run.
        let zeroed: Option<ProtectedRun> = unsafe { core::mem::zeroed() };
        assert!(zeroed.is_none());
    }

    #[test]
    fn held_run_is_not_reused_until_released() {
        let runs = Runs::new(64 << 20, 1).unwrap();
        let run = runs.alloc_guarded(9, 1).unwrap();
        assert_eq!(runs.usable_guarded(run.start), Ok(9 * PAGE));
        let at = run.start.as_ptr().addr();
        let bytes = 13 * PAGE;
        let used = RunExtent { start: run.start, bytes, is_used: true };
        assert_eq!(runs.run_around(at + 5 * PAGE + 1), Some(used));
        // SAFETY: the test allocated the run and does not use it any more.
        let held = unsafe { runs.hold(run.start) }.unwrap();
        assert_eq!(runs.run_around(at + 12 * PAGE), Some(RunExtent { is_used: false, ..used }));
        // SAFETY: the run is held and not in use; `hold` is expected to refuse it.
        assert!(matches!(unsafe { runs.hold(run.start) }, Err(RunError::DoubleFree { .. })));
        assert_ne!(runs.alloc_guarded(9, 1).unwrap().start, run.start);
        runs.release(held);
        assert_eq!(runs.run_around(at), None);
        let again = runs.alloc_guarded(9, 1).unwrap();
        assert!(again.is_zero);
        // SAFETY: the run was just allocated with nine pages before its guard.
        unsafe { again.start.write_bytes(1, 9 * PAGE) };
    }
}
