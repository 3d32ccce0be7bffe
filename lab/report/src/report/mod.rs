//! The model of a report: results in the order in which they are read.
//!
//! A report starts with the verdict in sentences. The measures behind the verdict follow, grouped by cause, then
//! tables, caveats, and the recipe to reproduce the report. There is a renderer for each output: a terminal
//! ([`terminal`]), Markdown ([`markdown`]), a browser ([`page`], with plots from [`plot`] and maps from [`map`]), a
//! spreadsheet ([`csv`]), a mail to kernel developers ([`mmtests`]), and JSON (the model itself). Renderers do not
//! judge; all verdicts are in the model.
//!
//! # Design
//!
//! There is one model of a report and one renderer per kind of reader. Every command returns a `Document` (`formats`):
//! JSON of its own, whose names scripts depend on, and reports of the model, from which text, Markdown, CSV, mmtests
//! tables and HTML pages are made. Names from recordings are escaped in one place for a terminal, and are text content
//! in a page.

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

/// Results of a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Names of A and of B.
    pub sides: [String; 2],
    /// Subjects of the report, such as recordings, one line each.
    pub subject: Vec<String>,
    /// Verdict in sentences: the change, its size, and its certainty.
    pub verdict: Vec<String>,
    /// Measures, grouped by cause.
    pub groups: Vec<Group>,
    /// Further tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// Plots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<plot::Plot>,
    /// Memory maps, pageblock by pageblock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<map::MemoryMap>,
    /// Caveats for the reader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveats>,
    /// References to further documents, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reading: Vec<String>,
    /// Entries that describe how to reproduce the report: a label and its text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipe: Vec<(String, String)>,
    /// Detail of the output at a terminal.
    #[serde(skip)]
    pub detail: Detail,
}

/// Level of detail of a report at a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The verdict, the measures that differ, and a line for each label of the others.
    Differences,
    /// The verdict, tables and caveats. The measures are those of the tables.
    Tables,
    /// Everything.
    #[default]
    All,
}

/// Measures with one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Name of the cause.
    pub name: &'static str,
    /// Measures, the most representative one first.
    pub measures: Vec<Measure>,
}

/// A quantity that was measured under A and under B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Fixed name.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Direction in which the measure is better.
    #[serde(skip)]
    pub direction: Direction,
    /// Rows, one for each case.
    #[serde(rename = "lines")]
    pub rows: Vec<Row>,
    /// Result over all cases; `None` if there is only one case.
    pub pooled: Option<Pooled>,
}

/// A measure in one case, such as a recording or a simulated host, under A and under B.
///
/// Engines fill this type and every renderer reads it. No other row type exists in between.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Name of the case.
    #[serde(rename = "of")]
    pub case: String,
    /// Value under A; the median if there are several values.
    pub a: Option<Quantity>,
    /// Value under B; the median if there are several values.
    pub b: Option<Quantity>,
    /// Least and greatest value under A, if there are several.
    #[serde(skip)]
    pub a_range: Option<[f64; 2]>,
    /// Least and greatest value under B, if there are several.
    #[serde(skip)]
    pub b_range: Option<[f64; 2]>,
    /// Relative change `(b - a) / |a|`; `None` if only the value under A is zero, or if a value was not measured.
    pub change: Option<f64>,
    /// Confidence interval of the change, if the case was measured often enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// Verdict on the change.
    pub verdict: Verdict,
    /// Relative error of the replay under the recorded kernel's rules, if the error is too large for a verdict.
    #[serde(rename = "error")]
    pub replay_error: Option<f64>,
}

/// A measure over several cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pooled {
    /// Number of pooled cases: those that are judged, have enough events, and have a value other than zero.
    pub cases: usize,
    /// Change over the cases: the median change if there are enough cases for an interval (six, or more if many
    /// comparisons are made), else the geometric mean of B/A, less one. `None` if a case changes from zero, no case can
    /// be pooled, or only one of several can.
    pub change: Option<f64>,
    /// Interval of the median change, at 95 % confidence for all comparisons together. With too few cases for that, the
    /// least and the greatest change of the cases. `None` if there is no `change`.
    pub interval: Option<(f64, f64)>,
    /// Verdict on the change.
    pub verdict: Verdict,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Description of the columns, in a sentence or two; empty if their names are enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows of values, one value for each column.
    pub rows: Vec<Vec<Value>>,
    /// Conclusions from the table, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conclusions: Vec<String>,
}

/// A column of a table: its name, the unit of its numbers, and its alignment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Name.
    pub name: Cow<'static, str>,
    /// Unit of the numbers; empty for words.
    pub unit: &'static str,
    /// Kind of contents, which decides the alignment.
    #[serde(skip)]
    pub kind: Kind,
}

/// Kind of contents of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words, which may wrap.
    Words,
    /// Numbers, which are never wrapped.
    Numbers,
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words, or a number in the format of its measure.
    Text(String),
    /// Words of lesser importance.
    Faint(String),
    /// Words, coloured by a verdict.
    Judged(String, Verdict),
    /// A number.
    Number(Quantity),
    /// A relative change or error.
    Change(f64),
    /// A share without a sign.
    Share(f64),
    /// Yes or no; `true` is the desired answer.
    Is(bool),
    /// No value.
    None,
}

/// Caveats of a report: facts that a reader must know to interpret it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Caveats {
    /// Subject of the caveats.
    pub title: Cow<'static, str>,
    /// Sentences.
    pub sentences: Vec<String>,
}

impl Table {
    /// Creates a table with these columns and rows.
    pub fn new(title: impl Into<String>, columns: Vec<Column>, rows: impl IntoIterator<Item = Vec<Value>>) -> Table {
        Table { title: title.into(), columns, rows: rows.into_iter().collect(), ..Table::default() }
    }
}

impl Column {
    /// Creates a column of words.
    pub fn words(name: impl Into<Cow<'static, str>>) -> Column {
        Column { name: name.into(), unit: "", kind: Kind::Words }
    }

    /// Creates a column of numbers without a common unit.
    pub fn numbers(name: impl Into<Cow<'static, str>>) -> Column {
        Column::counting(name, "")
    }

    /// Creates a column of numbers with this unit.
    pub fn counting(name: impl Into<Cow<'static, str>>, unit: &'static str) -> Column {
        Column { name: name.into(), unit, kind: Kind::Numbers }
    }

    /// Creates columns of words, followed by columns of numbers.
    pub fn several(words: &[&'static str], numbers: &[&'static str]) -> Vec<Column> {
        let words = words.iter().map(|&name| Column::words(name));
        words.chain(numbers.iter().map(|&name| Column::numbers(name))).collect()
    }

    /// Returns the name of the column with its unit.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone().into_owned() } else { format!("{}, {}", self.name, self.unit) }
    }
}

impl Value {
    /// Creates a text value from words or a formatted number.
    pub fn text(text: impl ToString) -> Value {
        Value::Text(text.to_string())
    }

    /// Creates a value with the label of a verdict.
    pub fn verdict(verdict: Verdict) -> Value {
        Value::Judged(verdict.word().to_owned(), verdict)
    }

    /// Creates a count; `None` creates an empty value.
    pub fn count(count: impl Into<Option<u64>>) -> Value {
        count.into().map_or(Value::None, |count| Value::Number(Quantity::Count(count)))
    }

    /// Creates a time span, formatted in a unit of suitable size.
    pub fn duration(ns: u64) -> Value {
        Value::Text(duration(ns))
    }

    /// Creates a number that need not be whole; `None` creates an empty value.
    pub fn decimal(number: Option<f64>) -> Value {
        number.map_or(Value::None, |number| Value::Number(Quantity::Ratio(number)))
    }

    /// Formats the value for people.
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

    /// Formats the value for programs: words, or the unformatted number; empty without a value.
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
    /// Returns the label of the row, with the error of the replay if that is the reason.
    pub fn label(&self) -> Cow<'static, str> {
        match (self.verdict, self.replay_error) {
            (Verdict::NotJudged, Some(error)) => format!("not judged (replay error {})", change(Some(error))).into(),
            (verdict, _) => verdict.word().into(),
        }
    }

    /// Returns whether the case was measured under A and has the same value under B.
    pub fn is_same(&self) -> bool {
        self.a.is_some() && self.a == self.b
    }

    /// Returns whether both values were measured and at least one of them is not zero.
    pub fn is_nonzero(&self) -> bool {
        self.a.zip(self.b).is_some_and(|(a, b)| a.value() != 0.0 || b.value() != 0.0)
    }
}

impl Measure {
    /// Returns whether every case has the same value under A and B.
    pub fn is_same(&self) -> bool {
        self.rows.iter().all(Row::is_same)
    }

    /// Returns the verdict over all cases; not judged if there are several cases that were not pooled, or none.
    pub fn verdict(&self) -> Verdict {
        match (&self.pooled, self.rows.as_slice()) {
            (Some(pooled), _) => pooled.verdict,
            (None, [row]) => row.verdict,
            (None, _) => Verdict::NotJudged,
        }
    }

    /// Returns the change over all cases; `None` if there is no pooled change and not exactly one case with a change.
    pub fn change(&self) -> Option<f64> {
        match (&self.pooled, self.rows.as_slice()) {
            (Some(pooled), _) => pooled.change,
            (None, [row]) => row.change,
            (None, _) => None,
        }
    }
}
