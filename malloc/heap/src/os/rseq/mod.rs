//! CPU-local lists as restartable sequences: sections that the kernel restarts if they are interrupted.
//!
//! Each thread shares a small *area* of memory with the kernel. The area holds the number of the CPU that runs the
//! thread and the address of a *descriptor*. A descriptor gives the start of a section, its length, and the address at
//! which the thread continues after an interruption. When the kernel preempts a thread, migrates it, or delivers a
//! signal to it, the kernel checks whether the thread is inside the section of its descriptor. If so, the thread
//! continues at the third address. Nothing of the section has taken effect then, because its only store that is visible
//! to other code is its last instruction. Without an interruption a section costs two instructions more: they *arm* it
//! by storing its descriptor.
//!
//! glibc registers the area of each thread since version 2.35, and [`Rseq::find`] gets its offset from glibc.
//! Registration can be switched off, and some environments, such as valgrind, do not support it. The malloc then uses
//! locks ([`CpuLocks`](freehold::slab::cpu::locked::CpuLocks)).
//!
//! Objects have user-space addresses, so the upper 16 bits of an address are clear.
//!
//! A child of `vfork` uses its parent's area without being registered. POSIX does not allow such a child to allocate.

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
#[path = "aarch64.rs"]
pub mod arch;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "unsupported.rs"]
pub mod arch;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "x86_64/mod.rs"]
pub mod arch;

mod find;
mod preempt;

use super::cpus::cpu_count;
use freehold::base::CpuId;
use freehold::slab::address::ObjectAddress;
use freehold::slab::bits::Bits;
use freehold::slab::cpu::{CpuLocal, Exchange, ExchangeOutcome, FenceOutcome, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;
use rustix::thread::{Cpuid, MembarrierCommand, membarrier, membarrier_cpu};

pub use find::Unavailable;

/// Offset in bytes of the CPU number in a thread's area. linux: include/uapi/linux/rseq.h
const CPU_OFFSET: usize = 4;
/// Offset in bytes of the descriptor's address in a thread's area.
const DESCRIPTOR_OFFSET: usize = 8;

/// Restartable sequences of this process. All values are equal.
#[derive(Clone, Copy, Debug)]
pub struct Rseq {
    /// Offset in bytes of a thread's area from the thread pointer.
    area: isize,
}

impl Rseq {
    /// Finds the area through the C library, and registers the process for the kernel's fence.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason; the caller should use locks then.
    pub fn find() -> Result<Rseq, Unavailable> {
        find::find().map(|area| Rseq { area })
    }

    /// Returns whether the kernel still executes fences. A program may have given up the system call, for example by a
    /// seccomp filter, since it began.
    pub fn can_fence(self) -> bool {
        // SAFETY: `from_raw` requires a number that the kernel accepts or rejects without harm; `membarrier` does so
        // for any number.
        let cpu = unsafe { Cpuid::from_raw(0) };
        membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_ok()
            || membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_ok()
    }

    /// Returns the offset in bytes of a thread's area from the thread pointer.
    #[inline(always)]
    pub fn area(self) -> isize {
        self.area
    }
}

// SAFETY: each operation is one section of `arch`, which is armed on each entry. The section reads the CPU first, and
// its last instruction is the only store that other code sees. The kernel restarts the section if anything else ran on
// that CPU. `fence` makes the kernel interrupt the CPU, if it runs a thread of this process, with a memory barrier
// before and after. `find` has checked that both mechanisms exist.
unsafe impl CpuLocal for Rseq {
    fn cpus(&self) -> u16 {
        cpu_count()
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        // SAFETY: `find` returned the offset of the area, which glibc registers for every thread.
        unsafe { arch::cpu(self.area) }
    }

    #[inline(always)]
    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots.
        unsafe { arch::pop(self.area, slots, links) }.map(ObjectAddress::new)
    }

    #[inline(always)]
    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots,
        // and `FreedObject` owns its object.
        unsafe { arch::push(self.area, slots, freed, links) }
    }

    #[inline(always)]
    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots,
        // and `FreedObject` owns its object.
        unsafe { arch::push_paired(self.area, slots, freed, links) }
    }

    #[inline(always)]
    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress> {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots.
        unsafe { arch::pop_sheaf(self.area, slots) }.map(ObjectAddress::new)
    }

    #[inline(always)]
    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots,
        // and the caller promises that it owns the object.
        unsafe { arch::push_sheaf(self.area, slots, object.get()) }
    }

    #[inline(always)]
    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)> {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots.
        unsafe { arch::pop_bits(self.area, slots) }
    }

    #[inline(always)]
    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
        // SAFETY: every thread has a registered area, as in `cpu`; `Slots::new` guarantees the contents of the slots,
        // and `FreedObject` owns its object.
        unsafe { arch::push_bits(self.area, slots, freed, bit.raw(), all.raw()) }
    }

    #[inline(always)]
    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
        // SAFETY: every thread has a registered area, as in `cpu`.
        unsafe { arch::replace_if(self.area, cpu, exchange) }
    }

    /// Fences the CPU by a system call. It takes a fraction of a microsecond if the CPU runs another process, and some
    /// microseconds if the CPU must be interrupted.
    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        fence(cpu)
    }

    #[inline(always)]
    fn preempt_disable(&self) {
        preempt::disable();
    }

    #[inline(always)]
    fn preempt_enable(&self) {
        preempt::enable();
    }
}

/// Attempts to fence a CPU, and to register for the fence, before the CPU counts as out of reach.
const ATTEMPTS: u32 = 8;

/// Makes the kernel restart the section that runs on a CPU, if any. A process registers once for this fence; some
/// kernels require that a forked child registers again. A filter may forbid the fence at any time, although
/// [`can_fence`](Rseq::can_fence) was true before. The objects on that CPU are then leaked.
fn fence(cpu: CpuId) -> FenceOutcome {
    // SAFETY: `from_raw` accepts any number here, because the kernel treats an unknown CPU as one that runs nothing.
    let target = unsafe { Cpuid::from_raw(cpu.0.into()) };
    for _ in 0..ATTEMPTS {
        if membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, target).is_ok() {
            return FenceOutcome::Ended;
        }
        let _registered = membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq);
    }
    FenceOutcome::Unanswered
}
