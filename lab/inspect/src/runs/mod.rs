//! Runs: comparison of two groups of recordings of one workload.
//!
//! A [`crate::diff`] has no verdict, because two machines never do the same work. Runs of one workload do the same
//! work, so their counts are compared directly, and the variation between runs of the same kernel decides which
//! differences are significant ([`freehold_stats::samples`]). A short list of [`measures`] decides the verdict. All
//! counters are shown in addition and judged as a family of their own.

mod measures;
mod report;

use std::collections::BTreeSet;

use freehold_stats::samples::{Comparison, Sample, Scale, any_nonzero, compare};
use freehold_stats::verdict::Direction;
use serde::Serialize;

use crate::Inspection;
use crate::diff::{Counts, Key, chapter, counts, is_of_vmstat};
use measures::{MEASURES, Measure, has_counter, is_level};

/// Comparison of two groups of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// Sides A and B.
    pub sides: [Side; 2],
    /// Largest relative change that counts as no change.
    pub margin: f64,
    /// Measures that decide the verdict.
    pub measures: Vec<Row>,
    /// All counters, judged as a family of their own.
    pub counters: Vec<Row>,
    /// Counters of `/proc/vmstat` that only the kernel of A has, and those that only the kernel of B has.
    pub of_one_side: [Vec<String>; 2],
    /// `true` if the report for people lists all counters.
    #[serde(skip)]
    pub is_whole: bool,
    /// Caveats for the reader, in sentences.
    pub caveats: Vec<String>,
}

/// One group of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Description of the group.
    pub name: String,
    /// File names of the recordings.
    pub recordings: Vec<String>,
    /// Lost events of all recordings.
    pub lost: u64,
}

/// A measure under A and under B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Cause under which the measure is listed.
    pub cause: &'static str,
    /// Name of the measure.
    pub name: String,
    /// Values of the runs, and the verdict on them.
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl Side {
    fn new(name: String, runs: &[Inspection]) -> Side {
        Side {
            name,
            recordings: runs.iter().map(|run| run.file.clone()).collect(),
            lost: runs.iter().map(|run| run.machine.lost).sum(),
        }
    }
}

impl Runs {
    /// Compares the runs of B with those of A. Relative changes up to `margin` count as no change.
    pub fn compare(names: [String; 2], groups: [&[Inspection]; 2], margin: f64) -> Runs {
        let ([a, b], [name_a, name_b]) = (groups, names);
        Runs {
            sides: [Side::new(name_a, a), Side::new(name_b, b)],
            margin,
            measures: compare_measures(a, b, margin),
            counters: compare_counters(a, b, margin),
            of_one_side: of_one_side(a, b),
            is_whole: false,
            caveats: Vec::new(),
        }
    }
}

fn compare_measures(a: &[Inspection], b: &[Inspection], margin: f64) -> Vec<Row> {
    let samples: Vec<(&Measure, Sample, Sample)> = MEASURES
        .iter()
        .filter_map(|measure| {
            let (a, b) = (measure_sample(measure, a)?, measure_sample(measure, b)?);
            any_nonzero(&a, &b).then_some((measure, a, b))
        })
        .collect();
    let family = samples.len();
    let rows = samples.into_iter().map(|(measure, a, b)| Row {
        cause: measure.cause,
        name: measure.name.to_owned(),
        comparison: compare(a, b, measure.scale, measure.direction, family, margin),
    });
    rows.collect()
}

/// Returns the values of a measure in all runs; `None` if a run lacks the measure.
fn measure_sample(measure: &Measure, runs: &[Inspection]) -> Option<Sample> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| measure.value(run)).collect();
    values.map(Sample::new)
}

/// Compares the counters that the kernels of all runs have. A counter that a kernel lacks does not count as zero.
fn compare_counters(a: &[Inspection], b: &[Inspection], margin: f64) -> Vec<Row> {
    let [counts_a, counts_b] = [a, b].map(|runs| runs.iter().map(counts).collect::<Vec<_>>());
    let mut keys: BTreeSet<&Key> = counts_a.iter().chain(&counts_b).flat_map(Counts::keys).collect();
    keys.retain(|key| !is_of_vmstat(key) || a.iter().chain(b).all(|run| has_counter(run, &key.2)));
    let family = keys.len();
    let rows = keys.into_iter().map(|key| {
        let scale = if is_of_vmstat(key) && is_level(&key.2) { Scale::Numbers } else { Scale::Counts };
        let (a, b) = (counter_sample(&counts_a, key), counter_sample(&counts_b, key));
        let comparison = compare(a, b, scale, Direction::Neutral, family, margin);
        Row { cause: chapter(key), name: key.2.clone(), comparison }
    });
    rows.collect()
}

/// Returns the values of a counter in all runs.
fn counter_sample(runs: &[Counts], key: &Key) -> Sample {
    Sample::new(runs.iter().map(|run| run.get(key).copied().unwrap_or(0) as f64).collect())
}

/// Returns the counters of `/proc/vmstat` that only the kernels of one side have.
fn of_one_side(a: &[Inspection], b: &[Inspection]) -> [Vec<String>; 2] {
    [counters_missing(a, b), counters_missing(b, a)]
}

/// Returns the counters that the kernel of the first run of `these` has and that of the first run of `others` lacks.
fn counters_missing(these: &[Inspection], others: &[Inspection]) -> Vec<String> {
    let (Some(this), Some(other)) = (these.first(), others.first()) else { return Vec::new() };
    this.vmstat_names.iter().filter(|name| !has_counter(other, name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use freehold_report::formats::Document;
    use freehold_report::terminal::Style;
    use freehold_stats::verdict::Verdict;
    use freehold_trace::event::NO_PFN;
    use freehold_trace::{Facts, Kind, Row as Event};

    use super::*;
    use crate::Inspector;

    /// Returns a run with this many drained blocks and failed requests.
    fn run(drains: u64, failures: u64) -> Inspection {
        let facts = Facts::default();
        let mut inspector = Inspector::new(&facts, None);
        (0..drains).for_each(|pfn| inspector.observe(&Event { pfn, ..Event::new(Kind::PcpuDrain) }));
        (0..failures).for_each(|_| inspector.observe(&Event { pfn: NO_PFN, ..Event::new(Kind::Alloc) }));
        inspector.finish("run".to_owned(), &facts)
    }

    fn compare_runs(a: &[(u64, u64)], b: &[(u64, u64)]) -> Runs {
        let [a, b] =
            [a, b].map(|runs| runs.iter().map(|&(drains, failures)| run(drains, failures)).collect::<Vec<_>>());
        Runs::compare(["one", "two"].map(str::to_owned), [&a, &b], 0.02)
    }

    fn verdict(runs: &Runs, name: &str) -> Option<Verdict> {
        runs.measures.iter().find(|row| row.name == name).map(|row| row.comparison.verdict)
    }

    #[test]
    fn reproducible_differences_between_runs_are_reported() {
        let told = compare_runs(&[(1000, 3), (1010, 4), (990, 2)], &[(2000, 3), (2020, 2), (1980, 4)]);
        assert_eq!(verdict(&told, "blocks drained to the zone"), Some(Verdict::Worse));
        assert_eq!(verdict(&told, "requests that failed"), Some(Verdict::TooFewEvents));
        assert_eq!(verdict(&told, "direct reclaims"), None, "nothing was measured");
        let text = told.text(Style::PLAIN);
        assert!(text.contains("better 0, worse 1, undecided 1\n"), "{text}");
        assert!(text.contains("blocks drained to the zone") && text.contains("+100.0 %"), "{text}");
        assert!(told.differ());
    }

    #[test]
    fn runs_of_one_kernel_do_not_differ() {
        let same = [(1000, 3), (1010, 4), (990, 2)];
        let told = compare_runs(&same, &same);
        assert!(!told.differ());
        assert!(told.text(Style::PLAIN).contains("better 0, worse 0, "));
    }

    #[test]
    fn counter_missing_in_one_kernel_is_not_compared() {
        let [a, b] = [["pgfault", "old"], ["pgfault", "thp_fault_alloc"]].map(|names| {
            let vmstat_names = names.map(str::to_owned).to_vec();
            vec![Inspection { vmstat_names, ..run(10, 0) }; 3]
        });
        let told = Runs::compare(["one", "two"].map(str::to_owned), [&a, &b], 0.02);
        assert_eq!(told.of_one_side, [vec!["old".to_owned()], vec!["thp_fault_alloc".to_owned()]]);
        assert_eq!(verdict(&told, "thp_fault_alloc"), None);
    }

    #[test]
    fn two_runs_are_too_few() {
        let told = compare_runs(&[(1000, 0), (1010, 0)], &[(2000, 0), (2020, 0)]);
        assert!(told.text(Style::PLAIN).contains("no verdict"), "{}", told.text(Style::PLAIN));
    }
}
