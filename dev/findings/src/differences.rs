//! Text of differences in the tables of the pages.

use freehold_report::number;
use freehold_sim::measure::Unit;
use freehold_sim::report::measures::Measure;

/// Formats a difference computed by `judge::difference`: in points for shares, relative for other units.
pub(crate) fn difference_text(measure: &Measure, difference: f64) -> String {
    match measure.unit {
        Unit::Share => format!("{:+.1} points", difference * 100.0),
        _ if difference.is_infinite() => "from none".to_owned(),
        _ => number::change(Some(difference)),
    }
}
