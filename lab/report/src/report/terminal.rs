//! Renderer of a report for a terminal: the subject, the verdict, then the measures.
//!
//! With [`Detail::Differences`], the report fits one screen ([`screen`]). With [`Detail::Tables`], the measures are left
//! out, and with [`Detail::All`] everything is shown.

use comfy_table::Cell;

use super::{Detail, Group, Kind, Measure, Pooled, Report, Table, Value, screen};
use crate::number::{change, quantity_of};
use crate::terminal::{Column, Style, Tone, table_text, wrapped};

/// Returns the text of a report. Every line ends with a newline.
pub fn text(report: &Report, style: Style) -> String {
    let subject: String = report.subject.iter().map(|line| wrapped(line, style)).collect();
    let verdict = report.verdict.iter().enumerate().map(|(number, sentence)| {
        let lines = wrapped(sentence, style);
        if number == 0 { style.heading(lines.trim_end()) } else { lines }
    });
    let cases = report.cases.as_ref().map_or_else(String::new, |cases| format_table(cases, style));
    let rest = match report.detail {
        Detail::Differences => screen::footer(report, style),
        Detail::Tables | Detail::All => everything_else(report, style),
    };
    let shown = match report.detail {
        Detail::Differences => screen::table(report, style),
        Detail::All => measures(&report.groups, style),
        Detail::Tables => String::new(),
    };
    let answers = report.answers.iter().map(|table| format_table(table, style)).collect::<Vec<_>>().join("\n");
    let blocks = [subject, cases, verdict.collect(), answers, shown, rest];
    blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Formats all measures, grouped under the name of their cause.
fn measures(groups: &[Group], style: Style) -> String {
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
        let rows: Vec<Vec<Cell>> = group.measures.iter().flat_map(|measure| rows(measure, has_cases, style)).collect();
        if !rows.is_empty() {
            let mut title = vec![style.cell(format!("{}:", group.name), Tone::Faint)];
            title.resize(columns.len(), style.cell("", Tone::Plain));
            table.add_row(title);
        }
        table.add_rows(rows);
    }
    if table.row_count() == 0 { String::new() } else { table_text(&table) }
}

/// Returns the rows of a measure: every case, and a row over all cases.
fn rows(measure: &Measure, has_cases: bool, style: Style) -> Vec<Vec<Cell>> {
    let mut titles = std::iter::once(measure.title).chain(std::iter::repeat(""));
    let mut title = || style.cell(titles.next().unwrap_or_default(), Tone::Plain);
    let mut rows = Vec::new();
    for row in &measure.rows {
        let (word, tone) = (row.label().into_owned(), row.verdict.into());
        let mut cells = vec![title()];
        cells.extend(has_cases.then(|| style.cell(&row.case, Tone::Faint)));
        let [a, b] = [row.a, row.b].map(|value| quantity_of(measure.unit, value));
        cells.extend([a, b, change(row.change)].map(|text| style.cell(text, Tone::Plain)));
        cells.push(style.cell(word, tone));
        rows.push(cells);
    }
    let pooled = measure.pooled.as_ref().filter(|pooled| pooled.cases > 1 && !rows.is_empty());
    rows.extend(pooled.map(|pooled| together(pooled, title(), style)));
    rows
}

/// Returns the cells of the row over all cases.
fn together(pooled: &Pooled, name: Cell, style: Style) -> Vec<Cell> {
    let cells = [["pooled".to_owned()].as_slice(), &pooled.ends(), &[change(pooled.change)]].concat();
    let cells = cells.into_iter().map(|text| style.cell(text, Tone::Faint));
    let label = style.cell(pooled.verdict.word(), pooled.verdict.into());
    std::iter::once(name).chain(cells).chain([label]).collect()
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
    use freehold_stats::verdict::{Direction, Verdict};

    use super::*;
    use crate::number::Quantity;
    use crate::report::{Caveats, Row};

    fn report(detail: Detail) -> Report {
        let row = Row {
            case: "build".to_owned(),
            a: Some(Quantity::Count(200)),
            b: Some(Quantity::Count(100)),
            change: Some(-0.5),
            verdict: Verdict::Better,
            ..Row::default()
        };
        let measure = Measure {
            name: "locks",
            title: "locks",
            unit: "holds",
            direction: Direction::Lower,
            rows: vec![row],
            pooled: None,
        };
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
        assert!(differences.starts_with("A and B\n\nB is better.\n\nmeasure, "), "{differences}");
        assert!(differences.contains("-50.0 %") && !differences.contains("1,000"), "{differences}");
        let tables = text(&report(Detail::Tables), Style::PLAIN);
        let expected = "A and B\n\nB is better.\n\nPairs\nsize  time, ticks\na           1,000\n\nThat is all.\n\n\
                        Known\n- It is so.\n\nrecipe\nseed    1\n";
        assert_eq!(tables, expected);
        let all = text(&report(Detail::All), Style::PLAIN);
        assert!(all.contains("-50.0 %") && all.contains("1,000"), "{all}");
    }
}
