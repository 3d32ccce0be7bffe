//! The measures of a comparison by cause, over all recordings, and the sentences that sum them up.

use freehold_report::number::change;
use freehold_report::report::pool::pool;
use freehold_report::report::{Group, Measure, Row};
use freehold_stats::verdict::Verdict;

use super::brief::LISTED_MAX;
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

/// Sums up a comparison in sentences: what B changes and by how much, then how far to believe it and why.
pub(super) fn sentences(b: &str, groups: &[Group], recordings: usize) -> Vec<String> {
    let disagreement = disagreement(groups);
    let disagreement = (!disagreement.is_empty()).then(|| format!("Where recordings do not agree: {disagreement}."));
    [Some(changes(b, groups)), disagreement, Some(belief(groups, recordings))].into_iter().flatten().collect()
}

fn changes(b: &str, groups: &[Group]) -> String {
    let (better, worse) = (list_decided(groups, Verdict::Better), list_decided(groups, Verdict::Worse));
    match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("{b} changes nothing for better or worse that may be said here."),
        (false, true) => format!("{b} is better: {better}."),
        (true, false) => format!("{b} is worse: {worse}."),
        (false, false) => format!("{b} is better: {better}. It is worse: {worse}."),
    }
}

/// Lists the measures with this verdict, their changes, and on which recordings if there are several.
fn list_decided(groups: &[Group], verdict: Verdict) -> String {
    let decided = measures(groups).filter(|measure| measure.verdict() == Some(verdict) && !measure.is_same());
    let described: Vec<(String, String)> =
        decided.map(|measure| (judged_recordings(measure), describe_change(measure.name, measure.change()))).collect();
    let runs = described.chunk_by(|(first, _), (second, _)| first == second);
    let lists = runs.map(|run| {
        let changes: Vec<&str> = run.iter().map(|(_, change)| change.as_str()).collect();
        format!("{}{}", run[0].0, changes.join(", "))
    });
    lists.collect::<Vec<_>>().join("; ")
}

/// Lists the verdicts of single recordings on measures that the recordings do not decide together.
fn disagreement(groups: &[Group]) -> String {
    let open: Vec<&Measure> = measures(groups).filter(|measure| is_open(measure)).collect();
    let mut changes_by_case: Vec<((&str, Verdict), Vec<String>)> = Vec::new();
    for measure in open {
        for row in &measure.rows {
            let Some(verdict @ (Verdict::Better | Verdict::Worse)) = row.verdict else { continue };
            let described = describe_change(measure.name, row.change);
            match changes_by_case.iter_mut().find(|(key, _)| *key == (row.case.as_str(), verdict)) {
                Some((_, changes)) => changes.push(described),
                None => changes_by_case.push(((&row.case, verdict), vec![described])),
            }
        }
    }
    if changes_by_case.len() > LISTED_MAX {
        return count_disagreement(groups);
    }
    // The table has all of them.
    let lists = changes_by_case.iter().map(|((case, verdict), changes)| {
        let more = if changes.len() > 1 { format!(" and {} more", changes.len() - 1) } else { String::new() };
        format!("{} on {case} {}{more}", verdict.word(), changes[0])
    });
    lists.collect::<Vec<_>>().join("; ")
}

/// Whether several recordings do not decide a measure together.
fn is_open(measure: &Measure) -> bool {
    measure.rows.len() > 1 && !matches!(measure.verdict(), Some(Verdict::Better | Verdict::Worse))
}

/// Counts, for each open measure, the recordings that are better and those that are worse.
fn count_disagreement(groups: &[Group]) -> String {
    let counts = measures(groups).filter(|measure| is_open(measure)).filter_map(|measure| {
        let (better, worse) = (count(measure, Verdict::Better), count(measure, Verdict::Worse));
        let (name, total) = (measure.name.replace('_', " "), measure.rows.len());
        (better + worse > 0).then(|| format!("{name} better on {better} of {total} and worse on {worse}"))
    });
    counts.collect::<Vec<_>>().join("; ")
}

fn count(measure: &Measure, verdict: Verdict) -> usize {
    measure.rows.iter().filter(|row| row.verdict == Some(verdict)).count()
}

/// Formats the name of a measure and its change.
fn describe_change(name: &str, relative: Option<f64>) -> String {
    let number = relative.map_or_else(|| "from none".to_owned(), |relative| change(Some(relative)));
    format!("{} {number}", name.replace('_', " "))
}

/// Names the recordings that carry a verdict on a measure; empty if there is only one recording.
fn judged_recordings(measure: &Measure) -> String {
    let judged: Vec<&Row> = measure.rows.iter().filter(|row| row.verdict.is_some()).collect();
    match (judged.as_slice(), measure.rows.len()) {
        (_, 1) => String::new(),
        ([row], _) => format!("on {} ", row.case),
        ([_, _], 2) => "on both ".to_owned(),
        (judged, total) if judged.len() == total => "on all ".to_owned(),
        (judged, total) => format!("on {} of {total} ", judged.len()),
    }
}

fn measures(groups: &[Group]) -> impl Iterator<Item = &Measure> {
    groups.iter().flat_map(|group| &group.measures)
}

fn belief(groups: &[Group], recordings: usize) -> String {
    let rows = measures(groups).flat_map(|measure| &measure.rows);
    let differing: Vec<&Row> = rows.filter(|row| !row.is_same() && row.a.is_some()).collect();
    let unjudged = differing.iter().filter(|row| row.verdict.is_none()).count();
    let within_noise = differing.iter().filter(|row| row.verdict == Some(Verdict::Undecided)).count();
    let exact = match recordings {
        1 => "A replay repeats exactly, which says nothing of other workloads",
        _ => "They decide together only where all agree",
    };
    if differing.is_empty() {
        return format!("{exact}: A and B gave the same in everything.");
    }
    let total = differing.len();
    let noise = match within_noise {
        0 => String::new(),
        _ => format!(
            " {within_noise} of {total} differences are no larger than what watermarks that are a hundredth off make."
        ),
    };
    if unjudged == 0 {
        return format!("{exact}. The replay comes near the recorded kernel in all that differs.{noise}");
    }
    format!("{exact}; {unjudged} of {total} differences are not judged.{noise}")
}
