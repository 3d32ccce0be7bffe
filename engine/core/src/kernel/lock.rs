//! The kernel's lock: interrupts off, and calls answered while it waits.
//!
//! A CPU that waits has its interrupts off, and the holder may be waiting for this CPU to take notice of a call
//! ([`calls`](super::calls)). So the loop answers; a lock whose loop does not is the classic way for two CPUs to stand
//! still. Interrupts go back to what they were when the last lock that the CPU holds is opened, in whatever order these
//! are.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Cpu;
use super::calls::{Part, this_cpu};
use crate::base::{CpuId, Rank, RawLock};

/// A spin lock for a kernel: a word, not fair. linux: spin_lock_irqsave
pub struct SpinLock<H> {
    /// The part of the CPU that holds it, or null.
    holder: AtomicPtr<Part>,
    hardware: PhantomData<fn() -> H>,
}

impl<H> fmt::Debug for SpinLock<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").field("is_open", &self.holder.load(Relaxed).is_null()).finish()
    }
}

impl<H: Cpu> SpinLock<H> {
    #[inline(always)]
    fn take(&self, part: &'static Part) -> bool {
        self.holder.compare_exchange(null_mut(), from_ref(part).cast_mut(), Acquire, Relaxed).is_ok()
    }

    /// Waits until it is open, and answers calls.
    #[cold]
    fn wait(&self, cpu: CpuId, part: &Part) {
        loop {
            let holder = self.holder.load(Relaxed);
            if holder.is_null() {
                return;
            }
            assert!(
                !core::ptr::eq(holder, part),
                "CPU {} waits for a lock that it holds: an NMI or an interrupt that should have been off came in between",
                cpu.0
            );
            part.answer();
            H::wait();
        }
    }
}

/// Interrupts off, in a debug build seen to be so; and the CPU whose they are.
#[inline(always)]
pub(super) fn irq_save<H: Cpu>() -> (usize, CpuId) {
    let flags = H::irq_save();
    debug_assert!(H::irqs_disabled() != Some(false), "`Cpu::irq_save` has left interrupts on");
    (flags, this_cpu::<H>())
}

// SAFETY: the exchange with Acquire lets one CPU through until the store with Release. Interrupts are off for as long,
// so nothing else on that CPU gets there.
unsafe impl<H: Cpu> RawLock for SpinLock<H> {
    fn new() -> SpinLock<H> {
        SpinLock { holder: AtomicPtr::new(null_mut()), hardware: PhantomData }
    }

    /// In a function of its own, as Linux's are: what waits for a lock is no fast path.
    #[inline(never)]
    fn lock(&self, rank: Rank) {
        let (flags, cpu) = irq_save::<H>();
        let part = H::kernel().expect_part(cpu);
        part.expect_order(rank);
        while !self.take(part) {
            self.wait(cpu, part);
        }
        part.hold(rank, flags);
    }

    #[inline]
    fn try_lock(&self, rank: Rank) -> bool {
        let (flags, cpu) = irq_save::<H>();
        let part = H::kernel().expect_part(cpu);
        let is_taken = self.take(part);
        if is_taken {
            part.hold(rank, flags);
        } else {
            H::irq_restore(flags);
        }
        is_taken
    }

    #[inline]
    unsafe fn unlock(&self, rank: Rank) {
        debug_assert!(H::irqs_disabled() != Some(false), "interrupts are on under a lock of rank {rank:?}");
        // SAFETY: the caller holds it, so it is held; and a CPU's part is there for ever.
        let part = unsafe { &*self.holder.load(Relaxed) };
        debug_assert!(
            core::ptr::eq(part, H::kernel().expect_part(this_cpu::<H>())),
            "a lock of rank {rank:?} is opened by who holds it"
        );
        self.holder.store(null_mut(), Release);
        if let Some(flags) = part.leave(rank) {
            H::irq_restore(flags);
        }
    }
}
