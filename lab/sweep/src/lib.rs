//! Sweeps: many replays or simulations, each an independent task, and a report on all of them.
//!
//! ```text
//! plan       swept recordings or simulated hosts, policies, settings, CPUs, seeds   (TOML)
//! subject    a recording, identified by its contents
//! task       one combination, with a number derived from its contents
//! worker     runs a task: from the plan and the recording's bytes to the bytes of one part
//! part       result of a task: one small Parquet file of a partitioned dataset
//! folder     the dataset on a disk; existing parts are not made again
//! local      runs all tasks on this machine
//! report     verdicts on the dataset, in the common report model
//! ```
//!
//! The part of a task has the same bytes on every machine and at any time. Tasks can therefore run in any order and in
//! parallel, be lost with a crashed process, or run twice. A program that distributes tasks over machines needs three
//! calls: [`Plan::tasks`] with the identity of a [`Subject`], [`Worker::run`], and [`Report::from_parts`].
//!
//! # Design
//!
//! Tasks are pure functions from the plan and the recording's bytes to the bytes of one part, whose name and number
//! follow from these. A sweep therefore needs no coordinator, no lock and no journal. Existing parts are done, a
//! process that dies loses only the tasks in progress, and two sweeps into one folder write the same bytes. A cluster
//! needs nothing that one machine does not need.
//!
//! A recording is identified by its contents, because a thousand recordings may be called `run.parquet`. The swept
//! values are in the names of the folders, as readers of partitioned datasets expect, and also in each file, because
//! folders are moved and their names are shortened.
//!
//! A part contains a digest of all of its bytes, which is the only way to detect a flipped bit: Parquet would decode
//! another number. The check whether a part is complete costs the digest and no decoding.
//!
//! The rows contain everything on which a verdict depends. The verdict is therefore computed from the dataset and never
//! from the state of a process, by the rules of `compare`, `fleet` and `sim`. If a sweep has many comparisons, the
//! confidence of each is raised until all hold together. The correction is Bonferroni's, because comparisons on the
//! same recordings are not independent.

mod digest;
mod error;
pub mod folder;
pub mod local;
mod outcome;
pub mod part;
mod partition;
mod plan;
mod replaying;
pub mod report;
mod simulating;
mod subject;
mod task;
mod worker;

use std::fmt;

pub use error::{Error, ReadError, TaskError};
pub use plan::Plan;
pub use report::Report;
pub use subject::{Identity, Subject};
pub use task::Task;
pub use worker::Worker;

/// A recording or a task that failed, while the others continued.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Path of the recording, or title of the plan.
    pub of: String,
    /// Reason, as a sentence.
    pub why: String,
}

impl fmt::Display for Failure {
    /// Writes the reason, preceded by the subject if the reason does not contain it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.contains(&self.of) {
            true => f.write_str(&self.why),
            false => write!(f, "{}: {}", self.of, self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn failure_text_contains_the_path_once() {
        for (why, text) in [("/a is not a Parquet file", "/a is not a Parquet file"), ("no memory", "/a: no memory")] {
            assert_eq!(Failure { of: "/a".to_owned(), why: why.to_owned() }.to_string(), text);
        }
    }
}
