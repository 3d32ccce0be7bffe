//! Locks for tests only: a lock whose holder may be preempted at any time, and a lock that excludes no thread.

use std::thread;

use freehold::base::lock::{Rank, RawLock, SpinLock};

use super::random_events;

/// A spin lock that may yield the processor before it is taken, while it is held, and after it is released.
#[derive(Debug)]
pub(crate) struct PreemptedLock(SpinLock);

// SAFETY: `SpinLock` provides the exclusion. Yielding the processor does not change the state of the lock.
unsafe impl RawLock for PreemptedLock {
    fn new() -> PreemptedLock {
        PreemptedLock(SpinLock::new())
    }

    fn lock(&self, rank: Rank) {
        random_events::perhaps_preempt();
        while !self.0.try_lock(rank) {
            thread::yield_now();
        }
        random_events::perhaps_preempt();
    }

    fn try_lock(&self, rank: Rank) -> bool {
        random_events::perhaps_preempt();
        let taken = self.0.try_lock(rank);
        if taken {
            random_events::perhaps_preempt();
        }
        taken
    }

    unsafe fn unlock(&self, rank: Rank) {
        // SAFETY: the caller holds this lock, as the contract of `unlock` requires, and therefore holds the inner lock.
        unsafe { self.0.unlock(rank) }
        random_events::perhaps_preempt();
    }
}

/// A lock that every thread can take at any time.
#[derive(Debug)]
pub(crate) struct OpenDoor;

// SAFETY: unsound on purpose. This lock is the planted fault that a sanitizer must find, and only the test of that
// fault uses it, to protect a number.
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
