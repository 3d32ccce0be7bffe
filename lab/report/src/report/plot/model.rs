//! Model of a plot: the measure, the lines, and the scales of both axes.

use std::borrow::Cow;

use serde::Serialize;

/// One measure as a function of a number: a panel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plot {
    /// Name of the measure with its unit.
    pub title: String,
    /// Subject of the measurement; empty if the report names it.
    pub of: String,
    /// Description of the plot and how to read it, in a sentence or two; empty if the title is enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub caption: String,
    /// Unit of the values, drawn at the top of their axis; empty if the labels of the axis contain it.
    #[serde(skip)]
    pub unit: Cow<'static, str>,
    /// Name of the number along the bottom.
    pub along: Cow<'static, str>,
    /// Scale of the axis along the bottom.
    pub scale: Scale,
    /// Scale of the axis of values.
    pub axis: Axis,
    /// Shape in which values are drawn.
    pub shape: Shape,
    /// Lines.
    pub lines: Vec<PlotLine>,
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlotLine {
    /// Name, the same in every plot.
    pub name: String,
    /// Points: a place along the bottom and the value there.
    pub points: Vec<(f64, f64)>,
}

/// Scale of the axis along the bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Logarithmic to base two, because numbers of CPUs are usually doubled. Places that are not above zero are left
    /// out.
    #[default]
    Doubling,
    /// Linear, for time.
    Even,
    /// Names instead of numbers: place 0 has the first name.
    Named(Vec<String>),
}

/// Scale of an axis of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Linear; the axis includes zero.
    #[default]
    Linear,
    /// Logarithmic to base ten. Values that are not above zero are left out.
    Logarithmic,
    /// Linear, for a share from 0 to 100 %.
    Percent,
}

/// Shape in which values are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// A line through the points.
    #[default]
    Lines,
    /// One area for each line, stacked, for parts of a whole.
    Stacked,
    /// One bar for each line at each place, side by side.
    Bars,
}

impl PlotLine {
    /// Creates a line with this name through these points.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> PlotLine {
        PlotLine { name: name.into(), points }
    }
}

impl Plot {
    /// Returns all places along the bottom that have a point, in ascending order.
    pub(super) fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> = self.lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
        places.sort_unstable_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// Formats a place along the bottom with its unit.
    pub(super) fn format_place(&self, place: f64) -> String {
        match &self.scale {
            Scale::Named(names) => names.get(place.round() as usize).cloned().unwrap_or_default(),
            Scale::Doubling | Scale::Even => format!("{} {}", short(place), self.along),
        }
    }
}

impl PlotLine {
    /// Returns the value at a place along the bottom, if the line has a point there.
    pub(super) fn value_at(&self, place: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == place).map(|point| point.1)
    }
}

impl Axis {
    /// Formats a value: as a percentage, or with as many digits as can be read off a plot.
    pub(super) fn format(self, value: f64) -> String {
        match self {
            Axis::Percent => format!("{} %", significant(value * 100.0)),
            Axis::Linear | Axis::Logarithmic => short(value),
        }
    }
}

/// Formats a number in units, thousands, millions or billions.
pub(super) fn short(value: f64) -> String {
    let units = [(" G", 1e9), (" M", 1e6), (" k", 1e3)];
    let (suffix, size) = units.into_iter().find(|unit| value.abs() >= unit.1).unwrap_or(("", 1.0));
    format!("{}{suffix}", significant(value / size))
}

/// Formats a number with four significant digits, without zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.abs().to_string();
    }
    let decimals = (3.0 - value.abs().log10().floor()).clamp(0.0, 15.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_numbers_have_at_most_four_digits() {
        let numbers = [0.0, 0.25, 0.1 + 0.2, 1234.5, 1e4, 2.5e6, 0.000_012, 999.0];
        let texts = ["0", "0.25", "0.3", "1.234 k", "10 k", "2.5 M", "0.000012", "999"];
        for (number, text) in numbers.into_iter().zip(texts) {
            assert_eq!(short(number), text);
        }
        assert_eq!(Axis::Percent.format(0.125), "12.5 %");
    }
}
