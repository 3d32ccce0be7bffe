//! Low-water mark of free memory: the bytes that have been free for some time.
//!
//! The engine does not record when a page was freed. Memory that requests did not use in a span of time is what was
//! free at the moment when the least was free.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Fewest free bytes in the present span and in the one before. Observations by several threads at once may lose one.
#[derive(Debug)]
pub(super) struct LowWater {
    /// Tick at which the present span began.
    began: AtomicU32,
    present: AtomicUsize,
    before: AtomicUsize,
}

impl LowWater {
    pub(super) const fn new() -> LowWater {
        LowWater { began: AtomicU32::new(0), present: AtomicUsize::new(0), before: AtomicUsize::new(0) }
    }

    /// Records that `free` bytes are free in tick `now`. Returns the bytes that have been free for one to two spans of
    /// `span` ticks, as far as was observed; 0 in the first two spans.
    pub(super) fn observe(&self, free: usize, now: u32, span: u32) -> usize {
        let present = self.present.load(Relaxed);
        if now.wrapping_sub(self.began.load(Relaxed)) >= span {
            self.began.store(now, Relaxed);
            self.before.store(present, Relaxed);
            self.present.store(free, Relaxed);
        } else if free < present {
            self.present.store(free, Relaxed);
        }
        self.present.load(Relaxed).min(self.before.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_once_it_was_free_for_a_span() {
        let mark = LowWater::new();
        let seen = [(100, 50), (101, 50), (107, 50), (108, 50), (116, 60), (117, 20), (124, 70), (132, 70)];
        let free_for_long = seen.map(|(tick, free)| mark.observe(free, tick, 8));
        assert_eq!(free_for_long, [0, 0, 0, 50, 50, 20, 20, 70]);
    }
}
