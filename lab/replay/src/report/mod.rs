//! Reports of replays and comparisons.
//!
//! [`metrics`] and [`fidelity`] define the measures. [`outcome`] holds those of one replay, and [`course`] its events
//! over time, [`compaction`] its decisions about compaction. [`rows`] compares two policies on one recording, [`verdict`] on all recordings. [`comparison`] and
//! [`single`] are the two documents that the program prints. Scripts depend on the names of metrics and the shapes of
//! the JSON: additions are allowed, changes are not.

pub mod brief;
pub mod compaction;
pub mod comparison;
pub mod course;
pub mod fidelity;
pub mod mechanisms;
pub mod metrics;
pub mod outcome;
pub(crate) mod rows;
pub mod single;
pub(crate) mod tables;
pub mod uncompared;
pub(crate) mod verdict;
pub mod view;
