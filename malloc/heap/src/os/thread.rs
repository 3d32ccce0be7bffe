//! A few words of state for each thread, accessible without a call, without allocation, and from signal handlers.
//!
//! The words are in the thread's static TLS block. Their offset from the thread pointer is written once by the loader
//! (the "initial exec" model), so reading a word takes two instructions. The thread-local variables of compilers and
//! libraries may allocate when a thread first uses them, which a malloc cannot do. The words of a new thread are zero.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// State of one thread. Only the thread and its signal handlers use the words, so they are atomics with relaxed order.
#[repr(C)]
#[derive(Debug)]
pub struct Thread {
    /// Nesting depth of calls in the allocator's slow paths. It can exceed 1, because signal handlers nest.
    pub(crate) depth: AtomicU32,
    /// Nesting depth of regions that disable preemption; see `rseq::preempt`.
    pub(crate) preempt: AtomicU32,
    /// The CPU that the thread represents; see [`thread_local`](super::thread_local).
    pub(crate) stands_for: AtomicU16,
    /// Nonzero while the thread is about to fork and keeps the gate before the slow paths closed.
    pub(crate) holds_gate: AtomicU16,
    /// Nonzero while the thread's stack is taken for a profile. Its requests are not sampled meanwhile.
    pub(crate) takes_stack: AtomicU32,
    /// Bytes that the thread may request before the next sample; 0 if the distance has not been drawn yet.
    pub(crate) until_sample: AtomicU64,
    /// State of the thread's random number generator.
    pub(crate) random: AtomicU64,
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
core::arch::global_asm!(
    ".section .tbss.freehold_thread,\"awT\",@nobits",
    ".hidden freehold_thread",
    ".globl freehold_thread",
    ".type freehold_thread, @object",
    ".size freehold_thread, {size}",
    ".balign 8",
    "freehold_thread:",
    ".zero {size}",
    ".text",
    size = const size_of::<Thread>(),
);

/// Returns the words of the calling thread.
#[inline(always)]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn current() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: the loader has filled in the offset of `freehold_thread`, and the word at `fs:0` is the thread pointer.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + freehold_thread@GOTTPOFF]",
            at = out(reg) at,
            options(nostack, readonly, pure),
        );
        // SAFETY: the words are in this thread's TLS block, which exists as long as the thread runs; they begin as
        // zeros, and their fields are atomics.
        &*at
    }
}

/// Returns the words of the calling thread.
#[inline(always)]
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
pub fn current() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: the loader has filled in the offset of `freehold_thread` from the thread pointer in `tpidr_el0`.
    unsafe {
        core::arch::asm!(
            "mrs {at}, tpidr_el0",
            "adrp {distance}, :gottprel:freehold_thread",
            "ldr {distance}, [{distance}, :gottprel_lo12:freehold_thread]",
            "add {at}, {at}, {distance}",
            at = out(reg) at,
            distance = out(reg) _,
            options(nostack, readonly, pure),
        );
        // SAFETY: the words are in this thread's TLS block, which exists as long as the thread runs; they begin as
        // zeros, and their fields are atomics.
        &*at
    }
}

/// Returns the words of the calling thread, from a thread-local variable of the standard library.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn current() -> &'static Thread {
    extern crate std;
    std::thread_local! {
        static WORDS: Thread = const {
            Thread {
                depth: AtomicU32::new(0),
                preempt: AtomicU32::new(0),
                stands_for: AtomicU16::new(0),
                holds_gate: AtomicU16::new(0),
                takes_stack: AtomicU32::new(0),
                until_sample: AtomicU64::new(0),
                random: AtomicU64::new(0),
            }
        };
    }
    // SAFETY: the variable has no destructor and does not move as long as the thread runs, and the reference is used by
    // this thread only.
    WORDS.with(|words| unsafe { &*core::ptr::from_ref(words) })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn thread_state_is_per_thread() {
        current().depth.store(7, Relaxed);
        let (other, depth) =
            std::thread::spawn(|| (core::ptr::from_ref(current()).addr(), current().depth.load(Relaxed)))
                .join()
                .expect("the assembly reads two numbers");
        assert_ne!(other, core::ptr::from_ref(current()).addr());
        assert_eq!((depth, current().depth.swap(0, Relaxed)), (0, 7));
    }
}
