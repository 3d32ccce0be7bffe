//! When the next step is due, and how much of everything is due in it: integers that lose nothing over a long run.

use crate::cpu::{Cpu, PS_PER_NS};
use crate::executor::Executor;
use crate::random::LogUniform;

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

/// Steps that come as often as a turnover asks for, by chance a little sooner or later, so that CPUs do not march in
/// step.
pub(super) struct Pace {
    /// Picoseconds between two steps on average.
    interval: u64,
    /// When the next one is due.
    due: u64,
}

impl Pace {
    /// Steps of so many pages for a CPU whose share of memory is turned over in so many seconds. The first is due at
    /// any time within the first interval.
    pub(super) fn new<X: Executor>(cpu: &mut Cpu<'_, '_, X>, turnover_s: u64, step_pages: u64, share: u64) -> Pace {
        let interval = (turnover_s * NS_PER_S * step_pages / share).max(1) * PS_PER_NS;
        let due = cpu.now() + cpu.rng().u64(..interval);
        Pace { interval, due }
    }

    /// Waits until the next step is due; not at all if it is late.
    pub(super) fn wait<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        let early = self.due.saturating_sub(cpu.now());
        cpu.work(early / PS_PER_NS);
        self.due += cpu.rng().u64(self.interval / 2..=self.interval / 2 + self.interval);
    }
}

/// Says how many are due for so many pages, and keeps what is left over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    rest: u64,
}

impl Meter {
    /// How many are due after so many more pages, at `rate` in `per` pages.
    pub(super) fn due(&mut self, pages: u64, rate: u64, per: u64) -> u64 {
        self.rest += pages * rate;
        let due = self.rest / per;
        self.rest %= per;
        due
    }
}

/// What comes in runs: so many in so many pages on average, but together.
pub(super) struct Runs {
    meter: Meter,
    /// What waits for others to come with.
    waiting: u64,
    /// How many come next.
    next: u64,
}

impl Runs {
    /// Runs of these sizes. Some wait already, by chance, so that CPUs do not begin alike.
    pub(super) fn new(sizes: &LogUniform, rng: &mut fastrand::Rng) -> Runs {
        let next = u64::from(sizes.draw(rng));
        Runs { meter: Meter::default(), waiting: rng.u64(..next), next }
    }

    /// Lets so many pages pass, in `per` of which there are `rate`.
    pub(super) fn pass(&mut self, pages: u64, rate: u64, per: u64) {
        self.waiting += self.meter.due(pages, rate, per);
    }

    /// The size of the next run, if it has come together.
    pub(super) fn next(&mut self, sizes: &LogUniform, rng: &mut fastrand::Rng) -> Option<u64> {
        self.waiting = self.waiting.checked_sub(self.next)?;
        Some(std::mem::replace(&mut self.next, sizes.draw(rng).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_loses_nothing() {
        let mut meter = Meter::default();
        let due: u64 = (0..10_000).map(|_| meter.due(16, 25, 10_000)).sum();
        assert_eq!(due, 16 * 25);
        assert_eq!((meter.due(1, 9999, 10_000), meter.due(1, 1, 10_000)), (0, 1));
    }

    #[test]
    fn runs_bring_as_many_as_come_one_by_one() {
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
