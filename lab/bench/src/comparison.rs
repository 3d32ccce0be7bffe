//! A comparison: one case on two subjects, and what was promised of it.

use super::bar::Bar;
use super::subject::{Case, Subject};

/// A case with the two sides that it is measured on.
pub struct Comparison {
    /// The case.
    pub case: &'static Case,
    /// What B is held against.
    pub a: Box<dyn Subject>,
    /// The rival.
    pub b: Box<dyn Subject>,
    /// What was promised of it.
    pub bar: Option<Bar>,
}
