//! The machine as the allocator sees it, and the allocator itself, a static. With [`promises`](crate::promises) and
//! [`memory`](crate::memory), this is all that a kernel writes.

use freehold::kernel::{Cpu, Kernel};

use crate::arch;

/// The machine that the kernel runs on.
pub struct Hardware;

/// The kernel's allocator.
pub static KERNEL: Kernel<Hardware> = Kernel::new();

// SAFETY: numbers are given to CPUs as they start, one each; interrupts are off between the two calls, in which the
// compiler moves no access to memory; calls are answered in their interrupt's handler.
unsafe impl Cpu for Hardware {
    const CPUS: u16 = arch::CPUS_MAX;

    fn kernel() -> &'static Kernel<Hardware> {
        &KERNEL
    }

    fn id() -> u16 {
        arch::cpu()
    }

    fn irq_save() -> usize {
        arch::irq_save()
    }

    fn irq_restore(flags: usize) {
        arch::irq_restore(flags);
    }

    fn call(cpu: u16) {
        arch::call(cpu);
    }

    fn irqs_disabled() -> Option<bool> {
        Some(arch::irqs_disabled())
    }
}
