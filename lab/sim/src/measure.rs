//! Measures of a run or of a host: name, unit, text form, and the direction that is better.
//!
//! Runs and hosts have separate lists of measures ([`crate::report::measures`], [`crate::fleet::measures`]), built from
//! the types in this module. Users' scripts depend on the names: names are added, and never changed.

use freehold_report::number::{self, Quantity};
use freehold_report::report::Value;
use freehold_stats::verdict::Direction;
use serde::{Serialize, Serializer};

/// Pages of a pageblock of the simulated machines.
pub const PAGEBLOCK_PAGES: f64 = 512.0;

/// Unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations per second.
    PerSecond,
    /// Share of a whole, from 0 to 1.
    Share,
    /// Count per thousand operations, for example acquisitions or frees.
    Per1000,
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds per thousand operations.
    NanosecondsPer1000,
    /// Pages.
    Pages,
    /// Pageblocks.
    Pageblocks,
    /// Requests.
    Requests,
    /// Count per virtual minute, for example pages or faults.
    PerMinute,
    /// Virtual minutes.
    Minutes,
}

/// Aggregation of several runs or hosts into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Median of the values.
    Median,
    /// Sum of the values.
    Sum,
}

/// A quantity that is measured in a run, or on a host.
#[derive(Debug)]
pub struct Measure<R: 'static> {
    /// Fixed name.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Direction that is better.
    pub direction: Direction,
    /// Aggregation of several runs or hosts into one number.
    pub aggregate: Aggregate,
    /// Computes the value; `None` if the denominator is zero.
    pub(crate) compute: fn(&R) -> Option<f64>,
    /// Counts the events behind the value. `None` if the value itself is that count, or does not represent events.
    pub(crate) events: Option<fn(&R) -> u64>,
}

impl<R> Clone for Measure<R> {
    fn clone(&self) -> Measure<R> {
        *self
    }
}

impl<R> Copy for Measure<R> {}

impl<R> Measure<R> {
    /// Evaluates the measure of a run or a host; returns `None` if the denominator is zero.
    pub fn evaluate(&self, measured: &R) -> Option<f64> {
        (self.compute)(measured)
    }

    /// Returns the number of events behind the measure; `None` if the measure does not represent events, or has no
    /// value.
    pub fn events(&self, measured: &R) -> Option<f64> {
        match self.events {
            Some(events) => Some(events(measured) as f64),
            None => self.evaluate(measured).filter(|_| self.unit.is_count()),
        }
    }

    /// Returns a copy of the measure with another direction.
    #[must_use]
    pub fn directed(self, direction: Direction) -> Measure<R> {
        Measure { direction, ..self }
    }

    /// Formats a value for tables. Operations per second are written in millions.
    pub fn text(&self, value: f64) -> String {
        self.unit.text(value)
    }

    /// Formats a difference for tables, with its sign. A difference of shares is in percentage points; the caller adds
    /// [the unit](Self::difference_unit).
    pub fn difference_text(&self, value: f64) -> String {
        let sign = if value > 0.0 { "+" } else { "" };
        match self.unit {
            Unit::Share => format!("{sign}{:.1}", value * 100.0),
            _ => format!("{sign}{}", self.text(value)),
        }
    }

    /// Returns the unit of a difference, with a leading space, if it differs from the unit of the measure.
    pub fn difference_unit(&self) -> &'static str {
        if self.unit == Unit::Share { " points" } else { "" }
    }

    /// Returns a value as a cell of a table; the cell is empty if there is no value or it is not a number.
    pub fn value(&self, value: Option<f64>) -> Value {
        let Some(value) = value.filter(|value| !value.is_nan()) else { return Value::None };
        match self.unit {
            Unit::Share => Value::Share(value),
            Unit::PerSecond => Value::Number(Quantity::Ratio(value / 1e6)),
            unit if unit.is_whole(value) => Value::count(value.round() as u64),
            Unit::Per1000 | Unit::NanosecondsPer1000 => Value::Number(Quantity::Ratio(value)),
            _ => Value::Text(self.text(value)),
        }
    }

    /// Returns the name with spaces, for sentences.
    pub fn words(&self) -> String {
        self.name.replace('_', " ")
    }
}

impl<R> Serialize for Measure<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl Unit {
    /// Returns the name of the unit in machine-readable output, where values are bare numbers.
    pub fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "operations/s",
            Unit::Share => "share",
            Unit::Per1000 => "per 1000 operations",
            Unit::Nanoseconds => "ns",
            Unit::NanosecondsPer1000 => "ns per 1000 operations",
            Unit::Pages => "pages",
            Unit::Pageblocks => "pageblocks",
            Unit::Requests => "requests",
            Unit::PerMinute => "per minute",
            Unit::Minutes => "minutes",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Unit::PerSecond => number::decimal(value / 1e6),
            Unit::Share => number::percent(value),
            Unit::Per1000 | Unit::NanosecondsPer1000 => number::decimal(value),
            _ if self.is_whole(value) => {
                let sign = if value < 0.0 { "-" } else { "" };
                format!("{sign}{}", number::count(value.abs().round() as u64))
            }
            _ => format!("{value:.1}"),
        }
    }

    /// Returns whether a value of this unit counts events.
    pub fn is_count(self) -> bool {
        matches!(self, Unit::Requests | Unit::Pageblocks)
    }

    /// Returns whether a value is written without decimals. Nanoseconds always are; rates, shares and minutes never
    /// are. A value of any other unit is if it is an integer, or so large that decimals are irrelevant.
    fn is_whole(self, value: f64) -> bool {
        match self {
            Unit::PerSecond | Unit::Share | Unit::Per1000 | Unit::NanosecondsPer1000 | Unit::Minutes => false,
            Unit::Nanoseconds => true,
            _ => value.fract() == 0.0 || value.abs() >= 100.0,
        }
    }
}

impl Aggregate {
    /// Returns the word for the aggregation.
    pub fn word(self) -> &'static str {
        match self {
            Aggregate::Median => "median",
            Aggregate::Sum => "sum",
        }
    }
}

/// Returns the last option. Macros append an optional argument to a default and call this to pick one.
pub(crate) const fn last<T: Copy>(options: &[T]) -> T {
    options[options.len() - 1]
}

/// Converts a bare number for the model of a report.
pub fn quantity(value: f64) -> Quantity {
    let is_count = value.fract() == 0.0 && value >= 0.0;
    if is_count { Quantity::Count(value as u64) } else { Quantity::Ratio(value) }
}

/// Returns `part / (part + rest)`; `None` if both are zero.
pub fn share(part: u64, rest: u64) -> Option<f64> {
    ratio(part, part + rest)
}

/// Returns `part / whole`; `None` if the whole is zero.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_formatted_with_significant_digits() {
        assert_eq!((Unit::Share.text(0.123), Unit::PerSecond.text(2.5e6)), ("12.3 %".to_owned(), "2.500".to_owned()));
        assert_eq!((Unit::Pageblocks.text(310.5), Unit::Pageblocks.text(3.5)), ("311".to_owned(), "3.5".to_owned()));
        assert_eq!((Unit::Nanoseconds.text(12.4), Unit::Minutes.text(2.0)), ("12".to_owned(), "2.0".to_owned()));
        assert_eq!(Unit::PerMinute.text(-40_300_000.0), "-40,300,000");
    }

    #[test]
    fn share_and_ratio_of_zero_are_none() {
        assert_eq!((share(0, 0), share(1, 3), ratio(1, 0)), (None, Some(0.25), None));
    }
}
