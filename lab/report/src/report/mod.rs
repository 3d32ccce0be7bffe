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
pub mod screen;
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
    /// Recordings or other cases, one row each; `None` if `subject` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cases: Option<Table>,
    /// Verdict: a headline that counts labels, then cautions in sentences.
    pub verdict: Vec<String>,
    /// Tables that answer the question, on the first screen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Table>,
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
    /// Options and commands to try next, one line each.
    #[serde(skip)]
    pub next: Vec<String>,
    /// Detail of the output at a terminal.
    #[serde(skip)]
    pub detail: Detail,
}

/// Level of detail of a report at a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The verdict, the most important rows, and a line that counts the others ([`screen`]).
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
    /// Fixed name, in JSON and CSV.
    pub name: &'static str,
    /// Title for people, which includes the unit of counts.
    #[serde(skip)]
    pub title: &'static str,
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
    /// Reason why a replayed row is not judged.
    #[serde(skip)]
    pub unjudged: Option<UnjudgedReason>,
}

/// Reason why a row of a replay is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnjudgedReason {
    /// The error of the replay under the recorded kernel's rules is too large.
    ReplayError,
    /// The recorded value is zero, and the value of the replay under the recorded kernel's rules is not.
    NoneRecorded,
    /// The recording lacks the measure, so the error of the replay is unknown.
    NotRecorded,
    /// The measure has no value under A or under B; an example is a share of zero events.
    NoValue,
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

impl UnjudgedReason {
    /// All reasons, in the order of reports.
    pub const ALL: [UnjudgedReason; 4] = [
        UnjudgedReason::ReplayError,
        UnjudgedReason::NoneRecorded,
        UnjudgedReason::NotRecorded,
        UnjudgedReason::NoValue,
    ];

    /// Returns the reason as it is printed after the label.
    pub fn text(self) -> &'static str {
        match self {
            UnjudgedReason::ReplayError => "replay error",
            UnjudgedReason::NoneRecorded => "recorded value is 0, replayed value is not",
            UnjudgedReason::NotRecorded => "not in the recording",
            UnjudgedReason::NoValue => "no value under A or B",
        }
    }
}

impl Row {
    /// Returns the label of the row, with the reason if the row is not judged, and the size of the replay error.
    pub fn label(&self) -> Cow<'static, str> {
        let word = self.verdict.word();
        match (self.unjudged, self.replay_error) {
            (Some(UnjudgedReason::ReplayError), Some(error)) => {
                format!("{word} (replay error {})", change(Some(error))).into()
            }
            (Some(reason), _) => format!("{word} ({})", reason.text()).into(),
            (None, _) => word.into(),
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

impl Pooled {
    /// Formats the ends of the interval: `from -3.0 %` and `to +2.0 %`; dashes without an interval.
    pub fn ends(&self) -> [String; 2] {
        let (low, high) = self.interval.unzip();
        [("from", low), ("to", high)]
            .map(|(word, end)| end.map_or(ABSENT.to_owned(), |end| format!("{word} {}", change(Some(end)))))
    }
}

/// Returns the measures of all groups.
pub fn measures(groups: &[Group]) -> impl Iterator<Item = &Measure> {
    groups.iter().flat_map(|group| &group.measures)
}

/// Formats a side of a comparison: `A: linux-6.12 (its description)`.
pub fn describe_side(letter: &str, policy: &str, about: Option<&str>) -> String {
    about.map_or_else(|| format!("{letter}: {policy}"), |about| format!("{letter}: {policy} ({about})"))
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
