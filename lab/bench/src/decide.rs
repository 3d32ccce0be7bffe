//! Verdicts from intervals.
//!
//! B is compared with A by a ratio of times: 1 means equal, and less is better. The margin x defines which ratios count
//! as no difference: those from 1/(1+x) to 1+x. The rules, in their order:
//!
//! 1. The interval is inside the margin: *no change*. This is a pair of one-sided tests, not slower by x and not faster
//!    by x. The rule is first on purpose. An interval such as 1.002 to 1.006 proves that B is slower and that the
//!    difference is too small to matter; the ratio beside the verdict still shows it.
//! 2. The interval is completely outside the margin: *better* or *worse*.
//! 3. Otherwise more runs are taken. At the last look, an interval that excludes 1 is enough for *better* or *worse*.
//! 4. Otherwise *within noise*, with the number of runs that would probably decide.
//!
//! The interval is looked at several times, and each look may err. So the error of 5 % is split evenly between the
//! planned looks (Bonferroni's correction): the interval shown has the confidence `1 - 0.05 / looks`. A look that takes
//! place because the time is over replaces a planned one. The interval is the wider of a bootstrap interval and the
//! exact interval by rank (`stats`), so its confidence holds for ten runs as for many, and for any distribution of the
//! noise. If A and B are equal, `better` or `worse` is false in at most 5 of 100 comparisons. If they differ by more
//! than x, `no change` is false in at most 2.5 of 100, since only one of the two ends can err.

use fastrand::Rng;
use freehold_stats::intervals::{median, median_interval};
use freehold_stats::verdict::{self, Change, Direction, Evidence, Verdict};
use serde::Serialize;

/// Probability of a false verdict in a comparison, over all looks.
pub const ERROR: f64 = 0.05;
/// Minimum number of runs for a verdict and for a bar. The range of 8 runs already contains the median with the
/// confidence of 99 % that 5 looks need. Ten runs are enough for up to 25 looks.
pub const RUNS_MIN: usize = 10;
/// Runs at the first look; the number doubles at each further look.
const FIRST_LOOK: usize = 20;

/// Largest difference that counts as no difference, as a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin(f64);

impl Margin {
    /// Returns a margin of `percent` percent; `None` unless it is above 0 and at most 100.
    pub fn percent(percent: f64) -> Option<Margin> {
        (percent > 0.0 && percent <= 100.0).then_some(Margin(percent / 100.0))
    }

    /// Returns the margin in percent.
    pub fn as_percent(self) -> f64 {
        self.0 * 100.0
    }

    /// Returns the largest logarithm of a ratio inside the margin; the smallest is its negative.
    fn log(self) -> f64 {
        self.0.ln_1p()
    }
}

/// Numbers of runs after which the result is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks(Vec<usize>);

impl Looks {
    /// Plans looks after 20, 40, 80, ... runs, the last one after `runs_max` runs. `runs_max` is at least 1.
    pub fn plan(runs_max: usize) -> Looks {
        let doubling = std::iter::successors(Some(FIRST_LOOK), |runs| Some(runs * 2));
        let mut looks: Vec<usize> = doubling.take_while(|&runs| runs < runs_max).collect();
        looks.push(runs_max);
        Looks(looks)
    }

    /// Returns whether a look is due after `runs` runs.
    pub fn is_due(&self, runs: usize) -> bool {
        self.0.contains(&runs)
    }

    /// Returns whether the last planned look is after `runs` runs.
    pub fn is_last(&self, runs: usize) -> bool {
        self.0.last() == Some(&runs)
    }

    /// Returns the confidence of the interval at each look.
    pub fn confidence(&self) -> f64 {
        1.0 - ERROR / self.0.len() as f64
    }
}

/// Estimated ratio of times, B over A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Median over the runs.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Confidence of the interval at this look.
    pub confidence: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Estimate {
    /// Computes the estimate from the log ratios of the runs.
    pub fn from_log_ratios(log_ratios: &[f64], confidence: f64, rng: &mut Rng) -> Estimate {
        let (low, high) = median_interval(log_ratios, confidence, rng);
        let ratio = median(&mut log_ratios.to_vec());
        Estimate { ratio: ratio.exp(), low: low.exp(), high: high.exp(), confidence, runs: log_ratios.len() }
    }

    /// Returns half the width of the interval on the logarithmic scale, taking the longer half.
    fn reach(&self) -> f64 {
        (self.high / self.ratio).ln().max((self.ratio / self.low).ln())
    }
}

/// Position of a look among the planned looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Further looks may follow.
    Interim,
    /// No further look follows.
    Last,
}

/// Returns the verdict on an interval, by the rules of this module. Fewer than [`RUNS_MIN`] runs are not judged.
pub fn judge(estimate: &Estimate, margin: Margin, look: Look) -> Verdict {
    let (low, high, margin) = (estimate.low.ln(), estimate.high.ln(), margin.log());
    let exceeds = if look == Look::Last { 0.0 } else { margin };
    let change = Change::Interval { low, high, exceeds, middle: None };
    let is_reproduced = estimate.runs >= RUNS_MIN;
    verdict::judge(&Evidence { is_reproduced, ..Evidence::new(change, Direction::Lower, margin) })
}

/// Estimates how many more runs would decide, assuming that the ratio is as estimated. The width of the interval
/// shrinks with the square root of the number of runs. It must fit between the ratio and the end of the margin, or
/// between the ratio and 1, whichever distance is larger.
pub fn runs_missing(estimate: &Estimate, margin: Margin) -> usize {
    let distance = estimate.ratio.ln().abs();
    let room = distance.max(margin.log() - distance);
    let needed = estimate.runs as f64 * (estimate.reach() / room).powi(2);
    (needed.ceil() as usize).max(RUNS_MIN).saturating_sub(estimate.runs).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: Margin = Margin(0.02);

    fn estimate(ratio: f64, low: f64, high: f64) -> Estimate {
        Estimate { ratio, low, high, confidence: 0.95, runs: 20 }
    }

    #[test]
    fn looks_double_up_to_the_run_limit() {
        assert_eq!(Looks::plan(320).0, [20, 40, 80, 160, 320]);
        assert_eq!(Looks::plan(320).confidence(), 0.99);
        assert_eq!(Looks::plan(50).0, [20, 40, 50]);
        assert_eq!(Looks::plan(20).0, [20]);
        assert_eq!(Looks::plan(3).0, [3]);
        assert!(Looks::plan(50).is_due(40) && !Looks::plan(50).is_due(41) && Looks::plan(50).is_last(50));
    }

    #[test]
    fn margin_is_symmetric_and_applies_first() {
        for look in [Look::Interim, Look::Last] {
            assert_eq!(judge(&estimate(1.0, 0.99, 1.01), MARGIN, look), Verdict::NoChange);
            assert_eq!(judge(&estimate(1.004, 1.002, 1.006), MARGIN, look), Verdict::NoChange);
            assert_eq!(judge(&estimate(0.99, 1.0 / 1.0199, 1.0), MARGIN, look), Verdict::NoChange);
            assert_eq!(judge(&estimate(1.03, 1.025, 1.035), MARGIN, look), Verdict::Worse);
            assert_eq!(judge(&estimate(0.5, 0.4, 0.6), MARGIN, look), Verdict::Better);
            assert_eq!(judge(&estimate(1.0, 0.9, 1.1), MARGIN, look), Verdict::WithinNoise);
        }
    }

    #[test]
    fn only_the_last_look_accepts_an_interval_without_1() {
        let slower = estimate(1.02, 1.01, 1.03);
        assert_eq!(judge(&slower, MARGIN, Look::Interim), Verdict::WithinNoise);
        assert_eq!(judge(&slower, MARGIN, Look::Last), Verdict::Worse);
        assert_eq!(judge(&estimate(0.98, 0.97, 0.99), MARGIN, Look::Last), Verdict::Better);
    }

    #[test]
    fn fewer_than_ten_runs_are_not_judged() {
        let few = Estimate { runs: 9, ..estimate(1.0, 1.0, 1.0) };
        assert_eq!(judge(&few, MARGIN, Look::Last), Verdict::NotJudged);
        assert_eq!(runs_missing(&few, MARGIN), 1);
    }

    #[test]
    fn doubled_interval_needs_four_times_the_runs() {
        // The available distance is one margin, and the interval reaches twice as far: 80 runs in all.
        let wide = estimate(1.0, 1.02_f64.powi(-2), 1.02_f64.powi(2));
        assert!((59..=61).contains(&runs_missing(&wide, MARGIN)), "{}", runs_missing(&wide, MARGIN));
        // Far outside the margin, the interval only has to exclude 1.
        let far = estimate(1.1, 0.99, 1.21);
        assert!((1..=10).contains(&runs_missing(&far, MARGIN)), "{}", runs_missing(&far, MARGIN));
    }
}
