//! The rows of a comparison: every metric under A and under B, and what the difference means.
//!
//! A replay is exact: the same recording and policy give the same numbers on any machine. But where memory is short a
//! few pages decide what follows, so the same replay with watermarks that are a hundredth off may come to something
//! else. What counts is the middle one of such replays, and two policies differ if that is beyond a margin, and if no
//! replay under one comes to what some replay under the other does. (Of five against five, chance alone does that once
//! in 126 times.) And a metric carries a verdict on a recording only if the replay under the recorded kernel's rules
//! comes near to what was recorded in it: what is not reproduced under A says nothing about B.

use freehold_report::number::Quantity;
use freehold_stats::verdict::{Verdict, relative_change, verdict_of};
use serde::Serialize;

use super::model::{FidelityRow, Metric, ReplayOutcome};

/// The relative error up to which a replay counts as near, where the row of fidelity has no bound of its own.
const NEAR: f64 = 0.15;

/// One metric under A and under B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRow {
    /// The metric.
    #[serde(skip)]
    pub metric: Metric,
    /// The metric's fixed name.
    pub name: &'static str,
    /// What the numbers count.
    pub unit: &'static str,
    /// Under policy A: the middle one of its replays.
    pub a: Option<Quantity>,
    /// Under policy B, likewise.
    pub b: Option<Quantity>,
    /// The least and the most of A's replays, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_range: Option<[f64; 2]>,
    /// The same of B's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_range: Option<[f64; 2]>,
    /// `(b - a) / |a|`; `None` when A has none but B has some, or one was not measured.
    pub change: Option<f64>,
    /// What that means; `None` where the replay does not reproduce the metric on this recording.
    pub verdict: Option<Verdict>,
    /// How far the replay is from what was recorded, where that is too far for a verdict and the recording says it.
    pub replay_error: Option<f64>,
}

/// Every metric that A reports against that of B, in the order of [`Metric::ALL`], with all replays of each.
pub fn judge(a: &ReplayOutcome, b: &ReplayOutcome, fidelity: &[FidelityRow], margin: f64) -> Vec<MetricRow> {
    let row = |metric: Metric| {
        let sides = [Replayed::of(a, metric), Replayed::of(b, metric)];
        let [(a, a_range), (b, b_range)] = sides.each_ref().map(|side| (side.middle(), side.range()));
        let (change, verdict) = judge_metric(metric, &sides, margin);
        let reproduction = Reproduction::of(metric, fidelity);
        MetricRow {
            metric,
            name: metric.name(),
            unit: metric.unit(),
            a,
            b,
            a_range,
            b_range,
            change,
            verdict: (reproduction == Reproduction::Near).then_some(verdict),
            replay_error: reproduction.error(),
        }
    };
    a.metrics.reported().map(row).collect()
}

/// A replay under the recorded kernel's rules against itself: which of its metrics it reproduces.
pub fn as_recorded(outcome: &ReplayOutcome) -> Vec<MetricRow> {
    judge(outcome, outcome, &outcome.fidelity, 0.0)
}

fn judge_metric(metric: Metric, sides: &[Replayed; 2], margin: f64) -> (Option<f64>, Verdict) {
    let [Some(a), Some(b)] = sides.each_ref().map(Replayed::middle) else { return (None, Verdict::Neither) };
    let change = relative_change(a.value(), b.value());
    // Some where there was none is more than any margin.
    let verdict = verdict_of(change.unwrap_or(f64::INFINITY), metric.direction(), margin);
    let is_chance = verdict != Verdict::NoDifference && sides[0].meets(&sides[1]);
    (change, if is_chance { Verdict::Undecided } else { verdict })
}

/// A metric in all replays under one policy, in ascending order, but for those that have none.
struct Replayed(Vec<Quantity>);

impl Replayed {
    fn of(outcome: &ReplayOutcome, metric: Metric) -> Replayed {
        let mut values: Vec<Quantity> = outcome.replays().filter_map(|replay| replay.metrics.get(metric)).collect();
        values.sort_by(|one, other| one.value().total_cmp(&other.value()));
        Replayed(values)
    }

    fn middle(&self) -> Option<Quantity> {
        self.0.get(self.0.len() / 2).copied()
    }

    fn ends(&self) -> Option<[f64; 2]> {
        Some([self.0.first()?.value(), self.0.last()?.value()])
    }

    fn range(&self) -> Option<[f64; 2]> {
        self.ends().filter(|_| self.0.len() > 1)
    }

    /// Whether the ranges of two have something in common. Those of single replays have not, unless they are the same.
    fn meets(&self, other: &Replayed) -> bool {
        let (Some([low, high]), Some([least, most])) = (self.ends(), other.ends()) else { return false };
        low <= most && least <= high
    }
}

/// How near a replay comes to what was recorded in a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reproduction {
    Near,
    Far(f64),
    /// The recording does not say, or says none where the replay has some.
    Unknown,
}

impl Reproduction {
    fn error(self) -> Option<f64> {
        if let Reproduction::Far(error) = self { Some(error) } else { None }
    }

    /// The worst of what a metric is held against.
    fn of(metric: Metric, fidelity: &[FidelityRow]) -> Reproduction {
        let worst = metric.held_against().iter().map(|names| Reproduction::of_sum(names, fidelity));
        worst.max_by(|a, b| a.size().total_cmp(&b.size())).unwrap_or(Reproduction::Near)
    }

    fn of_sum(names: &[&str], fidelity: &[FidelityRow]) -> Reproduction {
        let rows: Vec<&FidelityRow> = fidelity.iter().filter(|row| names.contains(&row.name.as_str())).collect();
        let sum = |of: fn(&FidelityRow) -> f64| rows.iter().map(|row| of(row)).sum::<f64>();
        let bound = rows.iter().filter_map(|row| row.bound).reduce(f64::max).unwrap_or(NEAR);
        let row = FidelityRow::new("", sum(|row| row.recorded), sum(|row| row.replayed), Some(bound));
        match row.relative_error {
            Some(error) if rows.len() == names.len() && error.abs() <= bound => Reproduction::Near,
            Some(error) if rows.len() == names.len() => Reproduction::Far(error),
            _ => Reproduction::Unknown,
        }
    }

    fn size(self) -> f64 {
        match self {
            Reproduction::Near => 0.0,
            Reproduction::Far(error) => error.abs(),
            Reproduction::Unknown => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::Course;
    use super::super::model::Metrics;
    use super::*;

    fn of(metrics: Metrics) -> ReplayOutcome {
        let (fidelity, unreplayed, assumptions) = (Vec::new(), Vec::new(), Vec::new());
        let (policy, nudged, course) = ("x".to_owned(), Vec::new(), Course::default());
        ReplayOutcome { policy, metrics, nudged, fidelity, unreplayed, assumptions, course }
    }

    fn judged_near(metric: Metric, a: u64, b: u64, recorded: f64) -> MetricRow {
        let fidelity: Vec<FidelityRow> = metric
            .held_against()
            .iter()
            .flat_map(|names| names.iter())
            .map(|name| FidelityRow::new(*name, recorded, 100.0, None))
            .collect();
        let [a, b] = [a, b].map(|count| of(Metrics::new().with_count(metric, count)));
        judge(&a, &b, &fidelity, 0.02).into_iter().find(|row| row.metric == metric).unwrap()
    }

    fn judged(metric: Metric, a: u64, b: u64) -> MetricRow {
        judged_near(metric, a, b, 100.0)
    }

    #[test]
    fn fewer_lock_acquisitions_are_better_and_more_are_worse() {
        let row = judged(Metric::ZoneLockAcquisitions, 200, 100);
        assert_eq!((row.verdict, row.change), (Some(Verdict::Better), Some(-0.5)));
        assert_eq!(judged(Metric::ZoneLockAcquisitions, 100, 200).verdict, Some(Verdict::Worse));
    }

    #[test]
    fn more_free_pageblocks_are_better() {
        assert_eq!(judged(Metric::FreePageblocks, 10, 20).verdict, Some(Verdict::Better));
        assert_eq!(judged(Metric::FreePageblocks, 20, 10).verdict, Some(Verdict::Worse));
    }

    #[test]
    fn a_change_within_the_margin_is_no_difference() {
        assert_eq!(judged(Metric::ZoneLockAcquisitions, 696, 698).verdict, Some(Verdict::NoDifference));
        assert_eq!(judged(Metric::CrossCpuFrees, 1000, 1001).verdict, Some(Verdict::NoDifference));
    }

    #[test]
    fn what_a_nudge_makes_too_is_undecided() {
        let metric = Metric::ZoneLockAcquisitions;
        let with = |counts: [u64; 3]| {
            let [metrics, nudged @ ..] = counts.map(|count| Metrics::new().with_count(metric, count));
            ReplayOutcome { nudged: nudged.iter().cloned().map(of).collect(), ..of(metrics) }
        };
        let fidelity = ["blocks_taken", "blocks_drained"].map(|name| FidelityRow::new(name, 1.0, 1.0, None));
        let judged = |a, b| {
            let row = judge(&with(a), &with(b), &fidelity, 0.02).into_iter().find(|row| row.metric == metric).unwrap();
            (row.a, row.b, row.verdict)
        };
        let counts = |a, b, verdict| (Some(Quantity::Count(a)), Some(Quantity::Count(b)), Some(verdict));
        assert_eq!(judged([90, 110, 100], [80, 70, 75]), counts(100, 75, Verdict::Better));
        assert_eq!(judged([90, 110, 100], [80, 70, 95]), counts(100, 80, Verdict::Undecided));
        assert_eq!(judged([90, 110, 100], [101, 70, 130]), counts(100, 101, Verdict::NoDifference));
    }

    #[test]
    fn a_metric_without_a_good_direction_is_neither_unless_the_numbers_are_the_same() {
        assert_eq!(judged(Metric::CrossCpuFrees, 5, 6).verdict, Some(Verdict::Neither));
        assert_eq!(judged(Metric::CrossCpuFrees, 5, 5).verdict, Some(Verdict::NoDifference));
    }

    #[test]
    fn a_change_from_zero_has_no_ratio() {
        let row = judged(Metric::FailedAllocations, 0, 3);
        assert_eq!((row.change, row.verdict), (None, Some(Verdict::Worse)));
    }

    #[test]
    fn what_the_replay_does_not_reproduce_carries_no_verdict() {
        let row = judged_near(Metric::AllocStalls, 100, 50, 1000.0);
        assert_eq!((row.verdict, row.replay_error), (None, Some(-0.9)));
        let row = judged_near(Metric::AllocStalls, 100, 50, 0.0);
        assert_eq!((row.verdict, row.replay_error), (None, None), "none was recorded, and some replayed");
        let [a, b] = [Metrics::new().with_count(Metric::AllocStalls, 3), Metrics::new()].map(of);
        let rows = judge(&a, &b, &[], 0.02);
        assert!(
            rows.iter().any(|row| row.metric == Metric::AllocStalls && row.verdict.is_none()),
            "nothing was recorded"
        );
    }

    #[test]
    fn an_unmeasured_metric_is_neither() {
        let rows = judge(&of(Metrics::new()), &of(Metrics::new()), &[], 0.02);
        assert!(rows.iter().any(|row| row.metric == Metric::ZoneLockAcquisitions));
        assert!(
            rows.iter().all(|row| row.verdict.is_none_or(|verdict| verdict == Verdict::Neither) && row.a.is_none())
        );
    }

    #[test]
    fn metrics_of_pressure_are_reported_where_they_were_measured() {
        let has_stalls =
            |metrics: Metrics| as_recorded(&of(metrics)).iter().any(|row| row.metric == Metric::AllocStalls);
        assert!(!has_stalls(Metrics::new()));
        assert!(has_stalls(Metrics::new().with_count(Metric::AllocStalls, 0)));
    }
}
