//! Tables of a page: measures with a bar for each change, the tables of a report, and the numbers of a plot. Rows of
//! zeros are folded.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::plot::{Plot, Scale};
use super::super::{Column, Group, Kind, Measure, Report, Row, Table, Value};
use super::folding::{is_zero_measure, join_names, split_rows};
use crate::number::{change, decimal, quantity_of};
use freehold_stats::verdict::{Direction, Verdict};

/// Largest relative change that a bar shows; larger changes reach the end of the bar.
const REACH_MAX: f64 = 1.0;
/// Number of measures up to which all measures are shown, independent of their verdicts.
const FEW: usize = 12;
/// Most characters of the name of a case beside which a phone has room for numbers.
const CASE_MAX: usize = 10;

/// Renders the measures of a report. Measures that are zero in all cases are folded. If there are more than [`FEW`]
/// and some are decided, the measures without a decision are folded too.
pub(super) fn measures(report: &Report) -> Markup {
    let [a, b] = &report.sides;
    let (reach, count) = (reach(&report.groups), count(&report.groups));
    let zeros = select(&report.groups, is_zero_measure);
    let others = select(&report.groups, |measure| !is_zero_measure(measure));
    let decided = select(&others, is_decided);
    let (shown, open) = if count > FEW && !decided.is_empty() {
        (decided, select(&others, |measure| !is_decided(measure)))
    } else {
        (others, Vec::new())
    };
    html! {
        @if count > 0 {
            h2 { "Measures" }
            p.faint { "A: " (a) "; B: " (b) ". \u{2193}: less is better; \u{2191}: more is better." }
            @if !shown.is_empty() { (grid(&shown, reach)) }
            (folded("Measures without a decision", &open, count, reach))
            (folded("Measures that are 0 under A and under B", &zeros, count, reach))
        }
    }
}

/// Renders folded measures, of `count` in total, with their number and the first titles as the summary.
fn folded(title: &str, groups: &[Group], count: usize, reach: f64) -> Markup {
    let titles: Vec<&str> = groups.iter().flat_map(|group| &group.measures).map(|measure| measure.title).collect();
    html! {
        @if !titles.is_empty() {
            details {
                summary { (title) ": " (titles.len()) " of " (count) " (" (join_names(&titles)) ")" }
                (grid(groups, reach))
            }
        }
    }
}

fn count(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.measures.len()).sum()
}

/// Returns groups with only the measures that are wanted.
fn select(groups: &[Group], is_wanted: fn(&Measure) -> bool) -> Vec<Group> {
    let mut selected = Vec::new();
    for group in groups {
        let measures = group.measures.iter().filter(|measure| is_wanted(measure));
        let group = Group { name: group.name, measures: measures.cloned().collect() };
        selected.extend((!group.measures.is_empty()).then_some(group));
    }
    selected
}

fn is_decided(measure: &Measure) -> bool {
    let pooled = measure.pooled.iter().map(|pooled| pooled.verdict);
    measure.rows.iter().map(|row| row.verdict).chain(pooled).any(Verdict::is_decided)
}

/// Returns the range of the bars of a report: the largest change, but at least 1 % and at most [`REACH_MAX`].
fn reach(groups: &[Group]) -> f64 {
    let measures = groups.iter().flat_map(|group| &group.measures);
    let sizes = measures.flat_map(|measure| {
        let pooled = measure.pooled.iter().map(|pooled| (pooled.change, pooled.interval));
        let all = measure.rows.iter().map(|row| (row.change, row.interval)).chain(pooled);
        all.flat_map(|(change, interval)| {
            let (low, high) = interval.unwrap_or_default();
            [change.unwrap_or_default(), low, high]
        })
    });
    let largest = sizes.map(f64::abs).filter(|size| size.is_finite()).fold(0.0, f64::max);
    largest.clamp(0.01, REACH_MAX)
}

fn grid(groups: &[Group], reach: f64) -> Markup {
    let ends = change(Some(reach));
    html! {
        div.scroll {
            table.measures.long[has_long_cases(groups)] {
                thead {
                    tr {
                        th.name { "measure" } th.case { "case" } th.number { "A" } th.number { "B" }
                        th.number.change { "change" }
                        th.wide { "from " (change(Some(-reach))) " to " (ends) } th.label { "verdict" }
                    }
                }
                @for group in groups {
                    tbody {
                        tr { th.group colspan="7" scope="rowgroup" { (group.name) } }
                        @for measure in &group.measures { (rows(measure, reach)) }
                    }
                }
            }
        }
    }
}

/// Returns whether a name of a case is too long to share a line with numbers on a phone.
fn has_long_cases(groups: &[Group]) -> bool {
    let mut rows = groups.iter().flat_map(|group| &group.measures).flat_map(|measure| &measure.rows);
    rows.any(|row| row.case.chars().count() > CASE_MAX)
}

/// Renders the row over all cases, if there is one, then one row for each case.
fn rows(measure: &Measure, reach: f64) -> Markup {
    let pooled = measure.pooled.as_ref().filter(|pooled| pooled.change.is_some());
    let name = html! { td.name rowspan=(measure.rows.len() + usize::from(pooled.is_some())) title=(measure.name) {
        (arrow(measure.direction)) (measure.title)
    } };
    let first = pooled.is_none();
    html! {
        @if let Some(pooled) = pooled {
            tr.first {
                (name)
                td.case { "pooled" } td.number {} td.number {}
                td.number.change { (with_interval(pooled.change, pooled.interval)) }
                td.wide { (bar(pooled.change, pooled.interval, reach)) }
                (label(pooled.verdict, pooled.verdict.word()))
            }
        }
        @for (number, row) in measure.rows.iter().enumerate() {
            (case(row, measure.unit, (first && number == 0).then_some(&name), reach))
        }
    }
}

/// Returns an arrow in the direction in which a measure is better.
fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::Lower => "\u{2193}\u{a0}",
        Direction::Higher => "\u{2191}\u{a0}",
        Direction::Neutral => "",
    }
}

/// Renders the row of one case; with the title of the measure if the row is its first.
fn case(row: &Row, unit: &str, name: Option<&Markup>, reach: f64) -> Markup {
    html! {
        tr.first[name.is_some()] {
            @if let Some(name) = name { (name) }
            td.case { (row.case) }
            td.number { (quantity_of(unit, row.a)) }
            td.number { (quantity_of(unit, row.b)) }
            td.number.change { (with_interval(row.change, row.interval)) }
            td.wide { (bar(row.change, row.interval, reach)) }
            (label(row.verdict, &row.label()))
        }
    }
}

fn with_interval(relative: Option<f64>, interval: Option<(f64, f64)>) -> Markup {
    html! {
        (change(relative))
        @if let Some((low, high)) = interval { br; span.faint { (change(Some(low))) " to " span.whole { (change(Some(high))) } } }
    }
}

fn label(verdict: Verdict, text: &str) -> Markup {
    html! { td class=(format!("label {}", verdict.word().replace(' ', "-"))) { (text) } }
}

/// Renders a change and its interval as a line with a mark. The middle of the bar is a change of zero.
fn bar(change: Option<f64>, interval: Option<(f64, f64)>, reach: f64) -> Markup {
    let at = change.filter(|change| change.is_finite());
    let (low, high) = interval.unwrap_or_else(|| (0.0_f64.min(at.unwrap_or(0.0)), 0.0_f64.max(at.unwrap_or(0.0))));
    html! {
        @if let Some(at) = at {
            span.bar aria-hidden="true" {
                @let (left, right) = (percent_along(low, reach), percent_along(high, reach));
                span.span style=(format!("left:{left:.1}%;width:{:.1}%", right - left)) {}
                span.mark style=(format!("left:{:.1}%", percent_along(at, reach))) {}
            }
        }
    }
}

/// Returns the position of a change on its bar, in percent.
fn percent_along(change: f64, reach: f64) -> f64 {
    50.0 + 50.0 * (change / reach).clamp(-1.0, 1.0)
}

/// Renders a table of a report. Rows of zeros are folded if there are several.
pub(super) fn table(table: &Table) -> Markup {
    let (shown, zeros) = split_rows(table);
    let names: Vec<String> = zeros.iter().filter_map(|row| row.first()).map(Value::shown).collect();
    html! {
        @if !table.title.is_empty() { h2 { (table.title) } }
        @if !table.about.is_empty() { p { (table.about) } }
        @if !shown.is_empty() { (rows_of_table(&table.columns, &shown)) }
        @if !zeros.is_empty() {
            details {
                summary { (names.len()) " rows in which every number is 0 (" (join_names(&names)) ")" }
                (rows_of_table(&table.columns, &zeros))
            }
        }
        @for sentence in &table.conclusions { p { (sentence) } }
    }
}

fn rows_of_table(columns: &[Column], rows: &[&[Value]]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for column in columns { th class=[class(column)] { (column.title()) } } } }
                tbody {
                    @for row in rows {
                        tr { @for (column, value) in columns.iter().zip(*row) { (cell(column, value)) } }
                    }
                }
            }
        }
    }
}

fn class(column: &Column) -> Option<&'static str> {
    (column.kind == Kind::Numbers).then_some("number")
}

fn cell(column: &Column, value: &Value) -> Markup {
    let tone = match value {
        Value::Judged(_, verdict) => verdict.word().replace(' ', "-"),
        Value::Faint(_) => "faint".to_owned(),
        _ => String::new(),
    };
    let classes: Vec<&str> = class(column).into_iter().chain((!tone.is_empty()).then_some(tone.as_str())).collect();
    html! { td class=[(!classes.is_empty()).then(|| classes.join(" "))] { (value.shown()) } }
}

/// Renders the numbers of a plot: a row for each place along the bottom, a column for each line.
pub(super) fn numbers(plot: &Plot) -> Markup {
    let mut rows: BTreeMap<Along, Vec<Option<f64>>> = BTreeMap::new();
    for (number, line) in plot.lines.iter().enumerate() {
        for &(at, value) in &line.points {
            rows.entry(Along(at)).or_insert_with(|| vec![None; plot.lines.len()])[number] = Some(value);
        }
    }
    html! {
        div.scroll {
            table {
                thead { tr { th { (plot.along) } @for line in &plot.lines { th.number { (line.name) } } } }
                tbody {
                    @for (Along(at), values) in &rows {
                        tr {
                            td { (place_name(plot, *at)) }
                            @for value in values { td.number { @if let Some(value) = value { (decimal(*value)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn place_name(plot: &Plot, at: f64) -> String {
    match &plot.scale {
        Scale::Named(names) => names.get(at as usize).cloned().unwrap_or_default(),
        Scale::Doubling | Scale::Even => at.to_string(),
    }
}

/// A place along the bottom of a plot, ordered as a float that is not NaN.
#[derive(Clone, Copy, PartialEq)]
struct Along(f64);

impl Eq for Along {}

impl PartialOrd for Along {
    fn partial_cmp(&self, other: &Along) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Along {
    fn cmp(&self, other: &Along) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Pooled;
    use super::super::super::plot::PlotLine;
    use super::*;
    use crate::number::Quantity;
    use freehold_stats::verdict::Direction;

    fn measure(name: &'static str, b: u64, verdict: Verdict) -> Measure {
        let (a, b) = (Some(Quantity::Count(100)), Some(Quantity::Count(b)));
        let change = Some(b.unwrap().value() / 100.0 - 1.0);
        let row = Row { case: "build".to_owned(), a, b, change, verdict, ..Row::default() };
        let interval = Some((-0.5, 0.5));
        let pooled = Some(Pooled { cases: 6, change, interval, verdict: Verdict::WithinNoise });
        Measure { name, title: name, unit: "blocks", direction: Direction::Lower, rows: vec![row], pooled }
    }

    #[test]
    fn change_is_shown_with_its_interval() {
        let groups = vec![Group { name: "contention", measures: vec![measure("locks", 75, Verdict::Better)] }];
        let text = measures(&Report { groups, ..Report::default() }).into_string();
        for words in ["-25.0 %", "-50.0 % to <span class=\"whole\">+50.0 %</span>", "within noise", "left:25.0%"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert!(!text.contains("<details>"), "{text}");
    }

    #[test]
    fn decided_measures_are_listed_first_and_others_folded() {
        let mut of_one = vec![measure("drains", 100, Verdict::NoChange); FEW];
        of_one.push(measure("locks", 75, Verdict::Worse));
        let groups = vec![Group { name: "contention", measures: of_one }];
        let text = measures(&Report { groups, ..Report::default() }).into_string();
        let summary = "Measures without a decision: 12 of 13 (drains; drains; drains; and 9 more)";
        assert!(text.contains(summary), "{text}");
        assert!(text.find("locks") < text.find("<details>") && text.find("<details>") < text.find("drains"));
    }

    #[test]
    fn measures_of_zeros_are_folded() {
        let mut zero = measure("failures", 0, Verdict::TooFewEvents);
        zero.rows[0].a = Some(Quantity::Count(0));
        let groups = vec![Group { name: "contention", measures: vec![zero, measure("locks", 75, Verdict::Better)] }];
        let text = measures(&Report { groups, ..Report::default() }).into_string();
        let folded = text.find("<summary>Measures that are 0 under A and under B: 1 of 2 (failures)</summary>");
        assert!(folded.is_some() && text.find("locks") < folded, "{text}");
    }

    #[test]
    fn measure_is_shown_with_its_title_and_direction() {
        let named = Measure { title: "lock acquisitions", ..measure("locks", 75, Verdict::Better) };
        let groups = vec![Group { name: "contention", measures: vec![named] }];
        let text = measures(&Report { groups, ..Report::default() }).into_string();
        assert!(text.contains("title=\"locks\">\u{2193}\u{a0}lock acquisitions</td>"), "{text}");
    }

    #[test]
    fn table_rows_of_zeros_are_folded() {
        let counts = [0, 5, 0, 0, 0].map(|count| vec![Value::text(format!("event {count}")), Value::count(count)]);
        let text = table(&Table::new("Events", Column::several(&["event"], &["count"]), counts)).into_string();
        let summary = "<summary>4 rows in which every number is 0 (event 0; event 0; event 0; and 1 more)</summary>";
        assert!(text.find("event 5") < text.find(summary) && text.contains(summary), "{text}");
    }

    #[test]
    fn plot_points_are_available_as_a_table() {
        let lines = vec![PlotLine::new("a", vec![(2.0, 7.0), (1.0, 5.0)]), PlotLine::new("b", vec![(2.0, 9.0)])];
        let text = numbers(&Plot { lines, along: "CPUs".into(), ..Plot::default() }).into_string();
        let row = "<tr><td>2</td><td class=\"number\">7.000</td><td class=\"number\">9.000</td></tr>";
        assert!(text.contains(row), "{text}");
    }
}
