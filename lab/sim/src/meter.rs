//! How far many runs are, by what they take: weights for the line that moves, and memory that they need.
//!
//! A run of many CPUs takes longer than one of few by more than their number, since they wait for each other. So runs
//! are weighed, and each tells how far it is while its virtual time passes: the time left is one that holds.

use std::cell::Cell;

use freehold_report::progress::Progress;
use freehold_report::room::{self, Need, TooLittle};

use crate::machine::Machine;
use crate::window::Window;

/// By which power of their number CPUs take time: between 1 and 512 CPUs runs of `purge` took 0.02 to 68 s.
const CPUS_POWER: f64 = 1.35;
/// Parts into which a run's way is cut.
const PARTS: u64 = 1000;

/// Bytes a page takes: 16 in the engine's word, 12 in the memory model, the rest in what there is a pageblock, a cache
/// line or a task's page.
const BYTES_PER_PAGE: u64 = 33;
/// Bytes of its stack that a CPU touches, with what it has beside it.
const BYTES_PER_CPU: u64 = 64 << 10;
/// Address space of a stack with its guard.
const STACK: u64 = (256 + 4) << 10;
/// What a thread reserves for its own allocations, of which it touches as much as it needs.
const HEAP: u64 = 128 << 20;

/// The weight of a run, as time.
pub fn weight(cpus: u16, window: Window) -> u64 {
    let milliseconds = window.end as f64 / 1e9;
    ((f64::from(cpus).powf(CPUS_POWER) * milliseconds * 10.0) as u64).max(1)
}

/// Tells a line that moves how far one run is.
pub struct Meter<'p> {
    progress: Option<&'p Progress>,
    weight: u64,
    end: u64,
    reported: Cell<u64>,
}

impl<'p> Meter<'p> {
    /// A meter of a run that has not begun.
    pub fn new(progress: &'p Progress, cpus: u16, window: Window) -> Meter<'p> {
        Meter { progress: Some(progress), weight: weight(cpus, window), end: window.end.max(1), reported: Cell::new(0) }
    }

    /// Returns a meter that reports to no progress line.
    pub fn without_progress(cpus: u16, window: Window) -> Meter<'static> {
        Meter { progress: None, weight: weight(cpus, window), end: window.end.max(1), reported: Cell::new(0) }
    }

    /// Picoseconds between two words.
    pub fn step(&self) -> u64 {
        (self.end / PARTS).max(1)
    }

    /// The run's clocks have reached this time, in picoseconds.
    pub fn reach(&self, time: u64) {
        let done = (u128::from(self.weight) * u128::from(time.min(self.end)) / u128::from(self.end)) as u64;
        let before = self.reported.replace(done);
        if let Some(progress) = self.progress {
            progress.advance(done.saturating_sub(before));
        }
    }
}

/// What a run takes.
pub fn need(machine: &Machine, cpus: u16) -> Need {
    let memory = u64::from(machine.pages) * BYTES_PER_PAGE + u64::from(cpus) * BYTES_PER_CPU;
    Need { memory, addresses: memory + u64::from(cpus) * STACK + HEAP }
}

/// Whether the largest of these runs fit beside each other, of which so many are done at a time.
///
/// # Errors
/// When there is too little memory for them.
pub fn expect_room(needs: Vec<Need>, at_once: usize) -> Result<(), TooLittle> {
    room::expect(&largest(needs, at_once))
}

/// What so many of the largest take together.
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
    fn a_run_tells_its_weight_once_whatever_its_clocks_reach() {
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
    fn a_tebibyte_takes_gibibytes_and_a_little_fits() {
        let large = Machine { pages: 1 << 28, nodes: 1 };
        assert!(need(&large, 32).memory > 8 << 30);
        let small = Machine { pages: 1 << 14, nodes: 1 };
        assert_eq!(expect_room(vec![need(&small, 2); 3], 2), Ok(()));
    }

    fn need_of(memory: u64) -> Need {
        Need { memory, addresses: 2 * memory }
    }

    #[test]
    fn those_that_wait_take_nothing() {
        assert_eq!(largest(vec![need_of(1), need_of(5), need_of(3)], 2), need_of(8));
        assert_eq!(largest(vec![need_of(1), need_of(5)], 1), need_of(5));
        let most = u64::MAX / 4;
        assert_eq!(expect_room(vec![need_of(most); 3], 0), Ok(()));
        assert!(expect_room(vec![need_of(most)], 1).is_err());
    }
}
