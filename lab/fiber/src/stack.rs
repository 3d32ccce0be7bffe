//! Stacks of fibers, each begun at a place of its own within a page.
//!
//! The system hands out stacks in whole pages. If all began at the end of theirs, the same few lines of every page
//! would be in use, and these share a sixty-fourth of a cache's sets each: of hundreds of stacks only a dozen would
//! stay in it. So each stack leaves a few lines more of its first page unused than the one before.

use std::cell::Cell;
use std::io;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Address space of a stack. What is never touched costs no memory.
const BYTES: usize = 256 << 10;
/// Bytes of a page, over which stacks are spread.
const PAGE: usize = 4 << 10;
/// Bytes between where stacks begin. An odd number of lines, so that 64 stacks begin at 64 places.
const STEP: usize = 11 * LINE;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines of its stack that a fiber finds first.
const FIRST_LINES: usize = 16;

thread_local! {
    /// How far before the end of its page the next stack begins.
    static SHIFT: Cell<usize> = const { Cell::new(0) };
}

/// A stack that begins somewhere in its first page.
pub(crate) struct StaggeredStack {
    stack: DefaultStack,
    base: StackPointer,
}

impl StaggeredStack {
    /// Another stack.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub(crate) fn new() -> io::Result<StaggeredStack> {
        let stack = DefaultStack::new(BYTES)?;
        let shift = SHIFT.replace((SHIFT.get() + STEP) % PAGE);
        let base = StackPointer::new(stack.base().get() - shift).expect("a stack is longer than a page");
        Ok(StaggeredStack { stack, base })
    }
}

// SAFETY: the stack is the system's, but for at most a page where it begins; lines are aligned more than stacks must
// be.
unsafe impl Stack for StaggeredStack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }
}

/// Fetches the lines from this address upwards, if the processor can be asked to; whatever the address.
#[inline]
pub(crate) fn prefetch(address: usize) {
    for line in 0..FIRST_LINES {
        fetch(address.wrapping_add(line * LINE));
    }
}

/// Fetches the line of an address, likewise.
#[inline]
pub(crate) fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing as far as the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
