//! Statistics of measurements, and the verdicts drawn from them.
//!
//! [`intervals`] has medians and their confidence intervals, [`samples`] compares two groups of repeated runs, and
//! [`verdict`] holds the words of every verdict and the rule for two numbers that repeat exactly. The crate depends on
//! no other crate of the laboratory.

pub mod intervals;
pub mod samples;
pub mod verdict;
