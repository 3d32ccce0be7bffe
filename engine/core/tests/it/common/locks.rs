//! Locks that no platform should have: one whose holder may be preempted at any time, and one that is open.

use std::thread;

use freehold::base::lock::{Rank, RawLock, SpinLock};

use super::luck;

/// Excludes, but the thread may lose its processor before it asks, while it holds, and after it opens.
#[derive(Debug)]
pub(crate) struct PreemptedLock(SpinLock);

// SAFETY: exclusion is `SpinLock`'s; giving up the processor changes nothing of it.
unsafe impl RawLock for PreemptedLock {
    fn new() -> PreemptedLock {
        PreemptedLock(SpinLock::new())
    }

    fn lock(&self, rank: Rank) {
        luck::perhaps_preempt();
        while !self.0.try_lock(rank) {
            thread::yield_now();
        }
        luck::perhaps_preempt();
    }

    fn try_lock(&self, rank: Rank) -> bool {
        luck::perhaps_preempt();
        let taken = self.0.try_lock(rank);
        if taken {
            luck::perhaps_preempt();
        }
        taken
    }

    unsafe fn unlock(&self, rank: Rank) {
        // SAFETY: the caller holds the lock, by this function's own contract.
        unsafe { self.0.unlock(rank) }
        luck::perhaps_preempt();
    }
}

/// Lets everybody in.
#[derive(Debug)]
pub(crate) struct OpenDoor;

// SAFETY: it is not: this is the fault that a sanitizer must find. Only the test that plants it uses it, on a number.
unsafe impl RawLock for OpenDoor {
    fn new() -> OpenDoor {
        OpenDoor
    }

    fn lock(&self, _rank: Rank) {}

    fn try_lock(&self, _rank: Rank) -> bool {
        true
    }

    unsafe fn unlock(&self, _rank: Rank) {}
}
