//! Report of the outcomes: sums over all cases, and one row for each way of misuse.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::origin::{Machine, Program};
use freehold_report::report::{Column, Detail, Report, Table, Value};
use serde::Serialize;

use super::outcome::Outcome;
use super::roster::MallocSetup;

/// Results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct CorruptionReport {
    program: Program,
    machine: Machine,
    /// Names of the mallocs; the first two are Freehold's.
    mallocs: Vec<String>,
    cases: Vec<CaseOutcomes>,
}

/// Outcomes of a case under all mallocs.
#[derive(Clone, Debug, Serialize)]
struct CaseOutcomes {
    /// Way of misuse.
    way: String,
    /// Size of the block in bytes.
    bytes: String,
    outcomes: Vec<Outcome>,
}

/// Row of the table of sums: its title, and the outcomes that it counts.
type Sum = (&'static str, fn(Outcome) -> bool);

const SUMS: [Sum; 5] = [
    ("noticed", Outcome::is_noticed),
    ("noticed by the kernel only", |outcome| outcome == Outcome::Crashed),
    ("unnoticed, without effect", |outcome| outcome == Outcome::Harmless),
    ("unnoticed, memory corrupted", |outcome| outcome == Outcome::Corrupted),
    ("unnoticed, program hangs", |outcome| outcome == Outcome::Hung),
];

impl CorruptionReport {
    pub(super) fn new(mallocs: &[MallocSetup], outcomes: Vec<(String, Vec<Outcome>)>) -> CorruptionReport {
        let cases = outcomes.into_iter().map(|(case, outcomes)| {
            let (way, bytes) = case.split_once('/').unwrap_or((&case, ""));
            CaseOutcomes { way: way.to_owned(), bytes: bytes.to_owned(), outcomes }
        });
        CorruptionReport {
            program: Program::this(),
            machine: Machine::this(),
            mallocs: mallocs.iter().map(|malloc| malloc.name.clone()).collect(),
            cases: cases.collect(),
        }
    }

    fn count(&self, malloc: usize, what: impl Fn(Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| what(case.outcomes[malloc])).count()
    }

    fn columns(&self, first: &'static str) -> Vec<Column> {
        let names = self.mallocs.iter().map(|name| Column::numbers(name.clone()));
        std::iter::once(Column::words(first)).chain(names).collect()
    }

    fn sums(&self) -> Table {
        let rows = SUMS.map(|(name, what)| {
            let counts = (0..self.mallocs.len()).map(|malloc| Value::text(self.count(malloc, what).to_string()));
            std::iter::once(Value::text(name)).chain(counts).collect::<Vec<_>>()
        });
        Table::new(format!("Outcomes of {} cases", self.cases.len()), self.columns("outcome"), rows.to_vec())
    }

    /// Returns a table with one row for each way of misuse: the number of its cases that each malloc noticed.
    fn ways(&self) -> Table {
        let groups = self.cases.chunk_by(|one, other| one.way == other.way);
        let rows = groups.map(|group| {
            let cells = (0..self.mallocs.len()).map(|malloc| {
                let outcomes = group.iter().map(|case| case.outcomes[malloc]);
                let noticed = outcomes.clone().filter(|outcome| outcome.is_noticed()).count();
                let mark = if outcomes.into_iter().any(|outcome| outcome == Outcome::Corrupted) { " †" } else { "" };
                Value::text(format!("{noticed}{mark}"))
            });
            let way = format!("{} ({})", group[0].way, group.len());
            std::iter::once(Value::text(way)).chain(cells).collect::<Vec<_>>()
        });
        Table::new("Noticed cases by way of misuse (number of sizes)", self.columns("way"), rows.collect::<Vec<_>>())
    }

    fn recipe(&self) -> Vec<(String, String)> {
        let rows = [
            ("freehold", format!("{}, {} build", self.program.version(), self.machine.build)),
            ("processor", self.machine.cpu_model.clone()),
            ("kernel", self.machine.kernel_release.clone()),
        ];
        rows.into_iter().map(|(word, meaning)| (word.to_owned(), meaning)).collect()
    }
}

impl Document for CorruptionReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let counts = self.mallocs.iter().enumerate().map(|(at, name)| {
            let (noticed, corrupted) =
                (self.count(at, Outcome::is_noticed), self.count(at, |outcome| outcome == Outcome::Corrupted));
            format!("{name}: noticed {noticed} of {}, memory corrupted in {corrupted}.", self.cases.len())
        });
        Cow::Owned(vec![Report {
            subject: vec!["corruption: which misuse of memory do mallocs notice?".to_owned()],
            verdict: counts.collect(),
            tables: vec![self.sums(), self.ways()],
            reading: vec![
                "A case is noticed if the malloc or the kernel terminates the program.".to_owned(),
                "†: at some size the case was unnoticed, and memory was in use twice or was overwritten.".to_owned(),
            ],
            recipe: self.recipe(),
            detail: Detail::Tables,
            ..Report::default()
        }])
    }
}
