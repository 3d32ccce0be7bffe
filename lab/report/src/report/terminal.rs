//! A report for a person at a terminal: the verdict first, and what differs before what does not.
//!
//! Unless everything is asked for, only what carries a verdict has a row. What may not be judged, what is better
//! neither way and what is the same are folded into a line each, with their numbers; tables and caveats are left out.

use comfy_table::Cell;

use super::{Detail, Group, Kind, Measure, Pooled, Report, Row, Table, Value};
use crate::number::{ABSENT, change, quantity};
use crate::terminal::{Column, Style, Tone, table_text, wrapped};
use freehold_stats::verdict::{Direction, Verdict};

/// How to see everything.
const MORE: &str = " More: --all.";

/// The text of a report, lines ended by newlines.
pub fn text(report: &Report, style: Style) -> String {
    let subject: String = report.subject.iter().map(|line| wrapped(line, style)).collect();
    let verdict = report.verdict.iter().enumerate().map(|(number, sentence)| {
        let lines = wrapped(sentence, style);
        if number == 0 { style.heading(lines.trim_end()) } else { lines }
    });
    let shown = match report.detail {
        Detail::Differences | Detail::All => measures(&report.groups, style, report.detail),
        Detail::Tables => String::new(),
    };
    let rest = match report.detail {
        Detail::Differences => folded(report, style),
        Detail::Tables | Detail::All => everything_else(report, style),
    };
    let blocks = [subject, verdict.collect(), shown, rest];
    blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The measures that are shown, those with one cause under its name.
fn measures(groups: &[Group], style: Style, detail: Detail) -> String {
    let has_cases = groups.iter().any(|group| group.measures.iter().any(|measure| measure.rows.len() > 1));
    let mut columns = vec![Column::Text("measure")];
    columns.extend(has_cases.then_some(Column::Text("of")));
    columns.extend(["A", "B", "change"].map(Column::Number));
    columns.push(Column::Text("verdict"));
    let mut table = style.table(&columns);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for group in groups {
        let rows: Vec<Vec<Cell>> =
            group.measures.iter().flat_map(|measure| rows(measure, has_cases, style, detail)).collect();
        if !rows.is_empty() {
            let mut title = vec![style.cell(format!("{}:", group.name), Tone::Faint)];
            title.resize(columns.len(), style.cell("", Tone::Plain));
            table.add_row(title);
        }
        table.add_rows(rows);
    }
    if table.row_count() == 0 { String::new() } else { table_text(&table) }
}

/// A measure's rows: each case in which it differs, or each case, and all of them together.
fn rows(measure: &Measure, has_cases: bool, style: Style, detail: Detail) -> Vec<Vec<Cell>> {
    let is_shown = |row: &&Row| detail == Detail::All || is_judged(measure, row);
    let mut names = std::iter::once(measure.name).chain(std::iter::repeat(""));
    let mut name = || style.cell(names.next().unwrap_or_default(), Tone::Plain);
    let mut rows = Vec::new();
    for row in measure.rows.iter().filter(is_shown) {
        let (word, tone) = finding(row);
        let mut cells = vec![name()];
        cells.extend(has_cases.then(|| style.cell(&row.case, Tone::Faint)));
        let numbers = [quantity(row.a), quantity(row.b), change(row.change)];
        cells.extend(numbers.map(|text| style.cell(text, Tone::Plain)));
        cells.push(style.cell(word, tone));
        rows.push(cells);
    }
    let has_rows = !rows.is_empty();
    rows.extend(
        measure
            .pooled
            .as_ref()
            .filter(|pooled| pooled.cases > 1 && has_rows && (detail == Detail::All || is_decided(pooled)))
            .map(|pooled| together(pooled, name(), style)),
    );
    rows
}

/// Whether a case is better or worse.
fn is_judged(measure: &Measure, row: &Row) -> bool {
    measure.direction != Direction::Neutral && matches!(row.verdict, Some(Verdict::Better | Verdict::Worse))
}

/// Whether all cases together are better or worse; if not, the sentence on cases that do not agree says so.
fn is_decided(pooled: &Pooled) -> bool {
    matches!(pooled.verdict, Some(Verdict::Better | Verdict::Worse))
}

/// What is said of one case.
fn finding(row: &Row) -> (String, Tone) {
    match (row.verdict, row.replay_error) {
        (Some(verdict), _) => (verdict.word().to_owned(), verdict.into()),
        (None, Some(error)) => (format!("~ {} off", change(Some(error))), Tone::Faint),
        (None, None) => ("~ not told".to_owned(), Tone::Faint),
    }
}

/// What is said of all cases.
fn together(pooled: &Pooled, name: Cell, style: Style) -> Vec<Cell> {
    let (word, tone) = pooled.verdict.map_or((ABSENT, Tone::Faint), |verdict| (verdict.word(), verdict.into()));
    let end =
        |word: &str, end: Option<f64>| end.map_or(ABSENT.to_owned(), |end| format!("{word} {}", change(Some(end))));
    let (low, high) = pooled.interval.unzip();
    let ends = [end("from", low), end("to", high)];
    let cells = [["pooled".to_owned()].as_slice(), &ends, &[change(pooled.change)]].concat();
    let cells = cells.into_iter().map(|text| style.cell(text, Tone::Faint));
    std::iter::once(name).chain(cells).chain([style.cell(word, tone)]).collect()
}

/// A line for each kind of thing that has no row.
fn folded(report: &Report, style: Style) -> String {
    let all = || report.groups.iter().flat_map(|group| &group.measures);
    // By case, since what is wrong with one is wrong with all of its measures.
    let differing = |wanted: fn(&Row) -> bool| {
        let mut by_case: Vec<(&str, Vec<String>)> = Vec::new();
        for (measure, row) in all().flat_map(|measure| measure.rows.iter().map(move |row| (measure, row))) {
            if !row.is_same() && row.a.is_some() && wanted(row) {
                let said = format!("{} {}", measure.name, change(row.change));
                match by_case.iter_mut().find(|(of, _)| *of == row.case) {
                    Some((_, measures)) => measures.push(said),
                    None => by_case.push((&row.case, vec![said])),
                }
            }
        }
        let of_case = |(of, measures): &(&str, Vec<String>)| format!("on {of} {}", measures.join(", "));
        by_case.iter().map(of_case).collect::<Vec<_>>().join("; ")
    };
    let unsaid = differing(|row| row.verdict.is_none());
    let neither = differing(|row| row.verdict == Some(Verdict::Neither));
    let small = differing(|row| row.verdict == Some(Verdict::NoDifference));
    let same: Vec<&str> = all().filter(|measure| measure.is_same()).map(|measure| measure.name).collect();
    let mut kinds = vec![
        ("Not judged, since the replay is too far off", unsaid),
        ("Better neither way", neither),
        ("No difference beyond the margin", small),
        ("The same under both", same.join(", ")),
    ];
    kinds.retain(|(_, what)| !what.is_empty());
    // In one paragraph, since the first screen is short of lines.
    let said: Vec<String> = kinds.iter().map(|(kind, what)| format!("{kind}: {what}.")).collect();
    let lines = std::iter::once(wrapped((said.join(" ") + MORE).trim_start(), style));
    let reading = report.reading.iter().map(|sentence| wrapped(sentence, style));
    lines.chain(reading).collect()
}

fn everything_else(report: &Report, style: Style) -> String {
    let tables = report.tables.iter().map(|table| format_table(table, style));
    let caveats = report.caveats.iter().filter(|caveats| !caveats.sentences.is_empty()).map(|caveats| {
        let items = caveats.sentences.iter().map(|sentence| wrapped(&format!("- {sentence}"), style));
        style.heading(&caveats.title) + &items.collect::<String>()
    });
    let reading = report.reading.iter().map(|sentence| wrapped(sentence, style));
    let recipe = (!report.recipe.is_empty()).then(|| recipe(&report.recipe, style));
    tables.chain(caveats).chain(reading).chain(recipe).collect::<Vec<_>>().join("\n")
}

/// The text of one table, with what is to be said above and below it.
fn format_table(table: &Table, style: Style) -> String {
    let titles: Vec<String> = table.columns.iter().map(|column| column.title()).collect();
    let columns = table.columns.iter().zip(&titles).map(|(column, title)| match column.kind {
        Kind::Words => Column::Text(title),
        Kind::Numbers => Column::Number(title),
    });
    let mut rows = style.table(&columns.collect::<Vec<_>>());
    for row in &table.rows {
        rows.add_row(row.iter().map(|value| style.cell(value.shown(), tone(value))));
    }
    let about = if table.about.is_empty() { String::new() } else { wrapped(&table.about, style) + "\n" };
    let title = wrapped(&table.title, style);
    let heading = if table.title.is_empty() { String::new() } else { style.heading(title.trim_end()) };
    let conclusions: String = table.conclusions.iter().map(|sentence| wrapped(sentence, style)).collect();
    let below = if conclusions.is_empty() { conclusions } else { format!("\n{conclusions}") };
    format!("{heading}{about}{}{below}", table_text(&rows))
}

/// The recipe as a table of two columns.
fn recipe(entries: &[(String, String)], style: Style) -> String {
    let mut rows = style.table(&[Column::Text("recipe"), Column::Text("")]);
    for (what, entry) in entries {
        rows.add_row([what, entry].map(|text| style.cell(text, Tone::Plain)));
    }
    table_text(&rows)
}

fn tone(value: &Value) -> Tone {
    match value {
        Value::Text(_) | Value::Number(_) | Value::Change(_) | Value::Share(_) => Tone::Plain,
        Value::Faint(_) | Value::None => Tone::Faint,
        Value::Judged(_, verdict) => (*verdict).into(),
        Value::Is(true) => Tone::Good,
        Value::Is(false) => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Quantity;
    use crate::report::Caveats;

    fn report(detail: Detail) -> Report {
        let row = Row {
            case: "build".to_owned(),
            a: Some(Quantity::Count(200)),
            b: Some(Quantity::Count(100)),
            change: Some(-0.5),
            verdict: Some(Verdict::Better),
            ..Row::default()
        };
        let measure =
            Measure { name: "locks", unit: "holds", direction: Direction::Lower, rows: vec![row], pooled: None };
        let columns = vec![super::super::Column::words("size"), super::super::Column::counting("time", "ticks")];
        let table = Table::new("Pairs", columns, [vec![Value::text("a"), Value::count(1000)]]);
        Report {
            subject: vec!["A and B".to_owned()],
            verdict: vec!["B is better.".to_owned()],
            groups: vec![Group { name: "contention", measures: vec![measure] }],
            tables: vec![Table { conclusions: vec!["That is all.".to_owned()], ..table }],
            caveats: vec![Caveats { title: "Known".into(), sentences: vec!["It is so.".to_owned()] }],
            recipe: vec![("seed".to_owned(), "1".to_owned())],
            detail,
            ..Report::default()
        }
    }

    #[test]
    fn differences_leave_tables_out_and_tables_leave_measures_out() {
        let differences = text(&report(Detail::Differences), Style::PLAIN);
        assert!(differences.starts_with("A and B\n\nB is better.\n\nmeasure"), "{differences}");
        assert!(differences.contains("-50.0 %") && !differences.contains("1,000"), "{differences}");
        let tables = text(&report(Detail::Tables), Style::PLAIN);
        let expected = "A and B\n\nB is better.\n\nPairs\nsize  time, ticks\na           1,000\n\nThat is all.\n\n\
                        Known\n- It is so.\n\nrecipe\nseed    1\n";
        assert_eq!(tables, expected);
        let all = text(&report(Detail::All), Style::PLAIN);
        assert!(all.contains("-50.0 %") && all.contains("1,000"), "{all}");
    }
}
