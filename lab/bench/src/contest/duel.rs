//! Duels: comparisons of two contestants of a contest.
//!
//! A duel is about one figure of an event, or about the geometric mean of many figures. For a mean, each run yields one
//! ratio of means, and the runs are judged like those of a single figure. Each side may be a different contestant in
//! each figure, for instance the best one of each.

use fastrand::Rng;
use freehold_stats::intervals::median;
use freehold_stats::verdict::Verdict;
use serde::Serialize;

use super::times::Contest;
use crate::bar::{Bar, Holding};
use crate::decide::{ERROR, Estimate, Look, Margin, judge};
use crate::numbers::format_ratio;

/// Outcome of a duel. The ratio is of times, B over A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Duel {
    /// Ticks per operation of A in the median run; the geometric mean if there are several figures.
    pub a_ticks: f64,
    /// Ticks per operation of B, likewise.
    pub b_ticks: f64,
    /// Ratio of B's ticks to A's.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Verdict on the ratio.
    pub verdict: Verdict,
    /// Bound that was set for the ratio.
    pub bar: Option<Bar>,
    /// Whether the bound holds.
    pub bar_holds: Option<Holding>,
}

/// A duel with the names of its sides and of its figure, for the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DuelRecord {
    /// Name of side A.
    pub a: String,
    /// Name of side B.
    pub b: String,
    /// Name of the loop.
    #[serde(rename = "loop")]
    pub work: &'static str,
    /// Name of the figure.
    pub figure: &'static str,
    /// Size of an object in bytes; `None` for a mean over many sizes.
    pub bytes: Option<usize>,
    /// Outcome of the duel.
    #[serde(flatten)]
    pub duel: Duel,
}

/// Indices of figures that are added before the comparison: a single figure, or those of a loop.
pub(crate) type Sum = Vec<usize>;

impl Contest {
    /// Compares B with A in some figures. `a` and `b` return the contestant of each side for a figure. Returns `None`
    /// if a contestant did not take part in one of the figures, or there are no figures.
    pub(crate) fn duel(
        &self,
        a: impl Fn(&Sum) -> usize,
        b: impl Fn(&Sum) -> usize,
        sums: &[Sum],
        margin: Margin,
    ) -> Option<Duel> {
        let (a, b) = (self.log_means(a, sums)?, self.log_means(b, sums)?);
        let log_ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
        let estimate = Estimate::from_log_ratios(&log_ratios, 1.0 - ERROR, &mut Rng::with_seed(self.seed));
        let [a_ticks, b_ticks] = [a, b].map(|mut logs| median(&mut logs).exp());
        let verdict = judge(&estimate, margin, Look::Last);
        Some(Duel { a_ticks, b_ticks, estimate, verdict, bar: None, bar_holds: None })
    }

    /// Compares two contestants in one figure.
    pub(crate) fn duel_in(&self, a: usize, b: usize, cell: usize, margin: Margin) -> Option<Duel> {
        self.duel(|_| a, |_| b, &[vec![cell]], margin)
    }

    /// Returns, for each run, the logarithm of the geometric mean over the sums.
    fn log_means(&self, who: impl Fn(&Sum) -> usize, sums: &[Sum]) -> Option<Vec<f64>> {
        if sums.is_empty() || self.runs.is_empty() {
            return None;
        }
        let mut means = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let mut logs = 0.0;
            for sum in sums {
                let player = who(sum);
                logs += sum.iter().map(|&cell| run[player][cell]).sum::<Option<f64>>()?.ln();
            }
            means.push(logs / sums.len() as f64);
        }
        Some(means)
    }
}

impl Duel {
    /// Returns the duel with a bar.
    pub fn with_bar(self, bar: Bar) -> Duel {
        Duel { bar: Some(bar), bar_holds: Some(bar.holds_for(&self.estimate, self.verdict)), ..self }
    }

    /// Formats the ratio and its interval.
    pub fn ratio_text(&self) -> String {
        let Estimate { ratio, low, high, .. } = self.estimate;
        format!("{} ({} to {})", format_ratio(ratio), format_ratio(low), format_ratio(high))
    }

    /// Formats the bar and whether it holds; empty without a bar.
    pub fn bar_text(&self) -> String {
        let promised = self.bar.zip(self.bar_holds);
        promised.map_or_else(String::new, |(bar, holds)| match bar {
            Bar::RatioAtMost(most) => format!("at most {most}: {}", holds.word()),
            other => format!("{}: {}", other.text(), holds.word()),
        })
    }
}

#[cfg(test)]
mod tests {
    use freehold_object_loops::Work;

    use super::super::event::Cell;
    use super::super::times::tests::planted;
    use super::*;

    fn margin() -> Margin {
        Margin::percent(2.0).unwrap()
    }

    /// Times in which B takes 0.8 times as long as A in every run, and C takes no part in fills. Each run is slower
    /// than the one before it.
    fn known(run: usize, player: usize, cell: Cell) -> Option<f64> {
        let slower = (1 + run) as f64 * cell.size.bytes() as f64;
        match (player, cell.work) {
            (0, _) => Some(slower),
            (1, _) => Some(0.8 * slower),
            (_, Work::Fill) => None,
            _ => Some(3.0 * slower),
        }
    }

    #[test]
    fn duel_ratios_are_taken_within_runs() {
        let contest = planted(&["a", "b", "c"], &[Work::Fill, Work::Pair], 12, known);
        let duel = contest.duel_in(0, 1, 0, margin()).unwrap().with_bar(Bar::RatioAtMost(0.75));
        assert!((duel.estimate.ratio - 0.8).abs() < 1e-9 && (duel.estimate.high - duel.estimate.low) < 1e-9);
        assert_eq!((duel.verdict, duel.bar_holds), (Verdict::Better, Some(Holding::Missed)));
        assert_eq!(contest.duel_in(0, 2, 0, margin()), None);
        assert_eq!(contest.duel_in(1, 2, 4, margin()).unwrap().verdict, Verdict::Worse);
        assert_eq!(contest.ticks(0, 0), Some(8.0 * 6.5));
    }

    #[test]
    fn duel_mean_is_geometric_over_varying_opponents() {
        let contest = planted(&["a", "b", "c"], &[Work::Fill, Work::Pair], 12, known);
        let pairs: Vec<Sum> = contest.cells_of(Work::Pair, 0).map(|cell| vec![cell]).collect();
        let duel = contest.duel(|_| 0, |sum| if *sum == pairs[0] { 1 } else { 2 }, &pairs, margin()).unwrap();
        assert!((duel.estimate.ratio - (0.8_f64 * 3.0).sqrt()).abs() < 1e-9, "{duel:?}");
        // The sum of both figures of a fill is twice one of them.
        let fill = contest.duel(|_| 0, |_| 1, &[vec![0, 1]], margin()).unwrap();
        assert!((fill.a_ticks - 2.0 * contest.duel_in(0, 1, 0, margin()).unwrap().a_ticks).abs() < 1.0, "{fill:?}");
        assert_eq!(contest.duel(|_| 0, |_| 1, &[], margin()), None);
    }

    #[test]
    fn duel_of_few_runs_is_not_judged() {
        let contest = planted(&["a", "b"], &[Work::Pair], 9, known);
        let duel = contest.duel_in(0, 1, 0, margin()).unwrap().with_bar(Bar::RatioAtMost(0.9));
        assert_eq!((duel.verdict, duel.bar_holds), (Verdict::NotJudged, Some(Holding::Open)));
    }
}
