//! Costs of two CPUs that access the same cache line, measured on atomics alone; and a protocol for taking turns.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use freehold_stats::intervals::median;
use freehold_timing::clock::time;
use freehold_timing::spin_barrier::{run_beside, spin_until};

use crate::cpu::PS_PER_NS;
use crate::error::Error;

/// Turns that are timed together: a few dozen microseconds, so that most bursts are not interrupted.
const BURST: u64 = 128;
/// Number of bursts.
const BURSTS: u64 = 64;
/// Number of timed exchanges.
const SWAPS: u64 = 20_000;

/// Turns of two CPUs, handed over through a shared cache line.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Turns(AtomicU64);

impl Turns {
    /// Calls `act` at every second turn, starting with turn `first` (0 or 1). Returns the picoseconds per turn of
    /// wall-clock time: the median of all bursts.
    pub(super) fn take(&self, first: u64, mut act: impl FnMut()) -> f64 {
        let mut per_turn = Vec::with_capacity(BURSTS as usize);
        for burst in 0..BURSTS {
            let start = Instant::now();
            for own in (first + 2 * BURST * burst..2 * BURST * (burst + 1)).step_by(2) {
                spin_until(|| self.0.load(Ordering::Acquire) == own);
                act();
                self.0.store(own + 1, Ordering::Release);
            }
            per_turn.push(start.elapsed().as_nanos() as f64 / (2 * BURST) as f64);
        }
        median(&mut per_turn) * PS_PER_NS as f64
    }
}

/// Returns the picoseconds in which a cache line moves to another CPU that waits for it: the time of a turn without
/// work.
///
/// # Errors
/// Returns an error if the second thread may not run on `partner`.
pub(super) fn handover(partner: u16) -> Result<f64, Error> {
    let turns = Turns::default();
    let (each, _) = run_beside(partner, |_| turns.take(0, || {}), |_| turns.take(1, || {}))?;
    Ok(each)
}

/// Returns the picoseconds of an atomic exchange in an uncontended cache line.
pub(super) fn swap() -> f64 {
    let line = Turns::default();
    let sample = time(SWAPS, || {
        for _ in 0..SWAPS {
            black_box(line.0.swap(1, Ordering::AcqRel));
        }
    });
    sample.per_operation() * PS_PER_NS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_timing::affinity;

    #[test]
    fn turns_alternate_between_two_cpus() {
        let partner = *affinity::usable().unwrap().last().expect("this thread runs somewhere");
        let (turns, taken) = (Turns::default(), AtomicU64::new(0));
        run_beside(
            partner,
            |_| turns.take(0, || assert_eq!(taken.fetch_add(1, Ordering::Relaxed) % 2, 0)),
            |_| turns.take(1, || assert_eq!(taken.fetch_add(1, Ordering::Relaxed) % 2, 1)),
        )
        .unwrap();
        assert_eq!(taken.into_inner(), 2 * BURST * BURSTS);
    }
}
