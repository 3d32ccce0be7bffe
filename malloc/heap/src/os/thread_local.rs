//! CPU-local lists in thread-local storage, for benchmarks only: their cost is a lower bound, as if each thread were a
//! CPU.
//!
//! Each thread chooses once the CPU that it represents, and no two threads choose the same one. No other thread can
//! then interfere, and entering a section needs no instruction. A fence cannot wait for another thread's section
//! either: the caller of a drain must know by other means that the thread is not in a section.

use core::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::slab::cpu::FenceOutcome;
use freehold::slab::cpu::section::Sections;

use super::thread;

/// The CPU-local primitive for threads that each represent a CPU. Sections exclude nothing.
#[derive(Clone, Copy, Debug)]
pub struct ThreadLocal {
    cpus: u16,
}

impl ThreadLocal {
    /// Returns the primitive for CPUs 0 to `cpus` - 1.
    ///
    /// # Safety
    /// - Each thread that uses the primitive has called [`stand_for`] with one of these CPUs, which no other thread
    ///   represents.
    /// - No signal handler uses the primitive.
    /// - A caller that fences a CPU knows that the thread which represents the CPU is not in a section, and sees that
    ///   thread's earlier stores.
    pub unsafe fn new(cpus: u16) -> ThreadLocal {
        ThreadLocal { cpus }
    }
}

/// Makes the calling thread represent a CPU.
pub fn stand_for(cpu: CpuId) {
    thread::current().stands_for.store(cpu.0, Relaxed);
}

// SAFETY: the caller of `new` promised that one thread alone represents a CPU, that no signal handler interrupts a
// section, and that a fenced CPU's thread is outside of sections.
unsafe impl Sections for ThreadLocal {
    type Section<'a> = ();

    fn cpus(&self) -> u16 {
        self.cpus
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(thread::current().stands_for.load(Relaxed))
    }

    #[inline(always)]
    fn enter(&self) -> (CpuId, ()) {
        (CpuId(thread::current().stands_for.load(Relaxed)), ())
    }

    fn fence(&self, _: CpuId) -> FenceOutcome {
        FenceOutcome::Ended
    }
}
