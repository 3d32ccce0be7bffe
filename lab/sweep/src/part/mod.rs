//! A part of the dataset: the result of one task, as one small Parquet file. The bytes of a part are always the same
//! for the same task.
//!
//! Rows are in long format: each row is one number or one sentence, with columns that identify it. The swept values are
//! in the names of the folders, where readers of partitioned datasets find them. They are also in the metadata of the
//! file, with the digest of the plan and the version of the program, so a part that was moved or renamed can still be
//! identified. A [`seal`] detects a bit that has changed since the writing.

mod read;
mod seal;
mod write;

use bytes::Bytes;
use freehold_report::number::Quantity;
use serde::{Deserialize, Serialize};

pub use read::{header, read};
pub use write::write;

use crate::plan::{Plan, this_program};
use crate::subject::Identity;
use crate::task::{Task, partition_path};

/// Key of the header in the file's metadata.
const KEY: &str = "freehold.sweep";
/// Columns, in Parquet's schema language.
const SCHEMA: &str = "message sweep {
    required binary task (UTF8);
    required binary section (UTF8);
    required int32 at (INTEGER(32, false));
    required binary measure (UTF8);
    required binary unit (UTF8);
    optional int64 count (INTEGER(64, false));
    optional double value;
    optional binary text (UTF8);
}";

/// Identity of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version and commit of the program.
    pub program: String,
    /// Digest of the plan.
    pub plan: String,
    /// Number of the task.
    pub task: String,
    /// Swept axes, each with its value in this task.
    pub labels: Vec<(String, String)>,
    /// Identity of the recording; `None` in a simulation.
    pub recording: Option<Identity>,
}

/// State of the file in the place of a task's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The part of the task, unchanged.
    Whole,
    /// A truncated or damaged part, or another kind of file.
    Damaged,
    /// An intact part with another header: of another task, plan, recording or version of the program.
    OtherTask,
}

/// Checks bytes from the place of a task's part. Cost: a digest of the bytes.
pub fn check(bytes: Bytes, plan: &Plan, task: &Task, recording: Option<&Identity>) -> PartState {
    match header(bytes) {
        Err(_) => PartState::Damaged,
        Ok(there) if there == Header::new(plan, task, recording) => PartState::Whole,
        Ok(_) => PartState::OtherTask,
    }
}

/// One number or sentence of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Kind of the row.
    pub section: String,
    /// Index among several values of the same measure, such as nudges or samples over time; 0 for a single value.
    pub at: u32,
    /// Name of the measure.
    pub measure: String,
    /// Unit of the number.
    pub unit: String,
    /// The number, if it is a count.
    pub count: Option<u64>,
    /// The number, if the row has one.
    pub value: Option<f64>,
    /// The sentence or name, if the row has one.
    pub text: Option<String>,
}

impl Header {
    /// Returns the header of a task's part.
    pub fn new(plan: &Plan, task: &Task, recording: Option<&Identity>) -> Header {
        Header {
            program: this_program(),
            plan: plan.digest().to_owned(),
            task: task.number.clone(),
            labels: task.labels.clone(),
            recording: recording.cloned(),
        }
    }

    /// Returns the path of the part in the dataset.
    pub fn path(&self) -> String {
        partition_path(&self.labels)
    }

    /// Returns the value of a label; `None` if the part has no such label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

impl Row {
    /// Returns a row of a number.
    pub fn number(section: &str, measure: &str, unit: &str, number: Quantity) -> Row {
        let count = if let Quantity::Count(count) = number { Some(count) } else { None };
        let [section, measure, unit] = [section, measure, unit].map(str::to_owned);
        Row { section, measure, unit, count, value: Some(number.value()), ..Row::default() }
    }

    /// Returns a row of a sentence or a name.
    pub fn text(section: &str, measure: &str, text: impl Into<String>) -> Row {
        let [section, measure] = [section, measure].map(str::to_owned);
        Row { section, measure, text: Some(text.into()), ..Row::default() }
    }

    /// Sets the index among several values of the same measure.
    pub fn numbered(self, at: u32) -> Row {
        Row { at, ..self }
    }

    /// Returns the number of the row, as a count if it is one.
    pub fn quantity(&self) -> Option<Quantity> {
        self.count.map(Quantity::Count).or_else(|| self.value.map(Quantity::Ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_of(name: &str) -> Header {
        Header {
            program: "1".to_owned(),
            plan: "2".to_owned(),
            task: "3".to_owned(),
            labels: vec![("recording".to_owned(), name.to_owned())],
            recording: None,
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            Row::number("measure", "pages", "pages", Quantity::Count(u64::MAX)),
            Row::number("measure", "share", "share", Quantity::Ratio(0.1 + 0.2)).numbered(7),
            Row::text("assumption", "", "a \u{1b}[31m \u{e9}"),
        ]
    }

    #[test]
    fn part_round_trips_bit_by_bit() {
        let bytes = write(&header_of("a"), &rows());
        assert_eq!(bytes, write(&header_of("a"), &rows()));
        let (header, read_rows) = read(bytes.into()).unwrap();
        assert_eq!((header, read_rows), (header_of("a"), rows()));
    }

    #[test]
    fn truncated_part_is_an_error() {
        let bytes = write(&header_of("a"), &rows());
        for length in [0, 3, 8, bytes.len() / 2, bytes.len() - 1] {
            assert!(header(bytes[..length].to_vec().into()).is_err(), "{length}");
        }
    }

    #[test]
    fn any_flipped_bit_is_detected() {
        let bytes = write(&header_of("a"), &rows());
        for (at, bits) in (0..bytes.len()).flat_map(|at| [1, 0x80, 0xff].map(|bits| (at, bits))) {
            let mut changed = bytes.clone();
            changed[at] ^= bits;
            let damaged = Bytes::from(changed);
            assert!(header(damaged.clone()).is_err() && read(damaged).is_err(), "{at} {bits:x}");
        }
    }
}
