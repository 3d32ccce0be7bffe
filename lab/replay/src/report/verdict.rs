//! What a comparison says: measures by cause, over all recordings, and in sentences.

use freehold_report::number::change;
use freehold_report::report::pool::pool;
use freehold_report::report::{Group, Line, Measure};
use freehold_stats::verdict::Verdict;

use super::brief::LISTED_MAX;
use super::model::{Cause, Metric};
use super::rows::MetricRow;

/// One recording under A and B.
pub struct Case<'c> {
    /// The recording.
    pub of: String,
    /// The metrics under both.
    pub rows: &'c [MetricRow],
}

/// The measures of all recordings, by cause.
pub fn groups(cases: &[Case<'_>], margin: f64, confidence: f64) -> Vec<Group> {
    let of_cause = |cause: Cause| {
        let metrics = Metric::ALL.into_iter().filter(|metric| metric.cause() == cause);
        let measures = metrics.map(|metric| measure(metric, cases, margin, confidence));
        let measures = measures.filter(|measure| !measure.lines.is_empty());
        Group { name: cause.name(), measures: measures.collect() }
    };
    Cause::ALL.into_iter().map(of_cause).filter(|group| !group.measures.is_empty()).collect()
}

/// One metric on all recordings, and what they say of it together.
pub fn measure(metric: Metric, cases: &[Case<'_>], margin: f64, confidence: f64) -> Measure {
    let line = |case: &Case<'_>| {
        let row = case.rows.iter().find(|row| row.metric == metric)?;
        let &MetricRow { a, b, change, verdict, replay_error: error, .. } = row;
        Some(Line { of: case.of.clone(), a, b, change, verdict, error, ..Line::default() })
    };
    let lines: Vec<Line> = cases.iter().filter_map(line).collect();
    let direction = metric.direction();
    let pooled = (lines.len() > 1).then(|| pool(&lines, direction, margin, confidence));
    Measure { name: metric.name(), unit: metric.unit(), direction, lines, pooled }
}

/// What all of it says, in sentences: what B changes and by how much, then how far to believe it and why.
pub fn sentences(b: &str, groups: &[Group], cases: usize) -> Vec<String> {
    let alone = alone(groups);
    let alone = (!alone.is_empty()).then(|| format!("Where recordings do not agree: {alone}."));
    [Some(changes(b, groups)), alone, Some(belief(groups, cases))].into_iter().flatten().collect()
}

fn changes(b: &str, groups: &[Group]) -> String {
    let (better, worse) = (decided(groups, Verdict::Better), decided(groups, Verdict::Worse));
    match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("{b} changes nothing for better or worse that may be said here."),
        (false, true) => format!("{b} is better: {better}."),
        (true, false) => format!("{b} is worse: {worse}."),
        (false, false) => format!("{b} is better: {better}. It is worse: {worse}."),
    }
}

/// The measures that are judged so, with their changes, and on which recordings if there are several.
fn decided(groups: &[Group], wanted: Verdict) -> String {
    let measures = groups.iter().flat_map(|group| &group.measures);
    let told: Vec<(String, String)> =
        measures.filter(|measure| measure.verdict() == Some(wanted) && !measure.is_same()).map(said).collect();
    let runs = told.chunk_by(|(_, first), (_, second)| first == second);
    let of_run = |run: &[(String, String)]| {
        let measures: Vec<&str> = run.iter().map(|(said, _)| said.as_str()).collect();
        run[0].1.clone() + &measures.join(", ")
    };
    runs.map(of_run).collect::<Vec<_>>().join("; ")
}

/// What single recordings say of measures that they do not decide together.
fn alone(groups: &[Group]) -> String {
    let open = groups.iter().flat_map(|group| &group.measures).filter(|measure| {
        measure.lines.len() > 1 && !matches!(measure.verdict(), Some(Verdict::Better | Verdict::Worse))
    });
    let told = open.flat_map(|measure| measure.lines.iter().map(move |line| (measure, line)));
    let mut of_each: Vec<((&str, Verdict), Vec<String>)> = Vec::new();
    for (measure, line) in told {
        let Some(verdict @ (Verdict::Better | Verdict::Worse)) = line.verdict else { continue };
        let number = line.change.map_or_else(|| "from none".to_owned(), |relative| change(Some(relative)));
        let said = format!("{} {number}", measure.name.replace('_', " "));
        match of_each.iter_mut().find(|(key, _)| *key == (line.of.as_str(), verdict)) {
            Some((_, measures)) => measures.push(said),
            None => of_each.push(((&line.of, verdict), vec![said])),
        }
    }
    if of_each.len() > LISTED_MAX {
        return counted(groups);
    }
    // The table has all of them.
    let said = |((of, verdict), measures): &((&str, Verdict), Vec<String>)| {
        let more = if measures.len() > 1 { format!(" and {} more", measures.len() - 1) } else { String::new() };
        format!("{} on {of} {}{more}", verdict.word(), measures[0])
    };
    of_each.iter().map(said).collect::<Vec<_>>().join("; ")
}

/// The same of many recordings: how many say what.
fn counted(groups: &[Group]) -> String {
    let told = groups.iter().flat_map(|group| &group.measures).filter_map(|measure| {
        let of = |verdict| measure.lines.iter().filter(|line| line.verdict == Some(verdict)).count();
        let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
        let is_open = !matches!(measure.verdict(), Some(Verdict::Better | Verdict::Worse));
        let of = measure.lines.len();
        let name = measure.name.replace('_', " ");
        (is_open && better + worse > 0).then(|| format!("{name} better on {better} of {of} and worse on {worse}"))
    });
    told.collect::<Vec<_>>().join("; ")
}

/// A measure with its change, and the recordings that tell it.
fn said(measure: &Measure) -> (String, String) {
    let number = measure.change().map_or_else(|| "from none".to_owned(), |relative| change(Some(relative)));
    let told: Vec<&Line> = measure.lines.iter().filter(|line| line.verdict.is_some()).collect();
    let on = match (told.as_slice(), measure.lines.len()) {
        (_, 1) => String::new(),
        ([line], _) => format!("on {} ", line.of),
        (told, 2) if told.len() == 2 => "on both ".to_owned(),
        (told, all) if told.len() == all => "on all ".to_owned(),
        (told, all) => format!("on {} of {all} ", told.len()),
    };
    (format!("{} {number}", measure.name.replace('_', " ")), on)
}

fn belief(groups: &[Group], cases: usize) -> String {
    let lines = groups.iter().flat_map(|group| &group.measures).flat_map(|measure| &measure.lines);
    let differing: Vec<&Line> = lines.filter(|line| !line.is_same() && line.a.is_some()).collect();
    let without = differing.iter().filter(|line| line.verdict.is_none()).count();
    let chance = differing.iter().filter(|line| line.verdict == Some(Verdict::Undecided)).count();
    let exact = match cases {
        1 => "A replay repeats exactly, which says nothing of other workloads",
        _ => "They decide together only where all agree",
    };
    if differing.is_empty() {
        return format!("{exact}: A and B gave the same in everything.");
    }
    let all = differing.len();
    let chance = match chance {
        0 => String::new(),
        _ => {
            format!(" {chance} of {all} differences are no larger than what watermarks that are a hundredth off make.")
        }
    };
    if without == 0 {
        return format!("{exact}. The replay comes near the recorded kernel in all that differs.{chance}");
    }
    format!("{exact}; {without} of {all} differences are not judged.{chance}")
}
