//! Measures of a comparison by cause, over all recordings, and the lines that count their labels.

use freehold_report::number::change;
use freehold_report::report::pool::{CASES_MIN, pool};
use freehold_report::report::screen::headline;
use freehold_report::report::{Group, Measure, Row, measures};
use freehold_stats::verdict::Verdict;

use super::metrics::{Cause, Metric};
use super::rows::MetricRows;

/// Groups the measures of all recordings by cause.
pub(super) fn group_by_cause(recordings: &[MetricRows], margin: f64, confidence: f64) -> Vec<Group> {
    let groups = Cause::ALL.into_iter().map(|cause| {
        let metrics = Metric::ALL.into_iter().filter(|metric| metric.cause() == cause);
        let measures = metrics.map(|metric| measure(metric, recordings, margin, confidence));
        Group { name: cause.name(), measures: measures.filter(|measure| !measure.rows.is_empty()).collect() }
    });
    groups.filter(|group| !group.measures.is_empty()).collect()
}

/// Collects the rows of one metric from all recordings, and pools them if there are several.
pub(crate) fn measure(metric: Metric, recordings: &[MetricRows], margin: f64, confidence: f64) -> Measure {
    let rows: Vec<Row> = recordings.iter().filter_map(|recording| recording.get(metric)).cloned().collect();
    let direction = metric.direction();
    let pooled = (rows.len() > 1).then(|| pool(&rows, direction, margin, confidence));
    Measure { name: metric.name(), title: metric.title(), unit: metric.unit(), direction, rows, pooled }
}

/// Returns the headline of a comparison, which counts labels, and for a few recordings the measures on which several of
/// them agree. The headline of many recordings already counts pooled labels.
pub(super) fn sentences(groups: &[Group], recordings: usize) -> Vec<String> {
    let mut sentences = vec![headline(groups)];
    if (2..CASES_MIN).contains(&recordings) {
        let decided: Vec<String> =
            [Verdict::Better, Verdict::Worse].into_iter().filter_map(|label| list_decided(groups, label)).collect();
        sentences.push(match decided.as_slice() {
            [] => "Better or worse on several recordings alike: none.".to_owned(),
            decided => format!("Better or worse on several recordings alike: {}.", decided.join("; ")),
        });
    }
    sentences
}

/// Lists the measures with this verdict over all recordings, and their changes; `None` if there are none. A measure
/// that is judged on only one of several recordings is left out.
fn list_decided(groups: &[Group], label: Verdict) -> Option<String> {
    let pooled = measures(groups).filter(|measure| measure.pooled.is_none_or(|pooled| pooled.cases > 1));
    let decided = pooled.filter(|measure| measure.verdict() == label);
    let changes: Vec<String> = decided.map(describe_change).collect();
    (!changes.is_empty()).then(|| format!("{} {}", label.word(), changes.join(", ")))
}

/// Formats the name of a measure and its change.
fn describe_change(measure: &Measure) -> String {
    match measure.change() {
        Some(relative) => format!("{} {}", measure.title, change(Some(relative))),
        None => format!("{} from 0", measure.title),
    }
}
