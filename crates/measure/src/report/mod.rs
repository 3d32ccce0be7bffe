//! One model of a report: what was found, in the order in which people read it.
//!
//! First the verdict in sentences; then the measures that it stands on, those with one cause together; then tables, what
//! must be known to read all this, and how to make it again. Every reader has a renderer: a person at a terminal
//! ([`terminal`]), a page ([`markdown`]), a spreadsheet ([`csv`]), a mail to kernel developers ([`mmtests`]), a program
//! (the model itself, as JSON). No renderer decides anything.

pub mod csv;
pub mod markdown;
pub mod mmtests;
pub mod pool;
pub mod terminal;

use serde::Serialize;

use crate::number::Quantity;
use crate::verdict::{Direction, Verdict};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Names of A and of B.
    pub sides: [String; 2],
    /// What was looked at, a line each.
    pub subject: Vec<String>,
    /// What changed, by how much, and how far to believe it.
    pub verdict: Vec<String>,
    /// Measures, those with one cause together.
    pub groups: Vec<Group>,
    /// What else there is to look at.
    pub tables: Vec<Table>,
    /// What must be known to read it.
    pub caveats: Vec<Caveats>,
    /// Where to read on, in sentences.
    pub reading: Vec<String>,
}

/// Measures with one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The cause.
    pub name: &'static str,
    /// The measures, the one that speaks for all of them first.
    pub measures: Vec<Measure>,
}

/// Something that was measured under A and under B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Its fixed name.
    pub name: &'static str,
    /// What its numbers count.
    pub unit: &'static str,
    /// Which way is better.
    #[serde(skip)]
    pub direction: Direction,
    /// What each case gave.
    pub lines: Vec<Line>,
    /// What all cases give together, if there are several.
    pub pooled: Option<Pooled>,
}

/// A measure in one case: a recording, a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The case.
    pub of: String,
    /// Under A.
    pub a: Option<Quantity>,
    /// Under B.
    pub b: Option<Quantity>,
    /// `(b - a) / |a|`; `None` when A has none but B has some, or one was not measured.
    pub change: Option<f64>,
    /// What that means; `None` where nothing may be said, since the case is not reproduced in this measure.
    pub verdict: Option<Verdict>,
    /// How far the replay under the recorded kernel's rules is from what was recorded, where that is too far for a verdict.
    pub error: Option<f64>,
}

/// A measure over several cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pooled {
    /// Cases that it stands on: those that are reproduced in this measure, and that had anything to measure.
    pub cases: usize,
    /// The change: of fewer than six cases the geometric mean of B/A, less one; of more that of the middle one.
    pub change: Option<f64>,
    /// The interval of the change: of the middle case at 95 % confidence or, of fewer than six cases, all that they gave.
    pub interval: Option<(f64, f64)>,
    /// What that means.
    pub verdict: Option<Verdict>,
}

/// A table of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Its columns: name, and what the numbers count.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What its numbers count; empty for words.
    pub unit: &'static str,
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Words.
    Text(String),
    /// A number.
    Number(Quantity),
    /// A relative change or error.
    Change(f64),
    /// A share without sign.
    Share(f64),
    /// Whether something is as it should be.
    Is(bool),
    /// Nothing.
    None,
}

/// What must be known to read a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Caveats {
    /// What they are about.
    pub title: &'static str,
    /// Sentences.
    pub sentences: Vec<String>,
}

impl Line {
    /// Whether it was measured, and is the same under both.
    pub fn is_same(&self) -> bool {
        self.a.is_some() && self.a == self.b
    }

    /// Whether there was anything under either.
    pub fn is_of_something(&self) -> bool {
        let is_something = |side: Quantity| side.value() != 0.0;
        self.a.zip(self.b).is_some_and(|(a, b)| is_something(a) || is_something(b))
    }
}

impl Measure {
    /// Whether every case gave the same under A and B: nothing to look at.
    pub fn is_same(&self) -> bool {
        self.lines.iter().all(Line::is_same)
    }

    /// What may be said of it over all cases; `None` where nothing may.
    pub fn verdict(&self) -> Option<Verdict> {
        match (&self.pooled, self.lines.as_slice()) {
            (Some(pooled), _) => pooled.verdict,
            (None, [line]) => line.verdict,
            (None, _) => None,
        }
    }

    /// The change over all cases.
    pub fn change(&self) -> Option<f64> {
        match (&self.pooled, self.lines.as_slice()) {
            (Some(pooled), _) => pooled.change,
            (None, [line]) => line.change,
            (None, _) => None,
        }
    }
}
