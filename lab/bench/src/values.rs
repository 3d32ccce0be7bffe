//! Columns and cells for the tables that benchmarks lay out themselves (for example one row per size, one column per
//! allocator), and counts of verdicts and bars.

use freehold_report::report::{Column, Kind, Value};
use freehold_stats::verdict::Verdict;

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

/// Returns the numbers of better, worse, unchanged and noisy duels, then of bars that are met, missed and open.
pub(crate) fn count_duels(duels: &[Duel]) -> [usize; 7] {
    let [better, worse, no_change, noise] = [Verdict::Better, Verdict::Worse, Verdict::NoChange, Verdict::WithinNoise]
        .map(|verdict| duels.iter().filter(|duel| duel.verdict == verdict).count());
    let [met, missed, open] = [Holding::Met, Holding::Missed, Holding::Open]
        .map(|holding| duels.iter().filter(|duel| duel.bar_holds == Some(holding)).count());
    [better, worse, no_change, noise, met, missed, open]
}
