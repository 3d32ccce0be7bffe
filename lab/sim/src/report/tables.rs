//! Tables of a simulation, each about one subject and narrow enough for a terminal. They have a row for each value of
//! the swept parameter, number of CPUs and policy. With several seeds, a number is their median.

use freehold_report::number;
use freehold_report::report::{Column, Table, Value};
use freehold_stats::verdict::Verdict;

use super::judge;
use super::judge::Comparison;
use super::measures::{self, Measure};
use super::model::SimReport;
use crate::run::LOOKS;
use crate::sweep::Cell;
use crate::workload::WorkPace;

/// A column: its head, and the measure in it.
type Head = (&'static str, Measure);

/// Columns on locks and on time in the allocator.
const LOCKS: &[Head] = &[
    ("waiting", measures::ZONE_WAIT),
    ("locks", measures::ZONE_LOCKS),
    ("pages", measures::PAGES_PER_LOCK),
    ("held, ns", measures::ZONE_HOLD),
    ("allocator", measures::ALLOCATOR),
];
const LOCKS_ABOUT: &str = "waiting: share of CPU time spent waiting for a zone lock; locks: acquisitions per 1000 \
                           operations; pages: moved per acquisition; held: time per 1000 operations; allocator: \
                           share of CPU time spent in the allocator.";

/// Columns on free memory.
const FREE: &[Head] = &[
    ("free blocks", measures::FREE_BLOCKS_END),
    ("worst", measures::FREE_BLOCKS_WORST),
    ("unusable", measures::UNUSABLE_END),
    ("worst", measures::UNUSABLE_WORST),
    ("failed", measures::FAILURES),
];

/// Columns on memory in use.
const HELD: &[Head] = &[
    ("mixed", measures::MIXED_END),
    ("worst", measures::MIXED_WORST),
    ("held", measures::HELD_END),
    ("worst", measures::HELD_WORST),
    ("owned", measures::OWNED_END),
    ("remote", measures::REMOTE_FREES),
];

/// Columns on memory pressure.
const PRESSURE: &[Head] = &[
    ("reserve", measures::RESERVED),
    ("huge pages", measures::THP_SUCCESS),
    ("compaction", measures::COMPACTION_SUCCESS),
    ("atomic", measures::ATOMIC),
    ("failed", measures::ATOMIC_FAILED),
];
const PRESSURE_ABOUT: &str = "reserve: HighAtomic pageblocks at the end; huge pages, compaction: share of successful \
                              attempts; atomic: requests of orders 1 to 3; failed: atomic requests that failed.";

/// Columns on reclaim.
const RECLAIM: &[Head] = &[("by kswapd", measures::KSWAPD_SCANNED), ("by direct reclaim", measures::DIRECT_SCANNED)];

/// Returns all tables of a report.
pub(super) fn tables(report: &SimReport) -> Vec<Table> {
    let looks = number::count(LOOKS + 1);
    let free = format!(
        "free blocks: whole free pageblocks at the end, and the worst of {looks} samples; unusable: share of free \
         memory in blocks below order 9, likewise; failed: allocations that found no memory."
    );
    let held = "mixed: pageblocks with movable and immovable pages; held: pages on per-CPU lists and stacks; owned: \
                pageblocks that a CPU owns; remote: share of frees on another CPU than the allocation.";
    let mut tables = vec![speed(report)];
    tables.push(measure_table(report, "Zone locks", LOCKS_ABOUT, LOCKS));
    tables.push(measure_table(report, "Free memory", &free, FREE));
    tables.push(measure_table(report, "Memory in use", held, HELD));
    if report.pace() == WorkPace::Set {
        tables.push(measure_table(report, "Under pressure", PRESSURE_ABOUT, PRESSURE));
        tables.push(measure_table(report, "Pages scanned a minute", "", RECLAIM));
    }
    tables
}

/// Returns the table of throughput and latency. Throughput is never shown without the latency that it may have cost. At
/// a set pace, the table has the latency alone.
fn speed(report: &SimReport) -> Table {
    let heads: &[Head] = match report.pace() {
        WorkPace::Free => &[("M op/s", measures::THROUGHPUT), ("p99, ns", measures::ALLOC_P99)],
        WorkPace::Set => &[("p99, ns", measures::ALLOC_P99)],
    };
    let mut columns = places(report);
    columns.extend(heads.iter().flat_map(|(head, _)| [*head, "change"]).map(Column::numbers));
    columns.push(Column::words("verdict"));
    let margin = judge::MARGIN * 100.0;
    let throughput = match report.pace() {
        WorkPace::Free => "M op/s: million operations a second of virtual time",
        WorkPace::Set => SAME_DEMAND,
    };
    let about = format!(
        "{throughput}; p99: upper border of the histogram bucket with the 99th percentile; change: against {}; no \
         change: at most {margin} % under every seed.",
        report.plan.policies[0].name
    );
    let rows = report.cells.iter().map(|cell| speed_row(report, cell, heads));
    Table { about, ..Table::new(title(report, "Speed"), columns, rows) }
}

/// Returns the row of a cell in the table of speed: each measure with its change, and the verdict on all of them.
fn speed_row(report: &SimReport, cell: &Cell, heads: &[Head]) -> Vec<Value> {
    let mut row = place(report, cell);
    let mut comparisons = Vec::new();
    for (_, measure) in heads {
        let comparison = report.judge(measure, cell.point, cell.cpus, cell.policy).filter(|_| cell.policy > 0);
        let change = comparison.map(|comparison| comparison.change.map_or(Value::None, Value::Change));
        row.extend([value(cell, measure), change.unwrap_or_else(|| Value::text(""))]);
        comparisons.extend(comparison);
    }
    row.push(verdict_value(&comparisons));
    row
}

/// Reason why throughput is not judged at a set pace.
const SAME_DEMAND: &str = "The demand is the same under every policy, so throughput is not judged";

/// Returns the verdicts on throughput and latency in one cell, or a single verdict if they are equal.
fn verdict_value(comparisons: &[Comparison]) -> Value {
    let text = match comparisons {
        [] => return Value::text(""),
        [one] => one.verdict.word().to_owned(),
        [one, other, ..] => match (one.verdict, other.verdict) {
            (Verdict::NoChange, Verdict::NoChange) => Verdict::NoChange.word().to_owned(),
            (first, second) if first == second => format!("both {}", first.word()),
            (first, second) => format!("{}, p99 {}", first.word(), second.word()),
        },
    };
    let tones = [Verdict::Worse, Verdict::Better];
    let tone = tones.into_iter().find(|tone| comparisons.iter().any(|comparison| comparison.verdict == *tone));
    Value::Judged(text, tone.unwrap_or(Verdict::NoChange))
}

/// Returns a table with these columns after the columns that identify the runs of a row.
fn measure_table(report: &SimReport, subject: &str, about: &str, heads: &[Head]) -> Table {
    let mut columns = places(report);
    columns.extend(heads.iter().map(|(head, _)| Column::numbers(*head)));
    let rows = report.cells.iter().map(|cell| {
        let values = heads.iter().map(|(_, measure)| value(cell, measure));
        place(report, cell).into_iter().chain(values).collect()
    });
    let table = Table::new(title(report, subject), columns, rows);
    Table { about: about.to_owned(), ..table }
}

fn title(report: &SimReport, subject: &str) -> String {
    match &report.plan.swept {
        Some(key) => format!("{subject}, at values of {key}"),
        None => subject.to_owned(),
    }
}

/// Returns the columns that identify the runs of a row.
fn places(report: &SimReport) -> Vec<Column> {
    let swept = report.plan.swept.is_some().then(|| Column::numbers("at"));
    swept.into_iter().chain([Column::numbers("CPUs"), Column::words("policy")]).collect()
}

fn place(report: &SimReport, cell: &Cell) -> Vec<Value> {
    let swept = report.plan.points[cell.point].value.as_ref().map(Value::text);
    let names = [Value::count(u64::from(cell.cpus)), Value::text(report.label(cell.policy))];
    swept.into_iter().chain(names).collect()
}

fn value(cell: &Cell, measure: &Measure) -> Value {
    measure.value(measures::Spread::over_runs(measure, &cell.outcomes).number())
}
