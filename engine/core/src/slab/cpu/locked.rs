//! A lock for each CPU: sections anywhere, without help from a kernel. Under valgrind, under a tracer, on other
//! systems.
//!
//! The caller may be moved between asking for its CPU and taking that CPU's lock: then it has another CPU's lock, and
//! the section runs as if on that one. That is as good, since a section is bound to the lock it holds.

use super::FenceOutcome;
use super::section::Sections;
use crate::base::CpuId;
use crate::base::lock::{Rank, RawLock};

/// The CPU on which the caller runs.
pub trait CurrentCpu {
    /// The CPU that runs the caller, below the number of locks.
    fn cpu(&self) -> CpuId;
}

/// CPU-local sections by one lock for each CPU; they work on every platform.
#[derive(Debug)]
pub struct CpuLocks<'m, L, C> {
    locks: &'m [L],
    current: C,
}

impl<'m, L: RawLock, C: CurrentCpu> CpuLocks<'m, L, C> {
    /// Sections under one of these locks each.
    ///
    /// # Panics
    /// A section does, before it has changed anything, if its caller stands for a CPU without a lock.
    pub fn new(locks: &'m [L], current: C) -> CpuLocks<'m, L, C> {
        CpuLocks { locks, current }
    }

    #[inline]
    fn lock_of(&self, cpu: CpuId) -> &'m L {
        let lock = self.locks.get(cpu.index());
        lock.unwrap_or_else(|| {
            panic!("there is no lock for CPU {}: stand for one of the first {}", cpu.0, self.locks.len())
        })
    }
}

// SAFETY: a section holds its CPU's lock, which lets one through at a time and makes visible what the last one wrote;
// `fence` has the lock once, so the section that held it has ended.
unsafe impl<L: RawLock, C: CurrentCpu> Sections for CpuLocks<'_, L, C> {
    type Section<'a>
        = Section<'a, L>
    where
        Self: 'a;

    fn cpus(&self) -> u16 {
        self.locks.len().try_into().unwrap_or(u16::MAX)
    }

    fn cpu(&self) -> CpuId {
        self.current.cpu()
    }

    #[inline]
    fn enter(&self) -> (CpuId, Section<'_, L>) {
        let cpu = self.current.cpu();
        (cpu, Section::enter(self.lock_of(cpu)))
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        drop(Section::enter(self.lock_of(cpu)));
        FenceOutcome::Ended
    }
}

/// A section under way: opens the CPU's lock when dropped.
#[derive(Debug)]
pub struct Section<'a, L: RawLock>(&'a L);

impl<'a, L: RawLock> Section<'a, L> {
    #[inline]
    fn enter(lock: &'a L) -> Section<'a, L> {
        lock.lock(Rank::Section);
        Section(lock)
    }
}

impl<L: RawLock> Drop for Section<'_, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `enter` took it, and nobody else opens it.
        unsafe { self.0.unlock(Rank::Section) }
    }
}
