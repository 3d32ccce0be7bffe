//! Pages of benchmarks: written by hand, with tables from the benchmark ([`regions`]).
//!
//! The tables are those that `freehold bench NAME` prints without options, by their titles: `Exact counts` is
//! `exact-counts`. `comparisons` has all comparisons with their sides, `policies` only those between the two policies.
//! `notes` has all lines of text, and `recipe` the conditions of the measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use freehold_bench::decide::Margin;
use freehold_bench::recipe::Recipe;
use freehold_bench::report::BenchResult;
use freehold_bench::{BENCHES, Effort, Request, Settings};
use freehold_report::report::{Report, Table};
use freehold_timing::clock::{self, Place};

use crate::error::Error;
use crate::{Args, Page, command, regions};
use freehold_report::data_table::DataTable;

/// Maximum runs of a comparison, and its maximum time in seconds.
const RUNS: usize = 320;
const SECONDS: u64 = 8;
/// Maximum runs in a quick run.
const RUNS_QUICK: usize = 2;
/// Differences up to this many percent count as no change.
const MARGIN: f64 = 2.0;

/// Page of a benchmark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchPage {
    /// Name of the benchmark and of the page.
    pub(crate) name: &'static str,
    /// Page with the tables that it had when this program was built.
    text: &'static str,
}

/// All pages of benchmarks.
pub(crate) const PAGES: [BenchPage; 5] = [
    BenchPage { name: "flags", text: include_str!("../../../docs/findings/flags.md") },
    BenchPage { name: "contig", text: include_str!("../../../docs/findings/contig.md") },
    BenchPage { name: "pages", text: include_str!("../../../docs/findings/pages.md") },
    BenchPage { name: "slab", text: include_str!("../../../docs/findings/slab.md") },
    BenchPage { name: "harness", text: include_str!("../../../docs/findings/harness.md") },
];

/// Tables by name.
type Tables = BTreeMap<String, DataTable>;

/// Measures a benchmark as `freehold bench NAME` does without options. Returns its page and its data files.
///
/// # Errors
/// Returns an error if the benchmark cannot be measured on this machine.
pub(crate) fn measure(page: &BenchPage, args: &Args) -> Result<Vec<Page>, Error> {
    let bench = BENCHES.iter().find(|bench| bench.name == page.name).expect("each page has a benchmark of its name");
    let Place { cpu, partner } = clock::pin(None)?;
    let settings = Settings {
        effort: if args.quick { Effort::Quick } else { Effort::Full },
        margin: Margin::percent(MARGIN).expect("the margin is a valid percentage"),
        runs_max: if args.quick { RUNS_QUICK } else { RUNS },
        time: Duration::from_secs(SECONDS),
        seed: 1,
        cpu,
        partner,
        peers: None,
        mallocs: Vec::new(),
    };
    let (a, b) = (freehold_policies::parse(bench.a)?, freehold_policies::parse(bench.b)?);
    let recipe = Recipe::new(&[bench.method], &settings, &[&a, &b]);
    let request = Request { settings, a, rivals: vec![b] };
    let result = bench.measure(&request, bench.plan(&request)?)?;
    let tables = make_tables(&result, &recipe, &command(page.name, args));
    let mut missing = Vec::new();
    let pages = regions::fill(page.name, page.text, |region| {
        let table = tables.get(&region.name).cloned();
        missing.extend(table.is_none().then(|| format!("`{}`", region.name)));
        Some(table.unwrap_or_default())
    });
    if missing.is_empty() { Ok(pages) } else { Err(missing_tables(page, &missing, &result)) }
}

/// Returns the error for tables that were not measured, with the notes that name the reason.
fn missing_tables(page: &BenchPage, missing: &[String], result: &BenchResult) -> Error {
    let mut reasons = Vec::new();
    for note in &result.notes {
        if note.title == "Not measured" || note.lines.iter().any(|line| line.starts_with("cargo build")) {
            reasons.push(format!("{}: {}", note.title, note.lines.join(" ")));
        }
    }
    let (name, missing, reasons) = (page.name, missing.join(", "), reasons.join("; "));
    Error::Input(format!("tables of the page `{name}` were not measured: {missing} ({reasons})"))
}

/// Makes all tables of a benchmark.
fn make_tables(result: &BenchResult, recipe: &Recipe, command: &str) -> Tables {
    let reports = result.reports(recipe);
    let mut tables = Tables::new();
    let is_policy = |side: &String| result.policies.contains(side);
    let between_policies = reports.iter().find(|report| report.sides.iter().all(is_policy));
    tables.extend(between_policies.and_then(comparisons).map(|table| ("policies".to_owned(), convert(table))));
    tables.insert("comparisons".to_owned(), all_comparisons(&reports));
    for table in reports.iter().flat_map(|report| &report.tables).filter(|table| !is_text(table)) {
        tables.insert(table_name(&table.title), convert(table));
    }
    tables.insert("notes".to_owned(), notes(&reports));
    let recipe = recipe.rows(&result.timing, |name| result.policies.contains(name)).into_iter();
    let rows = [("command".to_owned(), format!("`{command}`"))].into_iter().chain(recipe);
    let rows = rows.map(|(what, value)| vec![what, value]);
    tables.insert("recipe".to_owned(), DataTable::new(["item", "value"], rows));
    tables
}

/// Returns the table of comparisons of a report, which has no title.
fn comparisons(report: &Report) -> Option<&Table> {
    report.tables.iter().find(|table| table.title.is_empty())
}

/// Makes the table of the comparisons of all sides. Comparisons without a bar have an empty cell.
fn all_comparisons(reports: &[Report]) -> DataTable {
    let tables: Vec<(&Report, &Table)> =
        reports.iter().filter_map(|report| Some((report, comparisons(report)?))).collect();
    let widest = tables.iter().map(|(_, table)| table).max_by_key(|table| table.columns.len());
    let columns = widest.map_or(&[][..], |table| &table.columns);
    let header: Vec<&str> =
        ["side A", "side B"].into_iter().chain(columns.iter().map(|column| &*column.name)).collect();
    let mut rows = Vec::new();
    for (report, table) in tables {
        for row in &table.rows {
            let mut cells = report.sides.to_vec();
            cells.extend(row.iter().map(|value| value.shown()));
            cells.resize(header.len(), String::new());
            rows.push(cells);
        }
    }
    DataTable::new(header, rows)
}

/// Returns whether a table is a list of lines of text.
fn is_text(table: &Table) -> bool {
    matches!(&table.columns[..], [only] if only.name.is_empty())
}

/// Makes the table of all lines of text: conclusions of tables, notes, and caveats.
fn notes(reports: &[Report]) -> DataTable {
    let mut rows = Vec::new();
    for report in reports {
        for table in &report.tables {
            let lines = table.rows.iter().filter(|_| is_text(table)).map(|row| row[0].shown());
            rows.extend(table.conclusions.iter().cloned().chain(lines).map(|line| vec![table.title.clone(), line]));
        }
        for caveats in &report.caveats {
            rows.extend(caveats.sentences.iter().map(|sentence| vec![caveats.title.to_string(), sentence.clone()]));
        }
    }
    DataTable::new(["title", "text"], rows)
}

fn convert(table: &Table) -> DataTable {
    let header: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    DataTable::new(header, table.rows.iter().map(|row| row.iter().map(|value| value.shown()).collect()))
}

/// Returns the name of the table with this title: its words in lower case, joined by `-`.
fn table_name(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_benchmark() {
        for page in PAGES {
            assert!(BENCHES.iter().any(|bench| bench.name == page.name), "{}", page.name);
        }
    }

    #[test]
    fn titles_become_names_of_files() {
        assert_eq!(
            table_name("Tagged lists against two words, Linux slab sizes"),
            "tagged-lists-against-two-words-linux-slab-sizes"
        );
    }
}
