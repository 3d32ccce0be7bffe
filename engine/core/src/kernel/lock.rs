//! The kernel's spin lock, which disables interrupts and answers calls while it spins.
//!
//! A waiting CPU has its interrupts off, and the holder of the lock may be waiting for this CPU to answer a call
//! ([`calls`](super::calls)). A spin loop that does not answer would deadlock the two CPUs. The interrupt state is
//! restored when the CPU releases its last lock, so locks may be released in any order.
//!
//! # Design
//!
//! The interrupt state before the first lock is stored per CPU and not in the lock. Therefore the order in which locks
//! are released does not matter.
//!
//! A request that comes with interrupts off waits for no other CPU's sections, if [`Cpu::irqs_disabled`] reports that
//! they are off. The caller may hold a spin lock of the kernel, and the other CPU may be spinning on that lock without
//! answering. The request uses the free slabs of nodes and the CPUs' page lists, and fails if these do not suffice.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Cpu;
use super::calls::{Part, this_cpu};
use crate::base::{CpuId, Rank, RawLock};

/// Spin lock of a kernel: one word, not fair. linux: spin_lock_irqsave
pub struct SpinLock<H> {
    /// Part of the CPU that holds the lock; null if the lock is free.
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

    /// Spins until the lock is free, and answers calls meanwhile.
    #[cold]
    fn wait(&self, cpu: CpuId, part: &Part) {
        loop {
            let holder = self.holder.load(Relaxed);
            if holder.is_null() {
                return;
            }
            assert!(
                !core::ptr::eq(holder, part),
                "CPU {} already holds this lock: an NMI, or an interrupt that must be off, interrupted the holder",
                cpu.0
            );
            part.answer();
            H::wait();
        }
    }
}

/// Disables interrupts and returns the previous state with the running CPU. Debug builds verify that interrupts are
/// off.
#[inline(always)]
pub(super) fn irq_save<H: Cpu>() -> (usize, CpuId) {
    let flags = H::irq_save();
    debug_assert!(H::irqs_disabled() != Some(false), "`Cpu::irq_save` left interrupts on");
    (flags, this_cpu::<H>())
}

// SAFETY: the exchange with Acquire admits one CPU until the store with Release in `unlock`. Interrupts are off in
// between, so no other code on that CPU takes the lock.
unsafe impl<H: Cpu> RawLock for SpinLock<H> {
    fn new() -> SpinLock<H> {
        SpinLock { holder: AtomicPtr::new(null_mut()), hardware: PhantomData }
    }

    /// Not inlined, as in Linux: waiting for a lock is not a fast path.
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
        // SAFETY: the caller holds the lock, so `holder` is the part that `lock` or `try_lock` stored, and parts live
        // forever.
        let part = unsafe { &*self.holder.load(Relaxed) };
        debug_assert!(
            core::ptr::eq(part, H::kernel().expect_part(this_cpu::<H>())),
            "a lock of rank {rank:?} is released by a CPU that does not hold it"
        );
        self.holder.store(null_mut(), Release);
        if let Some(flags) = part.leave(rank) {
            H::irq_restore(flags);
        }
    }
}
