//! A few words of each thread: found without a call, without memory, and from a signal handler.
//!
//! They lie in the thread's static block, at a distance from its pointer that the loader writes down once ("initial
//! exec"): reading one is two instructions. What compilers and libraries offer for this may ask for memory when a
//! thread first comes by, which a malloc cannot. The words of a new thread are zero.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// The words. Only the thread and its signal handlers use them, which atomics without order express.
#[repr(C)]
#[derive(Debug)]
pub struct Thread {
    /// Calls of this thread that are within the allocator's slow paths, one in another: signal handlers nest.
    pub(crate) depth: AtomicU32,
    /// Times that it cannot be preempted, as a kernel counts: see `preempt`.
    pub(crate) preempt: AtomicU32,
    /// The CPU that it stands for: see [`thread_local`](super::thread_local).
    pub(crate) stands_for: AtomicU16,
    /// Whether it is about to fork, and holds the gate before slow paths closed.
    pub(crate) holds_gate: AtomicU16,
    /// Whether its stack is being taken for a profile: what it asks for meanwhile is not sampled.
    pub(crate) takes_stack: AtomicU32,
    /// Bytes that it asks for until one is sampled, or 0 if that was not drawn yet.
    pub(crate) until_sample: AtomicU64,
    /// What it draws from.
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

/// The words of the calling thread.
#[inline(always)]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn current() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: the loader has written the distance of the words; the first word at the thread's pointer is the pointer.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + freehold_thread@GOTTPOFF]",
            at = out(reg) at,
            options(nostack, readonly, pure),
        );
        // SAFETY: they are this thread's while it lives, zero at first, and used by this thread alone.
        &*at
    }
}

/// The words of the calling thread.
#[inline(always)]
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
pub fn current() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: the loader has written the distance of the words from the thread's pointer.
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
        // SAFETY: they are this thread's while it lives, zero at first, and used by this thread alone.
        &*at
    }
}

/// The words of the calling thread, as the standard library has them.
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
    // SAFETY: they stay where they are while the thread lives, and only it has the reference.
    WORDS.with(|words| unsafe { &*core::ptr::from_ref(words) })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        current().depth.store(7, Relaxed);
        let (other, depth) =
            std::thread::spawn(|| (core::ptr::from_ref(current()).addr(), current().depth.load(Relaxed)))
                .join()
                .expect("it reads two numbers");
        assert_ne!(other, core::ptr::from_ref(current()).addr());
        assert_eq!((depth, current().depth.swap(0, Relaxed)), (0, 7));
    }
}
