//! What the allocator wants to know of the machine. This, and [`memory`](crate::memory), is all that a kernel writes.

use freehold::kernel::{Cpu, Kernel, Promises};
use freehold::platform::{Context, SlabReport, Task};

use crate::console::say;
use crate::{arch, interrupts, memory};

/// The machine that the kernel runs on.
pub struct Hardware;

// SAFETY: numbers are given to CPUs as they start, one each; interrupts are off between the two calls, in which the
// compiler moves no access to memory; calls are answered in their interrupt's handler.
unsafe impl Cpu for Hardware {
    const CPUS: u16 = arch::CPUS_MAX;

    fn kernel() -> &'static Kernel<Hardware> {
        &memory::KERNEL
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

impl Promises for Hardware {
    /// The heap asks for no reclaim in a handler.
    fn task() -> Task {
        let context = if interrupts::is_in_handler() { Context::Hardirq } else { Context::Task };
        Task { context, ..Task::default() }
    }

    fn slab_error(report: &SlabReport<'_>) {
        memory::REPORTS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        say!("  {}: {} {:#x}", report.cache, report.bug, report.address);
    }

    fn unanswered(cpu: freehold::base::CpuId) {
        panic!("CPU {} does not answer", cpu.0);
    }
}
