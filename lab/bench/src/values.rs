//! Columns and cells for the tables that benchmarks lay out themselves (for example one row per size, one column per
//! allocator), and counts of verdicts and bars as text.

use freehold_report::report::{Column, Kind, Value};
use freehold_stats::verdict::{self, Verdict};

use super::bar::Holding;
use super::contest::Duel;
use super::numbers::{format_ratio, format_time};

/// Returns columns with these titles: the first `words` of them hold words, the others numbers.
pub(crate) fn columns(words: usize, titles: impl IntoIterator<Item = impl ToString>) -> Vec<Column> {
    let kinds = std::iter::repeat_n(Kind::Words, words).chain(std::iter::repeat(Kind::Numbers));
    let columns = titles.into_iter().zip(kinds);
    columns.map(|(title, kind)| Column { name: title.to_string().into(), unit: "", kind }).collect()
}

/// Formats ticks; empty without a value.
pub(crate) fn ticks(ticks: Option<f64>) -> Value {
    ticks.map_or(Value::None, |ticks| Value::text(format_time(ticks)))
}

/// Formats the ratio of a duel with its interval and verdict.
pub(crate) fn duel(duel: Option<&Duel>) -> Value {
    duel.map_or(Value::None, |duel| {
        Value::Judged(format!("{} {}", duel.ratio_text(), duel.verdict.word()), duel.verdict)
    })
}

/// Formats the ratio of a duel with its verdict, without the interval.
pub(crate) fn bare_ratio(duel: &Duel) -> Value {
    Value::Judged(format!("{} {}", format_ratio(duel.estimate.ratio), duel.verdict.word()), duel.verdict)
}

/// Formats the bar of a duel and whether it holds; empty without a bar.
pub(crate) fn bar(duel: Option<&Duel>) -> Value {
    let holding = duel.and_then(|duel| duel.bar_holds);
    Value::Judged(duel.map_or_else(String::new, Duel::bar_text), news(holding))
}

/// Returns the verdict that colours the result of a bar: met is good news, missed is bad news.
pub(crate) fn news(holding: Option<Holding>) -> Verdict {
    match holding {
        Some(Holding::Met) => Verdict::Better,
        Some(Holding::Missed) => Verdict::Worse,
        Some(Holding::Open) | None => Verdict::WithinNoise,
    }
}

/// Counts the verdicts of duels as text: `better in 3, worse in 1`.
pub(crate) fn tally<'d>(duels: impl IntoIterator<Item = &'d Duel>) -> String {
    let found = verdict::count_labels(duels.into_iter().map(|duel| duel.verdict)).filter(|(_, count)| *count > 0);
    found.map(|(label, count)| format!("{} in {count}", label.word())).collect::<Vec<_>>().join(", ")
}

/// Counts the results of bars as text: `met in 8, missed in 1`; empty if no duel has a bar.
pub(crate) fn bars<'d>(duels: impl IntoIterator<Item = &'d Duel>) -> String {
    let holdings: Vec<Holding> = duels.into_iter().filter_map(|duel| duel.bar_holds).collect();
    let found = [Holding::Met, Holding::Missed, Holding::Open].into_iter().filter_map(|holding| {
        let number = holdings.iter().filter(|&&found| found == holding).count();
        (number > 0).then(|| format!("{} in {number}", holding.word()))
    });
    found.collect::<Vec<_>>().join(", ")
}
