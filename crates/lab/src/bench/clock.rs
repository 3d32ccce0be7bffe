//! The clock of all measurements, and the CPU on which they are made.
//!
//! The clock counts what this thread ran (`CLOCK_THREAD_CPUTIME_ID`), so other programs do not count, though they
//! still disturb the caches. A thread that wandered between CPUs would measure the wandering; so it is pinned.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::subject::Sample;
use crate::error::Error;

/// How reports name the clock.
pub const NAME: &str = "CPU time of the thread (CLOCK_THREAD_CPUTIME_ID)";

/// Nanoseconds that this thread has run.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock counts up from zero; neither part is ever negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Times `work`, which does so many operations.
#[inline]
pub fn time(operations: u64, work: impl FnOnce()) -> Sample {
    let start = now();
    work();
    Sample { nanoseconds: now() - start, operations }
}

/// Pins the calling thread to `cpu`, or without one to the last CPU that it may use: the first one serves most
/// interrupts. Returns the CPU.
///
/// # Errors
/// When this process may not run there.
pub fn pin(cpu: Option<u16>) -> Result<u16, Error> {
    let refused = |reason: String| Error::Input(format!("cannot pin the measurements to a CPU: {reason}"));
    let allowed = sched_getaffinity(None).map_err(|error| refused(format!("{error}; try without a sandbox")))?;
    let usable: Vec<u16> = (0..CpuSet::MAX_CPU as u16).filter(|&cpu| allowed.is_set(usize::from(cpu))).collect();
    let wanted = cpu.or(usable.last().copied()).filter(|cpu| usable.contains(cpu)).ok_or_else(|| {
        let wanted = cpu.map_or_else(String::new, |cpu| format!(" {cpu}"));
        Error::Input(format!("cannot pin to CPU{wanted}; this process may use {} (give one with --cpu)", list(&usable)))
    })?;
    let mut only = CpuSet::new();
    only.set(usize::from(wanted));
    sched_setaffinity(None, &only).map_err(|error| refused(format!("{error}; choose another with --cpu")))?;
    Ok(wanted)
}

/// CPUs as text, runs of them shortened: `0-3, 8`.
fn list(cpus: &[u16]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        only => only.iter().map(u16::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_short() {
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
        let error = pin(Some(CpuSet::MAX_CPU as u16 - 1)).unwrap_err().to_string();
        assert!(error.starts_with("cannot pin to CPU 1023; this process may use "), "{error}");
    }
}
