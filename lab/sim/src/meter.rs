//! Progress and memory needs of runs: weights for the progress line, and the memory that runs need at once.
//!
//! CPUs wait for each other, so the time of a run grows faster than its number of CPUs. Runs are therefore weighted,
//! and each run reports its progress as its virtual time passes, which makes the displayed remaining time accurate.
//!
//! # Design
//!
//! A failed allocation in the middle of a run aborts the process. The memory of the runs that are done at the same time
//! is therefore estimated first. It is compared with the limits of the process, of its control group and of the machine
//! (`freehold_report::room`), and runs that would not fit are refused.

use std::cell::Cell;

use freehold_report::progress::Progress;
use freehold_report::room::{self, Need, TooLittle};

use crate::machine::Machine;
use crate::window::Window;

/// Exponent with which run time grows with the number of CPUs: from 1 to 512 CPUs, runs of `purge` took 0.02 to 68 s.
const CPUS_POWER: f64 = 1.35;
/// Number of progress reports in a run.
const PARTS: u64 = 1000;

/// Bytes of memory for each simulated page: 16 for the engine's state, 12 for the memory model. The rest is the share
/// of data kept for each pageblock, cache line or task page.
const BYTES_PER_PAGE: u64 = 33;
/// Bytes of stack that a CPU touches, with the other data of that CPU.
const BYTES_PER_CPU: u64 = 64 << 10;
/// Address space of a stack with its guard pages, in bytes.
const STACK: u64 = (256 + 4) << 10;
/// Address space that a thread reserves for its heap, in bytes. Only the part in use becomes resident.
const HEAP: u64 = 128 << 20;

/// Returns the weight of a run, which is proportional to its expected time.
pub fn weight(cpus: u16, window: Window) -> u64 {
    let milliseconds = window.end as f64 / 1e9;
    ((f64::from(cpus).powf(CPUS_POWER) * milliseconds * 10.0) as u64).max(1)
}

/// Reports the progress of one run to a progress line.
pub struct Meter<'p> {
    progress: Option<&'p Progress>,
    weight: u64,
    end: u64,
    reported: Cell<u64>,
}

impl<'p> Meter<'p> {
    /// Creates the meter of a run that has not begun.
    pub fn new(progress: &'p Progress, cpus: u16, window: Window) -> Meter<'p> {
        Meter { progress: Some(progress), weight: weight(cpus, window), end: window.end.max(1), reported: Cell::new(0) }
    }

    /// Returns a meter that reports to no progress line.
    pub fn without_progress(cpus: u16, window: Window) -> Meter<'static> {
        Meter { progress: None, weight: weight(cpus, window), end: window.end.max(1), reported: Cell::new(0) }
    }

    /// Returns the picoseconds of virtual time between two reports.
    pub fn step(&self) -> u64 {
        (self.end / PARTS).max(1)
    }

    /// Reports that the run's clocks have reached `time`, in picoseconds.
    pub fn reach(&self, time: u64) {
        let done = (u128::from(self.weight) * u128::from(time.min(self.end)) / u128::from(self.end)) as u64;
        let before = self.reported.replace(done);
        if let Some(progress) = self.progress {
            progress.advance(done.saturating_sub(before));
        }
    }
}

/// Returns the memory and address space that a run needs.
pub fn need(machine: &Machine, cpus: u16) -> Need {
    let memory = u64::from(machine.pages) * BYTES_PER_PAGE + u64::from(cpus) * BYTES_PER_CPU;
    Need { memory, addresses: memory + u64::from(cpus) * STACK + HEAP }
}

/// Checks that there is memory and address space for the `at_once` largest of these runs together.
///
/// # Errors
/// Returns an error if there is too little memory for them.
pub fn expect_room(needs: Vec<Need>, at_once: usize) -> Result<(), TooLittle> {
    room::expect(&largest(needs, at_once))
}

/// Returns the sum of the needs of the `at_once` runs that need the most memory.
fn largest(mut needs: Vec<Need>, at_once: usize) -> Need {
    needs.sort_by_key(|need| std::cmp::Reverse(need.memory));
    needs.iter().take(at_once).fold(Need::default(), |sum, need| Need {
        memory: sum.memory + need.memory,
        addresses: sum.addresses + need.addresses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_reports_the_weight_of_a_run_once() {
        let window = Window::after_ms(1, 9);
        let progress = Progress::weighing("runs", weight(8, window));
        let meter = Meter::new(&progress, 8, window);
        for time in [0, meter.step(), window.end / 2, window.end + 5, 2 * window.end] {
            meter.reach(time);
        }
        assert_eq!(meter.reported.get(), weight(8, window));
        assert!(weight(512, window) > 64 * weight(8, window), "CPUs that meet take longer");
    }

    #[test]
    fn memory_need_grows_with_the_machine() {
        let large = Machine { pages: 1 << 28, nodes: 1 };
        assert!(need(&large, 32).memory > 8 << 30);
        let small = Machine { pages: 1 << 14, nodes: 1 };
        assert_eq!(expect_room(vec![need(&small, 2); 3], 2), Ok(()));
    }

    fn need_of(memory: u64) -> Need {
        Need { memory, addresses: 2 * memory }
    }

    #[test]
    fn memory_need_counts_only_concurrent_runs() {
        assert_eq!(largest(vec![need_of(1), need_of(5), need_of(3)], 2), need_of(8));
        assert_eq!(largest(vec![need_of(1), need_of(5)], 1), need_of(5));
        let most = u64::MAX / 4;
        assert_eq!(expect_room(vec![need_of(most); 3], 0), Ok(()));
        assert!(expect_room(vec![need_of(most)], 1).is_err());
    }
}
