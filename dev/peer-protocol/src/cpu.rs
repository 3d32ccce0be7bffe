//! Pinning of a thread to a CPU.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::quoted;

/// Reason for which a thread cannot run on a CPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// The word is not a number.
    #[error("`{0}` is not a CPU; give a number from 0 to one less than `nproc --all` prints")]
    Number(String),
    /// The process may not use the CPU.
    #[error("CPU {cpu} cannot be used: {reason}; use one that `taskset -cp $$` shows")]
    Refused {
        /// Number of the CPU.
        cpu: usize,
        /// Error of the system.
        reason: Errno,
    },
}

/// Parses the number of a CPU from a word of a request.
///
/// # Errors
/// Returns an error if the word is not a number.
pub fn parse_cpu(word: &str) -> Result<usize, CpuError> {
    word.parse().map_err(|_| CpuError::Number(quoted(word)))
}

/// Pins the calling thread to a CPU.
///
/// # Errors
/// Returns an error if this process may not run on the CPU.
pub fn pin(cpu: usize) -> Result<(), CpuError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(CpuError::Refused { cpu, reason: Errno::INVAL });
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|reason| CpuError::Refused { cpu, reason })
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn pin_restricts_the_thread_to_a_cpu() {
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).unwrap();
        pin(cpu).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        assert!(pin(1 << 20).unwrap_err().to_string().starts_with("CPU 1048576 cannot be used"));
    }
}
