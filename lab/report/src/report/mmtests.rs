//! The measures of a report as the table that kernel developers paste: both sides, and in brackets what B gains.
//!
//! As in mmtests, the gain is positive where B is better: for what should be low, `(A - B) / A`, in rows named Amean;
//! for what should be high, `(B - A) / A`, in rows named Hmean. Every case has a row, which is of one run. Measures of
//! which neither way is better are left out, and so is what carries no verdict: a last line says how many rows that
//! are.

use super::{Measure, Report, Row};
use crate::number::Quantity;
use freehold_stats::verdict::Direction;

/// The text of a report.
pub fn text(report: &Report) -> String {
    let measures = report.groups.iter().flat_map(|group| &group.measures);
    let judged = measures.filter(|measure| measure.direction != Direction::Neutral);
    let judged_rows = judged.flat_map(|measure| measure.rows.iter().map(move |row| (measure, row)));
    let rows: Vec<[String; 3]> = judged_rows.filter_map(|(measure, row)| cells(measure, row)).collect();
    let [a, b] = report.sides.clone();
    let head = [String::new(), a, b];
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2].map(width);
    let line = |row: &[String; 3]| {
        format!("{:<w0$}  {:>w1$}  {:>w2$}\n", row[0], row[1], row[2], w0 = widths[0], w1 = widths[1], w2 = widths[2])
    };
    let table: String = [&head].into_iter().chain(&rows).map(line).collect();
    table + &left_out(report)
}

/// How much is not judged, as a line.
fn left_out(report: &Report) -> String {
    let rows = report.groups.iter().flat_map(|group| &group.measures).flat_map(|measure| &measure.rows);
    let unjudged = rows.filter(|row| !row.is_same() && row.a.is_some() && row.verdict.is_none()).count();
    match unjudged {
        0 => String::new(),
        1 => "(1 row left out: the replay is too far off there)\n".to_owned(),
        rows => format!("({rows} rows left out: the replay is too far off there)\n"),
    }
}

fn cells(measure: &Measure, row: &Row) -> Option<[String; 3]> {
    let (a, b) = row.verdict.and(row.a.map(Quantity::value).zip(row.b.map(Quantity::value)))?;
    let better = if measure.direction == Direction::Lower { a - b } else { b - a };
    let gain = if a == b { "(0.00%)".to_owned() } else { format!("({:.2}%)", 100.0 * better / a) };
    let gain = if a == 0.0 && b != 0.0 { "(-)".to_owned() } else { gain };
    let cell = |number: f64, gain: &str| format!("{number:.2} {gain:>10}");
    let mean = if measure.direction == Direction::Lower { "Amean" } else { "Hmean" };
    Some([format!("{mean}     {}-{}", measure.name, row.case), cell(a, "(0.00%)"), cell(b, &gain)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Group;
    use freehold_stats::verdict::Verdict;

    fn gains(direction: Direction, a: u64, b: u64) -> String {
        let (a, b) = (Some(Quantity::Count(a)), Some(Quantity::Count(b)));
        let row = Row { case: "x".to_owned(), a, b, change: None, verdict: Some(Verdict::Better), ..Row::default() };
        let measure = Measure { name: "m", unit: "u", direction, rows: vec![row], pooled: None };
        let groups = vec![Group { name: "g", measures: vec![measure] }];
        text(&Report { sides: ["A".to_owned(), "B".to_owned()], groups, ..Report::default() })
    }

    #[test]
    fn a_gain_is_positive_where_b_is_better() {
        assert!(gains(Direction::Lower, 200, 100).contains("100.00   (50.00%)"));
        assert!(gains(Direction::Lower, 100, 200).contains("(-100.00%)"));
        assert!(gains(Direction::Higher, 100, 150).contains("(50.00%)"));
        assert!(gains(Direction::Lower, 0, 0).lines().nth(1).unwrap().ends_with("(0.00%)"));
        assert!(gains(Direction::Lower, 0, 3).lines().nth(1).unwrap().ends_with("(-)"));
        assert_eq!(gains(Direction::Neutral, 1, 2).lines().count(), 1);
    }
}
