//! Two threads that work at the same time, and a barrier at which they wait for each other, so that their work is timed
//! while both are running.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::affinity::{self, PinError};

/// Number of checks before a waiting thread yields its CPU, which another waiting thread may need.
const PATIENCE: u32 = 20_000;

/// Barrier for a fixed number of threads, reusable for any number of rounds. The threads spin, so that they leave it
/// together.
pub struct SpinBarrier {
    threads: u32,
    arrived: AtomicU32,
}

impl SpinBarrier {
    /// Creates a barrier that opens when `threads` threads wait.
    pub fn new(threads: u32) -> SpinBarrier {
        SpinBarrier { threads, arrived: AtomicU32::new(0) }
    }

    /// Waits until all threads have arrived.
    pub fn wait(&self) {
        let place = self.arrived.fetch_add(1, Ordering::AcqRel);
        let full = (place / self.threads + 1) * self.threads;
        // Before this check, all other threads may have arrived at the next round, but none at the round after that.
        spin_until(|| self.arrived.load(Ordering::Acquire) >= full);
    }
}

/// Spins until `is_true` returns true, so that it returns at once after another CPU makes the condition true. Yields
/// the CPU now and then.
pub fn spin_until(is_true: impl Fn() -> bool) {
    let mut looks = 0u32;
    while !is_true() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(PATIENCE) { thread::yield_now() } else { spin_loop() }
    }
}

/// Runs one function on this thread, and another one on a new thread that is pinned to the CPU `partner`.
///
/// # Errors
/// When the new thread may not run on that CPU; both functions are run nevertheless.
pub fn run_beside<R, S: Send>(
    partner: u16,
    here: impl FnOnce(&SpinBarrier) -> R,
    there: impl FnOnce(&SpinBarrier) -> S + Send,
) -> Result<(R, S), PinError> {
    let barrier = SpinBarrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = affinity::pin(partner);
            // The function runs even if pinning failed, because the other thread waits for this one at the barrier.
            let done = there(&barrier);
            pinned.map(|()| done)
        });
        let done = here(&barrier);
        let other_done = other.join().expect("the second thread does not panic").map_err(|error| {
            PinError(format!("cannot pin a second thread to CPU {partner}: {error}; leave this process that CPU"))
        })?;
        Ok((done, other_done))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_releases_threads_only_when_all_have_entered() {
        const ROUNDS: u32 = 100;
        let (barrier, entered) = (SpinBarrier::new(3), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        entered.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert!(entered.load(Ordering::Relaxed) >= 3 * round);
                    }
                });
            }
        });
    }

    #[test]
    fn barrier_of_one_thread_does_not_block() {
        (0..10).for_each(|_| SpinBarrier::new(1).wait());
    }
}
