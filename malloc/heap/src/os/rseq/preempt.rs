//! Cost of disabling preemption around two related words, reproduced in a process.
//!
//! A preemptible kernel increments a counter of the CPU before such a region and decrements it afterwards. If the
//! counter becomes zero while another task waits for the CPU, the kernel reschedules. The waiting task is recorded as a
//! clear bit in the word of the counter, so one test covers both conditions. A process uses a counter of the thread
//! instead, for which no task ever waits. linux: arch/x86/include/asm/preempt.h
//!
//! The bit for "no task waits" is set when a thread uses its counter for the first time, so that a thread's words can
//! start as zeros.

use super::arch;

/// Bit of the counter that is set while no task waits for the CPU.
const NOBODY_WAITS: u32 = 1 << 31;

/// Increments the thread's counter, as a kernel does to disable preemption.
#[inline(always)]
pub(super) fn disable() {
    // SAFETY: `with_count` passes the address of a counter that belongs to the calling thread.
    with_count(|count| unsafe { arch::raise(count) });
}

/// Decrements the thread's counter, and reschedules if it is zero and a task waits.
#[inline(always)]
pub(super) fn enable() {
    // SAFETY: `with_count` passes the address of a counter that belongs to the calling thread.
    with_count(|count| match unsafe { arch::lower(count) } {
        LowerOutcome::Held => {}
        LowerOutcome::Awaited => reschedule(),
    });
}

/// Calls `change` with the thread's counter. In a program the linker knows the counter's offset, as a kernel's linker
/// does.
#[cfg(feature = "std")]
#[inline(always)]
fn with_count(change: impl FnOnce(*mut u32)) {
    extern crate std;
    std::thread_local! {
        static COUNT: core::cell::Cell<u32> = const { core::cell::Cell::new(NOBODY_WAITS) };
    }
    COUNT.with(|count| change(count.as_ptr()));
}

/// Calls `change` with the thread's counter. In a library the counter is one of the words of
/// [`thread`](crate::os::thread).
#[cfg(not(feature = "std"))]
#[inline(always)]
fn with_count(change: impl FnOnce(*mut u32)) {
    change(crate::os::thread::current().preempt.as_ptr());
}

/// State of a counter after a decrement.
pub(super) enum LowerOutcome {
    /// The counter is not zero, or no task waits: the thread continues.
    Held,
    /// The counter is zero, and a task waits.
    Awaited,
}

/// Handles a counter that became zero with the bit clear. In a library this happens once for each thread, at its first
/// use, because the counter starts as zero.
#[cold]
#[inline(never)]
fn reschedule() {
    // SAFETY: `with_count` passes the address of a counter that belongs to the calling thread, and no other reference
    // to it exists.
    with_count(|count| unsafe { *count = NOBODY_WAITS });
    rustix::thread::sched_yield();
}
