//! Results of benchmarks as flat data for programs.

use freehold_report::number;
use freehold_report::report::Table;
use freehold_stats::verdict::Verdict;
use serde::Serialize;

use crate::bar::{Bar, Holding};
use crate::comparison::Comparison;
use crate::contest::{DuelRecord, Standing};
use crate::numbers::format_ratio;
use crate::recipe::{Recipe, Timing};
use crate::run::Pair;
use crate::session::{Disturbance, Outcome};
use crate::subject::Sample;

/// Pairs far out beyond this share are worth a word.
const OUTLIERS_MANY: f64 = 0.05;
/// Comparisons that are named for it.
const WORST_NAMED: usize = 3;

/// A comparison with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Name of the case.
    pub case: &'static str,
    /// What is done in it.
    pub about: &'static str,
    /// What an operation is.
    pub operation: &'static str,
    /// Side A.
    pub a: String,
    /// Side B.
    pub b: String,
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What was promised.
    pub bar: Option<Bar>,
    /// Whether that holds.
    pub bar_holds: Option<Holding>,
}

impl ComparisonRow {
    /// A comparison and what came out of it.
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

    /// The first `operations` of A and of B in one sample each, or all if there are fewer.
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

    /// The verdict in full.
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

    /// The share of its pairs that lie far out, if they are many.
    fn busy(&self) -> Option<(f64, &ComparisonRow)> {
        let Disturbance { pairs, outlier_pairs, .. } = self.outcome.disturbance;
        let share = outlier_pairs as f64 / pairs as f64;
        (share > OUTLIERS_MANY).then_some((share, self))
    }

    /// Drifts, in sentences. That of the ratio is left out where it is small beside the difference itself.
    fn drifts(&self) -> Vec<String> {
        let Disturbance { drift_of_a, drift_of_ratio, .. } = self.outcome.disturbance;
        let difference = (self.outcome.estimate.ratio - 1.0).abs();
        let touching = drift_of_ratio.filter(|drift| drift.abs() > difference / 2.0);
        let drifts = [
            (drift_of_a, "A's time", "pairing cancels that"),
            (touching, "The ratio", "measure again before relying on it"),
        ];
        let mut sentences = Vec::new();
        for (drift, what, remark) in drifts.into_iter().filter(|(drift, ..)| drift.is_some()) {
            let (title, change) = (self.title(), number::change(drift));
            sentences.push(format!("{what} of {title} changed by {change} from the first run to the last; {remark}."));
        }
        sentences
    }

    /// The case and whose it is.
    fn title(&self) -> String {
        format!("{} ({})", self.case, self.b)
    }

    /// Whether this contradicts what was planted.
    pub fn is_wrong(&self) -> bool {
        matches!(self.bar, Some(Bar::Planted(_))) && self.bar_holds == Some(Holding::Missed)
    }

    /// What was promised and whether it holds, or nothing.
    pub fn bar_text(&self) -> String {
        let promised = self.bar.zip(self.bar_holds);
        promised.map_or_else(String::new, |(bar, holds)| format!("{}: {}", bar.text(), holds.word()))
    }
}

/// Exact numbers of both sides: the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exact {
    /// What was counted.
    pub what: String,
    /// Side A.
    pub a: String,
    /// Side B.
    pub b: String,
    /// A's count.
    pub a_count: u64,
    /// B's count.
    pub b_count: u64,
    /// What that means.
    pub verdict: Verdict,
}

/// Lines that a benchmark adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What they are.
    pub title: String,
    /// The lines.
    pub lines: Vec<String>,
}

/// What a benchmark found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchResult {
    /// Its name.
    pub bench: &'static str,
    /// What it asks.
    pub asks: &'static str,
    /// What was timed and for how long.
    #[serde(flatten)]
    pub timing: Timing,
    /// Names of the policies that took part.
    pub policies: Vec<String>,
    /// Timings.
    pub comparisons: Vec<ComparisonRow>,
    /// Exact numbers.
    pub exact: Vec<Exact>,
    /// Tables of its own; programs read what follows instead.
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// Everybody's times, where many were measured at once.
    pub standings: Vec<Standing>,
    /// What they are against each other.
    pub duels: Vec<DuelRecord>,
    /// What else is to be said.
    pub notes: Vec<Note>,
}

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    /// How it came about.
    pub recipe: Recipe,
    /// What came out.
    pub benches: Vec<BenchResult>,
}

impl BenchResult {
    /// Comparisons by their two sides, in order of first appearance.
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

    /// Where many pairs lie far out, in a sentence that names the worst.
    fn busy(&self) -> Option<String> {
        let mut busy: Vec<(f64, &ComparisonRow)> = self.comparisons.iter().filter_map(ComparisonRow::busy).collect();
        busy.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let worst = busy.iter().take(WORST_NAMED);
        let worst = worst.map(|(share, compared)| format!("{} of {}", number::percent(*share), compared.title()));
        let worst: Vec<String> = worst.collect();
        (!busy.is_empty()).then(|| {
            format!(
                "More than {} of the pairs lie far out in {} of {} comparisons, whose intervals may be wider for it; \
                 most in {}.",
                number::percent(OUTLIERS_MANY),
                busy.len(),
                self.comparisons.len(),
                worst.join(", ")
            )
        })
    }

    /// What might disturb the verdicts of comparisons, in sentences; at least one if there are any.
    pub fn disturbances(&self) -> Vec<String> {
        if self.comparisons.is_empty() {
            return Vec::new();
        }
        let disturbances = self.comparisons.iter().map(|compared| &compared.outcome.disturbance);
        let pairs: usize = disturbances.clone().map(|disturbance| disturbance.pairs).sum();
        let outliers: usize = disturbances.map(|disturbance| disturbance.outlier_pairs).sum();
        let [pairs, outliers] = [pairs, outliers].map(|number| number::count(number as u64));
        let mut sentences =
            vec![format!("{outliers} of {pairs} pairs of samples lie far out; medians do not heed them.")];
        sentences.extend(self.busy());
        sentences.extend(self.comparisons.iter().flat_map(ComparisonRow::drifts));
        sentences
    }
}

/// The verdicts of some comparisons in a sentence.
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

/// Formats the interval of the ratio.
pub(super) fn format_interval(outcome: &Outcome) -> String {
    format!("{} to {}", format_ratio(outcome.estimate.low), format_ratio(outcome.estimate.high))
}
