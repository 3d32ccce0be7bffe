//! The CPUs that this process may use, and threads that stay on one of them.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This process may not run where it was to be measured: a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PinError(pub String);

/// CPUs that the calling thread may use, in order. A thread that was pinned may use one.
///
/// # Errors
/// When the system does not say.
pub fn usable() -> Result<Vec<u16>, Errno> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU as u16).filter(|&cpu| allowed.is_set(usize::from(cpu))).collect())
}

/// Keeps the calling thread, and those that it starts, on one CPU.
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
    fn a_pinned_thread_may_use_one_cpu() {
        let last = *usable().unwrap().last().expect("this thread runs somewhere");
        pin(last).unwrap();
        assert_eq!(usable().unwrap(), [last]);
    }
}
