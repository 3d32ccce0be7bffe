//! Sections by a lock for each CPU. They need no help from a kernel, so they also work under valgrind, under a tracer
//! and on other systems.
//!
//! The caller may be moved to another CPU after it has read its CPU's number and before it takes that CPU's lock. The
//! section then runs on behalf of the CPU whose lock it holds. This is correct, since sections exclude each other by
//! the lock and not by the CPU.

use super::FenceOutcome;
use super::section::Sections;
use crate::base::CpuId;
use crate::base::lock::{Rank, RawLock};

/// Source of the number of the current CPU.
pub trait CurrentCpu {
    /// Returns the CPU that runs the caller, below the number of locks.
    fn cpu(&self) -> CpuId;
}

/// CPU-local sections by one lock for each CPU. They work on every platform.
#[derive(Debug)]
pub struct CpuLocks<'m, L, C> {
    locks: &'m [L],
    current: C,
}

impl<'m, L: RawLock, C: CurrentCpu> CpuLocks<'m, L, C> {
    /// Creates sections that run under one of these locks each.
    ///
    /// # Panics
    /// A section panics before it changes anything if the number of the current CPU is not below the number of locks.
    pub fn new(locks: &'m [L], current: C) -> CpuLocks<'m, L, C> {
        CpuLocks { locks, current }
    }

    #[inline]
    fn lock_of(&self, cpu: CpuId) -> &'m L {
        let lock = self.locks.get(cpu.index());
        lock.unwrap_or_else(|| {
            panic!("there is no lock for CPU {}; represent one of the first {} CPUs", cpu.0, self.locks.len())
        })
    }
}

// SAFETY: a section holds its CPU's lock, which admits one caller at a time and makes the writes of the former holder
// visible. `fence` acquires and releases the lock, so the section that held it before has ended.
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

/// Running section. Releases the CPU's lock when dropped.
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
        // SAFETY: `enter` took this lock for the section, and only this drop releases it.
        unsafe { self.0.unlock(Rank::Section) }
    }
}
