//! The measures of a report as the table that kernel developers paste: a mean of each side, and in brackets what B gains.
//!
//! As in mmtests, the gain is positive where B is better: for what should be low, `(A - B) / A`; for what should be high,
//! `(B - A) / A`. Measures of which neither way is better are left out, and so is what carries no verdict.

use super::{Measure, Report};
use crate::number::Quantity;
use crate::verdict::Direction;

/// The text of a report, under these names for the sides.
pub fn text(report: &Report, a: &str, b: &str) -> String {
    let measures = report.groups.iter().flat_map(|group| &group.measures);
    let rows: Vec<[String; 3]> = measures.filter_map(row).collect();
    let head = [String::new(), a.to_owned(), b.to_owned()];
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2].map(width);
    let line = |row: &[String; 3]| {
        format!("{:<w0$}  {:>w1$}  {:>w2$}\n", row[0], row[1], row[2], w0 = widths[0], w1 = widths[1], w2 = widths[2])
    };
    [&head].into_iter().chain(&rows).map(line).collect()
}

fn row(measure: &Measure) -> Option<[String; 3]> {
    let told = measure.lines.iter().filter(|line| line.verdict.is_some());
    let sides: Vec<(f64, f64)> = told.filter_map(|line| Some((value(line.a)?, value(line.b)?))).collect();
    if sides.is_empty() || measure.direction == Direction::Neutral {
        return None;
    }
    let mean = |side: fn(&(f64, f64)) -> f64| sides.iter().map(side).sum::<f64>() / sides.len() as f64;
    let (a, b) = (mean(|sides| sides.0), mean(|sides| sides.1));
    let gain = match measure.direction {
        _ if a == b => 0.0,
        Direction::Lower => (a - b) / a,
        Direction::Higher | Direction::Neutral => (b - a) / a,
    };
    let prefix = "Amean";
    let bracket = |gain: f64| format!("{:>9}", format!("({:.2}%)", gain * 100.0));
    let cell = |mean: f64, gain: f64| format!("{mean:.2} {}", bracket(gain));
    Some([format!("{prefix}     {}", measure.name), cell(a, 0.0), cell(b, gain)])
}

fn value(quantity: Option<Quantity>) -> Option<f64> {
    quantity.map(Quantity::value)
}
