//! Two groups of runs: by how much the second differs from the first.
//!
//! Runs of one kind repeat more or less, so what is compared are means, by an interval of their difference (Welch's,
//! which allows each group its own spread). Numbers above zero are compared by their logarithms, so that the interval
//! is one of the ratio. Counts of events get no smaller spread than counts of independent events have: three runs that
//! all count 1 repeat by chance, not by law. Where many measures are judged together, the confidence of each is raised
//! until all intervals hold together (Bonferroni).

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::verdict::{Direction, Verdict, relative_change, verdict_of};

/// Confidence in all intervals together.
const CONFIDENCE: f64 = 0.95;
/// Degrees of freedom beyond which Student's distribution is the normal one.
const FREEDOM_MAX: f64 = 1e6;
/// Runs of each group that a verdict needs.
pub const RUNS_MIN: usize = 3;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Events, which spread by themselves.
    Counts,
    /// Anything else.
    Numbers,
}

/// What the runs of one group gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Run by run.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
}

/// How B stands against A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// A's runs.
    pub a: Group,
    /// B's runs.
    pub b: Group,
    /// `b / a - 1` of the geometric means; of the means, where a run gave zero or less; `None` where only A's mean is
    /// zero.
    pub change: Option<f64>,
    /// The interval of that, which holds together with those of its family; `None` where A's mean is zero, or there are
    /// too few runs.
    pub interval: Option<(f64, f64)>,
    /// What that means; `None` with too few runs.
    pub verdict: Option<Verdict>,
}

impl Group {
    /// The group of these runs.
    pub fn of(values: Vec<f64>) -> Group {
        let count = values.len() as f64;
        let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count };
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Group { values, mean, deviation }
    }

    /// Spread as a share of the mean; `None` for a mean of zero.
    pub fn spread(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.deviation / self.mean.abs())
    }

    fn is_nothing(&self) -> bool {
        self.values.iter().all(|&value| value == 0.0)
    }
}

impl Judged {
    /// Whether B is said to differ from A.
    pub fn differs(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Neither))
    }
}

/// Whether there was anything to measure in any run.
pub fn is_of_something(a: &Group, b: &Group) -> bool {
    !(a.is_nothing() && b.is_nothing())
}

/// Judges one of `family` measures. Relative changes up to `margin` are none.
pub fn judge(a: Group, b: Group, scale: Scale, direction: Direction, family: usize, margin: f64) -> Judged {
    let is_enough = a.values.len().min(b.values.len()) >= RUNS_MIN;
    let tail = (1.0 - CONFIDENCE) / 2.0 / family.max(1) as f64;
    let is_above_zero = a.values.iter().chain(&b.values).all(|&value| value > 0.0);
    let (change, interval, verdict) = if !is_enough {
        (relative_change(a.mean, b.mean), None, None)
    } else if is_above_zero {
        let (change, ends) = ratio(&a, &b, scale, tail);
        (Some(change), Some(ends), Some(of_interval(ends, direction, margin)))
    } else {
        let (low, high) = difference(&a, &b, scale, tail);
        let ends = (a.mean != 0.0).then(|| (low / a.mean.abs(), high / a.mean.abs()));
        let verdict = ends.map_or_else(|| sign_of(low, high, direction), |ends| of_interval(ends, direction, margin));
        (relative_change(a.mean, b.mean), ends, Some(verdict))
    };
    Judged { a, b, change, interval, verdict }
}

/// What an interval of changes means: what both of its ends mean, if that is one thing.
fn of_interval((low, high): (f64, f64), direction: Direction, margin: f64) -> Verdict {
    let of_ends = [low, high].map(|end| verdict_of(end, direction, margin));
    let is_one_side = low.signum() == high.signum() || of_ends[0] == Verdict::NoDifference;
    if of_ends[0] == of_ends[1] && is_one_side { of_ends[0] } else { Verdict::Undecided }
}

/// What a difference from nothing means.
fn sign_of(low: f64, high: f64, direction: Direction) -> Verdict {
    match (low, high) {
        (0.0, 0.0) => Verdict::NoDifference,
        _ if low > 0.0 || high < 0.0 => verdict_of(low.signum(), direction, 0.0),
        _ => Verdict::Undecided,
    }
}

/// `b / a - 1` of the geometric means, and its interval.
fn ratio(a: &Group, b: &Group, scale: Scale, tail: f64) -> (f64, (f64, f64)) {
    let logarithms = |group: &Group| Group::of(group.values.iter().map(|value| value.ln()).collect());
    // The logarithm of a count of so many independent events has this variance.
    let floor = |group: &Group| if scale == Scale::Counts { 1.0 / group.mean } else { 0.0 };
    let (log_a, log_b) = (logarithms(a), logarithms(b));
    let (low, high) = welch([(&log_a, floor(a)), (&log_b, floor(b))], tail);
    ((log_b.mean - log_a.mean).exp_m1(), (low.exp_m1(), high.exp_m1()))
}

/// The interval of `b - a`.
fn difference(a: &Group, b: &Group, scale: Scale, tail: f64) -> (f64, f64) {
    let floor = if scale == Scale::Counts { f64::midpoint(a.mean, b.mean).abs() } else { 0.0 };
    welch([(a, floor), (b, floor)], tail)
}

/// The interval of the difference of two means that leaves out `tail` at each end. No run's variance is below its
/// floor, which is known and not estimated.
fn welch(groups: [(&Group, f64); 2], tail: f64) -> (f64, f64) {
    // What one run's variance leaves in the mean of all, and one over the degrees of freedom with which it is known.
    let parts = groups.map(|(group, floor)| {
        let (count, variance) = (group.values.len() as f64, group.deviation.powi(2));
        (variance.max(floor) / count, if variance < floor { 0.0 } else { 1.0 / (count - 1.0) })
    });
    let difference = groups[1].0.mean - groups[0].0.mean;
    let variance: f64 = parts.iter().map(|(part, _)| part).sum();
    if variance == 0.0 {
        return (difference, difference);
    }
    let uncertain: f64 = parts.iter().map(|(part, by)| part.powi(2) * by).sum();
    let freedom = (variance.powi(2) / uncertain.max(f64::MIN_POSITIVE)).min(FREEDOM_MAX);
    let student = StudentsT::new(0.0, 1.0, freedom).expect("freedom is above zero");
    let reach = student.inverse_cdf(1.0 - tail) * variance.sqrt();
    (difference - reach, difference + reach)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn judged(a: &[f64], b: &[f64]) -> Judged {
        let [a, b] = [a, b].map(|values| Group::of(values.to_vec()));
        judge(a, b, Scale::Numbers, Direction::Lower, 1, 0.02)
    }

    /// The textbook's example (R's `sleep`): -1.58, of which the 95 % interval is -3.365 to 0.205.
    #[test]
    fn the_interval_is_welchs() {
        let a = Group::of(vec![0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]);
        let b = Group::of(vec![1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
        let (low, high) = difference(&b, &a, Scale::Numbers, 0.025);
        assert!((low + 3.365_483).abs() < 1e-4 && (high - 0.205_483).abs() < 1e-4, "{low} to {high}");
    }

    #[test]
    fn what_repeats_and_differs_is_told() {
        assert_eq!(judged(&[100.0, 101.0, 99.0], &[150.0, 149.0, 151.0]).verdict, Some(Verdict::Worse));
        assert_eq!(judged(&[100.0, 101.0, 99.0], &[50.0, 51.0, 49.0]).verdict, Some(Verdict::Better));
        assert_eq!(judged(&[100.0, 100.1, 99.9], &[100.0, 100.1, 99.9]).verdict, Some(Verdict::NoDifference));
        assert_eq!(judged(&[100.0, 200.0, 50.0], &[150.0, 90.0, 210.0]).verdict, Some(Verdict::Undecided));
        assert_eq!(judged(&[100.0, 101.0], &[150.0, 149.0]).verdict, None, "two runs tell nothing");
    }

    /// An interval from below minus the margin to above plus the margin is no agreement of its ends.
    #[test]
    fn ends_on_two_sides_decide_nothing() {
        let [a, b] = [[90.0, 100.0, 110.0], [92.0, 104.0, 111.0]].map(|values| Group::of(values.to_vec()));
        let neutral = judge(a, b, Scale::Numbers, Direction::Neutral, 1, 0.02);
        assert_eq!(neutral.verdict, Some(Verdict::Undecided));
    }

    #[test]
    fn something_where_nothing_was_is_told_without_a_change() {
        let many = judged(&[0.0; 4], &[900.0, 910.0, 880.0, 905.0]);
        assert_eq!((many.verdict, many.change, many.interval), (Some(Verdict::Worse), None, None));
        let [a, b] = [[0.0; 4], [1.0; 4]].map(|values| Group::of(values.to_vec()));
        let few = judge(a, b, Scale::Counts, Direction::Lower, 20, 0.02);
        assert_eq!(few.verdict, Some(Verdict::Undecided), "one event a run may be chance");
    }

    /// Of families of twenty measures that do not differ, one in twenty may have a measure that is said to: normal
    /// values, and counts so small that three runs often agree by chance.
    #[test]
    fn what_does_not_differ_is_rarely_said_to() {
        let mut rng = Rng::with_seed(7);
        let normal = |rng: &mut Rng| (0..12).map(|_| rng.f64()).sum::<f64>() + 94.0;
        let small = |rng: &mut Rng| (0..40).filter(|_| rng.f64() < 0.05).count() as f64;
        for (draw, scale) in [(normal as fn(&mut Rng) -> f64, Scale::Numbers), (small, Scale::Counts)] {
            for runs in [3, 5, 10] {
                let mut group = || Group::of((0..runs).map(|_| draw(&mut rng)).collect());
                let mut family = || {
                    (0..20).any(|_| {
                        let judged = judge(group(), group(), scale, Direction::Lower, 20, 0.0);
                        matches!(judged.verdict, Some(Verdict::Better | Verdict::Worse))
                    })
                };
                let wrong = (0..1000).filter(|_| family()).count();
                assert!(wrong <= 65, "{wrong} of 1000 families of {runs} runs");
            }
        }
    }
}
