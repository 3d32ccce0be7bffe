//! Stacks of fibers that begin at different offsets within a page.
//!
//! The system allocates stacks in whole pages, and stacks grow downwards. If every stack began at the end of its
//! highest page, the same few lines of each page would be in use, and each of these lines maps to a sixty-fourth of a
//! cache's sets. Of hundreds of stacks only a dozen would remain in the cache. So each stack leaves a few more lines of
//! its highest page unused than the previous one.

use std::cell::Cell;
use std::io;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Address space of a stack in bytes. Pages that are never touched use no memory.
const BYTES: usize = 256 << 10;
/// Size of a page in bytes; the beginnings of stacks are spread over one page.
const PAGE: usize = 4 << 10;
/// Distance between the beginnings of two successive stacks, in bytes. An odd number of lines, so that 64 stacks begin
/// at 64 different offsets.
const STEP: usize = 11 * LINE;
/// Size of a cache line in bytes.
const LINE: usize = 64;
/// Number of stack lines that are prefetched for a fiber.
const FIRST_LINES: usize = 16;

thread_local! {
    /// Distance of the next stack's beginning from the end of its page, in bytes.
    static SHIFT: Cell<usize> = const { Cell::new(0) };
}

/// A stack that begins at some offset in its highest page.
pub(crate) struct StaggeredStack {
    stack: DefaultStack,
    base: StackPointer,
}

impl StaggeredStack {
    /// Allocates a stack.
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

// SAFETY: the memory and its guard page are those of `DefaultStack`. The base is less than a page below the original
// one, so much more than `MIN_STACK_SIZE` bytes remain. The shift is a multiple of a cache line, so the base stays
// aligned.
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

/// Prefetches the lines from this address upwards on processors with such an instruction. Any address is permitted.
#[inline]
pub(crate) fn prefetch(address: usize) {
    for line in 0..FIRST_LINES {
        fetch(address.wrapping_add(line * LINE));
    }
}

/// Prefetches the line of an address, likewise.
#[inline]
pub(crate) fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint. It does not access memory from the program's point of view and does not fault,
        // so any address is permitted.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
