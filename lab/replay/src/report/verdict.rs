//! Measures of a comparison by cause, over all recordings, and the lines that count their labels.

use freehold_report::number::change;
use freehold_report::report::pool::pool;
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::{self, Verdict};

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
    Measure { name: metric.name(), unit: metric.unit(), direction, rows, pooled }
}

/// Returns the headline of a comparison, which counts labels, and the measures with a verdict over all recordings.
pub(super) fn sentences(b: &str, groups: &[Group], recordings: usize) -> Vec<String> {
    let headline = format!("{b}: {}.", count_labels(groups));
    let decided = [Verdict::Better, Verdict::Worse].map(|label| list_decided(groups, label));
    let scope = if recordings > 1 { "all recordings pooled: " } else { "" };
    let pooled = decided.into_iter().flatten().map(|list| format!("{scope}{list}"));
    std::iter::once(headline).chain(pooled).collect()
}

/// Counts the rows of the table by label: `better 3, worse 0, no change 8`.
fn count_labels(groups: &[Group]) -> String {
    let labels = measures(groups).flat_map(|measure| &measure.rows).map(|row| row.verdict);
    let shown = verdict::count_labels(labels).filter(|(label, count)| *count > 0 || label.is_decided());
    shown.map(|(label, count)| format!("{} {count}", label.word())).collect::<Vec<_>>().join(", ")
}

/// Lists the measures with this verdict over all recordings, and their changes; `None` if there are none. A measure
/// that is judged on only one of several recordings is left out.
fn list_decided(groups: &[Group], label: Verdict) -> Option<String> {
    let pooled = measures(groups).filter(|measure| measure.pooled.is_none_or(|pooled| pooled.cases > 1));
    let decided = pooled.filter(|measure| measure.verdict() == label);
    let changes: Vec<String> = decided.map(describe_change).collect();
    (!changes.is_empty()).then(|| format!("{}: {}", label.word(), changes.join(", ")))
}

/// Formats the name of a measure and its change.
fn describe_change(measure: &Measure) -> String {
    match measure.change() {
        Some(relative) => format!("{} {}", measure.name, change(Some(relative))),
        None => format!("{} from 0", measure.name),
    }
}

fn measures(groups: &[Group]) -> impl Iterator<Item = &Measure> {
    groups.iter().flat_map(|group| &group.measures)
}
