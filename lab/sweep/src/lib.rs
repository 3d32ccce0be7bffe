//! Sweeps: many replays or simulations, each a task that knows nothing of the others, and what they say together.
//!
//! ```text
//! plan       what is swept: recordings or simulated hosts, policies, settings, CPUs, seeds       (TOML)
//! subject    a recording, known by its contents
//! task       one combination, with a number that its contents give
//! worker     does a task: from the plan and the recording's bytes to the bytes of one part
//! part       what a task brought: one small Parquet file of a partitioned dataset
//! folder     the dataset on a disk: what is there is not done again
//! local      all tasks on this machine
//! report     what the dataset says, by the one model of a report
//! ```
//!
//! A task's part has the same bytes whoever makes it, when and where. So it does not matter in which order tasks are
//! done, how many do them at a time, who dies in the middle, or whether two do the same one. Whoever spreads tasks over
//! machines needs three calls: [`Plan::tasks`] of a [`Subject`]'s identity, [`Worker::run`], and
//! [`Report::from_parts`].

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

/// A recording, or a task, that could not be done; the rest was.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// The recording's file as it was named, or the task.
    pub of: String,
    /// Why, in a sentence.
    pub why: String,
}

impl fmt::Display for Failure {
    /// Names what it is of once, also where the sentence does.
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
    fn a_failure_names_what_it_is_of_once() {
        for (why, text) in [("/a is not a Parquet file", "/a is not a Parquet file"), ("no memory", "/a: no memory")] {
            assert_eq!(Failure { of: "/a".to_owned(), why: why.to_owned() }.to_string(), text);
        }
    }
}
