//! Second table: damage that the check of the whole machine detects.

mod counters;
mod frames;
mod lists;

use std::collections::BTreeSet;

use freehold::page::{Census, Violation};
use freehold::policy::PcpPolicy;

use crate::damage::stage::{Play, Stage};

/// One kind of damage.
pub(super) struct Row {
    /// Name of the damaged state.
    name: &'static str,
    /// Policy of the machine.
    pcp: PcpPolicy,
    /// Returns whether a violation is the one that the check must report.
    is_it: fn(&Violation) -> bool,
    /// Damages the state, and runs nothing afterwards.
    play: fn(&'static Stage),
}

impl Row {
    /// Creates a row for a machine without per-CPU lists.
    const fn bare(name: &'static str, is_it: fn(&Violation) -> bool, play: fn(&'static Stage)) -> Row {
        Row { name, pcp: PcpPolicy::Off, is_it, play }
    }

    /// Creates a row for a machine whose CPUs have lists, own pageblocks and have stacks.
    const fn owned(name: &'static str, is_it: fn(&Violation) -> bool, play: fn(&'static Stage)) -> Row {
        Row { name, pcp: PcpPolicy::OwnedRemote, is_it, play }
    }

    /// Plays the row on a new machine, and checks the machine.
    fn check(&self, play: Play) -> Result<Census, Violation> {
        let stage = Stage::new(self.pcp, play);
        (self.play)(stage);
        stage.engine.check()
    }

    /// Returns a description of the failure of this row, or `None` if it passes.
    fn judge(&self) -> Option<String> {
        if let Err(violation) = self.check(Play::Sound) {
            return Some(format!("{}: without damage, {violation}", self.name));
        }
        match self.check(Play::Spoiled) {
            Err(violation) if (self.is_it)(&violation) => None,
            other => Some(format!("{}: the walk says {other:?}", self.name)),
        }
    }
}

/// Returns whether a violation is about the counter of this name.
fn is_counter(violation: &Violation, name: &str) -> bool {
    matches!(violation, Violation::Counter { name: found, .. } if *found == name)
}

/// Returns the number of a variant. A new variant of [`Violation`] does not compile until it has a number here, and the
/// test then requires a row for it.
fn number_of(violation: &Violation) -> usize {
    match violation {
        Violation::Inside { .. } => 0,
        Violation::Orphan { .. } => 1,
        Violation::Unmerged { .. } => 2,
        Violation::WrongType { .. } => 3,
        Violation::Owner { .. } => 4,
        Violation::WrongList { .. } => 5,
        Violation::Links { .. } => 6,
        Violation::Word { .. } => 7,
        Violation::Across { .. } => 8,
        Violation::Span { .. } => 9,
        Violation::Zone { .. } => 10,
        Violation::Type { .. } => 11,
        Violation::Isolation { .. } => 12,
        Violation::Hint { .. } => 13,
        Violation::Marks { .. } => 14,
        Violation::Limit { .. } => 15,
        Violation::Counter { .. } => 16,
        Violation::OpenedEarly { .. } => 17,
        Violation::FewWhole { .. } => 18,
    }
}

/// Number of variants of [`Violation`].
const VARIANTS: usize = 19;
/// Source files in which counters are compared with the pages found.
const SOURCES: [&str; 3] = [
    include_str!("../../../../src/page/check/cpus.rs"),
    include_str!("../../../../src/page/check/lists.rs"),
    include_str!("../../../../src/page/check/mod.rs"),
];

#[test]
fn check_reports_each_planted_fault() {
    let tables = [frames::ROWS, lists::ROWS, counters::ROWS];
    let wrong: Vec<String> = tables.iter().copied().flatten().filter_map(Row::judge).collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_violation_has_a_table_row() {
    let (mut has_row, mut counters) = ([false; VARIANTS], BTreeSet::new());
    for row in [frames::ROWS, lists::ROWS, counters::ROWS].into_iter().flatten() {
        let stage = Stage::new(row.pcp, Play::Spoiled);
        (row.play)(stage);
        let violation = stage.engine.check().expect_err("the check must find the planted damage");
        has_row[number_of(&violation)] = true;
        if let Violation::Counter { name, .. } = violation {
            counters.insert(name);
        }
    }
    assert_eq!(has_row, [true; VARIANTS]);
    let names = SOURCES.iter().flat_map(|text| text.split("counter(\"").skip(1));
    let names: BTreeSet<&str> = names.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(counters, names, "a row for each counter");
}
