//! The engine's platform inside a process: locks, and the number of the current CPU.

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

/// The CPU-local primitive implemented by one lock per CPU, for the CPUs of this process.
pub type LockedCpus = CpuLocks<'static, YieldingLock, CurrentCpuOfProcess>;

/// Source of the number of the CPU that a thread runs on.
#[derive(Clone, Copy, Debug)]
pub enum CurrentCpuOfProcess {
    /// The number that the kernel keeps in each thread's rseq area. Reading it takes two instructions.
    Rseq(Rseq),
    /// `sched_getcpu`, which avoids a system call where the kernel's vDSO allows.
    System,
}

impl CurrentCpuOfProcess {
    /// Returns the cheapest source that this process has.
    pub fn find() -> CurrentCpuOfProcess {
        Rseq::find().map_or(CurrentCpuOfProcess::System, CurrentCpuOfProcess::Rseq)
    }
}

impl CurrentCpu for CurrentCpuOfProcess {
    #[inline]
    fn cpu(&self) -> CpuId {
        match self {
            CurrentCpuOfProcess::Rseq(rseq) => rseq.cpu(),
            // SAFETY: `sched_getcpu` takes no pointer and returns a number. If it fails, which no current kernel does,
            // any CPU is correct.
            CurrentCpuOfProcess::System => CpuId(unsafe { libc::sched_getcpu() }.max(0) as u16),
        }
    }
}

/// Returns the primitive by locks for CPUs 0 to `cpus` - 1. The locks are never freed; they are in an address range of
/// their own.
///
/// # Errors
/// If the address space has no room for the locks.
pub fn lock_cpus(cpus: u16, current: CurrentCpuOfProcess) -> Result<LockedCpus, Errno> {
    let count = usize::from(cpus);
    let range = ManuallyDrop::new(Reservation::new(count * size_of::<YieldingLock>(), align_of::<YieldingLock>())?);
    let start = range.start().cast::<YieldingLock>();
    // SAFETY: the range has `count` locks' bytes, aligned for them. It is never unmapped, only this function has it,
    // and a lock of zeros is unlocked.
    let locks = unsafe { core::slice::from_raw_parts(start.as_ptr(), count) };
    Ok(CpuLocks::new(locks, current))
}

/// The engine's [`Platform`] for a process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    current: CurrentCpuOfProcess,
}

impl Process {
    /// Creates the platform with this source of CPU numbers.
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

    /// Returns `false`: pages of a process cannot be migrated, because their owners hold addresses.
    fn migrates(&self) -> bool {
        false
    }

    /// Writes the report to standard error piece by piece, without a buffer: a malloc that reports its own damage
    /// cannot allocate.
    fn slab_error(&self, report: &SlabReport<'_>) {
        let _written = writeln!(StandardError, "{report}");
    }

    fn relax(&self) -> Patience {
        sched_yield();
        Patience::GiveUp
    }
}

/// An open file descriptor of this process, written without a buffer and without a lock.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor(pub i32);

impl Write for Descriptor {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            // SAFETY: the pointer and the length are those of the live slice `rest`.
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

/// The process's standard error: descriptor 2, whatever file that is at the time of a write.
#[derive(Clone, Copy, Debug)]
pub struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Descriptor(libc::STDERR_FILENO).write_str(text)
    }
}
