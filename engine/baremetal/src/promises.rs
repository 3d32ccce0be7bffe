//! The kernel's callbacks for the allocator: the context of a request, and the output of reports.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use freehold::kernel::Promises;
use freehold::platform::{Context, SlabReport, Task};

use crate::console::say;
use crate::hardware::Hardware;
use crate::interrupts;

/// Number of reports about damaged or misused objects.
pub static REPORTS: AtomicU32 = AtomicU32::new(0);

impl Promises for Hardware {
    /// Returns the context, so that the heap does not reclaim in a handler.
    fn task() -> Task {
        let context = if interrupts::is_in_handler() { Context::Hardirq } else { Context::Task };
        Task { context, ..Task::default() }
    }

    fn slab_error(report: &SlabReport<'_>) {
        REPORTS.fetch_add(1, Relaxed);
        say!("  {}: {} {:#x}", report.cache, report.bug, report.address);
    }

    fn unanswered(cpu: freehold::base::CpuId) {
        panic!("CPU {} does not answer a call", cpu.0);
    }
}
