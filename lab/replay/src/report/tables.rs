//! Tables of a replay: the comparison with the recorded kernel, failures and decisions.

use freehold_report::number::Quantity;
use freehold_report::report::{Column, Table, Value};

use super::course::{Decision, Divergence, FailureCount, Fate, Pair};
use super::fidelity::FidelityRow;
use super::uncompared::UncomparedRow;

/// Returns the table of the engine's and the recorded kernel's values. Measures that cannot be compared come last.
pub(crate) fn fidelity<'a>(
    title: String,
    rows: impl Iterator<Item = &'a FidelityRow>,
    uncompared: impl Iterator<Item = &'a UncomparedRow>,
) -> Table {
    let numbers = ["recorded", "replayed", "error", "bound"].map(Column::numbers);
    let words = ["within", "events", "label"].map(Column::words);
    let columns = [vec![Column::words("fidelity")], numbers.to_vec(), words.to_vec()].concat();
    Table::new(title, columns, rows.map(row).chain(uncompared.map(uncompared_row)))
}

fn row(row: &FidelityRow) -> Vec<Value> {
    vec![
        Value::text(row.measure.name()),
        Value::Number(bare(row.recorded)),
        Value::Number(bare(row.replayed)),
        row.relative_error.map_or(Value::None, Value::Change),
        row.bound.map_or(Value::None, Value::Share),
        row.within.map_or(Value::None, Value::Is),
        row.events.map_or(Value::None, |[recorded, replayed]| Value::text(format!("{recorded} / {replayed}"))),
        row.label.map_or(Value::None, |label| Value::text(label.text())),
    ]
}

fn uncompared_row(row: &UncomparedRow) -> Vec<Value> {
    let [recorded, replayed] =
        [row.recorded, row.replayed].map(|value| value.map_or(Value::None, |value| Value::Number(bare(value))));
    let none = [const { Value::None }; 4];
    [vec![Value::text(row.measure.name()), recorded, replayed], none.to_vec(), vec![Value::text(row.reason.label())]]
        .concat()
}

/// Returns a number without decimals if it is whole, as in most rows.
fn bare(number: f64) -> Quantity {
    if number.fract() == 0.0 && number >= 0.0 { Quantity::Count(number as u64) } else { Quantity::Ratio(number) }
}

/// Largest number of moments in a table of divergence. Longer series are thinned evenly.
const MOMENTS_MAX: usize = 12;

/// Returns the table of the engine and the recorded kernel over time.
pub(crate) fn divergence(moments: &[Divergence]) -> Table {
    let names = ["free pages", "free pageblocks", "stalls", "kswapd scanned", "requests scanned", "compact stalls"];
    let columns = [vec![Column::numbers("seconds")], names.map(Column::words).to_vec()].concat();
    let step = moments.len().div_ceil(MOMENTS_MAX).max(1);
    let shown = moments.iter().enumerate().filter(|(at, _)| (moments.len() - 1 - at).is_multiple_of(step));
    Table::new("Over time, recorded / replayed", columns, shown.map(|(_, moment)| moment_row(moment)))
}

fn moment_row(moment: &Divergence) -> Vec<Value> {
    let pairs = [
        moment.free_pages,
        moment.free_pageblocks,
        moment.stalls,
        moment.scanned_by_kswapd,
        moment.scanned_by_requests,
        moment.compact_stalls,
    ];
    let seconds = Value::Number(Quantity::Ratio(moment.time as f64 / 1e9));
    std::iter::once(seconds).chain(pairs.map(pair_cell)).collect()
}

fn pair_cell(Pair { recorded, replayed }: Pair) -> Value {
    Value::text(format!("{recorded} / {replayed}"))
}

/// Largest number of rows in a table of failures.
const FAILURES_MAX: usize = 10;

/// Returns the table of failed requests, with the most frequent tasks and orders.
pub(crate) fn failures(failures: &[FailureCount]) -> Table {
    let columns =
        [vec![Column::words("task")], ["order", "recorded", "replayed"].map(Column::numbers).to_vec()].concat();
    let rows = failures.iter().take(FAILURES_MAX).map(|failed| {
        let numbers = [u64::from(failed.order), failed.recorded, failed.replayed].map(Value::count);
        [vec![Value::text(&failed.task)], numbers.to_vec()].concat()
    });
    Table::new("Failed requests, without repeats", columns, rows)
}

/// Returns the table of the first decisions that differ.
pub(crate) fn decisions(decisions: &[Decision]) -> Table {
    let numbers = ["seconds", "order"].map(Column::numbers).to_vec();
    let columns = [numbers, ["task", "recorded kernel", "engine"].map(Column::words).to_vec()].concat();
    Table::new("First decisions that differ", columns, decisions.iter().map(decision_row))
}

fn decision_row(decision: &Decision) -> Vec<Value> {
    vec![
        Value::Number(Quantity::Ratio(decision.time as f64 / 1e9)),
        Value::count(u64::from(decision.order)),
        Value::text(&decision.task),
        Value::text(fate(decision.recorded)),
        Value::text(fate(decision.replayed)),
    ]
}

fn fate(fate: Fate) -> String {
    match fate {
        Fate::Served => "served at once".to_owned(),
        Fate::Stalled { ns } => format!("served after {:.2} ms", ns as f64 / 1e6),
        Fate::Refused => "refused".to_owned(),
    }
}
