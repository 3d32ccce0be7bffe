//! Runs: two groups of recordings of one workload, held against each other.
//!
//! What [`crate::diff`] sets side by side has no verdict, since two machines never do the same work. Runs of one workload
//! do, so their counts are compared as they are, and the kernel's own spread from run to run says what a difference is
//! ([`freehold_measure::groups`]). A short list of [`measures`] decides; all counters stand beside it, judged as a family of
//! their own.

mod measures;
mod report;

use std::collections::BTreeSet;

use freehold_measure::groups::{Group, Judged, Scale, is_of_something, judge};
use freehold_measure::verdict::Direction;
use serde::Serialize;

use crate::Inspection;
use crate::diff::{Counts, Key, chapter, counts};
use measures::{MEASURES, Measure};

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
    /// Whether people see the counters too.
    #[serde(skip)]
    pub is_whole: bool,
    /// How to make it again: what each entry is, and the entry.
    pub recipe: Vec<(String, String)>,
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
            is_whole: false,
            recipe: Vec::new(),
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

fn counted(a: &[Inspection], b: &[Inspection], margin: f64) -> Vec<Row> {
    let [a, b] = [a, b].map(|runs| runs.iter().map(counts).collect::<Vec<_>>());
    let keys: BTreeSet<_> = a.iter().chain(&b).flat_map(|run| run.keys()).collect();
    let groups: Vec<_> = keys
        .into_iter()
        .filter_map(|key| {
            let group =
                |runs: &[Counts]| Group::of(runs.iter().map(|run| run.get(key).copied().unwrap_or(0) as f64).collect());
            let (a, b) = (group(&a), group(&b));
            is_of_something(&a, &b).then_some((key, a, b))
        })
        .collect();
    let family = groups.len();
    let row = |(key, a, b): (&Key, Group, Group)| Row {
        cause: chapter(key),
        name: key.2.clone(),
        judged: judge(a, b, Scale::Counts, Direction::Neutral, family, margin),
    };
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use freehold_measure::formats::Document;
    use freehold_measure::terminal::Style;
    use freehold_measure::verdict::Verdict;
    use freehold_trace::event::NO_PFN;
    use freehold_trace::{Facts, Kind, Row as Event};

    use super::*;
    use crate::Inspector;

    /// A run with so many drained blocks and failed requests.
    fn run(drains: u64, failures: u64) -> Inspection {
        let facts = Facts::default();
        let mut inspector = Inspector::new(&facts);
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
    fn two_runs_are_too_few() {
        let told = compared(&[(1000, 0), (1010, 0)], &[(2000, 0), (2020, 0)]);
        assert!(told.text(Style::PLAIN).contains("too few"), "{}", told.text(Style::PLAIN));
    }
}
