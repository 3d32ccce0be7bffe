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
