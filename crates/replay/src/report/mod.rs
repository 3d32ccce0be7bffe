//! Reports: what a replay or a comparison found, as values with two views.
//!
//! [`model`] holds what the replayer measures, [`verdict`] what a difference between two policies means,
//! [`comparison`] and [`single`] the two documents that leave the program; [`wrap`] is for pages. The names of metrics and
//! the shapes of the JSON are a contract with people's scripts: they are added to, never changed.

pub mod comparison;
pub mod model;
pub mod rows;
pub mod single;
pub mod tables;
