//! Reports of replays and comparisons.
//!
//! [`metrics`] and [`fidelity`] define the measures, [`outcome`] holds those of one replay and [`course`] its events
//! over time. [`rows`] compares two policies on one recording, [`verdict`] on all recordings. [`comparison`] and
//! [`single`] are the two documents that leave the program. The names of metrics and the shapes of the JSON are a
//! contract with people's scripts: they are added to, never changed.

pub mod brief;
pub mod comparison;
pub mod course;
pub mod fidelity;
pub mod metrics;
pub mod outcome;
pub(crate) mod rows;
pub mod single;
pub(crate) mod tables;
pub(crate) mod verdict;
pub mod view;
