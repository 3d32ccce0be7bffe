//! Where threads wait for each other, so that what they do is timed while all of them do it.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Looks at the others before the CPU is given to somebody else: they may need this very one.
const PATIENCE: u32 = 20_000;

/// A place where some threads meet again and again. They spin, so that they leave it together.
pub struct Meeting {
    threads: u32,
    arrived: AtomicU32,
}

impl Meeting {
    /// A place for so many threads.
    pub fn of(threads: u32) -> Meeting {
        Meeting { threads, arrived: AtomicU32::new(0) }
    }

    /// Waits until all threads are there.
    pub fn wait(&self) {
        let place = self.arrived.fetch_add(1, Ordering::AcqRel);
        let full = (place / self.threads + 1) * self.threads;
        let mut looks = 0;
        // All of the next meeting may have come before this thread looks again, but none of the one behind that.
        while self.arrived.load(Ordering::Acquire) < full {
            looks += 1;
            if looks % PATIENCE == 0 { thread::yield_now() } else { spin_loop() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_before_all_are_there() {
        const ROUNDS: u32 = 100;
        let (meeting, entered) = (Meeting::of(3), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        entered.fetch_add(1, Ordering::Relaxed);
                        meeting.wait();
                        assert!(entered.load(Ordering::Relaxed) >= 3 * round);
                    }
                });
            }
        });
    }

    #[test]
    fn one_thread_waits_for_nobody() {
        (0..10).for_each(|_| Meeting::of(1).wait());
    }
}
