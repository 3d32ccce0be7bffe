//! The rows of a comparison: every metric under A and under B, and what the difference means.
//!
//! A replay is exact: the same recording and policy give the same numbers on any machine. But where memory is short a
//! few pages decide what follows, so the same replay with watermarks that are a hundredth off may come to something
//! else. What counts is the middle one of such replays, and two policies differ if that is beyond a margin, and if no
//! replay under one comes to what some replay under the other does. (Of five against five, chance alone does that once
//! in 126 times.) And a metric carries a verdict on a recording only if the replay under the recorded kernel's rules
//! comes near to what was recorded in it: what is not reproduced under A says nothing about B.

use freehold_report::number::Quantity;
use freehold_report::report::Row;
use freehold_stats::verdict::{Verdict, judge_change, relative_change};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::fidelity::{FidelityRow, relative_error};
use super::metrics::{FidelitySum, Metric};
use super::outcome::ReplayOutcome;

/// The relative error up to which a replay counts as near, where the row of fidelity has no bound of its own.
const NEAR: f64 = 0.15;

/// Rows of one recording: a row for each metric that the replay under A reports, in the order of [`Metric::ALL`].
///
/// In JSON each row has the name and the unit of its metric, and no case: the case is the recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricRows(Vec<(Metric, Row)>);

impl MetricRows {
    /// Returns the row of `metric`, if A reports it.
    pub(crate) fn get(&self, metric: Metric) -> Option<&Row> {
        self.0.iter().find(|(row_metric, _)| *row_metric == metric).map(|(_, row)| row)
    }

    /// Returns every metric with its row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Metric, Row)> {
        self.0.iter()
    }

    /// Returns the same rows under another name of the case.
    pub(crate) fn with_case(&self, case: &str) -> MetricRows {
        let rows = self.0.iter().map(|(metric, row)| (*metric, Row { case: case.to_owned(), ..row.clone() }));
        MetricRows(rows.collect())
    }
}

impl Serialize for MetricRows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(metric, row)| FlatRow { metric: *metric, row }))
    }
}

/// A row with its metric in front, as data frames have it.
struct FlatRow<'r> {
    metric: Metric,
    row: &'r Row,
}

impl Serialize for FlatRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.metric.name())?;
        map.serialize_entry("unit", self.metric.unit())?;
        map.serialize_entry("a", &self.row.a)?;
        map.serialize_entry("b", &self.row.b)?;
        for (key, range) in [("a_range", self.row.a_range), ("b_range", self.row.b_range)] {
            if range.is_some() {
                map.serialize_entry(key, &range)?;
            }
        }
        map.serialize_entry("change", &self.row.change)?;
        map.serialize_entry("verdict", &self.row.verdict)?;
        map.serialize_entry("replay_error", &self.row.replay_error)?;
        map.end()
    }
}

/// Compares every metric that A reports with that of B, over all replays of each, on the recording called `case`.
pub(crate) fn judge(
    case: &str,
    a: &ReplayOutcome,
    b: &ReplayOutcome,
    fidelity: &[FidelityRow],
    margin: f64,
) -> MetricRows {
    let rows = a.metrics.reported().map(|metric| (metric, judge_metric(case, metric, [a, b], fidelity, margin)));
    MetricRows(rows.collect())
}

/// Compares a replay under the recorded kernel's rules with itself: its verdicts show which metrics it reproduces.
pub(crate) fn as_recorded(outcome: &ReplayOutcome) -> MetricRows {
    judge("", outcome, outcome, &outcome.fidelity, 0.0)
}

fn judge_metric(
    case: &str,
    metric: Metric,
    outcomes: [&ReplayOutcome; 2],
    fidelity: &[FidelityRow],
    margin: f64,
) -> Row {
    let [a, b] = outcomes.map(|outcome| ReplayValues::collect(outcome, metric));
    let (change, verdict) = judge_values(metric, &a, &b, margin);
    let reproduction = Reproduction::assess(metric, fidelity);
    Row {
        case: case.to_owned(),
        a: a.median(),
        b: b.median(),
        a_range: a.range(),
        b_range: b.range(),
        change,
        interval: None,
        verdict: (reproduction == Reproduction::Near).then_some(verdict),
        replay_error: reproduction.error(),
    }
}

/// Returns the relative change and its verdict. Where the ranges of A and B overlap, the verdict is open.
fn judge_values(metric: Metric, a: &ReplayValues, b: &ReplayValues, margin: f64) -> (Option<f64>, Verdict) {
    let (Some(median_a), Some(median_b)) = (a.median(), b.median()) else { return (None, Verdict::Neither) };
    let change = relative_change(median_a.value(), median_b.value());
    // Some where there was none is more than any margin.
    let verdict = judge_change(change.unwrap_or(f64::INFINITY), metric.direction(), margin);
    let is_open = verdict != Verdict::NoDifference && a.overlaps(b);
    (change, if is_open { Verdict::Undecided } else { verdict })
}

/// Values of one metric in all replays under one policy, ascending. Replays that did not measure it have none.
struct ReplayValues(Vec<Quantity>);

impl ReplayValues {
    fn collect(outcome: &ReplayOutcome, metric: Metric) -> ReplayValues {
        let mut values: Vec<Quantity> = outcome.replays().filter_map(|replay| replay.metrics.get(metric)).collect();
        values.sort_by(|one, other| one.value().total_cmp(&other.value()));
        ReplayValues(values)
    }

    /// Returns the middle value; the greater of the two middle ones, if the number of values is even.
    fn median(&self) -> Option<Quantity> {
        self.0.get(self.0.len() / 2).copied()
    }

    fn extremes(&self) -> Option<[f64; 2]> {
        Some([self.0.first()?.value(), self.0.last()?.value()])
    }

    /// Returns the least and the greatest value, if there are several values.
    fn range(&self) -> Option<[f64; 2]> {
        self.extremes().filter(|_| self.0.len() > 1)
    }

    /// Whether the two ranges have something in common. The ranges of single values have only if these are equal.
    fn overlaps(&self, other: &ReplayValues) -> bool {
        let (Some([low, high]), Some([least, greatest])) = (self.extremes(), other.extremes()) else { return false };
        low <= greatest && least <= high
    }
}

/// How near a replay is to the recording in a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reproduction {
    /// The error is within the bound.
    Near,
    /// The relative error is beyond the bound.
    Far(f64),
    /// The recording lacks the number, or is zero where the replay is not.
    Unknown,
}

impl Reproduction {
    fn error(self) -> Option<f64> {
        if let Reproduction::Far(error) = self { Some(error) } else { None }
    }

    /// Returns the worst reproduction among the fidelity sums of `metric`.
    fn assess(metric: Metric, fidelity: &[FidelityRow]) -> Reproduction {
        let sums = metric.fidelity_sums().iter().map(|sum| Reproduction::assess_sum(sum, fidelity));
        sums.max_by(|a, b| a.size().total_cmp(&b.size())).unwrap_or(Reproduction::Near)
    }

    fn assess_sum(sum: FidelitySum, fidelity: &[FidelityRow]) -> Reproduction {
        let rows: Vec<&FidelityRow> = fidelity.iter().filter(|row| sum.contains(&row.measure)).collect();
        let recorded: f64 = rows.iter().map(|row| row.recorded).sum();
        let replayed: f64 = rows.iter().map(|row| row.replayed).sum();
        let bound = rows.iter().filter_map(|row| row.bound).reduce(f64::max).unwrap_or(NEAR);
        match relative_error(recorded, replayed) {
            Some(error) if rows.len() == sum.len() && error.abs() <= bound => Reproduction::Near,
            Some(error) if rows.len() == sum.len() => Reproduction::Far(error),
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
    use super::super::fidelity::FidelityMeasure;
    use super::super::metrics::Metrics;
    use super::*;

    fn outcome(metrics: Metrics) -> ReplayOutcome {
        let (fidelity, unreplayed, assumptions) = (Vec::new(), Vec::new(), Vec::new());
        let (policy, nudged, course) = ("x".to_owned(), Vec::new(), Course::default());
        ReplayOutcome { policy, metrics, nudged, fidelity, unreplayed, assumptions, course }
    }

    fn judge_against(metric: Metric, a: u64, b: u64, recorded: f64) -> Row {
        let measures = metric.fidelity_sums().iter().copied().flatten();
        let fidelity: Vec<FidelityRow> =
            measures.map(|measure| FidelityRow::new(*measure, recorded, 100.0, None)).collect();
        let [a, b] = [a, b].map(|count| outcome(Metrics::new().with_count(metric, count)));
        judge("x", &a, &b, &fidelity, 0.02).get(metric).unwrap().clone()
    }

    fn judge_counts(metric: Metric, a: u64, b: u64) -> Row {
        judge_against(metric, a, b, 100.0)
    }

    #[test]
    fn fewer_lock_acquisitions_are_better_and_more_are_worse() {
        let row = judge_counts(Metric::ZoneLockAcquisitions, 200, 100);
        assert_eq!((row.verdict, row.change), (Some(Verdict::Better), Some(-0.5)));
        assert_eq!(judge_counts(Metric::ZoneLockAcquisitions, 100, 200).verdict, Some(Verdict::Worse));
    }

    #[test]
    fn more_free_pageblocks_are_better() {
        assert_eq!(judge_counts(Metric::FreePageblocks, 10, 20).verdict, Some(Verdict::Better));
        assert_eq!(judge_counts(Metric::FreePageblocks, 20, 10).verdict, Some(Verdict::Worse));
    }

    #[test]
    fn a_change_within_the_margin_is_no_difference() {
        assert_eq!(judge_counts(Metric::ZoneLockAcquisitions, 696, 698).verdict, Some(Verdict::NoDifference));
        assert_eq!(judge_counts(Metric::CrossCpuFrees, 1000, 1001).verdict, Some(Verdict::NoDifference));
    }

    #[test]
    fn what_a_nudge_makes_too_is_undecided() {
        let metric = Metric::ZoneLockAcquisitions;
        let fidelity = [FidelityMeasure::BlocksTaken, FidelityMeasure::BlocksDrained]
            .map(|measure| FidelityRow::new(measure, 1.0, 1.0, None));
        for (counts, medians, verdict) in [
            ([[90, 110, 100], [80, 70, 75]], [100, 75], Verdict::Better),
            ([[90, 110, 100], [80, 70, 95]], [100, 80], Verdict::Undecided),
            ([[90, 110, 100], [101, 70, 130]], [100, 101], Verdict::NoDifference),
        ] {
            let [a, b] = counts.map(|counts| {
                let [metrics, nudged @ ..] = counts.map(|count| Metrics::new().with_count(metric, count));
                ReplayOutcome { nudged: nudged.map(outcome).to_vec(), ..outcome(metrics) }
            });
            let rows = judge("x", &a, &b, &fidelity, 0.02);
            let row = rows.get(metric).unwrap();
            assert_eq!([row.a, row.b], medians.map(|count| Some(Quantity::Count(count))));
            assert_eq!(row.verdict, Some(verdict));
        }
    }

    #[test]
    fn a_metric_without_a_good_direction_is_neither_unless_the_numbers_are_the_same() {
        assert_eq!(judge_counts(Metric::CrossCpuFrees, 5, 6).verdict, Some(Verdict::Neither));
        assert_eq!(judge_counts(Metric::CrossCpuFrees, 5, 5).verdict, Some(Verdict::NoDifference));
    }

    #[test]
    fn a_change_from_zero_has_no_ratio() {
        let row = judge_counts(Metric::FailedAllocations, 0, 3);
        assert_eq!((row.change, row.verdict), (None, Some(Verdict::Worse)));
    }

    #[test]
    fn what_the_replay_does_not_reproduce_carries_no_verdict() {
        let row = judge_against(Metric::AllocStalls, 100, 50, 1000.0);
        assert_eq!((row.verdict, row.replay_error), (None, Some(-0.9)));
        let row = judge_against(Metric::AllocStalls, 100, 50, 0.0);
        assert_eq!((row.verdict, row.replay_error), (None, None), "none was recorded, and some replayed");
        let [a, b] = [Metrics::new().with_count(Metric::AllocStalls, 3), Metrics::new()].map(outcome);
        let rows = judge("x", &a, &b, &[], 0.02);
        assert_eq!(rows.get(Metric::AllocStalls).unwrap().verdict, None, "nothing was recorded");
    }

    #[test]
    fn an_unmeasured_metric_is_neither() {
        let unmeasured = outcome(Metrics::new());
        let MetricRows(rows) = judge("x", &unmeasured, &unmeasured, &[], 0.02);
        assert!(rows.iter().any(|(metric, _)| *metric == Metric::ZoneLockAcquisitions));
        assert!(
            rows.iter()
                .all(|(_, row)| { row.verdict.is_none_or(|verdict| verdict == Verdict::Neither) && row.a.is_none() })
        );
    }

    #[test]
    fn metrics_of_pressure_are_reported_where_they_were_measured() {
        let measured = Metrics::new().with_count(Metric::AllocStalls, 0);
        assert_eq!(as_recorded(&outcome(Metrics::new())).get(Metric::AllocStalls), None);
        assert!(as_recorded(&outcome(measured)).get(Metric::AllocStalls).is_some());
    }
}
