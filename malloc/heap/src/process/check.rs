//! Consistency check of the malloc: pages, slabs, lists, sheaves and runs.

use core::fmt;

use super::{AnyHeap, GATE, MALLOC, enter, with_heap};
use crate::heap::HeapViolation;

/// Inconsistent state of the malloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// State of the heap, which has the objects.
    Heap(HeapViolation),
    /// State of the range of runs.
    Runs(&'static str),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Heap(violation) => violation.fmt(f),
            Violation::Runs(sentence) => write!(f, "runs: {sentence}"),
        }
    }
}

/// Checks the malloc. Closes the gate, so no other thread is in a slow path, and the helper waits. Checks nothing
/// before the first request, or in a signal handler that interrupts a slow path.
///
/// # Errors
/// The first violation that is found.
///
/// # Safety
/// No other thread of the program allocates or frees meanwhile: the fast paths do not wait for the check.
pub unsafe fn check() -> Result<(), Violation> {
    GATE.close();
    let result = match MALLOC.get().zip(enter()) {
        Some((malloc, _within)) => {
            // SAFETY: no thread is in a slow path, and the caller promises that none takes a fast path.
            let heap = with_heap!(&malloc.heap, heap => unsafe { heap.check() });
            heap.map_err(Violation::Heap).and_then(|()| malloc.runs.check().map_err(Violation::Runs))
        }
        None => Ok(()),
    };
    GATE.open();
    result
}
