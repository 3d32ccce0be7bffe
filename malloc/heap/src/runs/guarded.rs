//! Runs for a process that wants to notice: each ends before pages that nobody can access, and one that is given back
//! is held for a while, without memory and inaccessible. So what goes beyond its end, or comes too late, ends at once.
//!
//! Each change of what can be accessed splits a mapping, of which a process may have some 65,000, for all that it does.
//! So where very many runs are in use, no more of them have guards, and those that are given back can be accessed.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::table::Kind;
use super::{Claimed, PAGE, Run, RunError, Runs, refusal};

/// Pages behind a run that nobody can access: addresses alone.
const GUARD: u32 = 4;

/// Runs in use or held, from which on no more are guarded or made inaccessible: a quarter of the mappings that a
/// process may have are two for each. linux: DEFAULT_MAX_MAP_COUNT
const GUARDED_MAX: u32 = 8 << 10;

/// A run that was given back, without memory most often, and that nobody has.
#[derive(Debug)]
pub struct ProtectedRun {
    run: Claimed,
    /// Whether it has lost its memory: pages that the program has locked stay.
    is_empty: bool,
}

impl ProtectedRun {
    /// Bytes of it, with its guard.
    pub fn bytes(&self) -> usize {
        self.run.bytes()
    }
}

/// The run that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunExtent {
    /// Where it begins.
    pub start: NonNull<u8>,
    /// Bytes of it, with its guard.
    pub bytes: usize,
    /// Whether it is in use.
    pub is_used: bool,
}

impl Runs {
    /// A run of so many pages before some that nobody can access. Takes a lock, and a system call.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc).
    pub fn alloc_guarded(&self, pages: u32, align: u32) -> Result<Run, Errno> {
        let run = self.alloc(pages.checked_add(GUARD).ok_or(Errno::NOMEM)?, align)?;
        if self.guarded.fetch_add(1, Relaxed) >= GUARDED_MAX {
            return Ok(run);
        }
        let guard = self.offset_of(run.start) + pages as usize * PAGE;
        // SAFETY: the pages were just allocated, and are given to nobody.
        let _guarded = unsafe { self.range.protect(guard, GUARD as usize * PAGE) };
        Ok(run)
    }

    /// Bytes of a guarded run before its guard.
    ///
    /// # Errors
    /// If no run in use begins there.
    pub fn usable_guarded(&self, start: NonNull<u8>) -> Result<usize, RunError> {
        self.usable(start).map(|bytes| bytes - GUARD as usize * PAGE)
    }

    /// Takes a guarded run back, and holds it: its memory goes, and nobody can access it. Of two who do, one gets it.
    /// Costs two system calls.
    ///
    /// # Errors
    /// If no run in use begins there.
    ///
    /// # Safety
    /// The caller gives it up.
    pub unsafe fn hold(&self, start: NonNull<u8>) -> Result<ProtectedRun, RunError> {
        let first = self.page_of(start.as_ptr().addr())?;
        let pages = self.table.claim(first).map_err(|kind| refusal(kind, start))?;
        let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
        // SAFETY: whoever had it gave it up.
        let is_empty = unsafe { self.range.give_back(offset, bytes) }.is_ok();
        if self.guarded.load(Relaxed) <= GUARDED_MAX {
            // SAFETY: whoever had it gave it up; who accesses it all the same is to be noticed.
            let _protected = unsafe { self.range.protect(offset, bytes) };
        }
        Ok(ProtectedRun { run: Claimed { first, pages }, is_empty })
    }

    /// Lets a run that was held be handed out again. Takes a lock, and a system call. One that the system does not make
    /// accessible again stays held for ever.
    pub fn release(&self, ProtectedRun { run: Claimed { first, pages }, is_empty }: ProtectedRun) {
        if self.range.commit(first as usize * PAGE, pages as usize * PAGE).is_err() {
            return;
        }
        self.guarded.fetch_sub(1, Relaxed);
        self.locked(|space| {
            if is_empty {
                space.put_empty(&self.table, first, pages);
            } else {
                space.put(&self.table, first, pages, 0);
            }
        });
    }

    /// The run around an address, in use or held. Looks at each page from there back to where the run begins.
    pub fn run_around(&self, address: usize) -> Option<RunExtent> {
        let start = self.range.start().as_ptr().addr();
        let page = u32::try_from(address.checked_sub(start)? / PAGE).ok().filter(|&page| page < self.table.used())?;
        let first = (0..=page).rev().find(|&page| self.table.run_at(page).0 != Kind::Inside)?;
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

    #[test]
    fn a_run_that_is_held_is_nobodys_until_it_is_released() {
        let runs = Runs::new(64 << 20, 1).unwrap();
        let run = runs.alloc_guarded(9, 1).unwrap();
        assert_eq!(runs.usable_guarded(run.start), Ok(9 * PAGE));
        let at = run.start.as_ptr().addr();
        let bytes = 13 * PAGE;
        let used = RunExtent { start: run.start, bytes, is_used: true };
        assert_eq!(runs.run_around(at + 5 * PAGE + 1), Some(used));
        // SAFETY: nobody uses it any more.
        let held = unsafe { runs.hold(run.start) }.unwrap();
        assert_eq!(runs.run_around(at + 12 * PAGE), Some(RunExtent { is_used: false, ..used }));
        // SAFETY: nobody uses it; it is refused.
        assert!(matches!(unsafe { runs.hold(run.start) }, Err(RunError::DoubleFree { .. })));
        assert_ne!(runs.alloc_guarded(9, 1).unwrap().start, run.start);
        runs.release(held);
        assert_eq!(runs.run_around(at), None);
        let again = runs.alloc_guarded(9, 1).unwrap();
        assert!(again.is_zero);
        // SAFETY: so many bytes are ours.
        unsafe { again.start.write_bytes(1, 9 * PAGE) };
    }
}
