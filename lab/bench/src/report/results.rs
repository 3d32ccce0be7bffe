//! Results of benchmarks as flat data for programs.

use freehold_report::number;
use freehold_report::report::Table;
use freehold_stats::verdict::Verdict;
use serde::Serialize;

use crate::bar::{Bar, Holding};
use crate::comparison::Comparison;
use crate::contest::{DuelRecord, Standing};
use crate::recipe::{Recipe, Timing};
use crate::run::Pair;
use crate::session::{Disturbance, Outcome};
use crate::subject::Sample;

/// Minimum share of outlier pairs that is reported.
const OUTLIERS_MANY: f64 = 0.05;
/// Maximum number of comparisons that are named in that report.
const WORST_NAMED: usize = 3;

/// A comparison with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Name of the case.
    pub case: &'static str,
    /// Short description of the case.
    pub about: &'static str,
    /// Name of an operation.
    pub operation: &'static str,
    /// Name of side A.
    pub a: String,
    /// Name of side B.
    pub b: String,
    /// Outcome of the comparison.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Bound that was set for the outcome.
    pub bar: Option<Bar>,
    /// Whether the bound holds.
    pub bar_holds: Option<Holding>,
}

impl ComparisonRow {
    /// Combines a comparison with its outcome.
    pub fn new(comparison: &Comparison, outcome: Outcome) -> ComparisonRow {
        ComparisonRow {
            case: comparison.case.name,
            about: comparison.case.about,
            operation: comparison.case.operation,
            a: comparison.a.name().to_owned(),
            b: comparison.b.name().to_owned(),
            bar: comparison.bar,
            bar_holds: comparison.bar.map(|bar| bar.holds(&outcome)),
            outcome,
        }
    }

    /// Returns the sums of A's and of B's first samples, up to at least `operations` operations each; all samples if
    /// there are fewer.
    pub fn totals(&self, operations: u64) -> [Sample; 2] {
        let sides: [fn(&Pair) -> Sample; 2] = [|pair| pair.a, |pair| pair.b];
        sides.map(|side| {
            let samples = self.outcome.runs.iter().flat_map(|run| run.pairs().map(side));
            let mut before = 0;
            let first = samples.take_while(|sample| {
                let wanted = before < operations;
                before += sample.operations;
                wanted
            });
            first.sum()
        })
    }

    /// Formats the verdict with its margin or with the number of missing runs.
    pub fn verdict_text(&self, recipe: &Recipe) -> String {
        match (self.outcome.verdict, self.outcome.runs_missing) {
            (Verdict::NoChange, _) => format!("no change beyond {} %", recipe.margin_percent),
            (verdict, Some(runs)) => {
                let (count, unit) = (number::count(runs as u64), number::unit(runs as u64, "runs"));
                format!("{} (about {count} more {unit} would decide)", verdict.word())
            }
            (verdict, _) => verdict.word().to_owned(),
        }
    }

    /// Returns the share of outlier pairs, if it is above [`OUTLIERS_MANY`].
    fn busy(&self) -> Option<(f64, &ComparisonRow)> {
        let Disturbance { pairs, outlier_pairs, .. } = self.outcome.disturbance;
        let share = outlier_pairs as f64 / pairs as f64;
        (share > OUTLIERS_MANY).then_some((share, self))
    }

    /// Formats drifts as sentences. A drift of the ratio is omitted if it is at most half of the difference from 1.
    fn drifts(&self) -> Vec<String> {
        let Disturbance { drift_of_a, drift_of_ratio, .. } = self.outcome.disturbance;
        let difference = (self.outcome.estimate.ratio - 1.0).abs();
        let touching = drift_of_ratio.filter(|drift| drift.abs() > difference / 2.0);
        let drifts = [
            (drift_of_a, "A's time", "the ratio is not affected"),
            (touching, "The ratio", "measure again before relying on it"),
        ];
        let mut sentences = Vec::new();
        for (drift, what, remark) in drifts.into_iter().filter(|(drift, ..)| drift.is_some()) {
            let (title, change) = (self.title(), number::change(drift));
            sentences.push(format!("{what} in {title} changed by {change} from the first run to the last; {remark}."));
        }
        sentences
    }

    /// Formats the name of the case and of side B.
    fn title(&self) -> String {
        format!("{} ({})", self.case, self.b)
    }

    /// Returns whether the verdict contradicts a planted difference.
    pub fn is_wrong(&self) -> bool {
        matches!(self.bar, Some(Bar::Planted(_))) && self.bar_holds == Some(Holding::Missed)
    }

    /// Formats the bar and whether it holds; empty without a bar.
    pub fn bar_text(&self) -> String {
        let judged = self.bar.zip(self.bar_holds);
        judged.map_or_else(String::new, |(bar, holds)| format!("{}: {}", bar.text(), holds.word()))
    }
}

/// Exact counts of both sides, which are equal on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exact {
    /// Description of the count.
    pub what: String,
    /// Name of side A.
    pub a: String,
    /// Name of side B.
    pub b: String,
    /// Count of A.
    pub a_count: u64,
    /// Count of B.
    pub b_count: u64,
    /// Verdict on the counts.
    pub verdict: Verdict,
}

/// Additional lines of a benchmark's report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Heading of the lines.
    pub title: String,
    /// Lines, each printed as it is.
    pub lines: Vec<String>,
}

/// Results of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchResult {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Question that the benchmark answers.
    pub asks: &'static str,
    /// Method, clock and limits.
    #[serde(flatten)]
    pub timing: Timing,
    /// Names of the policies that took part.
    pub policies: Vec<String>,
    /// Timed comparisons.
    pub comparisons: Vec<ComparisonRow>,
    /// Exact counts.
    pub exact: Vec<Exact>,
    /// Tables for people. The JSON has `standings` and `duels` instead.
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// Times of all contestants, if there were contests.
    pub standings: Vec<Standing>,
    /// Duels between contestants.
    pub duels: Vec<DuelRecord>,
    /// Additional lines.
    pub notes: Vec<Note>,
}

/// Document with all results of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// Conditions of the measurement.
    pub recipe: Recipe,
    /// Results of each benchmark.
    pub benches: Vec<BenchResult>,
}

impl BenchResult {
    /// Groups comparisons by their two sides, in order of first appearance.
    pub fn groups(&self) -> Vec<(&str, &str, Vec<&ComparisonRow>)> {
        let mut groups: Vec<(&str, &str, Vec<&ComparisonRow>)> = Vec::new();
        for compared in &self.comparisons {
            match groups.iter_mut().find(|(a, b, _)| *a == compared.a && *b == compared.b) {
                Some((.., rows)) => rows.push(compared),
                None => groups.push((&compared.a, &compared.b, vec![compared])),
            }
        }
        groups
    }

    /// Formats a sentence about the comparisons with many outlier pairs, naming the worst; `None` if there are none.
    fn busy(&self) -> Option<String> {
        let mut busy: Vec<(f64, &ComparisonRow)> = self.comparisons.iter().filter_map(ComparisonRow::busy).collect();
        busy.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let worst = busy.iter().take(WORST_NAMED);
        let worst = worst.map(|(share, compared)| format!("{} of {}", number::percent(*share), compared.title()));
        let worst: Vec<String> = worst.collect();
        (!busy.is_empty()).then(|| {
            format!(
                "Intervals may be wider in {} of {} comparisons, in which more than {} of the pairs are outliers; the \
                 largest shares: {}.",
                busy.len(),
                self.comparisons.len(),
                number::percent(OUTLIERS_MANY),
                worst.join(", ")
            )
        })
    }

    /// Formats possible disturbances of the verdicts as sentences: at least one sentence if there are comparisons.
    pub fn disturbances(&self) -> Vec<String> {
        if self.comparisons.is_empty() {
            return Vec::new();
        }
        let disturbances = self.comparisons.iter().map(|compared| &compared.outcome.disturbance);
        let pairs: usize = disturbances.clone().map(|disturbance| disturbance.pairs).sum();
        let outliers: usize = disturbances.map(|disturbance| disturbance.outlier_pairs).sum();
        let [pairs, outliers] = [pairs, outliers].map(|number| number::count(number as u64));
        let mut sentences =
            vec![format!("{outliers} of {pairs} pairs of samples are outliers; medians are not affected.")];
        sentences.extend(self.busy());
        sentences.extend(self.comparisons.iter().flat_map(ComparisonRow::drifts));
        sentences
    }
}

/// Summarizes the verdicts of some comparisons in a sentence.
pub(super) fn summary(rows: &[&ComparisonRow], recipe: &Recipe) -> String {
    let no_difference = format!("no change beyond {} %", recipe.margin_percent);
    let words = [
        (Verdict::Better, "better"),
        (Verdict::Worse, "worse"),
        (Verdict::NoChange, &no_difference),
        (Verdict::WithinNoise, "within noise"),
        (Verdict::NotJudged, "not judged"),
    ];
    let counts = words.map(|(verdict, word)| (word, rows.iter().filter(|row| row.outcome.verdict == verdict).count()));
    let found: Vec<(&str, usize)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    if let [only] = rows {
        let word = found.iter().map(|(word, _)| *word).collect::<String>();
        return format!("In {}: {word}.", only.case);
    }
    if let [(word, _)] = found.as_slice() {
        return format!("In all {} cases: {word}.", rows.len());
    }
    let parts = found.into_iter().map(|(word, count)| format!("{word} in {count}"));
    format!("Of {} cases: {}.", rows.len(), parts.collect::<Vec<_>>().join(", "))
}
