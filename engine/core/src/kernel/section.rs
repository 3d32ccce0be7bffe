//! Sections of a kernel, implemented by disabling interrupts so that nothing else runs on the CPU. Works on every
//! processor.

use core::marker::PhantomData;

use super::Cpu;
use super::calls::this_cpu;
use super::lock::irq_save;
use crate::base::CpuId;
use crate::slab::cpu::FenceOutcome;
use crate::slab::cpu::section::Sections;

/// CPU-local sections that disable interrupts.
#[doc(hidden)]
pub struct IrqsOff<H>(PhantomData<fn() -> H>);

impl<H> IrqsOff<H> {
    pub(super) const fn new() -> IrqsOff<H> {
        IrqsOff(PhantomData)
    }
}

// SAFETY: with interrupts off nothing else runs on the CPU, so no other section does. A CPU answers a call only outside
// of sections, by a store with Release that the waiting CPU loads with Acquire. The answering CPU has loaded the call
// itself with Acquire, before all its later sections. A CPU that never took a lock of the allocator has an empty slot,
// so a section on it finds no object.
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

/// A section in progress; restores the interrupt state when dropped. It cannot be sent to another CPU.
#[doc(hidden)]
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
