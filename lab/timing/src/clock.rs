//! The clock of all measurements, and the choice of their CPU.
//!
//! The clock counts the CPU time of this thread (`CLOCK_THREAD_CPUTIME_ID`), so the time of other programs is not
//! included, though they still disturb the caches. A migration of the thread between CPUs would be measured too, so the
//! thread is pinned. Reading the clock takes time as well, half a microsecond on some machines. That time is
//! subtracted: otherwise the slower of two short pieces of work would look better than it is.

use std::iter::Sum;
use std::ops::Add;
use std::sync::LazyLock;

use rustix::time::{ClockId, clock_gettime};

use crate::affinity::{self, PinError};
use freehold_stats::intervals::median;

/// Result of one measurement: CPU time of the thread, and the operations done in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// CPU time in nanoseconds.
    pub nanoseconds: u64,
    /// Number of operations in that time.
    pub operations: u64,
}

impl Sample {
    /// Returns the nanoseconds per operation.
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

/// Name of the clock in reports.
pub const NAME: &str = "CPU time of the thread (CLOCK_THREAD_CPUTIME_ID)";

/// Returns the CPU time of this thread in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock counts up from zero, so neither part is negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Time between two readings of the clock without work, in nanoseconds: the median of many measurements.
static READING: LazyLock<u64> = LazyLock::new(|| {
    let mut readings: Vec<f64> = (0..READINGS).map(|_| elapsed(|| {}) as f64).collect();
    median(&mut readings) as u64
});

/// Number of these measurements.
const READINGS: usize = 1001;

/// Times `work`, which does `operations` operations, and subtracts the time of reading the clock. Returns at least one
/// nanosecond, because ratios need numbers above zero.
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

/// CPUs of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// CPU that the calling thread is pinned to.
    pub cpu: u16,
    /// Another CPU for a second thread, if this process may use one.
    pub partner: Option<u16>,
}

/// Pins the calling thread to `cpu`; without `cpu`, to the last CPU that it may use, because the first CPU serves most
/// interrupts.
///
/// # Errors
/// When this process may not run there.
pub fn pin(cpu: Option<u16>) -> Result<Place, PinError> {
    let usable = affinity::usable()
        .map_err(|error| PinError(format!("cannot pin the measurements to a CPU: {error}; try without a sandbox")))?;
    let wanted = cpu.or(usable.last().copied()).filter(|cpu| usable.contains(cpu)).ok_or_else(|| {
        let number = cpu.map_or_else(String::new, |cpu| format!(" {cpu}"));
        PinError(format!(
            "cannot pin to CPU{number}; this process may use {}; give one of these with --cpu",
            list(&usable)
        ))
    })?;
    affinity::pin(wanted).map_err(|error| {
        PinError(format!("cannot pin the measurements to a CPU: {error}; choose another with --cpu"))
    })?;
    Ok(Place { cpu: wanted, partner: usable.into_iter().rev().find(|&other| other != wanted) })
}

/// Formats CPUs as text, with ranges shortened: `0-3, 8`.
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
    fn empty_work_takes_at_least_a_nanosecond() {
        let samples: u64 = (0..100).map(|_| time(1, || {}).nanoseconds).min().unwrap();
        assert!(samples >= 1);
    }

    #[test]
    fn cpu_lists_are_formatted_as_ranges() {
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn missing_cpu_error_lists_the_usable_cpus() {
        let error = pin(Some(1023)).unwrap_err().to_string();
        assert!(error.starts_with("cannot pin to CPU 1023; this process may use "), "{error}");
    }
}
