//! The ways to execute a guest's instructions.
//!
//! # Design
//!
//! CPUs of a guest that have a thread each run by the host's clock. The duration of a workload then depends on the load
//! of the host. In one thread, with a clock that counts instructions, a run repeats far better, and a patched
//! instruction is never executed half-patched. Such a guest keeps one CPU of the host busy, so as many of them run at
//! once as the host has CPUs. A run does not repeat bit by bit, because the answers of disks take varying times. KVM is
//! used if a kernel, booted under it without a root file system, reaches the point at which it misses that file system
//! (`kvm`).

use std::thread;

/// Way to execute a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor, through KVM.
    Kvm,
    /// QEMU, with all CPUs of the guest in turn on one thread. The guest's clock counts instructions, so times repeat
    /// within a few percent even if the host is busy.
    Emulation,
    /// QEMU, with a thread for each CPU of the guest and the host's clock. Faster on hosts with spare CPUs.
    /// Occasionally a CPU still executes an instruction that the kernel has already patched, and the kernel dies of it.
    Threads,
}

impl Accelerator {
    /// Returns QEMU's options.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Accelerator::Kvm => &["-accel", "kvm"],
            // Eight nanoseconds per instruction; the clock of an idle guest skips ahead instead of following the host's
            // clock.
            Accelerator::Emulation => {
                &["-accel", "tcg,thread=single", "-icount", "shift=3,sleep=off", "-rtc", "clock=vm"]
            }
            Accelerator::Threads => &["-accel", "tcg,thread=multi"],
        }
    }

    /// Returns the number of guests with this number of CPUs that can run at once without waiting for CPUs of this
    /// machine.
    pub fn guests_at_once(self, cpus: u16) -> usize {
        let busy = if self == Accelerator::Emulation { 1 } else { usize::from(cpus.max(1)) };
        (thread::available_parallelism().map_or(1, usize::from) / busy).max(1)
    }
}
