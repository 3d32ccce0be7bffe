//! The CPUs of this machine, and staying on one.

use freehold::base::CpuId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs that this process may run on.
pub(crate) fn cpus() -> Vec<CpuId> {
    let allowed = sched_getaffinity(None).expect("Linux tells a thread its affinity");
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| CpuId(cpu as u16)).collect()
}

/// Has the calling thread run on one CPU, and no other. It does when this returns.
pub(crate) fn run_on(cpu: CpuId) {
    let mut only = CpuSet::new();
    only.set(cpu.index());
    sched_setaffinity(None, &only).expect("the CPU is one of those that we were given");
}
