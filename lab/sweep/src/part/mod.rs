//! A part of the dataset: what one task brought, as one small Parquet file, the same bytes whoever makes it.
//!
//! Rows are long: each is one number or sentence, and says what it is about. What was swept stands in the names of the
//! folders, where readers of partitioned datasets find it, and in the file's metadata with the plan and the version of
//! the program, so that a part that was moved or renamed is still known for what it is. A [`seal`] shows whether a bit
//! has turned over since.

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
/// The columns, in Parquet's words.
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

/// What a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version and commit of the program.
    pub program: String,
    /// The plan's digest.
    pub plan: String,
    /// The task's number.
    pub task: String,
    /// What was swept, and what it is here.
    pub labels: Vec<(String, String)>,
    /// The recording.
    pub recording: Option<Identity>,
}

/// State of the place for a task's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The task's part.
    Whole,
    /// A part that was cut or damaged, or something that is none.
    Damaged,
    /// The part of another task: somebody moved it there.
    OtherTask,
}

/// Checks bytes from the place of a task's part. Cost: a digest of them.
pub fn check(bytes: Bytes, plan: &Plan, task: &Task, recording: Option<&Identity>) -> PartState {
    match header(bytes) {
        Err(_) => PartState::Damaged,
        Ok(there) if there == Header::new(plan, task, recording) => PartState::Whole,
        Ok(_) => PartState::OtherTask,
    }
}

/// One number or sentence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// What kind of row it is.
    pub section: String,
    /// Which of several: a nudge, a look; 0 of one.
    pub at: u32,
    /// What was measured.
    pub measure: String,
    /// What the number counts.
    pub unit: String,
    /// The number, if it is a count.
    pub count: Option<u64>,
    /// The number, if it is one.
    pub value: Option<f64>,
    /// The sentence or name, if it is one.
    pub text: Option<String>,
}

impl Header {
    /// The header of a task's part.
    pub fn new(plan: &Plan, task: &Task, recording: Option<&Identity>) -> Header {
        Header {
            program: this_program(),
            plan: plan.digest().to_owned(),
            task: task.number.clone(),
            labels: task.labels.clone(),
            recording: recording.cloned(),
        }
    }

    /// Where the part lies in the dataset.
    pub fn path(&self) -> String {
        partition_path(&self.labels)
    }

    /// The value of a label.
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

    /// The same, as one of several.
    pub fn numbered(self, at: u32) -> Row {
        Row { at, ..self }
    }

    /// The number: a count, if it was one.
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
    fn what_is_read_is_what_was_written_bit_by_bit() {
        let bytes = write(&header_of("a"), &rows());
        assert_eq!(bytes, write(&header_of("a"), &rows()));
        let (header, read_rows) = read(bytes.into()).unwrap();
        assert_eq!((header, read_rows), (header_of("a"), rows()));
    }

    #[test]
    fn a_part_that_is_cut_or_damaged_is_none() {
        let bytes = write(&header_of("a"), &rows());
        for length in [0, 3, 8, bytes.len() / 2, bytes.len() - 1] {
            assert!(header(bytes[..length].to_vec().into()).is_err(), "{length}");
        }
    }

    #[test]
    fn a_bit_that_has_turned_over_is_seen_wherever_it_is() {
        let bytes = write(&header_of("a"), &rows());
        for (at, bits) in (0..bytes.len()).flat_map(|at| [1, 0x80, 0xff].map(|bits| (at, bits))) {
            let mut changed = bytes.clone();
            changed[at] ^= bits;
            let damaged = Bytes::from(changed);
            assert!(header(damaged.clone()).is_err() && read(damaged).is_err(), "{at} {bits:x}");
        }
    }
}
