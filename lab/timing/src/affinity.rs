//! The CPUs that this process may use, and pinning of threads to one of them.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Error of a process that may not run on the requested CPU; the sentence states what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PinError(pub String);

/// Returns the CPUs that the calling thread may use, in ascending order: one CPU if the thread is pinned.
///
/// # Errors
/// When the system does not report them.
pub fn usable() -> Result<Vec<u16>, Errno> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU as u16).filter(|&cpu| allowed.is_set(usize::from(cpu))).collect())
}

/// Pins the calling thread, and the threads that it starts later, to one CPU.
///
/// # Errors
/// When this process may not run there.
pub fn pin(cpu: u16) -> Result<(), Errno> {
    let mut only = CpuSet::new();
    only.set(usize::from(cpu));
    sched_setaffinity(None, &only)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_may_use_one_cpu() {
        let last = *usable().unwrap().last().expect("this thread runs somewhere");
        pin(last).unwrap();
        assert_eq!(usable().unwrap(), [last]);
    }
}
