//! Platforms on a host operating system, for tests, benchmarks and the laboratory (feature `host`).
//!
//! [`Threads`] runs the engine on threads; each thread selects the CPU that it represents. [`Solo`] runs any number of
//! CPUs in turn on one thread; the caller selects the next CPU.

extern crate std;

use core::cell::Cell;

use super::{NoProbe, Patience, Platform, Probe, SlabReport, Task};
use crate::base::CpuId;
use crate::base::lock::{Rank, RawLock, SoloLock, SpinLock};

std::thread_local! {
    static CPU: Cell<u16> = const { Cell::new(0) };
    /// Ranks held by this thread, one bit per rank; debug builds only.
    static HELD: Cell<u8> = const { Cell::new(0) };
}

/// Platform of real threads, with spin locks whose ranks are checked in debug builds.
#[derive(Debug, Default)]
pub struct Threads<P = NoProbe> {
    probe: P,
}

impl<P: Probe> Threads<P> {
    /// Creates the platform with a probe.
    pub fn new(probe: P) -> Threads<P> {
        Threads { probe }
    }
}

/// Makes the calling thread represent this CPU on every [`Threads`] platform. If a machine has no such CPU, the next
/// call of the thread to it panics; [`Config::cpu_nodes`](crate::page::Config::cpu_nodes) lists the CPUs.
pub fn run_on_cpu(cpu: CpuId) {
    CPU.set(cpu.0);
}

/// Returns the CPU that the calling thread represents.
#[inline]
pub fn current_cpu() -> CpuId {
    CpuId(CPU.get())
}

impl<P: Probe> Platform for Threads<P> {
    type Lock = CheckedSpinLock;
    type Probe = P;

    #[inline]
    fn probe(&self) -> &P {
        &self.probe
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        current_cpu()
    }

    fn migrates(&self) -> bool {
        false
    }

    fn slab_error(&self, report: &SlabReport<'_>) {
        std::eprint!("{report}");
    }

    fn relax(&self) -> Patience {
        std::thread::yield_now();
        Patience::GiveUp
    }
}

/// A spin lock that panics in debug builds if it is taken against the order of ranks.
#[derive(Debug, Default)]
pub struct CheckedSpinLock(SpinLock);

// SAFETY: `SpinLock` provides the mutual exclusion, and the checks around it can only panic.
unsafe impl RawLock for CheckedSpinLock {
    fn new() -> CheckedSpinLock {
        CheckedSpinLock(SpinLock::new())
    }

    #[inline]
    fn lock(&self, rank: Rank) {
        if cfg!(debug_assertions) {
            let held = HELD.get();
            assert!(held >> rank as u8 == 0, "a lock of rank {rank:?} was awaited while ranks {held:#b} were held");
        }
        self.0.lock(rank);
        note(rank, true);
    }

    #[inline]
    fn try_lock(&self, rank: Rank) -> bool {
        let taken = self.0.try_lock(rank);
        if taken {
            note(rank, true);
        }
        taken
    }

    #[inline]
    unsafe fn unlock(&self, rank: Rank) {
        note(rank, false);
        // SAFETY: the caller holds the lock, by this function's own contract.
        unsafe { self.0.unlock(rank) }
    }
}

#[inline]
fn note(rank: Rank, held: bool) {
    if cfg!(debug_assertions) {
        let bit = 1 << rank as u8;
        HELD.set(if held { HELD.get() | bit } else { HELD.get() & !bit });
    }
}

/// Platform of any number of CPUs on one thread, without real locks.
#[derive(Debug, Default)]
pub struct Solo<P = NoProbe> {
    cpu: Cell<u16>,
    task: Cell<Task>,
    probe: P,
}

impl<P: Probe> Solo<P> {
    /// Creates the platform with a probe. The current CPU is CPU 0.
    pub fn new(probe: P) -> Solo<P> {
        Solo { cpu: Cell::new(0), task: Cell::new(Task::default()), probe }
    }

    /// Makes later calls run on this CPU.
    pub fn run_on(&self, cpu: CpuId) {
        self.cpu.set(cpu.0);
    }

    /// Makes later calls run as this task.
    pub fn run_as(&self, task: Task) {
        self.task.set(task);
    }
}

impl<P: Probe> Platform for Solo<P> {
    type Lock = SoloLock;
    type Probe = P;

    #[inline]
    fn probe(&self) -> &P {
        &self.probe
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(self.cpu.get())
    }

    #[inline]
    fn task(&self) -> Task {
        self.task.get()
    }

    fn slab_error(&self, report: &SlabReport<'_>) {
        std::eprint!("{report}");
    }

    fn migrates(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcp_lock_nests_outside_zone_lock() {
        let (list, zone) = (CheckedSpinLock::new(), CheckedSpinLock::new());
        list.lock(Rank::Pcp);
        zone.lock(Rank::Zone);
        assert!(!list.try_lock(Rank::Pcp), "the lock is held, and `try_lock` does not wait");
        // SAFETY: this thread took both locks above and has not released them.
        unsafe {
            zone.unlock(Rank::Zone);
            list.unlock(Rank::Pcp);
        }
        assert!(list.try_lock(Rank::Pcp));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "was awaited while")]
    fn pcp_lock_under_a_zone_lock_panics() {
        let (list, zone) = (CheckedSpinLock::new(), CheckedSpinLock::new());
        zone.lock(Rank::Zone);
        list.lock(Rank::Pcp);
    }
}
