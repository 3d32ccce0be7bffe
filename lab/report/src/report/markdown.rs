//! Renderer of a report as Markdown, for a web page, an issue or a mail.

use super::{Measure, Report, Table, Value};
use crate::markdown::{table, wrapped};
use crate::number::{change, quantity};
use crate::terminal::printable;
use freehold_stats::verdict::Verdict;

/// Returns the complete report as Markdown.
pub fn text(report: &Report) -> String {
    let shown = |lines: &[String]| lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("\n\n");
    let mut blocks = vec![shown(&report.subject)];
    blocks.extend(report.cases.as_ref().map(format_table));
    blocks.push(shown(&report.verdict));
    blocks.extend(report.answers.iter().flat_map(titled));
    for group in &report.groups {
        blocks.push(format!("## {}", capitalised(group.name)));
        blocks.push(measures(&group.measures));
    }
    blocks.extend(report.tables.iter().flat_map(titled));
    for caveats in report.caveats.iter().filter(|caveats| !caveats.sentences.is_empty()) {
        blocks.push(format!("## {}", caveats.title));
        blocks.push(items(&caveats.sentences));
    }
    blocks.extend(report.reading.iter().cloned());
    if !report.recipe.is_empty() {
        blocks.push("## Recipe".to_owned());
        let row = |(what, entry): &(String, String)| vec![cell(what), cell(entry)];
        blocks.push(table(&["", ""], report.recipe.iter().map(row)));
    }
    joined(blocks) + "\n"
}

/// Joins the non-empty blocks with an empty line between them, and wraps the text.
fn joined(blocks: Vec<String>) -> String {
    wrapped(&blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

fn items(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("- {sentence}")).collect::<Vec<_>>().join("\n")
}

fn measures(measures: &[Measure]) -> String {
    let rows = measures.iter().flat_map(|measure| {
        let rows = measure.rows.iter().map(|row| {
            vec![cell(&row.case), quantity(row.a), quantity(row.b), change(row.change), row.label().into_owned()]
        });
        let pooled = measure.pooled.as_ref().filter(|pooled| pooled.cases > 1).map(|pooled| {
            let (low, high) = pooled.interval.unzip();
            let word = pooled.verdict.word().to_owned();
            let ends = [format!("from {}", change(low)), format!("to {}", change(high))];
            [vec!["pooled".to_owned()], ends.to_vec(), vec![change(pooled.change), word]].concat()
        });
        let name = [format!("`{}`", measure.name), measure.unit.to_owned()];
        rows.chain(pooled).map(move |rest| [name.to_vec(), rest].concat()).collect::<Vec<_>>()
    });
    table(&["measure", "unit", "case", "A", "B", "change", "verdict"], rows)
}

/// Formats a table with its title as a heading.
fn titled(table: &Table) -> [String; 2] {
    let heading = if table.title.is_empty() { String::new() } else { format!("## {}", table.title) };
    [heading, format_table(table)]
}

/// Formats a table without its title: the text above it, its rows, and its conclusions.
pub fn format_table(shown: &Table) -> String {
    let titles: Vec<String> = shown.columns.iter().map(super::Column::title).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let value = |value: &Value| match value {
        Value::Judged(text, Verdict::Better | Verdict::Worse) => format!("**{}**", cell(text)),
        _ => cell(&value.shown()),
    };
    let rows = table(&titles, shown.rows.iter().map(|row| row.iter().map(value).collect()));
    joined(vec![shown.about.clone(), rows, items(&shown.conclusions)])
}

/// Escapes text so that it cannot end its table cell or start an HTML element.
fn cell(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;")
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Column;

    #[test]
    fn markdown_table_has_its_description_and_conclusions() {
        let columns = vec![Column::words("size"), Column::counting("time", "ticks")];
        let rows = [vec![Value::text("a|b"), Value::Judged("2.5".to_owned(), Verdict::Better)]];
        let mut table = Table::new("Pairs", columns, rows);
        table.about = "Of both.".to_owned();
        table.conclusions = vec!["That is all.".to_owned()];
        let text = text(&Report { tables: vec![table], ..Report::default() });
        let expected =
            "## Pairs\n\nOf both.\n\n| size | time, ticks |\n|---|---|\n| a\\|b | **2.5** |\n\n- That is all.\n";
        assert_eq!(text, expected);
    }
}
