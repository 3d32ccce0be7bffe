//! The process as a platform whose locks a thread knows that it holds: a signal's handler may allocate if there are
//! none.

use std::cell::Cell;

use freehold::base::CpuId;
use freehold::base::lock::{Rank, RawLock};
use freehold::platform::{NoProbe, Patience, Platform};
use freehold_malloc::os::platform::{CurrentCpuOfProcess, Process, YieldingLock};

std::thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread holds a lock, or is about to.
pub(crate) fn holds_any() -> bool {
    HELD.get() > 0
}

/// See [`Process`].
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

/// A lock that its holder knows of, from before it is taken until after it is open.
#[derive(Debug)]
pub(crate) struct NoticedLock(YieldingLock);

// SAFETY: exclusion is that of the lock within.
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
        // SAFETY: the caller holds it.
        unsafe { self.0.unlock(rank) };
        HELD.set(HELD.get() - 1);
    }
}
