//! How numbers look in tables. JSON carries the bare numbers instead.

use comfy_table::Table;

use super::model::{FidelityRow, Quantity};
use super::verdict::{MetricRow, Verdict};
use crate::terminal::{Column, Style, Tone};

/// What stands where there is no number.
pub const ABSENT: &str = "-";

/// What so many are called, given what many are.
pub fn unit(number: u64, many: &str) -> &str {
    if number == 1 { many.strip_suffix('s').unwrap_or(many) } else { many }
}

/// A count with its thousands set apart by commas.
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

/// A count or a ratio, or a dash.
pub fn quantity(quantity: Option<Quantity>) -> String {
    match quantity {
        None => ABSENT.to_owned(),
        Some(Quantity::Count(number)) => count(number),
        Some(Quantity::Ratio(ratio)) => decimal(ratio),
    }
}

/// A number that need not be whole: three decimals below ten, one below a thousand, none above.
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

/// A time span in the unit that suits it.
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

/// A share as a percentage without sign.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Relative changes below this would be rounded to nothing.
const SMALLEST_SHOWN: f64 = 0.0005;

/// A relative change as a percentage with its sign, or a dash.
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

/// The table of one comparison.
pub fn metrics(rows: &[MetricRow], style: Style) -> Table {
    let mut table = style.table(&[
        Column::Text("metric"),
        Column::Text("unit"),
        Column::Number("A"),
        Column::Number("B"),
        Column::Number("change"),
        Column::Text("verdict"),
    ]);
    for row in rows {
        table.add_row(vec![
            style.cell(row.name, Tone::Plain),
            style.cell(row.unit, Tone::Faint),
            style.cell(quantity(row.a), Tone::Plain),
            style.cell(quantity(row.b), Tone::Plain),
            style.cell(change(row.change), Tone::Plain),
            style.cell(row.verdict.word(), tone(row.verdict)),
        ]);
    }
    table
}

/// The table of the engine against the recorded kernel.
pub fn fidelity<'a>(rows: impl Iterator<Item = &'a FidelityRow>, style: Style) -> Table {
    let mut table = style.table(&[
        Column::Text("fidelity"),
        Column::Number("recorded"),
        Column::Number("replayed"),
        Column::Number("error"),
        Column::Number("bound"),
        Column::Text("within"),
    ]);
    for row in rows {
        let (word, tone) = match row.within {
            None => (ABSENT, Tone::Faint),
            Some(true) => ("yes", Tone::Good),
            Some(false) => ("no", Tone::Bad),
        };
        table.add_row(vec![
            style.cell(&row.name, Tone::Plain),
            style.cell(bare(row.recorded), Tone::Plain),
            style.cell(bare(row.replayed), Tone::Plain),
            style.cell(change(row.relative_error), Tone::Plain),
            style.cell(row.bound.map_or(ABSENT.to_owned(), percent), Tone::Faint),
            style.cell(word, tone),
        ]);
    }
    table
}

/// A number that is whole in most rows: no decimals then.
fn bare(number: f64) -> String {
    if number.fract() == 0.0 && number >= 0.0 { count(number as u64) } else { decimal(number) }
}

/// How a verdict is coloured.
pub fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse => Tone::Bad,
        Verdict::NoDifference | Verdict::Neither | Verdict::Undecided => Tone::Faint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
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
