//! Reports as a page for a browser: the verdict, the pictures, the tables, and the command that made them.
//!
//! One file without anything beside it, to be mailed or put up as it is.

use super::plot::{self, escaped};
use super::{Caveats, Column, Group, Kind, Line, Measure, Report, Table, Value};
use crate::number::{change, quantity};

/// How the page looks.
const LOOK: &str = "body { margin: 2em auto; max-width: 60em; padding: 0 1em; font-family: sans-serif; line-height: 1.4 }\n\
                    svg { max-width: 100%; height: auto }\ntable { border-collapse: collapse; margin: 1em 0 }\n\
                    th, td { padding: 0.2em 0.7em; text-align: left; vertical-align: top }\n\
                    th { border-bottom: 1px solid #999 }\n.number { text-align: right; white-space: nowrap }\n\
                    .better { color: #00724f }\n.worse { color: #b03000 }\n";

/// The page about these reports, which have one subject.
pub fn text(reports: &[Report]) -> String {
    let title = reports.first().and_then(|report| report.subject.first()).map_or("", String::as_str);
    let plots: Vec<_> = reports.iter().flat_map(|report| report.plots.iter().cloned()).collect();
    let mut parts = vec![format!("<h1>{}</h1>\n", escaped(title))];
    parts.extend(reports.iter().map(verdict));
    parts.extend((!plots.is_empty()).then(|| plot::svg(title, &plots) + "\n"));
    parts.extend(reports.iter().flat_map(|report| &report.tables).map(of_table));
    parts.extend(reports.iter().filter(|report| !report.groups.is_empty()).map(measures));
    parts.extend(reports.iter().flat_map(|report| &report.caveats).map(caveats));
    parts.extend(reports.iter().flat_map(|report| &report.reading).map(|sentence| paragraph(sentence)));
    parts.extend(reports.iter().filter(|report| !report.recipe.is_empty()).map(|report| recipe(&report.recipe)));
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>\n{LOOK}</style>\n{}</html>\n",
        parts.concat()
    )
}

fn paragraph(sentence: &str) -> String {
    format!("<p>{}</p>\n", escaped(sentence))
}

/// What was looked at beyond the title, and what was found, the first sentence of it in bold.
fn verdict(report: &Report) -> String {
    let subject = report.subject.iter().skip(1).map(|line| paragraph(line));
    let sentences = report.verdict.iter().enumerate().map(|(number, sentence)| match number {
        0 => format!("<p><strong>{}</strong></p>\n", escaped(sentence)),
        _ => paragraph(sentence),
    });
    subject.chain(sentences).collect()
}

fn of_table(table: &Table) -> String {
    let heading = if table.title.is_empty() { String::new() } else { format!("<h2>{}</h2>\n", escaped(&table.title)) };
    let about = if table.about.is_empty() { String::new() } else { paragraph(&table.about) };
    let conclusions: String = table.conclusions.iter().map(|sentence| paragraph(sentence)).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(|value| (value.shown(), tone(value))).collect());
    format!("{heading}{about}{}{conclusions}", grid(&table.columns, rows))
}

/// Every measure of a report, folded: who wants it opens it.
fn measures(report: &Report) -> String {
    let columns = ["measure", "unit", "of"].map(Column::words).into_iter();
    let columns = columns.chain(["A", "B", "change"].map(Column::numbers)).chain([Column::words("verdict")]);
    let columns: Vec<Column> = columns.collect();
    let row = |measure: &Measure, line: &Line| {
        let word = line.verdict.map_or("-", |verdict| verdict.word());
        let words = [measure.name, measure.unit, &line.of].map(str::to_owned);
        let numbers = [quantity(line.a), quantity(line.b), change(line.change)];
        let plain = words.into_iter().chain(numbers).map(|text| (text, ""));
        plain.chain([(word.to_owned(), word)]).collect::<Vec<_>>()
    };
    let of_group = |group: &Group| {
        let rows = group.measures.iter().flat_map(|measure| measure.lines.iter().map(move |line| row(measure, line)));
        format!("<h3>{}</h3>\n{}", escaped(group.name), grid(&columns, rows))
    };
    let [a, b] = &report.sides;
    let summary = escaped(&format!("Every measure: A is {a}, B is {b}"));
    let groups: String = report.groups.iter().map(of_group).collect();
    format!("<details><summary>{summary}</summary>\n{groups}</details>\n")
}

fn grid(columns: &[Column], rows: impl Iterator<Item = Vec<(String, &'static str)>>) -> String {
    let class = |column: &Column, tone: &str| match (column.kind, tone) {
        (Kind::Numbers, "") => " class=\"number\"".to_owned(),
        (Kind::Numbers, tone) => format!(" class=\"number {tone}\""),
        (Kind::Words, "") => String::new(),
        (Kind::Words, tone) => format!(" class=\"{}\"", tone.replace(' ', "-")),
    };
    let head = columns.iter().map(|column| format!("<th{}>{}</th>", class(column, ""), escaped(&column.title())));
    let row = |cells: Vec<(String, &'static str)>| {
        let cells = columns.iter().zip(cells);
        let cells = cells.map(|(column, (text, tone))| format!("<td{}>{}</td>", class(column, tone), escaped(&text)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!("<table>\n<tr>{}</tr>\n{}</table>\n", head.collect::<String>(), rows.map(row).collect::<String>())
}

fn tone(value: &Value) -> &'static str {
    match value {
        Value::Judged(_, verdict) => verdict.word(),
        _ => "",
    }
}

fn caveats(caveats: &Caveats) -> String {
    let items: String = caveats.sentences.iter().map(|sentence| format!("<li>{}</li>\n", escaped(sentence))).collect();
    if items.is_empty() { items } else { format!("<h2>{}</h2>\n<ul>\n{items}</ul>\n", escaped(&caveats.title)) }
}

fn recipe(entries: &[(String, String)]) -> String {
    let entry = |(what, entry): &(String, String)| {
        format!("<tr><td>{}</td><td><code>{}</code></td></tr>\n", escaped(what), escaped(entry))
    };
    format!("<h2>How to make it again</h2>\n<table>\n{}</table>\n", entries.iter().map(entry).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn a_page_has_the_verdict_then_the_pictures_then_tables_and_the_command() {
        let rows = [vec![Value::text("a<b"), Value::Judged("better".to_owned(), Verdict::Better)]];
        let table = Table::new("Speed", vec![Column::words("policy"), Column::words("verdict")], rows);
        let report = Report {
            subject: vec!["A & B".to_owned()],
            verdict: vec!["B does more.".to_owned()],
            plots: vec![plot::Plot {
                title: "throughput".to_owned(),
                of: String::new(),
                along: "CPUs".into(),
                axis: plot::Axis::Linear,
                lines: Vec::new(),
            }],
            tables: vec![table],
            recipe: vec![("command".to_owned(), "freehold sim purge".to_owned())],
            ..Report::default()
        };
        let page = text(&[report]);
        let parts = ["<title>A &amp; B</title>", "B does more.", "<svg", "a&lt;b", "class=\"better\"", "sim purge"];
        let places: Vec<Option<usize>> = parts.iter().map(|part| page.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {page}");
    }
}
