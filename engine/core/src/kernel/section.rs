//! Sections of a kernel: interrupts are off, so nothing else runs on the CPU. It works on every processor.

use core::marker::PhantomData;

use super::Cpu;
use super::calls::this_cpu;
use super::lock::irq_save;
use crate::base::CpuId;
use crate::slab::cpu::FenceOutcome;
use crate::slab::cpu::section::Sections;

/// The CPU-local primitive by interrupts that are off.
pub struct IrqsOff<H>(PhantomData<fn() -> H>);

impl<H> IrqsOff<H> {
    pub(super) const fn new() -> IrqsOff<H> {
        IrqsOff(PhantomData)
    }
}

// SAFETY: with interrupts off nothing else runs on the CPU, so no other section does. A CPU answers a call outside of
// any section, by a store with Release that who waits has loaded with Acquire; and it has loaded the call itself with
// Acquire, before all later sections. One that never took a lock of the allocator's has found nothing to begin a
// section with.
unsafe impl<H: Cpu> Sections for IrqsOff<H> {
    type Section<'a> = Section<H>;

    fn cpus(&self) -> u16 {
        H::CPUS
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        this_cpu::<H>()
    }

    #[inline(always)]
    fn enter(&self) -> (CpuId, Section<H>) {
        let (flags, cpu) = irq_save::<H>();
        if cfg!(debug_assertions) {
            H::kernel().expect_part(cpu).enter_section();
        }
        (cpu, Section { flags, hardware: PhantomData })
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        H::kernel().fence(cpu)
    }

    fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        H::kernel().is_out_of_reach(cpu)
    }
}

/// A section under way: restores interrupts when dropped. It stays on its CPU.
pub struct Section<H: Cpu> {
    flags: usize,
    hardware: PhantomData<*mut H>,
}

impl<H: Cpu> Drop for Section<H> {
    #[inline(always)]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            assert!(H::irqs_disabled() != Some(false), "interrupts are on in a section");
            H::kernel().expect_part(this_cpu::<H>()).leave_section();
        }
        H::irq_restore(self.flags);
    }
}
