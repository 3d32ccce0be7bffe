//! The process as a platform that records whether a thread holds a lock. A signal handler may allocate if its thread
//! holds none.

use std::cell::Cell;

use freehold::base::CpuId;
use freehold::base::lock::{Rank, RawLock};
use freehold::platform::{NoProbe, Patience, Platform};
use freehold_malloc::os::platform::{CurrentCpuOfProcess, Process, YieldingLock};

std::thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the calling thread holds a lock or is about to take one.
pub(crate) fn holds_any() -> bool {
    HELD.get() > 0
}

/// [`Process`] with recorded locks.
#[derive(Debug)]
pub(crate) struct Noticing(Process);

impl Noticing {
    pub(crate) fn new(current: CurrentCpuOfProcess) -> Noticing {
        Noticing(Process::new(current))
    }
}

impl Platform for Noticing {
    type Lock = NoticedLock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    fn cpu(&self) -> CpuId {
        self.0.cpu()
    }

    fn migrates(&self) -> bool {
        self.0.migrates()
    }

    fn relax(&self) -> Patience {
        self.0.relax()
    }
}

/// A lock that its holder's thread records, from before the acquisition until after the release.
#[derive(Debug)]
pub(crate) struct NoticedLock(YieldingLock);

// SAFETY: mutual exclusion is that of the wrapped lock.
unsafe impl RawLock for NoticedLock {
    fn new() -> NoticedLock {
        NoticedLock(YieldingLock::new())
    }

    fn lock(&self, rank: Rank) {
        HELD.set(HELD.get() + 1);
        self.0.lock(rank);
    }

    fn try_lock(&self, rank: Rank) -> bool {
        HELD.set(HELD.get() + 1);
        let is_taken = self.0.try_lock(rank);
        if !is_taken {
            HELD.set(HELD.get() - 1);
        }
        is_taken
    }

    unsafe fn unlock(&self, rank: Rank) {
        // SAFETY: the caller promises that it holds the lock.
        unsafe { self.0.unlock(rank) };
        HELD.set(HELD.get() - 1);
    }
}
