//! What executes the guest's instructions.

use std::thread;

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor, through KVM.
    Kvm,
    /// QEMU, one CPU of the guest after the other in one thread. The guest's clock counts instructions: how long
    /// something takes repeats within some per cent, however busy the host is.
    Emulation,
    /// QEMU, each CPU of the guest in a thread of its own, by the host's clock. Faster where the host has CPUs to
    /// spare; and now and then a CPU still executes an instruction that the kernel has already patched, and the kernel
    /// dies of it.
    Threads,
}

impl Accelerator {
    /// Options of QEMU's.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Accelerator::Kvm => &["-accel", "kvm"],
            // Eight nanoseconds an instruction; a guest that waits does not wait for the host's clock.
            Accelerator::Emulation => {
                &["-accel", "tcg,thread=single", "-icount", "shift=3,sleep=off", "-rtc", "clock=vm"]
            }
            Accelerator::Threads => &["-accel", "tcg,thread=multi"],
        }
    }

    /// How many guests with so many CPUs run at once without waiting for CPUs of this machine.
    pub fn guests_at_once(self, cpus: u16) -> usize {
        let busy = if self == Accelerator::Emulation { 1 } else { usize::from(cpus.max(1)) };
        (thread::available_parallelism().map_or(1, usize::from) / busy).max(1)
    }
}
