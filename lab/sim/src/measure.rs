//! Measures: what is told of a run or of a host, what its numbers count, how they are written, and which way is good.
//!
//! Runs and hosts have lists of their own ([`crate::report::measures`], [`crate::fleet::measures`]), in these words.
//! The names are a contract with people's scripts: they are added to, never changed.

use freehold_report::number::{self, Quantity};
use freehold_report::report::Value;
use freehold_stats::verdict::Direction;
use serde::{Serialize, Serializer};

/// Pages of a pageblock of the simulated machines.
pub const PAGEBLOCK_PAGES: f64 = 512.0;

/// What the numbers of a measure count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations a second.
    PerSecond,
    /// A share of a whole, from 0 to 1.
    Share,
    /// Acquisitions, frees or whatever is counted in a thousand operations.
    Per1000,
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds in a thousand operations.
    NanosecondsPer1000,
    /// Pages.
    Pages,
    /// Pageblocks.
    Pageblocks,
    /// Requests.
    Requests,
    /// Pages, faults or whatever is counted in a virtual minute.
    PerMinute,
    /// Virtual minutes.
    Minutes,
}

/// The way in which several runs or hosts become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their median.
    Median,
    /// Their sum.
    Sum,
}

/// Something that is measured in a run, or on a host.
#[derive(Debug)]
pub struct Measure<R: 'static> {
    /// Its fixed name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What its numbers count.
    pub unit: Unit,
    /// Which way is good.
    pub direction: Direction,
    /// How several runs or hosts become one number.
    pub aggregate: Aggregate,
    /// The number; nothing where there is nothing to divide by.
    pub(crate) compute: fn(&R) -> Option<f64>,
    /// Events behind the number; `None` where the number itself counts them, or does not stand for events.
    pub(crate) events: Option<fn(&R) -> u64>,
}

impl<R> Clone for Measure<R> {
    fn clone(&self) -> Measure<R> {
        *self
    }
}

impl<R> Copy for Measure<R> {}

impl<R> Measure<R> {
    /// Evaluates the measure of a run or a host; returns `None` if there is nothing to divide by.
    pub fn evaluate(&self, measured: &R) -> Option<f64> {
        (self.compute)(measured)
    }

    /// Returns the number of events behind the measure; `None` if it does not stand for events.
    pub fn events(&self, measured: &R) -> Option<f64> {
        match self.events {
            Some(events) => Some(events(measured) as f64),
            None => self.evaluate(measured).filter(|_| self.unit.is_count()),
        }
    }

    /// The same where another way is good.
    #[must_use]
    pub fn directed(self, direction: Direction) -> Measure<R> {
        Measure { direction, ..self }
    }

    /// A number as it is written in tables. Operations a second are millions there.
    pub fn text(&self, value: f64) -> String {
        self.unit.text(value)
    }

    /// A difference as it is written in tables, with its sign. One of shares is in points, which the caller says.
    pub fn difference_text(&self, value: f64) -> String {
        let sign = if value > 0.0 { "+" } else { "" };
        match self.unit {
            Unit::Share => format!("{sign}{:.1}", value * 100.0),
            _ => format!("{sign}{}", self.text(value)),
        }
    }

    /// What a difference counts, where that is not what the measure does.
    pub fn difference_unit(&self) -> &'static str {
        if self.unit == Unit::Share { " points" } else { "" }
    }

    /// A number in a table; nothing if it is none.
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

    /// Its name as it stands in sentences.
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
    /// What the bare numbers count, for programs.
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

    /// Whether a number of this unit counts events.
    pub fn is_count(self) -> bool {
        matches!(self, Unit::Requests | Unit::Pageblocks)
    }

    /// Whether a number is written without decimals: a count that is one, or so large that they say nothing.
    fn is_whole(self, value: f64) -> bool {
        match self {
            Unit::PerSecond | Unit::Share | Unit::Per1000 | Unit::NanosecondsPer1000 | Unit::Minutes => false,
            Unit::Nanoseconds => true,
            _ => value.fract() == 0.0 || value.abs() >= 100.0,
        }
    }
}

impl Aggregate {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Aggregate::Median => "median",
            Aggregate::Sum => "sum",
        }
    }
}

/// Returns the last of these: what a macro adds to a default.
pub(crate) const fn last<T: Copy>(options: &[T]) -> T {
    options[options.len() - 1]
}

/// A bare number, as the model of a report has it.
pub fn quantity(value: f64) -> Quantity {
    let is_count = value.fract() == 0.0 && value >= 0.0;
    if is_count { Quantity::Count(value as u64) } else { Quantity::Ratio(value) }
}

/// What part of both the first is; nothing if there is none of either.
pub fn share(part: u64, rest: u64) -> Option<f64> {
    ratio(part, part + rest)
}

/// What part of the whole it is; nothing if there is no whole.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_as_many_digits_as_they_have() {
        assert_eq!((Unit::Share.text(0.123), Unit::PerSecond.text(2.5e6)), ("12.3 %".to_owned(), "2.500".to_owned()));
        assert_eq!((Unit::Pageblocks.text(310.5), Unit::Pageblocks.text(3.5)), ("311".to_owned(), "3.5".to_owned()));
        assert_eq!((Unit::Nanoseconds.text(12.4), Unit::Minutes.text(2.0)), ("12".to_owned(), "2.0".to_owned()));
        assert_eq!(Unit::PerMinute.text(-40_300_000.0), "-40,300,000");
    }

    #[test]
    fn nothing_of_nothing_is_no_number() {
        assert_eq!((share(0, 0), share(1, 3), ratio(1, 0)), (None, Some(0.25), None));
    }
}
