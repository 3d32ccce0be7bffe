//! A report as Markdown, for a page, an issue or a mail.

use super::{Measure, Report, Table};
use crate::markdown::{table, wrapped};
use crate::number::{ABSENT, change, quantity};

/// The text of a report: everything in it.
pub fn text(report: &Report) -> String {
    let mut blocks = vec![report.subject.join("\n\n"), report.verdict.join("\n\n")];
    for group in &report.groups {
        blocks.push(format!("## {}", capitalised(group.name)));
        blocks.push(measures(&group.measures));
    }
    for table in &report.tables {
        blocks.push(format!("## {}", table.title));
        blocks.push(of_table(table));
    }
    for caveats in report.caveats.iter().filter(|caveats| !caveats.sentences.is_empty()) {
        blocks.push(format!("## {}", caveats.title));
        blocks.push(caveats.sentences.iter().map(|sentence| format!("- {sentence}")).collect::<Vec<_>>().join("\n"));
    }
    blocks.extend(report.reading.iter().cloned());
    wrapped(&blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n")) + "\n"
}

fn measures(measures: &[Measure]) -> String {
    let rows = measures.iter().flat_map(|measure| {
        let lines = measure.lines.iter().map(|line| {
            let word = match (line.verdict, line.error) {
                (Some(verdict), _) => verdict.word().to_owned(),
                (None, Some(error)) => format!("replay off by {}", change(Some(error))),
                (None, None) => "not recorded, or none was".to_owned(),
            };
            vec![cell(&line.of), quantity(line.a), quantity(line.b), change(line.change), word]
        });
        let pooled = measure.pooled.as_ref().filter(|pooled| pooled.cases > 1).map(|pooled| {
            let (low, high) = pooled.interval.unzip();
            let word = pooled.verdict.map_or(ABSENT, |verdict| verdict.word()).to_owned();
            let ends = [format!("from {}", change(low)), format!("to {}", change(high))];
            [vec!["together".to_owned()], ends.to_vec(), vec![change(pooled.change), word]].concat()
        });
        let name = [format!("`{}`", measure.name), measure.unit.to_owned()];
        lines.chain(pooled).map(move |rest| [name.to_vec(), rest].concat()).collect::<Vec<_>>()
    });
    table(&["measure", "unit", "of", "A", "B", "change", "verdict"], rows)
}

fn of_table(shown: &Table) -> String {
    let titles: Vec<String> = shown.columns.iter().map(super::Column::title).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table(&titles, shown.rows.iter().map(|row| row.iter().map(|value| cell(&value.text())).collect()))
}

/// Text that stays in its cell, whatever it is.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
