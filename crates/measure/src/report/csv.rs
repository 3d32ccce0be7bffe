//! The measures of reports as CSV (RFC 4180): a line for each measure in each case, numbers bare.

use std::io;

use super::{Line, Measure, Report};
use crate::number::Quantity;

/// The names of the columns.
const HEADER: [&str; 11] =
    ["policy_a", "policy_b", "group", "measure", "unit", "of", "a", "b", "change", "verdict", "replay_error"];

/// The text of some reports, under one header.
///
/// # Errors
/// When there is no memory for it.
pub fn text(reports: &[Report]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for report in reports {
        for (group, measure) in
            report.groups.iter().flat_map(|group| group.measures.iter().map(move |one| (group, one)))
        {
            for line in &measure.lines {
                writer.write_record(report.sides.iter().cloned().chain(record(group.name, measure, line)))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Group;
    use crate::verdict::{Direction, Verdict};

    #[test]
    fn names_of_any_kind_stay_in_their_field() {
        let line = Line {
            of: "a,\"b\"\r\nc".to_owned(),
            a: Some(Quantity::Count(1)),
            b: None,
            change: None,
            verdict: Some(Verdict::Neither),
            error: None,
        };
        let measure = Measure { name: "m", unit: "u", direction: Direction::Lower, lines: vec![line], pooled: None };
        let groups = vec![Group { name: "g", measures: vec![measure] }];
        let report = Report { sides: ["x".to_owned(), "y,z".to_owned()], groups, ..Report::default() };
        let text = String::from_utf8(text(&[report]).unwrap()).unwrap();
        assert!(text.ends_with("x,\"y,z\",g,m,u,\"a,\"\"b\"\"\r\nc\",1,,,neither,\r\n"), "{text}");
    }
}
