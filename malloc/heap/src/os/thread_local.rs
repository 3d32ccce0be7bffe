//! Lists in thread-local storage: how fast lists could be if threads were CPUs. For benches only.
//!
//! Each thread says once which CPU it stands for, and no two say the same. Then there is nothing to keep out, and a
//! section is nothing. Nobody can wait for another thread's section either: a drain must know by other means that the
//! thread is at rest.

use core::sync::atomic::Ordering::Relaxed;

use freehold::base::CpuId;
use freehold::slab::cpu::FenceOutcome;
use freehold::slab::cpu::section::Sections;

use super::thread;

/// The primitive for threads that each stand for a CPU: sections exclude nobody.
#[derive(Clone, Copy, Debug)]
pub struct ThreadLocal {
    cpus: u16,
}

impl ThreadLocal {
    /// Sections of threads that stand for so many CPUs.
    ///
    /// # Safety
    /// Threads that use it have called [`stand_for`], each for one of these CPUs, its own; no signal uses it; and a
    /// caller that fences a CPU knows that the thread which stands for it is not in a section, with what it did
    /// visible.
    pub unsafe fn new(cpus: u16) -> ThreadLocal {
        ThreadLocal { cpus }
    }
}

/// Makes the calling thread stand for a CPU.
pub fn stand_for(cpu: CpuId) {
    thread::current().stands_for.store(cpu.0, Relaxed);
}

// SAFETY: only one thread stands for a CPU, and `new` demands the rest.
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
