//! Reports: what a replay or a comparison found.
//!
//! [`model`] holds what the replayer measures, [`course`] when and who; [`rows`] what a difference between two policies
//! means on one recording, [`verdict`] what all recordings say; [`comparison`] and [`single`] are the two documents
//! that leave the program. The names of metrics and the shapes of the JSON are a contract with people's scripts: they
//! are added to, never changed.

pub mod brief;
pub mod comparison;
pub mod course;
pub mod model;
pub mod rows;
pub mod seen;
pub mod single;
pub mod tables;
pub(crate) mod verdict;
