//! Rows of a comparison: every metric under A and under B, with its verdict.
//!
//! A replay is exact: the same recording and policy give the same numbers on any machine. A few pages may still decide
//! the further course, so each policy is also replayed with watermarks that vary by 1 %. The median of these replays
//! counts, and a difference whose ranges overlap is sensitive to watermarks. A metric is judged on a recording only if
//! the replay under the recorded kernel's rules reproduces it there, since B cannot be compared with an A that is in
//! error.
//!
//! # Design
//!
//! The error of the replay under the recorded kernel's own rules is no information about other rules. A measure that
//! the replay does not reproduce is therefore not judged, even if A equals B.
//!
//! Sensitivity is measured by five replays per policy, with watermarks that vary by up to 1 % (`a_range` and `b_range`
//! of `freehold compare --json -`). *No change* requires that all values of A and B differ by at most the margin: 2 %,
//! or half a percentage point for shares and indexes. *Better*, *worse* and *changed* require separate ranges and a
//! change above the margin. All other rows are sensitive to watermarks.

use freehold_report::number::Quantity;
use freehold_report::report::{Row, UnjudgedReason};
use freehold_stats::verdict::{Change, Evidence, SHARE_MARGIN, Verdict, judge as judge_evidence, relative_change};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::fidelity::{FidelityRow, relative_error};
use super::metrics::{FidelitySum, Metric};
use super::outcome::ReplayOutcome;

/// Largest relative error of a replay that counts as near, if the fidelity row has no bound of its own.
const NEAR: f64 = 0.15;

/// Rows of one recording: one for each metric that the replay under A reports, in the order of [`Metric::ALL`].
///
/// In JSON each row has the name and the unit of its metric, and no case, since the case is the recording.
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

    /// Returns the rows under another name of the case.
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

/// A row that begins with its metric, for data frames.
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

/// Compares every metric that A reports with B's, over all replays of each, on the recording called `case`. `fidelity`
/// is that of the replay under the recorded kernel's rules, and decides which metrics get a verdict.
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

/// Returns whether a replay reproduces `metric`: every known sum of fidelity measures of the metric is within its
/// bound, which is [`NEAR`] if the rows have none. If no sum is known, see [`Metric::is_recorded`].
pub(crate) fn is_reproduced(metric: Metric, fidelity: &[FidelityRow]) -> bool {
    Reproduction::assess(metric, fidelity) == Reproduction::Near
}

/// Returns the size of the largest relative error of a replay in the fidelity measures of `metric`; infinite if it is
/// not known.
pub(crate) fn reproduction_error(metric: Metric, fidelity: &[FidelityRow]) -> f64 {
    let errors = known_sums(metric, fidelity).map(|sum| sum_error(sum, fidelity).map_or(f64::INFINITY, f64::abs));
    errors.reduce(f64::max).unwrap_or(if metric.fidelity_sums().is_empty() { 0.0 } else { f64::INFINITY })
}

/// Returns the fidelity sums of `metric` of which the recording has at least one measure.
fn known_sums(metric: Metric, fidelity: &[FidelityRow]) -> impl Iterator<Item = FidelitySum> {
    let sums = metric.fidelity_sums().iter().copied();
    sums.filter(|sum| fidelity.iter().any(|row| sum.contains(&row.measure)))
}

/// Returns the relative error of a replay in a sum of fidelity measures; `None` if the recording lacks one of them, or
/// only the recorded sum is zero.
fn sum_error(sum: FidelitySum, fidelity: &[FidelityRow]) -> Option<f64> {
    let rows: Vec<&FidelityRow> = fidelity.iter().filter(|row| sum.contains(&row.measure)).collect();
    let recorded: f64 = rows.iter().map(|row| row.recorded).sum();
    let replayed: f64 = rows.iter().map(|row| row.replayed).sum();
    relative_error(recorded, replayed).filter(|_| rows.len() == sum.len())
}

/// Compares a replay under the recorded kernel's rules with itself. The verdicts show which metrics it reproduces.
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
    let reproduction = Reproduction::assess(metric, fidelity);
    let change = a.median().zip(b.median()).and_then(|(a, b)| relative_change(a.value(), b.value()));
    let (verdict, unjudged) = match judged_change(metric, &a, &b) {
        None => (Verdict::NotJudged, Some(UnjudgedReason::NoValue)),
        Some(change) => {
            let evidence = Evidence {
                change,
                direction: metric.direction(),
                margin,
                is_reproduced: reproduction == Reproduction::Near,
                events: outcomes.iter().filter_map(|outcome| outcome.metrics.events(metric)).reduce(f64::max),
            };
            (judge_evidence(&evidence), reproduction.unjudged_reason())
        }
    };
    let (case, replay_error) = (case.to_owned(), reproduction.error());
    let (a_range, b_range, interval) = (a.range(), b.range(), None);
    Row { case, a: a.median(), b: b.median(), a_range, b_range, change, interval, verdict, replay_error, unjudged }
}

/// Returns the change to judge, with its sensitivity to watermarks; `None` if a side was not measured. Where A and B
/// take the same values, the change is exactly zero, however much these values vary.
fn judged_change(metric: Metric, a: &ReplayValues, b: &ReplayValues) -> Option<Change> {
    let middle = change_between(metric, a.median()?.value(), b.median()?.value());
    Some(match (a.range(), b.range()) {
        (Some([a_low, a_high]), Some([b_low, b_high])) if a.0 != b.0 => Change::Watermarks {
            low: change_between(metric, a_high, b_low),
            high: change_between(metric, a_low, b_high),
            middle,
            overlap: a_low <= b_high && b_low <= a_high,
        },
        _ => Change::Exact(middle),
    })
}

/// Returns the relative change between two values of a metric; infinite from zero. A difference of shares up to
/// [`SHARE_MARGIN`] is no change: relative to a tiny share, it would look large.
fn change_between(metric: Metric, from: f64, to: f64) -> f64 {
    let is_tiny = metric.is_share() && (to - from).abs() <= SHARE_MARGIN;
    if is_tiny { 0.0 } else { relative_change(from, to).unwrap_or(f64::INFINITY) }
}

/// Values of one metric in all replays under one policy, ascending. Replays that did not measure the metric are left
/// out.
struct ReplayValues(Vec<Quantity>);

impl ReplayValues {
    fn collect(outcome: &ReplayOutcome, metric: Metric) -> ReplayValues {
        let mut values: Vec<Quantity> = outcome.replays().filter_map(|replay| replay.metrics.get(metric)).collect();
        values.sort_by(|one, other| one.value().total_cmp(&other.value()));
        ReplayValues(values)
    }

    /// Returns the median; the greater of the two middle values if the number of values is even.
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
}

/// Error of a replay in a metric, compared with the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reproduction {
    /// The error is within the bound.
    Near,
    /// The relative error is beyond the bound.
    Far(f64),
    /// The recorded number is zero, and the replayed number is not.
    NoneRecorded,
    /// The recording lacks the number.
    NotRecorded,
}

impl Reproduction {
    fn error(self) -> Option<f64> {
        if let Reproduction::Far(error) = self { Some(error) } else { None }
    }

    /// Returns the reason why the metric is not judged; `None` if the replay reproduces it.
    fn unjudged_reason(self) -> Option<UnjudgedReason> {
        match self {
            Reproduction::Near => None,
            Reproduction::Far(_) => Some(UnjudgedReason::ReplayError),
            Reproduction::NoneRecorded => Some(UnjudgedReason::NoneRecorded),
            Reproduction::NotRecorded => Some(UnjudgedReason::NotRecorded),
        }
    }

    /// Returns the worst reproduction among the fidelity sums of `metric`. Sums that the recording lacks are skipped if
    /// it has another one.
    fn assess(metric: Metric, fidelity: &[FidelityRow]) -> Reproduction {
        let assessed = known_sums(metric, fidelity).map(|sum| Reproduction::assess_sum(sum, fidelity));
        let unknown = if metric.is_recorded() { Reproduction::Near } else { Reproduction::NotRecorded };
        assessed.max_by(|a, b| a.size().total_cmp(&b.size())).unwrap_or(unknown)
    }

    fn assess_sum(sum: FidelitySum, fidelity: &[FidelityRow]) -> Reproduction {
        let bounds = fidelity.iter().filter(|row| sum.contains(&row.measure)).filter_map(|row| row.bound);
        let bound = bounds.reduce(f64::max).unwrap_or(NEAR);
        let is_recorded = sum.iter().all(|measure| fidelity.iter().any(|row| row.measure == *measure));
        match sum_error(sum, fidelity) {
            Some(error) if error.abs() <= bound => Reproduction::Near,
            Some(error) => Reproduction::Far(error),
            None if is_recorded => Reproduction::NoneRecorded,
            None => Reproduction::NotRecorded,
        }
    }

    fn size(self) -> f64 {
        match self {
            Reproduction::Near => 0.0,
            Reproduction::Far(error) => error.abs(),
            Reproduction::NoneRecorded | Reproduction::NotRecorded => f64::INFINITY,
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
    fn fewer_lock_acquisitions_are_better() {
        let row = judge_counts(Metric::ZoneLockAcquisitions, 200, 100);
        assert_eq!((row.verdict, row.change, row.unjudged), (Verdict::Better, Some(-0.5), None));
        assert_eq!(judge_counts(Metric::ZoneLockAcquisitions, 100, 200).verdict, Verdict::Worse);
    }

    #[test]
    fn more_free_pageblocks_are_better() {
        assert_eq!(judge_counts(Metric::FreePageblocks, 100, 200).verdict, Verdict::Better);
        assert_eq!(judge_counts(Metric::FreePageblocks, 200, 100).verdict, Verdict::Worse);
    }

    #[test]
    fn change_within_the_margin_is_no_change() {
        assert_eq!(judge_counts(Metric::ZoneLockAcquisitions, 696, 698).verdict, Verdict::NoChange);
        assert_eq!(judge_counts(Metric::CrossCpuFrees, 1000, 1001).verdict, Verdict::NoChange);
    }

    #[test]
    fn change_within_nudges_is_sensitive_to_watermarks() {
        let metric = Metric::ZoneLockAcquisitions;
        let fidelity = [FidelityMeasure::BlocksTaken, FidelityMeasure::BlocksDrained]
            .map(|measure| FidelityRow::new(measure, 1.0, 1.0, None));
        for (counts, medians, verdict) in [
            ([[90, 110, 100], [80, 70, 75]], [100, 75], Verdict::Better),
            ([[90, 110, 100], [80, 70, 95]], [100, 80], Verdict::SensitiveToWatermarks),
            ([[90, 110, 100], [101, 70, 130]], [100, 101], Verdict::SensitiveToWatermarks),
            ([[100, 101, 100], [101, 100, 102]], [100, 101], Verdict::NoChange),
            ([[90, 110, 100], [90, 110, 100]], [100, 100], Verdict::NoChange),
        ] {
            let [a, b] = counts.map(|counts| {
                let [metrics, nudged @ ..] = counts.map(|count| Metrics::new().with_count(metric, count));
                ReplayOutcome { nudged: nudged.map(outcome).to_vec(), ..outcome(metrics) }
            });
            let rows = judge("x", &a, &b, &fidelity, 0.02);
            let row = rows.get(metric).unwrap();
            assert_eq!([row.a, row.b], medians.map(|count| Some(Quantity::Count(count))));
            assert_eq!(row.verdict, verdict);
        }
    }

    #[test]
    fn neutral_metric_is_changed_unless_equal() {
        assert_eq!(judge_counts(Metric::CrossCpuFrees, 50, 60).verdict, Verdict::Changed);
        assert_eq!(judge_counts(Metric::CrossCpuFrees, 50, 50).verdict, Verdict::NoChange);
    }

    #[test]
    fn change_from_zero_has_no_ratio() {
        let row = judge_counts(Metric::FailedAllocations, 0, 30);
        assert_eq!((row.change, row.verdict), (None, Verdict::Worse));
    }

    #[test]
    fn unreproduced_metric_is_not_judged() {
        let row = judge_against(Metric::AllocStalls, 100, 50, 1000.0);
        assert_eq!((row.verdict, row.replay_error), (Verdict::NotJudged, Some(-0.9)));
        assert_eq!(row.unjudged, Some(UnjudgedReason::ReplayError));
        let row = judge_against(Metric::AllocStalls, 100, 50, 0.0);
        assert_eq!((row.verdict, row.replay_error), (Verdict::NotJudged, None), "none was recorded, and some replayed");
        assert_eq!(row.unjudged, Some(UnjudgedReason::NoneRecorded));
        for (b, reason) in [
            (Metrics::new().with_count(Metric::AllocStalls, 3), UnjudgedReason::NotRecorded),
            (Metrics::new(), UnjudgedReason::NoValue),
        ] {
            let [a, b] = [Metrics::new().with_count(Metric::AllocStalls, 3), b].map(outcome);
            let row = judge("x", &a, &b, &[], 0.02).get(Metric::AllocStalls).unwrap().clone();
            assert_eq!((row.verdict, row.unjudged), (Verdict::NotJudged, Some(reason)));
        }
    }

    #[test]
    fn unmeasured_metric_is_not_judged() {
        let unmeasured = outcome(Metrics::new());
        let MetricRows(rows) = judge("x", &unmeasured, &unmeasured, &[], 0.02);
        assert!(rows.iter().any(|(metric, _)| *metric == Metric::ZoneLockAcquisitions));
        assert!(rows.iter().all(|(_, row)| row.verdict == Verdict::NotJudged && row.a.is_none()));
    }

    /// If the kernel has events and the replay has none, or the reverse, the metric is not judged even if A equals B.
    #[test]
    fn equal_values_contradicted_by_the_kernel_are_not_judged() {
        for (metric, value, recorded) in [(Metric::FallbackSteals, 0, 4035.0), (Metric::FallbackClaims, 134, 0.0)] {
            let measures = metric.fidelity_sums().iter().copied().flatten();
            let fidelity: Vec<FidelityRow> =
                measures.map(|measure| FidelityRow::new(*measure, recorded, value as f64, None)).collect();
            let same = outcome(Metrics::new().with_count(metric, value));
            let rows = judge("x", &same, &same, &fidelity, 0.02);
            assert_eq!(rows.get(metric).unwrap().verdict, Verdict::NotJudged, "{metric:?}");
        }
    }

    #[test]
    fn few_events_are_too_few() {
        assert_eq!(judge_counts(Metric::FallbackClaims, 2, 3).verdict, Verdict::TooFewEvents);
        assert_eq!(judge_counts(Metric::FallbackClaims, 3, 30).verdict, Verdict::Worse);
        let metric = Metric::CompactSuccess;
        let pressure = Metrics::new().with_count(Metric::AllocStalls, 0).with_count(Metric::CompactStalls, 4);
        let [a, b] = [1, 2].map(|part| outcome(pressure.clone().with_ratio(metric, part, 4)));
        let measures = metric.fidelity_sums().iter().copied().flatten();
        let fidelity: Vec<FidelityRow> = measures.map(|measure| FidelityRow::new(*measure, 4.0, 4.0, None)).collect();
        assert_eq!(judge("x", &a, &b, &fidelity, 0.02).get(metric).unwrap().verdict, Verdict::TooFewEvents);
    }

    #[test]
    fn large_change_of_a_tiny_share_is_no_change() {
        let metric = Metric::UnusableFreeIndexOrder9;
        let fidelity = [FidelityRow::new(FidelityMeasure::UnusableFreeIndexOrder9, 0.006, 0.006, None)];
        let judge_shares = |a, b| {
            let [a, b] = [a, b].map(|share| outcome(Metrics::new().with(metric, Quantity::Ratio(share))));
            judge("x", &a, &b, &fidelity, 0.02).get(metric).unwrap().clone()
        };
        assert_eq!(judge_shares(0.006, 0.007).verdict, Verdict::NoChange);
        assert_eq!(judge_shares(0.006, 0.06).verdict, Verdict::Worse);
    }

    #[test]
    fn wrong_list_pages_leave_refills_unjudged() {
        let [a, b] = [6460, 2681].map(|count| outcome(Metrics::new().with_count(Metric::PcpRefills, count)));
        let fidelity = |on_lists: f64| {
            [
                FidelityRow::new(FidelityMeasure::BlocksTaken, 100.0, 101.0, None),
                FidelityRow::new(FidelityMeasure::PagesOnPerCpuLists, 100.0, on_lists, None),
            ]
        };
        let verdicts = [149.0, 110.0]
            .map(|on_lists| judge("x", &a, &b, &fidelity(on_lists), 0.02).get(Metric::PcpRefills).unwrap().verdict);
        assert_eq!(verdicts, [Verdict::NotJudged, Verdict::Better]);
    }

    #[test]
    fn pressure_metrics_are_reported_if_measured() {
        let measured = Metrics::new().with_count(Metric::AllocStalls, 0);
        assert_eq!(as_recorded(&outcome(Metrics::new())).get(Metric::AllocStalls), None);
        assert!(as_recorded(&outcome(measured)).get(Metric::AllocStalls).is_some());
    }
}
