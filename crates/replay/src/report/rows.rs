//! The rows of a comparison: every metric under A and under B, and what the difference means.
//!
//! A replay is exact: the same recording and policy give the same numbers on any machine. So there is no interval and no test
//! here; a metric's [`Direction`] says which of two different numbers is the better.

use freehold_measure::number::Quantity;
use freehold_measure::verdict::{Direction, Verdict, relative_change};
use serde::Serialize;

use super::model::{Metric, Metrics};

/// One metric under A and under B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRow {
    /// The metric's fixed name.
    pub name: &'static str,
    /// What the numbers count.
    pub unit: &'static str,
    /// Under policy A.
    pub a: Option<Quantity>,
    /// Under policy B.
    pub b: Option<Quantity>,
    /// `(b - a) / |a|`; `None` when A has none but B has some, or one was not measured.
    pub change: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

/// Every metric that `a` reports against that of `b`, in the order of [`Metric::ALL`].
pub fn judge(a: &Metrics, b: &Metrics) -> Vec<MetricRow> {
    let row = |metric| judge_metric(metric, a.get(metric), b.get(metric));
    a.reported().map(row).collect()
}

fn judge_metric(metric: Metric, a: Option<Quantity>, b: Option<Quantity>) -> MetricRow {
    let (change, verdict) = match (a, b) {
        (Some(a), Some(b)) => (relative_change(a.value(), b.value()), verdict(metric, a, b)),
        _ => (None, Verdict::Neither),
    };
    MetricRow { name: metric.name(), unit: metric.unit(), a, b, change, verdict }
}

fn verdict(metric: Metric, a: Quantity, b: Quantity) -> Verdict {
    match metric.direction() {
        Direction::Neutral if a != b => Verdict::Neither,
        Direction::Neutral | Direction::Lower => Verdict::of_exact(a.value(), b.value()),
        Direction::Higher => Verdict::of_exact(b.value(), a.value()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(metric: Metric, a: u64, b: u64) -> MetricRow {
        let a = Metrics::new().with_count(metric, a);
        let b = Metrics::new().with_count(metric, b);
        judge(&a, &b).into_iter().find(|row| row.name == metric.name()).unwrap()
    }

    #[test]
    fn fewer_lock_acquisitions_are_better_and_more_are_worse() {
        let row = judged(Metric::ZoneLockAcquisitions, 200, 100);
        assert_eq!((row.verdict, row.change), (Verdict::Better, Some(-0.5)));
        assert_eq!(judged(Metric::ZoneLockAcquisitions, 100, 200).verdict, Verdict::Worse);
    }

    #[test]
    fn more_free_pageblocks_are_better() {
        assert_eq!(judged(Metric::FreePageblocks, 1, 2).verdict, Verdict::Better);
        assert_eq!(judged(Metric::FreePageblocks, 2, 1).verdict, Verdict::Worse);
    }

    #[test]
    fn a_metric_without_a_good_direction_is_neither_unless_the_numbers_are_the_same() {
        assert_eq!(judged(Metric::CrossCpuFrees, 5, 6).verdict, Verdict::Neither);
        assert_eq!(judged(Metric::CrossCpuFrees, 5, 5).verdict, Verdict::NoDifference);
    }

    #[test]
    fn a_change_from_zero_has_no_ratio() {
        let row = judged(Metric::FailedAllocations, 0, 3);
        assert_eq!((row.change, row.verdict), (None, Verdict::Worse));
    }

    #[test]
    fn an_unmeasured_metric_has_no_verdict() {
        let rows = judge(&Metrics::new(), &Metrics::new());
        assert!(rows.iter().any(|row| row.name == Metric::ZoneLockAcquisitions.name()));
        assert!(rows.iter().all(|row| row.verdict == Verdict::Neither && row.a.is_none()));
    }

    #[test]
    fn metrics_of_pressure_are_reported_where_they_were_measured() {
        let has_stalls = |a: &Metrics| judge(a, a).iter().any(|row| row.name == Metric::AllocStalls.name());
        assert!(!has_stalls(&Metrics::new()));
        assert!(has_stalls(&Metrics::new().with_count(Metric::AllocStalls, 0)));
    }
}
