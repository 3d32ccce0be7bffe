//! Renderer of a report for a terminal: the verdict first, then the measures that differ.
//!
//! With [`Detail::Differences`], the table contains only rows that are better or worse. All other rows are listed by
//! label, one paragraph for each label, and tables and caveats are left out. With [`Detail::Tables`], the measures are
//! left out instead.

use comfy_table::Cell;

use super::{Detail, Group, Kind, Measure, Pooled, Report, Row, Table, Value};
use crate::number::{ABSENT, change, quantity};
use crate::terminal::{Column, Style, Tone, table_text, wrapped};
use freehold_stats::verdict::{Direction, Verdict};

/// Hint at the option that shows everything.
const MORE: &str = "All rows: --all.";

/// Returns the text of a report. Every line ends with a newline.
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

/// Formats the measures that are shown, grouped under the name of their cause.
fn measures(groups: &[Group], style: Style, detail: Detail) -> String {
    let has_cases = groups.iter().any(|group| group.measures.iter().any(|measure| measure.rows.len() > 1));
    let mut columns = vec![Column::Text("measure")];
    columns.extend(has_cases.then_some(Column::Text("case")));
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

/// Returns the rows of a measure: every case, or only the cases that are better or worse, and a row over all cases.
fn rows(measure: &Measure, has_cases: bool, style: Style, detail: Detail) -> Vec<Vec<Cell>> {
    let is_shown = |row: &&Row| detail == Detail::All || is_judged(measure, row);
    let mut names = std::iter::once(measure.name).chain(std::iter::repeat(""));
    let mut name = || style.cell(names.next().unwrap_or_default(), Tone::Plain);
    let mut rows = Vec::new();
    for row in measure.rows.iter().filter(is_shown) {
        let (word, tone) = (row.label().into_owned(), row.verdict.into());
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
            .filter(|pooled| pooled.cases > 1 && has_rows && (detail == Detail::All || pooled.verdict.is_decided()))
            .map(|pooled| together(pooled, name(), style)),
    );
    rows
}

/// Returns whether a case is better or worse.
fn is_judged(measure: &Measure, row: &Row) -> bool {
    measure.direction != Direction::Neutral && row.verdict.is_decided()
}

/// Returns the cells of the row over all cases.
fn together(pooled: &Pooled, name: Cell, style: Style) -> Vec<Cell> {
    let (low, high) = pooled.interval.unzip();
    let ends = [format_end("from", low), format_end("to", high)];
    let cells = [["pooled".to_owned()].as_slice(), &ends, &[change(pooled.change)]].concat();
    let cells = cells.into_iter().map(|text| style.cell(text, Tone::Faint));
    let label = style.cell(pooled.verdict.word(), pooled.verdict.into());
    std::iter::once(name).chain(cells).chain([label]).collect()
}

/// Formats an end of an interval.
fn format_end(word: &str, end: Option<f64>) -> String {
    end.map_or(ABSENT.to_owned(), |end| format!("{word} {}", change(Some(end))))
}

/// Lists the rows that are not in the table, by label and case.
fn folded(report: &Report, style: Style) -> String {
    let labels = Verdict::ALL.into_iter().filter(|label| !label.is_decided());
    let lists = labels.filter_map(|label| {
        let list = list_rows(report, label);
        (!list.is_empty()).then(|| wrapped(&format!("{}: {list}", label.word()), style))
    });
    let lines = lists.chain([wrapped(MORE, style)]);
    lines.chain(report.reading.iter().map(|sentence| wrapped(sentence, style))).collect()
}

/// Lists the measures that have this label, by case, with their changes unless the values are equal.
fn list_rows(report: &Report, label: Verdict) -> String {
    let mut by_case: Vec<(&str, Vec<String>)> = Vec::new();
    let measures = report.groups.iter().flat_map(|group| &group.measures);
    for (measure, row) in measures.flat_map(|measure| measure.rows.iter().map(move |row| (measure, row))) {
        if row.verdict != label {
            continue;
        }
        let listed = if row.is_same() || row.a.is_none() { measure.name.to_owned() } else { describe(measure, row) };
        match by_case.iter_mut().find(|(case, _)| *case == row.case) {
            Some((_, measures)) => measures.push(listed),
            None => by_case.push((&row.case, vec![listed])),
        }
    }
    let lists =
        by_case.iter().map(|(case, measures)| format!("{case} {}", measures.join(", ")).trim_start().to_owned());
    lists.collect::<Vec<_>>().join("; ")
}

/// Returns the name of a measure and its change.
fn describe(measure: &Measure, row: &Row) -> String {
    format!("{} {}", measure.name, change(row.change))
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

/// Formats a table with the text above and below it.
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

/// Formats the recipe as a table of two columns.
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
            verdict: Verdict::Better,
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
    fn detail_selects_differences_or_tables() {
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
