//! A comparison: one case on two subjects, with an optional bar.

use super::bar::Bar;
use super::subject::{Case, Subject};

/// A case with the two sides on which it is measured.
pub struct Comparison {
    /// Case that both sides carry out.
    pub case: &'static Case,
    /// Side A, the reference.
    pub a: Box<dyn Subject>,
    /// Side B, the rival.
    pub b: Box<dyn Subject>,
    /// Bound that was set for the outcome.
    pub bar: Option<Bar>,
}
