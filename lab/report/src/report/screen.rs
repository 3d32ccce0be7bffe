//! First screen of a report: the most important rows, and lines that count labels.
//!
//! A measure with few cases has one row for each case. A measure with many has one row for all of them. The screen has
//! a fixed number of lines. If not all rows fit, rows with a decision are kept first, then rows that may change, then
//! rows without change, and within each the larger changes. The table lists the kept rows in the order of the measures.
//! No decision is left out. Rows that are not judged, or that have too few events, are only counted.

use std::cmp::Reverse;

use super::{Group, Measure, Pooled, Report, Row, UnjudgedReason, measures};
use crate::number::{ABSENT, change, quantity_of};
use crate::terminal::{Column, Style, Tone, table_text, wrapped};
use freehold_stats::verdict::{Direction, Verdict, count_labels};

/// Maximum number of cases of a measure that have a row each.
const CASES_MAX: usize = 3;
/// Maximum number of rows of the tables of measures and of cases together, so that the screen has 24 lines.
const LINES: usize = 10;
/// Minimum number of rows for measures, if there are many cases.
const LINES_MIN: usize = 4;

/// Returns a headline of one line that counts the labels of these measures: `better 2, worse 0, no change 5, undecided
/// 18, not judged 14`. A measure that was pooled over many cases counts once, under its pooled label.
pub fn headline(groups: &[Group]) -> String {
    let labels: Vec<Verdict> = measures(groups).flat_map(counted_labels).collect();
    let count = |is_in: fn(Verdict) -> bool| labels.iter().filter(|label| is_in(**label)).count();
    let [better, worse, changed] = [Verdict::Better, Verdict::Worse, Verdict::Changed]
        .map(|wanted| labels.iter().filter(|label| **label == wanted).count());
    let optional = [
        ("no change", count(|label| label == Verdict::NoChange)),
        ("changed", changed),
        ("undecided", count(is_undecided)),
        ("not judged", count(|label| label == Verdict::NotJudged)),
    ];
    let mut text = format!("better {better}, worse {worse}");
    text.extend(optional.into_iter().filter(|(_, count)| *count > 0).map(|(word, count)| format!(", {word} {count}")));
    text
}

/// Formats the table of the most important rows. A column in which every row is empty is left out.
pub(super) fn table(report: &Report, style: Style) -> String {
    let lines = select(report);
    let has_cases = measures(&report.groups).any(|measure| measure.rows.len() > 1);
    let has_values = lines.iter().any(|line| !line.numbers[0].is_empty());
    let mut columns = vec![Column::Text(LEGEND)];
    columns.extend(has_cases.then_some(Column::Text("case")));
    columns.extend(["A", "B"].into_iter().filter(|_| has_values).chain(["change"]).map(Column::Number));
    columns.push(Column::Text("verdict"));
    let mut table = style.table(&columns);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut last = "";
    for line in lines {
        let name = if line.measure.title == last { String::new() } else { titled(line.measure) };
        last = line.measure.title;
        let mut cells = vec![style.cell(name, Tone::Plain)];
        cells.extend(has_cases.then(|| style.cell(&line.case, Tone::Faint)));
        let numbers = if has_values { &line.numbers[..] } else { &line.numbers[2..] };
        cells.extend(numbers.iter().map(|text| style.cell(text, Tone::Plain)));
        cells.push(style.cell(&line.label, line.tone));
        table.add_row(cells);
    }
    if table.row_count() == 0 { String::new() } else { table_text(&table) }
}

/// Returns lines that count the undecided rows by label and the rows that are not judged by reason, and the options to
/// try next.
pub(super) fn footer(report: &Report, style: Style) -> String {
    let labels = measures(&report.groups).flat_map(counted_labels);
    let undecided = count_labels(labels).filter(|(label, count)| is_undecided(*label) && *count > 0);
    let undecided = undecided.map(|(label, count)| (count_of(label), count)).collect();
    let rows = || measures(&report.groups).flat_map(|measure| &measure.rows);
    let reasons = UnjudgedReason::ALL
        .map(|reason| (count_of_reason(reason), rows().filter(|row| row.unjudged == Some(reason)).count()));
    let reasons: Vec<(&str, usize)> = reasons.into_iter().filter(|(_, count)| *count > 0).collect();
    let counts = [("undecided", undecided), ("not judged", reasons)];
    let lines = counts.into_iter().filter_map(|(label, counts): (&str, Vec<(&str, usize)>)| {
        let counts: Vec<String> =
            counts.into_iter().map(|(text, count)| text.replacen('#', &count.to_string(), 1)).collect();
        (!counts.is_empty()).then(|| format!("{label}: {}", counts.join(", ")))
    });
    let total: usize = measures(&report.groups).map(|measure| measure.rows.len()).sum();
    let all = (total > 0).then(|| format!("All {total} rows: --all."));
    let next = all.into_iter().chain(report.next.iter().cloned()).reduce(|all, next| format!("{all} {next}"));
    lines.chain(next).map(|line| wrapped(&line, style)).collect()
}

/// Returns the text that counts rows with an undecided label; `#` is the count.
fn count_of(label: Verdict) -> &'static str {
    match label {
        Verdict::SensitiveToWatermarks => "sensitive to watermarks # (if moved by 1 %)",
        Verdict::TooFewEvents => "too few events # (<20)",
        Verdict::WithinNoise => "within noise #",
        _ => "mixed #",
    }
}

/// Returns the text that counts rows that are not judged for a reason; `#` is the count.
fn count_of_reason(reason: UnjudgedReason) -> &'static str {
    match reason {
        UnjudgedReason::ReplayError => "replay error # (replay too far from the kernel)",
        UnjudgedReason::NoneRecorded => "none recorded #",
        UnjudgedReason::NotRecorded => "not in the recording #",
        UnjudgedReason::NoValue => "no value #",
    }
}

/// Header of the column of measures, which explains the arrows in it.
const LEGEND: &str = "measure, \u{2193}\u{2191}: better";

/// Returns the title of a measure after an arrow in its better direction.
fn titled(measure: &Measure) -> String {
    let arrow = match measure.direction {
        Direction::Lower => '\u{2193}',
        Direction::Higher => '\u{2191}',
        Direction::Neutral => ' ',
    };
    format!("{arrow} {}", measure.title)
}

/// A row of the table.
struct Line<'r> {
    measure: &'r Measure,
    case: String,
    numbers: [String; 3],
    label: String,
    tone: Tone,
    /// Rank by label, the most important first, and size of the change.
    order: (u8, Reverse<u64>),
}

/// Selects the lines of the table, in the order of the measures.
fn select(report: &Report) -> Vec<Line<'_>> {
    let mut lines: Vec<(usize, Line<'_>)> =
        measures(&report.groups).flat_map(lines).enumerate().filter(|(_, line)| line.order.0 < NOT_SHOWN).collect();
    let cases = report.cases.as_ref().map_or(0, |cases| cases.rows.len());
    let room = LINES.saturating_sub(cases).max(LINES_MIN);
    lines.sort_by_key(|(_, line)| line.order);
    let decided = lines.iter().filter(|(_, line)| line.order.0 == 0).count();
    lines.truncate(decided.max(room));
    lines.sort_by_key(|(number, _)| *number);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the lines of a measure: one for each case, or one for all of them.
fn lines(measure: &Measure) -> Vec<Line<'_>> {
    match &measure.pooled {
        _ if measure.rows.len() <= CASES_MAX => {
            measure.rows.iter().filter(|row| row.is_nonzero()).map(|row| line_of_case(measure, row)).collect()
        }
        Some(pooled) => vec![line_of_pool(measure, pooled)],
        None => vec![line_of_all(measure)],
    }
}

fn line_of_case<'r>(measure: &'r Measure, row: &Row) -> Line<'r> {
    let [a, b] = [row.a, row.b].map(|value| quantity_of(measure.unit, value));
    Line {
        measure,
        case: row.case.clone(),
        numbers: [a, b, change(row.change)],
        label: row.verdict.word().to_owned(),
        tone: row.verdict.into(),
        order: (rank(row.verdict), Reverse(size(row.change))),
    }
}

/// Returns the line of a measure that was pooled: the median change, and the ends of its interval under A and B.
fn line_of_pool<'r>(measure: &'r Measure, pooled: &Pooled) -> Line<'r> {
    let [low, high] = pooled.ends();
    Line {
        measure,
        case: format!("all {}", measure.rows.len()),
        numbers: [low, high, change(pooled.change)],
        label: pooled.verdict.word().to_owned(),
        tone: pooled.verdict.into(),
        order: (rank(pooled.verdict), Reverse(size(pooled.change))),
    }
}

/// Returns the line of a measure over all cases, which counts labels. Its rank is that of its most important label.
fn line_of_all(measure: &Measure) -> Line<'_> {
    let counts: Vec<(Verdict, usize)> =
        count_labels(measure.rows.iter().map(|row| row.verdict)).filter(|(_, count)| *count > 0).collect();
    let first = counts.iter().map(|(label, _)| *label).min_by_key(|label| rank(*label)).unwrap_or_default();
    let changes = measure.rows.iter().filter(|row| rank(row.verdict) < NOT_SHOWN).filter_map(|row| row.change);
    let ends = changes.fold(None, |ends: Option<(f64, f64)>, change| {
        Some(ends.map_or((change, change), |(low, high)| (low.min(change), high.max(change))))
    });
    let range =
        ends.map_or(ABSENT.to_owned(), |(low, high)| format!("{} to {}", change(Some(low)), change(Some(high))));
    let label: Vec<String> = counts.iter().map(|(label, count)| format!("{} {count}", label.word())).collect();
    Line {
        measure,
        case: format!("all {}", measure.rows.len()),
        numbers: [String::new(), String::new(), range],
        label: label.join(", "),
        tone: first.into(),
        order: (rank(first), Reverse(ends.map_or(0, |(low, high)| size(Some(low)).max(size(Some(high)))))),
    }
}

/// Rank of labels that have no line.
const NOT_SHOWN: u8 = 3;

/// Returns the rank of a label, the most important first.
fn rank(label: Verdict) -> u8 {
    match label {
        Verdict::Better | Verdict::Worse => 0,
        Verdict::Changed | Verdict::SensitiveToWatermarks | Verdict::WithinNoise | Verdict::Mixed => 1,
        Verdict::NoChange => 2,
        Verdict::TooFewEvents | Verdict::NotJudged => NOT_SHOWN,
    }
}

/// Returns the size of a change in thousandths; `u64::MAX` if A is zero.
fn size(change: Option<f64>) -> u64 {
    change.map_or(u64::MAX, |change| (change.abs() * 1000.0) as u64)
}

/// Returns whether the headline counts a label as undecided: every open label except `NotJudged`.
fn is_undecided(label: Verdict) -> bool {
    label.is_open() && label != Verdict::NotJudged
}

/// Returns the labels of a measure that the headline counts.
fn counted_labels(measure: &Measure) -> Vec<Verdict> {
    match &measure.pooled {
        Some(pooled) if measure.rows.len() > CASES_MAX => vec![pooled.verdict],
        _ => measure.rows.iter().map(|row| row.verdict).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Quantity;
    use crate::report::{Detail, Report};
    use crate::terminal::Style;

    fn row(case: &str, a: u64, b: u64, verdict: Verdict) -> Row {
        let change = (a > 0).then(|| b as f64 / a as f64 - 1.0);
        let [a, b] = [a, b].map(|count| Some(Quantity::Count(count)));
        Row { case: case.to_owned(), a, b, change, verdict, ..Row::default() }
    }

    fn measure(title: &'static str, rows: Vec<Row>) -> Measure {
        Measure { name: title, title, unit: "holds", direction: Direction::Lower, rows, pooled: None }
    }

    fn report(measures: Vec<Measure>) -> Report {
        let groups = vec![Group { name: "all", measures }];
        Report { groups, next: vec!["Maps: --html FILE.".to_owned()], detail: Detail::Differences, ..Report::default() }
    }

    #[test]
    fn headline_counts_each_row_once() {
        let verdicts = [Verdict::Better, Verdict::TooFewEvents, Verdict::WithinNoise, Verdict::NotJudged];
        let rows = verdicts.map(|verdict| row("x", 100, 90, verdict)).to_vec();
        let (three, all) = (measure("a", rows[..3].to_vec()), measure("b", rows.clone()));
        assert_eq!(headline(&report(vec![three.clone()]).groups), "better 1, worse 0, undecided 2");
        assert_eq!(headline(&report(vec![three, all]).groups), "better 2, worse 0, undecided 4, not judged 1");
        let pooled = Pooled { cases: 4, change: None, interval: None, verdict: Verdict::Mixed };
        let pooled = Measure { pooled: Some(pooled), ..measure("c", rows) };
        assert_eq!(headline(&report(vec![pooled]).groups), "better 0, worse 0, undecided 1");
    }

    #[test]
    fn every_decision_is_shown_and_the_rest_by_size() {
        let decided: Vec<Measure> =
            (0..12).map(|_| measure("decided", vec![row("x", 100, 50, Verdict::Better)])).collect();
        let open = |title, b| measure(title, vec![row("x", 100, b, Verdict::SensitiveToWatermarks)]);
        let mut all = decided.clone();
        all.push(open("open", 101));
        let text = table(&report(all), Style::PLAIN);
        assert!(text.matches("-50.0 %").count() == 12 && !text.contains("open"), "{text}");
        let all: Vec<Measure> = [open("small", 101)].into_iter().chain((0..10).map(|_| open("large", 150))).collect();
        let text = table(&report(all), Style::PLAIN);
        assert!(text.matches("+50.0 %").count() == LINES && !text.contains("small"), "{text}");
    }

    #[test]
    fn many_cases_share_a_line() {
        let rows =
            [50, 60, 100, 120].map(|b| row("x", 100, b, if b < 100 { Verdict::Better } else { Verdict::NoChange }));
        let text = table(&report(vec![measure("locks", rows.to_vec())]), Style::PLAIN);
        assert!(text.contains("\u{2193} locks"), "{text}");
        assert!(text.contains("all 4") && text.contains("-50.0 % to +20.0 %"), "{text}");
        assert!(text.contains("better 2, no change 2"), "{text}");
    }

    #[test]
    fn label_of_a_row_that_is_not_judged_has_its_reason() {
        let labels = UnjudgedReason::ALL.map(|reason| {
            let unjudged = Row { unjudged: Some(reason), replay_error: Some(0.25), ..Row::default() };
            unjudged.label().into_owned()
        });
        let expected = [
            "not judged (replay error +25.0 %)",
            "not judged (recorded value is 0, replayed value is not)",
            "not judged (not in the recording)",
            "not judged (no value under A or B)",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn rows_that_are_not_judged_are_counted_by_reason() {
        let unjudged = |reason| Row { unjudged: Some(reason), ..row("x", 100, 50, Verdict::NotJudged) };
        let rows = vec![unjudged(UnjudgedReason::NoValue), unjudged(UnjudgedReason::ReplayError)];
        let few = measure("few", vec![row("x", 1, 2, Verdict::TooFewEvents)]);
        let report = report(vec![measure("locks", rows), few]);
        assert_eq!(table(&report, Style::PLAIN), "");
        let expected = "undecided: too few events 1 (<20)\n\
                        not judged: replay error 1 (replay too far from the kernel), no value 1\n\
                        All 3 rows: --all. Maps: --html FILE.\n";
        assert_eq!(footer(&report, Style::PLAIN), expected);
    }
}
