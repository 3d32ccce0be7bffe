//! The machine as the allocator's hardware interface, and the allocator itself, a static. Together with
//! [`promises`](crate::promises) and [`memory`](crate::memory), this is all that a kernel writes.

use freehold::kernel::{Cpu, Kernel};

use crate::arch;

/// The machine on which the kernel runs.
pub struct Hardware;

/// The kernel's allocator.
pub static KERNEL: Kernel<Hardware> = Kernel::new();

// SAFETY: each CPU gets a unique number when it starts. Interrupts are off between `irq_save` and `irq_restore`, and
// the compiler moves no memory access across either. Calls are answered in the handler of their interrupt.
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
