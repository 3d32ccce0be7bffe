//! Statistics of measurements, and the verdicts drawn from them.
//!
//! [`intervals`] contains medians and confidence intervals. [`samples`] compares two groups of repeated runs.
//! [`verdict`] contains the labels of all verdicts and the rules that assign them. The crate depends on no other crate
//! of the laboratory.

pub mod intervals;
pub mod samples;
pub mod verdict;
