//! Runs: two groups of recordings of one workload, held against each other.
//!
//! What [`crate::diff`] sets side by side has no verdict, since two machines never do the same work. Runs of one
//! workload do, so their counts are compared as they are, and the kernel's own spread from run to run says what a
//! difference is ([`freehold_stats::groups`]). A short list of [`measures`] decides; all counters stand beside it,
//! judged as a family of their own.

mod measures;
mod report;

use std::collections::BTreeSet;

use freehold_stats::groups::{Group, Judged, Scale, is_of_something, judge};
use freehold_stats::verdict::Direction;
use serde::Serialize;

use crate::Inspection;
use crate::diff::{Counts, Key, chapter, counts, is_of_vmstat};
use measures::{MEASURES, Measure, has_counter, is_level};

/// Both groups.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// What they are.
    pub sides: [Side; 2],
    /// Relative changes up to this are none.
    pub margin: f64,
    /// The measures that decide.
    pub measures: Vec<Row>,
    /// All counters, judged by themselves.
    pub counters: Vec<Row>,
    /// Counters of `/proc/vmstat` that only A's kernel has, and those that only B's has.
    pub of_one_side: [Vec<String>; 2],
    /// Whether people see the counters too.
    #[serde(skip)]
    pub is_whole: bool,
    /// What must be known to read it, in sentences.
    pub caveats: Vec<String>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What was run, in words.
    pub name: String,
    /// The recordings.
    pub recordings: Vec<String>,
    /// Events that were lost in all of them.
    pub lost: u64,
}

/// A measure under A and under B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it belongs to.
    pub cause: &'static str,
    /// Its name.
    pub name: String,
    /// What the runs gave, and what that means.
    #[serde(flatten)]
    pub judged: Judged,
}

impl Runs {
    /// Holds the runs of B against those of A. Relative changes up to `margin` are none.
    pub fn compare(names: [String; 2], groups: [&[Inspection]; 2], margin: f64) -> Runs {
        let [a, b] = groups;
        let side = |name, runs: &[Inspection]| Side {
            name,
            recordings: runs.iter().map(|run| run.file.clone()).collect(),
            lost: runs.iter().map(|run| run.machine.lost).sum(),
        };
        let [name_a, name_b] = names;
        Runs {
            sides: [side(name_a, a), side(name_b, b)],
            margin,
            measures: measured(a, b, margin),
            counters: counted(a, b, margin),
            of_one_side: of_one_side(a, b),
            is_whole: false,
            caveats: Vec::new(),
        }
    }
}

fn measured(a: &[Inspection], b: &[Inspection], margin: f64) -> Vec<Row> {
    let groups: Vec<_> = MEASURES
        .iter()
        .filter_map(|measure| {
            let group = |runs: &[Inspection]| runs.iter().map(|run| measure.value(run)).collect::<Option<Vec<_>>>();
            let (a, b) = (Group::of(group(a)?), Group::of(group(b)?));
            is_of_something(&a, &b).then_some((measure, a, b))
        })
        .collect();
    let family = groups.len();
    let row = |(measure, a, b): (&Measure, Group, Group)| Row {
        cause: measure.cause,
        name: measure.name.to_owned(),
        judged: judge(a, b, measure.scale, measure.direction, family, margin),
    };
    groups.into_iter().map(row).collect()
}

/// Counters that the kernels of all runs have. One that a side lacks is no zero.
fn counted(a: &[Inspection], b: &[Inspection], margin: f64) -> Vec<Row> {
    let is_in_all = |key: &Key| !is_of_vmstat(key) || a.iter().chain(b).all(|run| has_counter(run, &key.2));
    let [counts_a, counts_b] = [a, b].map(|runs| runs.iter().map(counts).collect::<Vec<_>>());
    let keys: BTreeSet<_> = counts_a.iter().chain(&counts_b).flat_map(Counts::keys).collect();
    let group = |runs: &[Counts], key: &Key| {
        Group::of(runs.iter().map(|run| run.get(key).copied().unwrap_or(0) as f64).collect())
    };
    let keys: Vec<_> = keys.into_iter().filter(|key| is_in_all(key)).collect();
    let family = keys.len();
    let row = |key: &&Key| {
        let is_level = is_of_vmstat(key) && is_level(&key.2);
        let scale = if is_level { Scale::Numbers } else { Scale::Counts };
        let (a, b) = (group(&counts_a, key), group(&counts_b, key));
        let judged = judge(a, b, scale, Direction::Neutral, family, margin);
        Row { cause: chapter(key), name: key.2.clone(), judged }
    };
    keys.iter().map(row).collect()
}

/// Counters of `/proc/vmstat` that only one side's kernels have.
fn of_one_side(a: &[Inspection], b: &[Inspection]) -> [Vec<String>; 2] {
    let only = |these: &[Inspection], those: &[Inspection]| {
        let (Some(this), Some(that)) = (these.first(), those.first()) else { return Vec::new() };
        this.vmstat_names.iter().filter(|name| !has_counter(that, name)).cloned().collect()
    };
    [only(a, b), only(b, a)]
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

    /// A run with so many drained blocks and failed requests.
    fn run(drains: u64, failures: u64) -> Inspection {
        let facts = Facts::default();
        let mut inspector = Inspector::new(&facts, None);
        (0..drains).for_each(|pfn| inspector.observe(&Event { pfn, ..Event::new(Kind::PcpuDrain) }));
        (0..failures).for_each(|_| inspector.observe(&Event { pfn: NO_PFN, ..Event::new(Kind::Alloc) }));
        inspector.finish("run".to_owned(), &facts)
    }

    fn compared(a: &[(u64, u64)], b: &[(u64, u64)]) -> Runs {
        let [a, b] =
            [a, b].map(|runs| runs.iter().map(|&(drains, failures)| run(drains, failures)).collect::<Vec<_>>());
        Runs::compare(["one", "two"].map(str::to_owned), [&a, &b], 0.02)
    }

    fn verdict(runs: &Runs, name: &str) -> Option<Verdict> {
        runs.measures.iter().find(|row| row.name == name).and_then(|row| row.judged.verdict)
    }

    #[test]
    fn what_repeats_and_differs_is_told() {
        let told = compared(&[(1000, 3), (1010, 4), (990, 2)], &[(2000, 3), (2020, 2), (1980, 4)]);
        assert_eq!(verdict(&told, "blocks drained to the zone"), Some(Verdict::Worse));
        assert_eq!(verdict(&told, "requests that failed"), Some(Verdict::Undecided));
        assert_eq!(verdict(&told, "direct reclaims"), None, "nothing was measured");
        let text = told.text(Style::PLAIN);
        assert!(text.contains("B differs in 1 of 2 measures: blocks drained to the zone +100.0 %."), "{text}");
        assert!(told.differ());
    }

    #[test]
    fn runs_of_one_kernel_do_not_differ() {
        let same = [(1000, 3), (1010, 4), (990, 2)];
        let told = compared(&same, &same);
        assert!(!told.differ());
        assert!(told.text(Style::PLAIN).contains("No difference is shown"));
    }

    #[test]
    fn a_counter_that_one_kernel_lacks_is_no_zero() {
        let with = |names: &[&str]| {
            let run = run(10, 0);
            Inspection { vmstat_names: names.iter().map(|name| (*name).to_owned()).collect(), ..run }
        };
        let (a, b) = (vec![with(&["pgfault", "old"]); 3], vec![with(&["pgfault", "thp_fault_alloc"]); 3]);
        let told = Runs::compare(["one", "two"].map(str::to_owned), [&a, &b], 0.02);
        assert_eq!(told.of_one_side, [vec!["old".to_owned()], vec!["thp_fault_alloc".to_owned()]]);
        assert_eq!(verdict(&told, "thp_fault_alloc"), None);
    }

    #[test]
    fn two_runs_are_too_few() {
        let told = compared(&[(1000, 0), (1010, 0)], &[(2000, 0), (2020, 0)]);
        assert!(told.text(Style::PLAIN).contains("too few"), "{}", told.text(Style::PLAIN));
    }
}
