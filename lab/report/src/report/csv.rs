//! Renderer of reports as CSV (RFC 4180), with unformatted numbers.
//!
//! If any report has measures, each line is one measure in one case. Otherwise each line is one cell of a table.

use std::io;

use super::{Measure, Report, Row};
use crate::number::Quantity;

/// Columns for measures.
const HEADER: [&str; 11] =
    ["policy_a", "policy_b", "group", "measure", "unit", "of", "a", "b", "change", "verdict", "replay_error"];

/// Columns for cells of tables.
const HEADER_OF_TABLES: [&str; 5] = ["table", "row", "column", "unit", "value"];

/// Returns the CSV of the reports, under one header.
///
/// # Errors
/// If a record cannot be written to memory.
pub fn text(reports: &[Report]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    match reports.iter().any(|report| !report.groups.is_empty()) {
        true => measures(reports, &mut writer)?,
        false => tables(reports, &mut writer)?,
    }
    writer.into_inner().map_err(|error| error.into_error())
}

fn measures(reports: &[Report], writer: &mut csv::Writer<Vec<u8>>) -> io::Result<()> {
    writer.write_record(HEADER)?;
    for report in reports {
        for (group, measure) in
            report.groups.iter().flat_map(|group| group.measures.iter().map(move |one| (group, one)))
        {
            for row in &measure.rows {
                writer.write_record(report.sides.iter().cloned().chain(record(group.name, measure, row)))?;
            }
        }
    }
    Ok(())
}

fn tables(reports: &[Report], writer: &mut csv::Writer<Vec<u8>>) -> io::Result<()> {
    writer.write_record(HEADER_OF_TABLES)?;
    for table in reports.iter().flat_map(|report| report.answers.iter().chain(&report.tables)) {
        for (number, row) in (1..).zip(&table.rows) {
            for (column, value) in table.columns.iter().zip(row) {
                let record = [&table.title, &u32::to_string(&number), &*column.name, column.unit, &value.bare()];
                writer.write_record(record)?;
            }
        }
    }
    Ok(())
}

fn record(group: &str, measure: &Measure, row: &Row) -> [String; 9] {
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
        row.case.clone(),
        bare(row.a),
        bare(row.b),
        number(row.change),
        row.verdict.word().to_owned(),
        number(row.replay_error),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Column, Group, Table, Value};
    use freehold_stats::verdict::{Direction, Verdict};

    #[test]
    fn report_without_measures_writes_its_tables_as_csv() {
        let rows = [vec![Value::text("a"), Value::count(1000)], vec![Value::text("b"), Value::None]];
        let table = Table::new("t", vec![Column::words("name"), Column::counting("size", "pages")], rows);
        let text = String::from_utf8(text(&[Report { tables: vec![table], ..Report::default() }]).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["t,1,name,,a", "t,1,size,pages,1000", "t,2,name,,b", "t,2,size,pages,"]);
    }

    #[test]
    fn special_characters_are_quoted_in_csv() {
        let row = Row {
            case: "a,\"b\"\r\nc".to_owned(),
            a: Some(Quantity::Count(1)),
            b: None,
            change: None,
            verdict: Verdict::Changed,
            ..Row::default()
        };
        let measure =
            Measure { name: "m", title: "m", unit: "u", direction: Direction::Lower, rows: vec![row], pooled: None };
        let groups = vec![Group { name: "g", measures: vec![measure] }];
        let report = Report { sides: ["x".to_owned(), "y,z".to_owned()], groups, ..Report::default() };
        let text = String::from_utf8(text(&[report]).unwrap()).unwrap();
        assert!(text.ends_with("x,\"y,z\",g,m,u,\"a,\"\"b\"\"\r\nc\",1,,,changed,\r\n"), "{text}");
    }
}
