//! The measures of a report as CSV (RFC 4180): a line for each measure in each case, numbers bare.

use std::io;

use super::{Line, Measure, Report};
use crate::number::Quantity;

/// The names of the columns.
const HEADER: [&str; 9] = ["group", "measure", "unit", "of", "a", "b", "change", "verdict", "replay_error"];

/// The text of a report.
///
/// # Errors
/// None that memory does not have.
pub fn text(report: &Report) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for group in &report.groups {
        for measure in &group.measures {
            for line in &measure.lines {
                writer.write_record(record(group.name, measure, line))?;
            }
        }
    }
    writer.into_inner().map_err(|error| error.into_error())
}

fn record(group: &str, measure: &Measure, line: &Line) -> [String; 9] {
    let bare = |quantity: Option<Quantity>| match quantity {
        Some(Quantity::Count(count)) => count.to_string(),
        Some(Quantity::Ratio(ratio)) => ratio.to_string(),
        None => String::new(),
    };
    let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    [
        group.to_owned(),
        measure.name.to_owned(),
        measure.unit.to_owned(),
        line.of.clone(),
        bare(line.a),
        bare(line.b),
        number(line.change),
        line.verdict.map_or("", |verdict| verdict.word()).to_owned(),
        number(line.error),
    ]
}
