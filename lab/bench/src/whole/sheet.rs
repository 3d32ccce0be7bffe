//! Tables of one figure: for each malloc the median over the rounds and its interval.

use fastrand::Rng;
use freehold_report::report::{Column, Table, Value};
use freehold_stats::intervals::{median, median_interval};
use freehold_workloads::malloc::Table as LoadTable;
use serde::Serialize;

use super::cost::{Cost, Rounds};
use super::ratio::{CONFIDENCE, CPU_OF_STEP};
use super::request::Request;
use super::roster::LIBC_PLACE;
use crate::numbers::format_ratio;

/// Function that computes the figure of a load under a malloc. The second argument is the C library's cost in the same
/// round.
type Figure = fn(&Cost, &Cost) -> f64;

/// A figure, its title, and the loads that it applies to.
struct Kind {
    table: LoadTable,
    title: &'static str,
    figure: Figure,
}

/// All figures, in the order of the report.
const KINDS: [Kind; 17] = [
    kind(LoadTable::Pairs, "Pairs: CPU time in ns of each", |cost, _| CPU_OF_STEP(cost)),
    kind(LoadTable::Resident, "Blocks that stay: resident memory divided by live memory", |cost, _| {
        grown_kib(cost) * 1024.0 / cost.live_bytes as f64
    }),
    kind(LoadTable::Resident, "Blocks that stay: CPU time in ms", |cost, _| cost.cpu_ns as f64 / 1e6),
    kind(LoadTable::Threads, "Threads: KiB resident for each", |cost, _| grown_kib(cost) / cost.steps as f64),
    kind(LoadTable::Threads, "Threads: growth of resident memory in MiB", |cost, _| grown_kib(cost) / 1024.0),
    kind(LoadTable::Threads, "Threads: CPU time in ms", |cost, _| cost.cpu_ns as f64 / 1e6),
    kind(LoadTable::Start, "Start: KiB resident beyond the C library's", |cost, libc| {
        cost.resident_kib as f64 - libc.resident_kib as f64
    }),
    kind(LoadTable::Start, "Start: page faults beyond the C library's", |cost, libc| {
        cost.faults as f64 - libc.faults as f64
    }),
    kind(LoadTable::Start, "Start: CPU time in ms beyond the C library's", |cost, libc| {
        (CPU_OF_STEP(cost) - CPU_OF_STEP(libc)) / 1e6
    }),
    kind(LoadTable::Forks, "Forks while other threads allocate: failed children", |cost, _| cost.lost as f64),
    kind(LoadTable::Forks, "Forks while other threads allocate: all children", |cost, _| cost.steps as f64),
    kind(LoadTable::Forks, "Forks while other threads allocate: growth of resident memory in MiB", |cost, _| {
        grown_kib(cost) / 1024.0
    }),
    kind(LoadTable::Services, "Services: CPU time in ms", |cost, _| cost.cpu_ns as f64 / 1e6),
    kind(LoadTable::Services, "Services: peak resident memory in MiB", |cost, _| cost.peak_kib as f64 / 1024.0),
    kind(LoadTable::Services, "Services: resident memory in MiB at the end", |cost, _| {
        cost.resident_kib as f64 / 1024.0
    }),
    kind(LoadTable::HugePages, "Huge pages: MiB charged to the control group, with 32 MiB in use", |cost, _| {
        cost.charged_kib as f64 / 1024.0
    }),
    kind(LoadTable::HugePages, "Huge pages: resident MiB, with 32 MiB in use", |cost, _| {
        cost.resident_kib as f64 / 1024.0
    }),
];

const fn kind(table: LoadTable, title: &'static str, figure: Figure) -> Kind {
    Kind { table, title, figure }
}

/// Returns the growth of resident memory since the start of the load, in KiB.
fn grown_kib(cost: &Cost) -> f64 {
    cost.resident_kib as f64 - cost.start_kib as f64
}

/// Table of one figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sheet {
    table: LoadTable,
    title: &'static str,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    load: String,
    /// Median and interval by malloc; `None` where the load failed.
    of: Vec<Option<Middle>>,
}

/// Median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Middle {
    median: f64,
    low: f64,
    high: f64,
}

/// Returns the tables for which there are loads.
pub(super) fn sheets(request: &Request, rounds: &Rounds) -> Vec<Sheet> {
    let sheets = KINDS.iter().map(|kind| Sheet::new(kind, request, rounds));
    sheets.filter(|sheet| !sheet.rows.is_empty()).collect()
}

fn middle(rounds: &Rounds, load: usize, malloc: usize, figure: Figure, seed: u64) -> Option<Middle> {
    let mut values = Vec::new();
    for costs in rounds.iter().map(|round| &round[load]) {
        values.extend(costs[malloc].as_ref().zip(costs[LIBC_PLACE].as_ref()).map(|(cost, libc)| figure(cost, libc)));
    }
    let (low, high) = (!values.is_empty()).then(|| median_interval(&values, CONFIDENCE, &mut Rng::with_seed(seed)))?;
    Some(Middle { median: median(&mut values), low, high })
}

impl Middle {
    /// Formats the median, with the interval unless it has no width.
    fn text(self) -> String {
        let [median, low, high] = [self.median, self.low, self.high].map(short);
        if low == high { median } else { format!("{median} ({low} to {high})") }
    }
}

/// Formats a number with about three significant digits; whole numbers without a fraction.
fn short(number: f64) -> String {
    match number {
        _ if number == number.trunc() => number.to_string(),
        ..0.0 => format!("-{}", format_ratio(-number)),
        100.0.. => format!("{number:.0}"),
        _ => format_ratio(number),
    }
}

impl Sheet {
    fn new(kind: &Kind, request: &Request, rounds: &Rounds) -> Sheet {
        let mut rows = Vec::new();
        for (at, load) in request.loads.iter().enumerate().filter(|(_, load)| load.table == kind.table) {
            let mallocs = rounds.first().map_or(0, |round| round[at].len());
            let of = (0..mallocs).map(|malloc| middle(rounds, at, malloc, kind.figure, request.seed)).collect();
            rows.push(Row { load: load.name.clone(), of });
        }
        Sheet { table: kind.table, title: kind.title, rows }
    }

    pub(super) fn shown(&self, mallocs: &[String]) -> Table {
        let names = mallocs.iter().map(|name| Column::numbers(name.clone()));
        let columns = std::iter::once(Column::words("load")).chain(names).collect();
        let mut rows = Vec::new();
        for row in &self.rows {
            let mut cells = vec![Value::text(&row.load)];
            cells.extend(row.of.iter().map(|middle| middle.map_or(Value::None, |middle| Value::Text(middle.text()))));
            rows.push(cells);
        }
        Table::new(self.title, columns, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_middle(low: f64, high: f64) -> String {
        Middle { median: 2.5, low, high }.text()
    }

    #[test]
    fn numbers_are_formatted_briefly() {
        let shown = [0.0, -12.0, 100.5, 1.2345, -0.25].map(short);
        assert_eq!(shown, ["0", "-12", "100", "1.234", "-0.250"]);
        assert_eq!(format_middle(2.5, 2.5), "2.500");
        assert_eq!(format_middle(2.0, 3.0), "2.500 (2 to 3)");
    }
}
