//! What a preemptible kernel pays around two words that belong together, in a process.
//!
//! There, a counter of the CPU is raised before and lowered after; if it is zero then, and somebody waits for the CPU,
//! the CPU is given up. That somebody waits is a bit of the same word that is clear then, so one test does. A process
//! has a counter of the thread instead, and nobody ever waits. linux: arch/x86/include/asm/preempt.h

use core::cell::Cell;

use super::arch;

/// The bit of the counter that is set while nobody waits.
const NOBODY_WAITS: u32 = 1 << 31;

std::thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(NOBODY_WAITS) };
}

/// Raises the thread's counter: it cannot be preempted, as a kernel would count.
#[inline(always)]
pub(super) fn disable() {
    // SAFETY: the counter is this thread's.
    COUNT.with(|count| unsafe { arch::raise(count.as_ptr()) });
}

/// Lowers the thread's counter, and reschedules if somebody waits.
#[inline(always)]
pub(super) fn enable() {
    // SAFETY: the counter is this thread's.
    COUNT.with(|count| match unsafe { arch::lower(count.as_ptr()) } {
        Lowered::Held => {}
        Lowered::Awaited => reschedule(),
    });
}

/// What a counter became when it was lowered.
pub(super) enum Lowered {
    /// It is not zero: the thread goes on.
    Held,
    /// It is zero, and somebody waits.
    Awaited,
}

/// Never called, but that is not known where it would be.
#[cold]
#[inline(never)]
fn reschedule() {
    COUNT.set(NOBODY_WAITS);
    std::thread::yield_now();
}
