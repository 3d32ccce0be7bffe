//! Programs with 64 MiB of memory: whether each runs under each malloc. A program that runs under the C library's malloc
//! should run under Freehold's.

use std::iter::once;

use freehold_report::progress::Progress;
use freehold_report::report::{Caveats, Column, Table, Value};
use serde::Serialize;

use super::cost::{Ending, run_load};
use super::request::Request;
use super::roster::{LIBC_PLACE, Malloc};
use crate::error::Error;

/// Outcomes of a program, by malloc.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LimitRow {
    load: String,
    /// Reasons of failures; `None` where the program ran.
    failures: Vec<Option<String>>,
}

/// Runs these loads once under each malloc.
pub(super) fn measure_limits(
    request: &Request,
    loads: &[usize],
    mallocs: &[Malloc],
    bar: &Progress,
) -> Result<Vec<LimitRow>, Error> {
    let mut rows = Vec::new();
    for load in loads.iter().map(|&load| &request.loads[load]) {
        let mut failures = Vec::new();
        for malloc in mallocs {
            failures.push(match run_load(request, load, malloc)? {
                Ending::Done(_) => None,
                Ending::Failed(reason) => Some(reason),
            });
            bar.advance(1);
        }
        rows.push(LimitRow { load: load.name.clone(), failures });
    }
    Ok(rows)
}

impl LimitRow {
    /// Returns whether the program runs under the C library's malloc, and fails under the malloc with this index.
    fn fails_where_libc_runs(&self, malloc: usize) -> bool {
        self.failures[LIBC_PLACE].is_none() && self.failures[malloc].is_some()
    }
}

/// Returns the table of outcomes: one row per program, and a row with the number of failures.
pub(super) fn limit_table(rows: &[LimitRow], mallocs: &[String]) -> Option<Table> {
    let names = mallocs.iter().map(|name| Column::words(name.clone()));
    let mut cells: Vec<Vec<Value>> = Vec::new();
    for row in rows {
        let outcomes = row.failures.iter().map(|failure| Value::text(if failure.is_some() { "fails" } else { "runs" }));
        cells.push(once(Value::text(&row.load)).chain(outcomes).collect());
    }
    let failed = (0..mallocs.len()).map(|malloc| rows.iter().filter(|row| row.fails_where_libc_runs(malloc)).count());
    let failed = failed.map(|count| Value::Text(count.to_string()));
    cells.push(once(Value::text("fails where libc runs")).chain(failed).collect());
    let columns = once(Column::words("load")).chain(names).collect();
    (!rows.is_empty()).then(|| Table::new("Programs with 64 MiB of memory", columns, cells))
}

/// Returns the reasons why programs fail under Freehold that run under the C library's malloc.
pub(super) fn limit_caveats(rows: &[LimitRow]) -> Option<Caveats> {
    let failed = rows.iter().filter(|row| row.fails_where_libc_runs(0));
    let sentences = failed.filter_map(|row| Some(format!("the load `{}`: {}", row.load, row.failures[0].as_ref()?)));
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty())
        .then(|| Caveats { title: "Fail under freehold in 64 MiB, and run under libc".into(), sentences })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(load: &str, failures: [Option<&str>; 3]) -> LimitRow {
        LimitRow { load: load.to_owned(), failures: failures.map(|failure| failure.map(str::to_owned)).to_vec() }
    }

    #[test]
    fn failures_count_where_libc_runs() {
        let mallocs = ["freehold", "libc", "other"].map(str::to_owned);
        let rows = [
            row("a", [Some("killed"), None, None]),
            row("b", [Some("killed"), Some("killed"), None]),
            row("c", [None, None, Some("killed")]),
        ];
        let table = limit_table(&rows, &mallocs).unwrap();
        let last: Vec<Value> = ["fails where libc runs", "1", "0", "1"].map(Value::text).to_vec();
        assert_eq!(table.rows.last(), Some(&last));
        assert_eq!(table.rows[1][1..3], ["fails", "fails"].map(Value::text));
        assert_eq!(limit_caveats(&rows).unwrap().sentences, ["the load `a`: killed"]);
        assert!(limit_table(&[], &mallocs).is_none() && limit_caveats(&rows[2..]).is_none());
    }
}
