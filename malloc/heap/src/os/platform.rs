//! The engine's door outward, in a process: its locks, and a CPU's number.

use core::fmt::{self, Write};
use core::mem::ManuallyDrop;

use freehold::base::CpuId;
use freehold::platform::{NoProbe, Patience, Platform, SlabReport};
use freehold::slab::cpu::CpuLocal;
use freehold::slab::cpu::locked::{CpuLocks, CurrentCpu};
use rustix::io::Errno;
use rustix::thread::sched_yield;

pub use super::lock::YieldingLock;
use super::mmap::Reservation;
use super::rseq::Rseq;

/// The primitive by locks, on the CPUs of this process.
pub type LockedCpus = CpuLocks<'static, YieldingLock, CurrentCpuOfProcess>;

/// The CPU that a thread runs on, by the kernel.
#[derive(Clone, Copy, Debug)]
pub enum CurrentCpuOfProcess {
    /// As the kernel tells each thread all the time: two instructions.
    Rseq(Rseq),
    /// As the kernel answers when asked, without a system call where it can.
    System,
}

impl CurrentCpuOfProcess {
    /// The cheapest way to ask for the CPU that this process has.
    pub fn find() -> CurrentCpuOfProcess {
        Rseq::find().map_or(CurrentCpuOfProcess::System, CurrentCpuOfProcess::Rseq)
    }
}

impl CurrentCpu for CurrentCpuOfProcess {
    #[inline]
    fn cpu(&self) -> CpuId {
        match self {
            CurrentCpuOfProcess::Rseq(rseq) => rseq.cpu(),
            // SAFETY: asks for a number; where it cannot be had, which no kernel of today does, any CPU is right.
            CurrentCpuOfProcess::System => CpuId(unsafe { libc::sched_getcpu() }.max(0) as u16),
        }
    }
}

/// Sections under a lock for each of these CPUs. The locks stay for ever, in an address range of their own.
///
/// # Errors
/// If the address space has no room for them.
pub fn lock_cpus(cpus: u16, current: CurrentCpuOfProcess) -> Result<LockedCpus, Errno> {
    let count = usize::from(cpus);
    let range = ManuallyDrop::new(Reservation::new(count * size_of::<YieldingLock>(), align_of::<YieldingLock>())?);
    let start = range.start().cast::<YieldingLock>();
    // SAFETY: so many bytes are mapped, aligned, nobody else's, and never unmapped; zeros are locks that are open.
    let locks = unsafe { core::slice::from_raw_parts(start.as_ptr(), count) };
    Ok(CpuLocks::new(locks, current))
}

/// This process as the engine's platform.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    current: CurrentCpuOfProcess,
}

impl Process {
    /// The process with this way to know the CPU.
    pub fn new(current: CurrentCpuOfProcess) -> Process {
        Process { current }
    }
}

impl Platform for Process {
    type Lock = YieldingLock;
    type Probe = NoProbe;

    #[inline]
    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        self.current.cpu()
    }

    /// Never: an object's owner has its address.
    fn migrates(&self) -> bool {
        false
    }

    /// To standard error, in pieces as they come: a malloc cannot ask for memory to say what is wrong with it.
    fn slab_error(&self, report: &SlabReport<'_>) {
        let _written = writeln!(StandardError, "{report}");
    }

    fn relax(&self) -> Patience {
        sched_yield();
        Patience::GiveUp
    }
}

/// A file that is open in this process, by its number: without a buffer or a lock.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor(pub i32);

impl Write for Descriptor {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            // SAFETY: reads so many bytes that are there.
            let written = unsafe { libc::write(self.0, rest.as_ptr().cast(), rest.len()) };
            rest = usize::try_from(written)
                .ok()
                .filter(|&bytes| bytes > 0)
                .and_then(|bytes| rest.get(bytes..))
                .ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

/// Standard error, as it is at the moment.
#[derive(Clone, Copy, Debug)]
pub struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Descriptor(libc::STDERR_FILENO).write_str(text)
    }
}
