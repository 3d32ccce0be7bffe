//! Platforms on a host operating system, for tests, benches and the laboratory (feature `host`).
//!
//! [`Threads`] runs the engine on real threads: each thread says once which CPU it stands for.
//! [`Solo`] runs any number of CPUs on one thread, one after the other: the caller says which CPU is next.

extern crate std;

use core::cell::Cell;

use super::{NoProbe, Patience, Platform, Probe, SlabReport, Task};
use crate::base::CpuId;
use crate::base::lock::{Rank, RawLock, SoloLock, SpinLock};

std::thread_local! {
    static CPU: Cell<u16> = const { Cell::new(0) };
    /// Ranks held by this thread, one bit each; kept in debug builds only.
    static HELD: Cell<u8> = const { Cell::new(0) };
}

/// Real threads, spin locks, ranks checked in debug builds.
#[derive(Debug, Default)]
pub struct Threads<P = NoProbe> {
    probe: P,
}

impl<P: Probe> Threads<P> {
    /// Threads whose events go to this probe.
    pub fn new(probe: P) -> Threads<P> {
        Threads { probe }
    }
}

/// Makes the calling thread stand for this CPU, on every [`Threads`] platform. A machine without that CPU panics when
/// the thread calls it: [`Config::cpu_nodes`](crate::page::Config::cpu_nodes) says which there are.
pub fn run_on_cpu(cpu: CpuId) {
    CPU.set(cpu.0);
}

/// The CPU that the calling thread stands for.
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

/// A spin lock that, in debug builds, refuses to be taken against the order of ranks.
#[derive(Debug, Default)]
pub struct CheckedSpinLock(SpinLock);

// SAFETY: exclusion is `SpinLock`'s; the checks around it only panic.
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

/// Any number of CPUs on one thread, without locks.
#[derive(Debug, Default)]
pub struct Solo<P = NoProbe> {
    cpu: Cell<u16>,
    task: Cell<Task>,
    probe: P,
}

impl<P: Probe> Solo<P> {
    /// CPUs with this listener, starting on CPU 0.
    pub fn new(probe: P) -> Solo<P> {
        Solo { cpu: Cell::new(0), task: Cell::new(Task::default()), probe }
    }

    /// What comes next runs on this CPU.
    pub fn run_on(&self, cpu: CpuId) {
        self.cpu.set(cpu.0);
    }

    /// What comes next is asked by a task like this.
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
    fn locks_nest_from_lists_to_zones() {
        let (list, zone) = (CheckedSpinLock::new(), CheckedSpinLock::new());
        list.lock(Rank::Pcp);
        zone.lock(Rank::Zone);
        assert!(!list.try_lock(Rank::Pcp), "it is held, and a try does not wait");
        // SAFETY: both were taken above, by this thread.
        unsafe {
            zone.unlock(Rank::Zone);
            list.unlock(Rank::Pcp);
        }
        assert!(list.try_lock(Rank::Pcp));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "was awaited while")]
    fn a_list_is_not_awaited_under_a_zone() {
        let (list, zone) = (CheckedSpinLock::new(), CheckedSpinLock::new());
        zone.lock(Rank::Zone);
        list.lock(Rank::Pcp);
    }
}
