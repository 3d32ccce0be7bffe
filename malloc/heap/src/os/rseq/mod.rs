//! CPU-local lists as restartable sequences: sections that the kernel begins anew when something comes between.
//!
//! A thread shares a few words with the kernel, its *area*: which CPU runs it, and a *descriptor*, the address of three
//! numbers: where a section begins, how long it is, and where to go on if it was interrupted. Whenever the kernel takes
//! the CPU from a thread, moves it, or delivers a signal to it, it looks whether the thread is within the section of
//! its descriptor; if so, the thread goes on at the third address, and nothing of the section has happened, since its
//! last instruction is its only store that anybody sees. Without interruption a section costs two instructions: to
//! *arm* it is to store its descriptor.
//!
//! glibc registers each thread's area since 2.35 ([`Rseq::find`] asks it), unless it is told not to, or the kernel
//! cannot, as under valgrind. Then there are locks ([`CpuLocks`](freehold::slab::cpu::locked::CpuLocks)).
//!
//! Objects have addresses of user space: their upper 16 bits are clear.
//!
//! A child of `vfork` runs on its parent's area without being registered: as POSIX has it, it may not allocate.

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

/// Offset of the number of the CPU in a thread's area. linux: include/uapi/linux/rseq.h
const CPU_OFFSET: usize = 4;
/// Offset of the descriptor's address.
const DESCRIPTOR_OFFSET: usize = 8;

/// Restartable sequences of this process. One is as good as another.
#[derive(Clone, Copy, Debug)]
pub struct Rseq {
    /// From a thread's pointer to its area.
    area: isize,
}

impl Rseq {
    /// Asks the C library for them, and the kernel for a fence.
    ///
    /// # Errors
    /// [`Unavailable`]; then use locks.
    pub fn find() -> Result<Rseq, Unavailable> {
        find::find().map(|area| Rseq { area })
    }

    /// Whether the kernel still fences: a program may have given the system call up since it began.
    pub fn can_fence(self) -> bool {
        // SAFETY: a number that the kernel knows, or knows that it is none.
        let cpu = unsafe { Cpuid::from_raw(0) };
        membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_ok()
            || membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_ok()
    }

    /// From a thread's pointer to its area, in bytes.
    #[inline(always)]
    pub fn area(self) -> isize {
        self.area
    }
}

// SAFETY: each operation is one section of `arch`, armed whenever it is entered, in which the CPU is read first and the
// store that others see comes last; the kernel begins it anew if anything else ran on that CPU. `fence` has the kernel
// interrupt the CPU, if it runs a thread of this process, with a barrier on both sides. `find` has seen that both are
// there.
unsafe impl CpuLocal for Rseq {
    fn cpus(&self) -> u16 {
        cpu_count()
    }

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        // SAFETY: `find` has found the area, and all threads have one.
        unsafe { arch::cpu(self.area) }
    }

    #[inline(always)]
    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        // SAFETY: as in `cpu`; `Slots` says what the slots hold.
        unsafe { arch::pop(self.area, slots, links) }.map(ObjectAddress::new)
    }

    #[inline(always)]
    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        // SAFETY: as in `pop`; `FreedObject` owns its object.
        unsafe { arch::push(self.area, slots, freed, links) }
    }

    #[inline(always)]
    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        // SAFETY: the area is this thread's, as in `cpu`; `Slots` says what the slots hold, and `FreedObject` owns its
        // object.
        unsafe { arch::push_paired(self.area, slots, freed, links) }
    }

    #[inline(always)]
    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress> {
        // SAFETY: the area is this thread's, as in `cpu`; `Slots` says what the slots hold.
        unsafe { arch::pop_sheaf(self.area, slots) }.map(ObjectAddress::new)
    }

    #[inline(always)]
    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
        // SAFETY: as in `pop`, and the caller says that the object is its own.
        unsafe { arch::push_sheaf(self.area, slots, object.get()) }
    }

    #[inline(always)]
    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)> {
        // SAFETY: the area is this thread's, as in `cpu`; `Slots` says what the slots hold.
        unsafe { arch::pop_bits(self.area, slots) }
    }

    #[inline(always)]
    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
        // SAFETY: the area is this thread's, as in `cpu`; `Slots` says what the slots hold, and `FreedObject` owns its
        // object.
        unsafe { arch::push_bits(self.area, slots, freed, bit.raw(), all.raw()) }
    }

    #[inline(always)]
    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
        // SAFETY: `find` has found the area, and all threads have one.
        unsafe { arch::replace_if(self.area, cpu, exchange) }
    }

    /// A system call: a fraction of a microsecond if the CPU runs another process, some microseconds if it has to
    /// be interrupted.
    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        fence(cpu);
        FenceOutcome::Ended
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

/// Has the kernel restart what runs on a CPU. A process registers for that once, and a child of a process that did is
/// asked to do it again on some kernels.
fn fence(cpu: CpuId) {
    // SAFETY: a number that the kernel does not know is one of no CPU, of which it says that nothing runs there.
    let target = unsafe { Cpuid::from_raw(cpu.0.into()) };
    if membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, target).is_err() {
        let fenced = membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq)
            .and_then(|()| membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, target));
        fenced.expect("the kernel had this fence when the process began; report what took it away");
    }
}
