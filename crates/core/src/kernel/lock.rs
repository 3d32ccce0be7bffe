//! The kernel's lock: interrupts off, and calls answered while it waits.
//!
//! A CPU that waits has its interrupts off, and the holder may be waiting for this CPU to take notice of a call
//! ([`calls`](super::calls)). So the loop answers; a lock whose loop does not is the classic way for two CPUs to stand
//! still. Interrupts go back to what they were when the last lock that the CPU holds is opened, in whatever order these
//! are.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Cpu;
use super::calls::{Part, this_cpu};
use crate::base::{CpuId, Rank, RawLock};

/// Nobody holds it.
const OPEN: u32 = 0;

/// A spin lock for a kernel: four bytes, not fair. linux: spin_lock_irqsave
#[derive(Debug)]
pub struct SpinLock<H> {
    /// The holder's number, and one.
    holder: AtomicU32,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> SpinLock<H> {
    #[inline(always)]
    fn take(&self, cpu: CpuId) -> bool {
        self.holder.compare_exchange(OPEN, mark(cpu), Acquire, Relaxed).is_ok()
    }

    /// Waits until it is open, and answers calls.
    #[cold]
    fn wait(&self, cpu: CpuId, part: &Part) {
        loop {
            let holder = self.holder.load(Relaxed);
            if holder == OPEN {
                return;
            }
            assert!(
                holder != mark(cpu),
                "CPU {} waits for a lock that it holds: an NMI or an interrupt that should have been off came in between",
                cpu.0
            );
            part.answer();
            H::wait();
        }
    }
}

fn mark(cpu: CpuId) -> u32 {
    u32::from(cpu.0) + 1
}

/// Interrupts off, in a debug build seen to be so; and the CPU whose they are.
#[inline(always)]
pub(super) fn irq_save<H: Cpu>() -> (usize, CpuId) {
    let flags = H::irq_save();
    debug_assert!(H::irqs_disabled(), "`Cpu::irq_save` has left interrupts on");
    (flags, this_cpu::<H>())
}

// SAFETY: the exchange with Acquire lets one CPU through until the store with Release. Interrupts are off for as long,
// so nothing else on that CPU gets there.
unsafe impl<H: Cpu> RawLock for SpinLock<H> {
    fn new() -> SpinLock<H> {
        SpinLock { holder: AtomicU32::new(OPEN), hardware: PhantomData }
    }

    #[inline]
    fn lock(&self, rank: Rank) {
        let (flags, cpu) = irq_save::<H>();
        let part = H::kernel().expect_part(cpu);
        part.expect_order(rank);
        while !self.take(cpu) {
            self.wait(cpu, part);
        }
        part.hold(rank, flags);
    }

    #[inline]
    fn try_lock(&self, rank: Rank) -> bool {
        let (flags, cpu) = irq_save::<H>();
        let is_taken = self.take(cpu);
        if is_taken {
            H::kernel().expect_part(cpu).hold(rank, flags);
        } else {
            H::irq_restore(flags);
        }
        is_taken
    }

    #[inline]
    unsafe fn unlock(&self, rank: Rank) {
        debug_assert!(H::irqs_disabled(), "interrupts are on under a lock of rank {rank:?}");
        let cpu = this_cpu::<H>();
        debug_assert_eq!(self.holder.load(Relaxed), mark(cpu), "a lock of rank {rank:?} is opened by who holds it");
        self.holder.store(OPEN, Release);
        if let Some(flags) = H::kernel().expect_part(cpu).leave(rank) {
            H::irq_restore(flags);
        }
    }
}
