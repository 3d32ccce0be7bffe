//! Times of steps, and amounts of work in each step, in integers without cumulative rounding errors.

use crate::cpu::{Cpu, PS_PER_NS};
use crate::executor::Executor;
use crate::random::LogUniform;

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

/// Pace of steps. The mean interval follows from the turnover; each interval is randomised by up to half of it, so that
/// CPUs do not run in lockstep.
pub(super) struct Pace {
    /// Mean interval between two steps, in picoseconds.
    interval: u64,
    /// Time at which the next step is due, in picoseconds.
    due: u64,
}

impl Pace {
    /// Creates the pace of steps of `step_pages` pages, for a CPU whose `share` of memory is turned over in
    /// `turnover_s` seconds. The first step is due at a random time within the first interval.
    pub(super) fn new<X: Executor>(cpu: &mut Cpu<'_, '_, X>, turnover_s: u64, step_pages: u64, share: u64) -> Pace {
        let interval = (turnover_s * NS_PER_S * step_pages / share).max(1) * PS_PER_NS;
        let due = cpu.now() + cpu.rng().u64(..interval);
        Pace { interval, due }
    }

    /// Waits until the next step is due. Does not wait if it is late.
    pub(super) fn wait<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        let early = self.due.saturating_sub(cpu.now());
        cpu.work(early / PS_PER_NS);
        self.due += cpu.rng().u64(self.interval / 2..=self.interval / 2 + self.interval);
    }
}

/// Computes how many events are due for a number of pages, and keeps the remainder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    rest: u64,
}

impl Meter {
    /// Returns how many events are due after `pages` more pages, at a rate of `rate` events per `per` pages.
    pub(super) fn due(&mut self, pages: u64, rate: u64, per: u64) -> u64 {
        self.rest += pages * rate;
        let due = self.rest / per;
        self.rest %= per;
        due
    }
}

/// Events in runs, at a mean rate per page.
pub(super) struct Runs {
    meter: Meter,
    /// Events that are due and wait for the rest of their run.
    waiting: u64,
    /// Size of the next run.
    next: u64,
}

impl Runs {
    /// Creates runs of these sizes. A random number of events is due already, so that CPUs do not begin alike.
    pub(super) fn new(sizes: &LogUniform, rng: &mut fastrand::Rng) -> Runs {
        let next = u64::from(sizes.draw(rng));
        Runs { meter: Meter::default(), waiting: rng.u64(..next), next }
    }

    /// Adds the events that are due for `pages` pages, at a rate of `rate` events per `per` pages.
    pub(super) fn pass(&mut self, pages: u64, rate: u64, per: u64) {
        self.waiting += self.meter.due(pages, rate, per);
    }

    /// Returns the size of the next run, if all its events are due.
    pub(super) fn next(&mut self, sizes: &LogUniform, rng: &mut fastrand::Rng) -> Option<u64> {
        self.waiting = self.waiting.checked_sub(self.next)?;
        Some(std::mem::replace(&mut self.next, sizes.draw(rng).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meter_carries_fractions_over() {
        let mut meter = Meter::default();
        let due: u64 = (0..10_000).map(|_| meter.due(16, 25, 10_000)).sum();
        assert_eq!(due, 16 * 25);
        assert_eq!((meter.due(1, 9999, 10_000), meter.due(1, 1, 10_000)), (0, 1));
    }

    #[test]
    fn runs_match_the_rate_of_single_events() {
        let (sizes, mut rng) = (LogUniform::new(1, 100), fastrand::Rng::with_seed(1));
        let mut runs = Runs::new(&sizes, &mut rng);
        let mut came = runs.waiting;
        let mut sum = 0;
        for _ in 0..10_000 {
            runs.pass(16, 43, 100);
            while let Some(size) = runs.next(&sizes, &mut rng) {
                assert!((1..=100).contains(&size));
                sum += size;
            }
        }
        came += 10_000 * 16 * 43 / 100;
        assert!(came - sum < 100, "{sum} of {came}");
    }
}
