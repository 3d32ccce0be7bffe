//! The clock of all measurements, and the CPU on which they are made.
//!
//! The clock counts what this thread ran (`CLOCK_THREAD_CPUTIME_ID`), so other programs do not count, though they still
//! disturb the caches. A thread that wandered between CPUs would measure the wandering; so it is pinned. Reading the
//! clock takes time as well, half a microsecond on some machines, and that is taken off: it would make the slower of
//! two short pieces of work look better than it is.

use std::iter::Sum;
use std::ops::Add;
use std::sync::LazyLock;

use rustix::time::{ClockId, clock_gettime};

use crate::affinity::{self, PinError};
use freehold_stats::intervals::median;

/// One measurement: so much of the thread's CPU time for so many operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// CPU time in nanoseconds.
    pub nanoseconds: u64,
    /// What was done in it.
    pub operations: u64,
}

impl Sample {
    /// Returns the nanoseconds of one operation.
    pub fn per_operation(self) -> f64 {
        self.nanoseconds as f64 / self.operations as f64
    }
}

impl Add for Sample {
    type Output = Sample;

    fn add(self, other: Sample) -> Sample {
        Sample { nanoseconds: self.nanoseconds + other.nanoseconds, operations: self.operations + other.operations }
    }
}

impl Sum for Sample {
    fn sum<I: Iterator<Item = Sample>>(samples: I) -> Sample {
        samples.fold(Sample { nanoseconds: 0, operations: 0 }, Add::add)
    }
}

/// How reports name the clock.
pub const NAME: &str = "CPU time of the thread (CLOCK_THREAD_CPUTIME_ID)";

/// Nanoseconds that this thread has run.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock counts up from zero; neither part is ever negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// What the clock says of no work at all, in nanoseconds: the median of many readings.
static READING: LazyLock<u64> = LazyLock::new(|| {
    let mut readings: Vec<f64> = (0..READINGS).map(|_| elapsed(|| {}) as f64).collect();
    median(&mut readings) as u64
});

/// Readings behind that.
const READINGS: usize = 1001;

/// Times `work`, which does so many operations, without what the reading takes. Never nothing: a ratio needs two
/// numbers above zero.
pub fn time(operations: u64, work: impl FnOnce()) -> Sample {
    let reading = *READING;
    Sample { nanoseconds: elapsed(work).saturating_sub(reading).max(1), operations }
}

#[inline]
fn elapsed(work: impl FnOnce()) -> u64 {
    let start = now();
    work();
    now() - start
}

/// Where a measurement runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The CPU that the calling thread is pinned to.
    pub cpu: u16,
    /// Another CPU for a second thread, if this process may use one.
    pub partner: Option<u16>,
}

/// Pins the calling thread to `cpu`, or without one to the last CPU that it may use: the first one serves most
/// interrupts.
///
/// # Errors
/// When this process may not run there.
pub fn pin(cpu: Option<u16>) -> Result<Place, PinError> {
    let usable = affinity::usable()
        .map_err(|error| PinError(format!("cannot pin the measurements to a CPU: {error}; try without a sandbox")))?;
    let wanted = cpu.or(usable.last().copied()).filter(|cpu| usable.contains(cpu)).ok_or_else(|| {
        let number = cpu.map_or_else(String::new, |cpu| format!(" {cpu}"));
        PinError(format!("cannot pin to CPU{number}; this process may use {} (give one with --cpu)", list(&usable)))
    })?;
    affinity::pin(wanted).map_err(|error| {
        PinError(format!("cannot pin the measurements to a CPU: {error}; choose another with --cpu"))
    })?;
    Ok(Place { cpu: wanted, partner: usable.into_iter().rev().find(|&other| other != wanted) })
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
    fn no_work_never_takes_no_time_at_all() {
        let samples: u64 = (0..100).map(|_| time(1, || {}).nanoseconds).min().unwrap();
        assert!(samples >= 1);
    }

    #[test]
    fn lists_of_cpus_are_short() {
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
        let error = pin(Some(1023)).unwrap_err().to_string();
        assert!(error.starts_with("cannot pin to CPU 1023; this process may use "), "{error}");
    }
}
