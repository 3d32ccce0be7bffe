//! What a preemptible kernel pays around two words that belong together, in a process.
//!
//! There, a counter of the CPU is raised before and lowered after; if it is zero then, and somebody waits for the CPU,
//! the CPU is given up. That somebody waits is a bit of the same word that is clear then, so one test does. A process
//! has a counter of the thread instead, and nobody ever waits. linux: arch/x86/include/asm/preempt.h
//!
//! The bit that says that nobody waits is set when a thread is first counted, so that its words can begin as zeros.

use super::arch;

/// The bit of the counter that is set while nobody waits.
const NOBODY_WAITS: u32 = 1 << 31;

/// Raises the thread's counter: it cannot be preempted, as a kernel would count.
#[inline(always)]
pub(super) fn disable() {
    // SAFETY: the counter is this thread's.
    with_count(|count| unsafe { arch::raise(count) });
}

/// Lowers the thread's counter, and reschedules if somebody waits.
#[inline(always)]
pub(super) fn enable() {
    // SAFETY: the counter is this thread's.
    with_count(|count| match unsafe { arch::lower(count) } {
        LowerOutcome::Held => {}
        LowerOutcome::Awaited => reschedule(),
    });
}

/// In a program, where the linker knows the distance of the counter, as a kernel's does.
#[cfg(feature = "std")]
#[inline(always)]
fn with_count(change: impl FnOnce(*mut u32)) {
    extern crate std;
    std::thread_local! {
        static COUNT: core::cell::Cell<u32> = const { core::cell::Cell::new(NOBODY_WAITS) };
    }
    COUNT.with(|count| change(count.as_ptr()));
}

/// In a library.
#[cfg(not(feature = "std"))]
#[inline(always)]
fn with_count(change: impl FnOnce(*mut u32)) {
    change(crate::os::thread::current().preempt.as_ptr());
}

/// What a counter became when it was lowered.
pub(super) enum LowerOutcome {
    /// It is not zero: the thread goes on.
    Held,
    /// It is zero, and somebody waits.
    Awaited,
}

/// Called in a library by a thread's first, whose counter does not say yet that nobody waits.
#[cold]
#[inline(never)]
fn reschedule() {
    // SAFETY: the counter is this thread's.
    with_count(|count| unsafe { *count = NOBODY_WAITS });
    rustix::thread::sched_yield();
}
