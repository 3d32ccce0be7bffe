//! What a difference between two policies means: the words of every verdict, and the verdicts on exact numbers.
//!
//! Replay is exact: the same recording and policy give the same numbers on any machine. So there is no
//! interval and no test here; two numbers are the same or they are not, and a metric's [`Direction`] says
//! which of two different ones is the better. Timings are not exact; what is said about them, in the same words, is
//! decided in `bench/decide.rs`.

use std::cmp::Ordering;

use serde::{Serialize, Serializer};

use super::model::{Direction, Metric, Metrics, Quantity};

/// How B stands against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B differs in the good direction.
    Better,
    /// B differs in the bad direction.
    Worse,
    /// Exact numbers are the same; timings differ by no more than the margin.
    NoDifference,
    /// They differ where neither direction is good, or one of them was not measured.
    Neither,
    /// More runs are needed. Never said of exact numbers.
    Undecided,
}

impl Verdict {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "no difference",
            Verdict::Neither => "neither",
            Verdict::Undecided => "undecided",
        }
    }

    /// What exact numbers say, of which the lower is the better.
    pub fn of_exact<T: PartialOrd>(a: T, b: T) -> Verdict {
        match a.partial_cmp(&b) {
            Some(Ordering::Less) => Verdict::Worse,
            Some(Ordering::Greater) => Verdict::Better,
            Some(Ordering::Equal) => Verdict::NoDifference,
            None => Verdict::Neither,
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

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

/// `(b - a) / |a|`: zero for equal numbers, nothing where only `a` is zero. The sign is that of `b - a`.
pub fn relative_change(a: f64, b: f64) -> Option<f64> {
    if a == b {
        Some(0.0)
    } else if a == 0.0 {
        None
    } else {
        Some((b - a) / a.abs())
    }
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
    fn a_change_from_below_zero_keeps_its_direction() {
        assert_eq!(relative_change(-10.0, -5.0), Some(0.5));
        assert_eq!(relative_change(-10.0, 5.0), Some(1.5));
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
