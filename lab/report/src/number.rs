//! Measured numbers, and the format of numbers in text. JSON contains the bare numbers instead.

use serde::{Deserialize, Serialize};

/// A measured number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A count of things.
    Count(u64),
    /// A mean or a share.
    Ratio(f64),
}

impl Quantity {
    /// Returns `part / whole`; `None` if `whole` is zero.
    pub fn ratio(part: u64, whole: u64) -> Option<Quantity> {
        (whole > 0).then(|| Quantity::Ratio(part as f64 / whole as f64))
    }

    /// Returns a mean of counts. The mean becomes a count if it is a whole number, or if it is at least 100, where it
    /// is rounded.
    pub fn from_mean(mean: f64) -> Quantity {
        let is_whole = mean >= 100.0 || (mean >= 0.0 && mean == mean.round());
        if is_whole { Quantity::Count(mean.round() as u64) } else { Quantity::Ratio(mean) }
    }

    /// Returns the number as a float. Counts above 2^53 lose their last digits.
    pub fn value(self) -> f64 {
        match self {
            Quantity::Count(count) => count as f64,
            Quantity::Ratio(ratio) => ratio,
        }
    }
}

/// Text in place of a missing number.
pub const ABSENT: &str = "-";

/// Returns the singular of the plural `many` if `number` is 1, else `many`. The singular is the plural without its
/// final "s".
pub fn unit(number: u64, many: &str) -> &str {
    if number == 1 { many.strip_suffix('s').unwrap_or(many) } else { many }
}

/// Formats a count with commas between groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count or a ratio; `None` becomes a dash.
pub fn quantity(quantity: Option<Quantity>) -> String {
    match quantity {
        None => ABSENT.to_owned(),
        Some(Quantity::Count(number)) => count(number),
        Some(Quantity::Ratio(ratio)) => decimal(ratio),
    }
}

/// Formats a quantity in a unit: times in a unit of suitable size, shares as percentages, and all others without their
/// unit. `None` becomes a dash.
pub fn quantity_of(unit: &str, number: Option<Quantity>) -> String {
    let scale = match unit {
        "microseconds" => 1e3,
        "ns" => 1.0,
        "share" => return number.map_or_else(|| ABSENT.to_owned(), |share| percent(share.value())),
        _ => return quantity(number),
    };
    number.map_or_else(|| ABSENT.to_owned(), |time| duration((time.value() * scale).round() as u64))
}

/// Formats a number that need not be whole: three decimals below ten, one below a thousand, none above.
pub fn decimal(number: f64) -> String {
    let size = number.abs();
    if size >= 1000.0 {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(size.round() as u64))
    } else if size >= 10.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.3}")
    }
}

/// Formats a time span in a unit of suitable size.
pub fn duration(ns: u64) -> String {
    let ns = ns as f64;
    if ns < 1e3 {
        format!("{ns} ns")
    } else if ns < 1e6 {
        format!("{:.1} us", ns / 1e3)
    } else if ns < 1e9 {
        format!("{:.1} ms", ns / 1e6)
    } else {
        format!("{:.2} s", ns / 1e9)
    }
}

/// Formats a share as a percentage without a sign.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Smallest relative change that is not rounded to zero.
const SMALLEST_SHOWN: f64 = 0.0005;

/// Formats a relative change between two known numbers, of which the first may be zero: then there is no ratio, and the
/// change is "from none".
pub fn change_or_from_none(relative: Option<f64>) -> String {
    relative.map_or_else(|| "from none".to_owned(), |relative| change(Some(relative)))
}

/// Formats a relative change as a percentage with its sign; `None` becomes a dash.
pub fn change(change: Option<f64>) -> String {
    match change {
        None => ABSENT.to_owned(),
        Some(0.0) => "0 %".to_owned(),
        Some(change) if change.abs() < SMALLEST_SHOWN => {
            if change < 0.0 {
                "> -0.1 %".to_owned()
            } else {
                "< +0.1 %".to_owned()
            }
        }
        Some(change) if change.abs() >= 10.0 => {
            let sign = if change < 0.0 { "-" } else { "+" };
            format!("{sign}{} %", count((change.abs() * 100.0).round() as u64))
        }
        Some(change) => format!("{:+.1} %", change * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_singular_for_one() {
        assert_eq!([0, 1, 2].map(|number| unit(number, "runs")), ["runs", "run", "runs"]);
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
    }

    #[test]
    fn decimals_shrink_as_numbers_grow() {
        assert_eq!(decimal(0.1234), "0.123");
        assert_eq!(decimal(-12.34), "-12.3");
        assert_eq!(decimal(-1234.5), "-1,235");
    }

    #[test]
    fn changes_carry_their_sign() {
        assert_eq!(change(Some(0.5)), "+50.0 %");
        assert_eq!(change(Some(-0.031)), "-3.1 %");
        assert_eq!(change(Some(0.0)), "0 %");
        assert_eq!(change(Some(-0.0001)), "> -0.1 %");
        assert_eq!(change(Some(0.0004)), "< +0.1 %");
        assert_eq!(change(Some(12.345)), "+1,235 %");
        assert_eq!(change(None), "-");
    }
}
