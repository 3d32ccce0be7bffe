//! Plots: how something changes as time passes or a number grows, a line a policy.
//!
//! A plot is data, as tables are: the page draws it so that one can point into it ([`super::page`]), [`mod@svg`] draws it
//! to be printed, and both write the same numbers.

pub mod svg;

use std::borrow::Cow;

use serde::Serialize;

pub use svg::svg;

/// One measure against a number that varies: a panel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plot {
    /// What is measured, with its unit.
    pub title: String,
    /// What it was measured on; empty where the report says it.
    pub of: String,
    /// What one sees in it, and how to read it, in a sentence or two; empty where the title says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub caption: String,
    /// What the number along the bottom counts.
    pub along: Cow<'static, str>,
    /// How the numbers along the bottom follow each other.
    pub scale: Scale,
    /// How the axis of values runs.
    pub axis: Axis,
    /// How values are drawn.
    pub shape: Shape,
    /// The lines.
    pub lines: Vec<PlotLine>,
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlotLine {
    /// Its name, the same in every plot.
    pub name: String,
    /// Its points: where along the bottom, and the value there.
    pub points: Vec<(f64, f64)>,
}

/// How numbers along the bottom follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Each twice as far as the one before: CPUs are doubled, not counted. From 1 up.
    #[default]
    Doubling,
    /// Evenly: time.
    Even,
    /// They are no numbers: the first is 0 and has the first of these names.
    Named(Vec<String>),
}

/// How an axis of values runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// From zero, evenly.
    #[default]
    Linear,
    /// By powers of ten. What is not above zero is left out.
    Logarithmic,
    /// A share, from 0 to 100 %.
    Percent,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A line through them.
    #[default]
    Lines,
    /// An area each, one upon the other: they are parts of a whole.
    Stacked,
    /// A bar each, side by side.
    Bars,
}

impl PlotLine {
    /// A line of this name through these points.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> PlotLine {
        PlotLine { name: name.into(), points }
    }
}
