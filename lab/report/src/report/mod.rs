//! One model of a report: what was found, in the order in which people read it.
//!
//! First the verdict in sentences; then the measures that it stands on, those with one cause together; then tables,
//! what must be known to read all this, and how to make it again. Every reader has a renderer: a person at a terminal
//! ([`terminal`]), a document ([`markdown`]), a browser ([`page`], with what there is to see in [`plot`] and [`map`]), a
//! spreadsheet ([`csv`]), a mail to kernel developers ([`mmtests`]), a program (the model itself, as JSON). No renderer
//! decides anything.

pub mod csv;
pub mod map;
pub mod markdown;
pub mod mmtests;
pub mod page;
pub mod plot;
pub mod pool;
pub mod terminal;

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::number::{ABSENT, Quantity, change, duration, percent, quantity};
use freehold_stats::verdict::{Direction, Verdict};

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// What there is to see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<plot::Plot>,
    /// Memory, pageblock by pageblock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<map::MemoryMap>,
    /// What must be known to read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveats>,
    /// Where to read on, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reading: Vec<String>,
    /// How to make it again: what each entry is, and the entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipe: Vec<(String, String)>,
    /// What a person at a terminal sees of it.
    #[serde(skip)]
    pub detail: Detail,
}

/// How much of a report a person at a terminal sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The verdict, measures that differ, and a line for the rest.
    Differences,
    /// The verdict, tables, and what must be known to read them; the measures are those of the tables.
    Tables,
    /// Everything.
    #[default]
    All,
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
    /// A row for each case.
    #[serde(rename = "lines")]
    pub rows: Vec<Row>,
    /// All cases together, if there are several.
    pub pooled: Option<Pooled>,
}

/// A measure in one case, such as a recording or a simulated host, under A and under B.
///
/// Engines fill this type and every renderer reads it: no row of a report has another type in between.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Name of the case.
    #[serde(rename = "of")]
    pub case: String,
    /// Value under A; the middle one, where there are several.
    pub a: Option<Quantity>,
    /// Value under B; the middle one, where there are several.
    pub b: Option<Quantity>,
    /// Least and greatest value under A, where there are several.
    #[serde(skip)]
    pub a_range: Option<[f64; 2]>,
    /// Least and greatest value under B, where there are several.
    #[serde(skip)]
    pub b_range: Option<[f64; 2]>,
    /// `(b - a) / |a|`; `None` when A has none but B has some, or one was not measured.
    pub change: Option<f64>,
    /// Interval of the change, where the case was measured often enough to have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Verdict on the change.
    pub verdict: Verdict,
    /// Relative error of the replay under the recorded kernel's rules, where it is too large for a verdict.
    #[serde(rename = "error")]
    pub replay_error: Option<f64>,
}

/// A measure over several cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pooled {
    /// Cases that it stands on: those that are reproduced in this measure, and that had anything to measure.
    pub cases: usize,
    /// The change: of fewer cases than an interval takes (six, unless many comparisons are made) the geometric mean of
    /// B/A, less one; of more that of the middle one.
    pub change: Option<f64>,
    /// The interval of the change: of the middle case, at 95 % confidence for all comparisons together; or, of fewer
    /// cases than that takes, all that they gave.
    pub interval: Option<(f64, f64)>,
    /// Verdict on the change.
    pub verdict: Verdict,
}

/// A table of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What its columns are, in a sentence or two, where their names do not say it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
    /// What follows from it, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conclusions: Vec<String>,
}

/// A column: its name, what its numbers count, and how it is aligned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What its numbers count; empty for words.
    pub unit: &'static str,
    /// What stands in it.
    #[serde(skip)]
    pub kind: Kind,
}

/// What stands in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words, which may wrap.
    Words,
    /// Numbers, which never do.
    Numbers,
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words, or a number as its measure writes it.
    Text(String),
    /// The same, of lesser importance.
    Faint(String),
    /// The same, as good or bad news.
    Judged(String, Verdict),
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
    pub title: Cow<'static, str>,
    /// Sentences.
    pub sentences: Vec<String>,
}

impl Table {
    /// A table with these columns and rows.
    pub fn new(title: impl Into<String>, columns: Vec<Column>, rows: impl IntoIterator<Item = Vec<Value>>) -> Table {
        Table { title: title.into(), columns, rows: rows.into_iter().collect(), ..Table::default() }
    }
}

impl Column {
    /// A column of words.
    pub fn words(name: impl Into<Cow<'static, str>>) -> Column {
        Column { name: name.into(), unit: "", kind: Kind::Words }
    }

    /// A column of numbers, each of which says itself what it counts, or whose name does.
    pub fn numbers(name: impl Into<Cow<'static, str>>) -> Column {
        Column::counting(name, "")
    }

    /// A column of numbers that count this.
    pub fn counting(name: impl Into<Cow<'static, str>>, unit: &'static str) -> Column {
        Column { name: name.into(), unit, kind: Kind::Numbers }
    }

    /// Columns of words, and columns of numbers after them.
    pub fn several(words: &[&'static str], numbers: &[&'static str]) -> Vec<Column> {
        let words = words.iter().map(|&name| Column::words(name));
        words.chain(numbers.iter().map(|&name| Column::numbers(name))).collect()
    }

    /// Its name with what its numbers count.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone().into_owned() } else { format!("{}, {}", self.name, self.unit) }
    }
}

impl Value {
    /// Words, or a number as its measure writes it.
    pub fn text(text: impl ToString) -> Value {
        Value::Text(text.to_string())
    }

    /// Returns the label of a verdict.
    pub fn verdict(verdict: Verdict) -> Value {
        Value::Judged(verdict.word().to_owned(), verdict)
    }

    /// A count; nothing where nothing was counted.
    pub fn count(count: impl Into<Option<u64>>) -> Value {
        count.into().map_or(Value::None, |count| Value::Number(Quantity::Count(count)))
    }

    /// A time span in the unit that suits it.
    pub fn duration(ns: u64) -> Value {
        Value::Text(duration(ns))
    }

    /// A number that need not be whole; nothing where there is none.
    pub fn decimal(number: Option<f64>) -> Value {
        number.map_or(Value::None, |number| Value::Number(Quantity::Ratio(number)))
    }

    /// How it looks.
    pub fn shown(&self) -> String {
        match self {
            Value::Text(text) | Value::Faint(text) | Value::Judged(text, _) => text.clone(),
            Value::Number(number) => quantity(Some(*number)),
            Value::Change(relative) => change(Some(*relative)),
            Value::Share(share) => percent(*share),
            Value::Is(true) => "yes".to_owned(),
            Value::Is(false) => "no".to_owned(),
            Value::None => ABSENT.to_owned(),
        }
    }

    /// What it is to a program: words, or the bare number; empty for nothing.
    pub fn bare(&self) -> String {
        match self {
            Value::Number(Quantity::Count(count)) => count.to_string(),
            Value::Number(Quantity::Ratio(number)) | Value::Change(number) | Value::Share(number) => number.to_string(),
            Value::None => String::new(),
            _ => self.shown(),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Text(text) | Value::Faint(text) | Value::Judged(text, _) => serializer.serialize_str(text),
            Value::Number(number) => number.serialize(serializer),
            Value::Change(number) | Value::Share(number) => serializer.serialize_f64(*number),
            Value::Is(is) => serializer.serialize_bool(*is),
            Value::None => serializer.serialize_none(),
        }
    }
}

impl Row {
    /// Returns the label of the row, with the replay's error if that is the reason.
    pub fn label(&self) -> Cow<'static, str> {
        match (self.verdict, self.replay_error) {
            (Verdict::NotJudged, Some(error)) => format!("not judged (replay error {})", change(Some(error))).into(),
            (verdict, _) => verdict.word().into(),
        }
    }

    /// Whether the case was measured under A, and has the same value under B.
    pub fn is_same(&self) -> bool {
        self.a.is_some() && self.a == self.b
    }

    /// Whether both values were measured and at least one of them is not zero.
    pub fn is_nonzero(&self) -> bool {
        self.a.zip(self.b).is_some_and(|(a, b)| a.value() != 0.0 || b.value() != 0.0)
    }
}

impl Measure {
    /// Whether every case gave the same under A and B: nothing to look at.
    pub fn is_same(&self) -> bool {
        self.rows.iter().all(Row::is_same)
    }

    /// Returns the verdict over all cases.
    pub fn verdict(&self) -> Verdict {
        match (&self.pooled, self.rows.as_slice()) {
            (Some(pooled), _) => pooled.verdict,
            (None, [row]) => row.verdict,
            (None, _) => Verdict::NotJudged,
        }
    }

    /// The change over all cases.
    pub fn change(&self) -> Option<f64> {
        match (&self.pooled, self.rows.as_slice()) {
            (Some(pooled), _) => pooled.change,
            (None, [row]) => row.change,
            (None, _) => None,
        }
    }
}
