//! CPUs of this machine, and the pinning of a thread to one CPU.

use freehold::base::CpuId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs on which this process may run.
pub(crate) fn cpus() -> Vec<CpuId> {
    let allowed = sched_getaffinity(None).expect("Linux reports the affinity of a thread");
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| CpuId(cpu as u16)).collect()
}

/// Pins the calling thread to one CPU. The thread runs there when the function returns.
pub(crate) fn run_on(cpu: CpuId) {
    let mut only = CpuSet::new();
    only.set(cpu.index());
    sched_setaffinity(None, &only).expect("the CPU must be in the affinity mask");
}
