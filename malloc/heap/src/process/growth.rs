//! Growth of the heap and of the runs, which is balanced by a return of free memory of the other kind.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Growth of one kind after which memory of the other is returned. A system call is small beside the faults for this
/// much new memory.
const STEP: usize = 1 << 20;

/// Memory of one kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Memory in use, and free memory that was not returned.
    pub all: usize,
    /// Free memory that was not returned.
    pub free: usize,
}

/// Memory that one kind had when its growth was last counted. Two threads may count the same growth.
#[derive(Debug)]
pub(super) struct Growth(AtomicUsize);

impl Growth {
    pub(super) const fn new() -> Growth {
        Growth(AtomicUsize::new(0))
    }

    /// Returns the bytes by which this kind has grown, if these are at least [`STEP`] bytes, and counts from here on.
    #[inline]
    pub(super) fn take(&self, part: Part) -> usize {
        let before = self.0.load(Relaxed);
        if part.all < before {
            self.0.store(part.all, Relaxed);
        }
        if part.all < before.saturating_add(STEP) {
            return 0;
        }
        self.0.store(part.all, Relaxed);
        part.all - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_counted_from_the_last_take_or_the_least_since() {
        let growth = Growth::new();
        let mut take = |all| growth.take(Part { all, free: 0 });
        assert_eq!([STEP / 2, STEP, STEP + STEP / 2].map(&mut take), [0, STEP, 0]);
        assert_eq!([STEP / 4, STEP, 3 * STEP].map(&mut take), [0, 0, 3 * STEP - STEP / 4]);
    }
}
