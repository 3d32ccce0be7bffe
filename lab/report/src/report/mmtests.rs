//! Renderer of the measures of a report as the table of mmtests, which kernel developers paste into mails: the values
//! of both sides, and the gain of B in brackets.
//!
//! As in mmtests, the gain is positive if B is better: `(A - B) / A` for measures that should be low, `(B - A) / A` for
//! measures that should be high. It is a dash if only A is zero. A row has one value for each side, so the value is not
//! called a mean. Rows without a better direction, and rows that are not judged or have too few events, are left out. A
//! last line counts the rows without a verdict.

use super::{Measure, Report, Row};
use crate::number::Quantity;
use freehold_stats::verdict::{Direction, count_labels};

/// Returns the table of a report.
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

/// Returns a line that counts the rows left out because of their label.
fn left_out(report: &Report) -> String {
    let rows = report.groups.iter().flat_map(|group| &group.measures).flat_map(|measure| &measure.rows);
    let left_out = count_labels(rows.map(|row| row.verdict)).filter(|(label, count)| !label.is_judged() && *count > 0);
    let counts: Vec<String> = left_out.map(|(label, count)| format!("{count} {}", label.word())).collect();
    if counts.is_empty() { String::new() } else { format!("(rows left out: {})\n", counts.join(", ")) }
}

fn cells(measure: &Measure, row: &Row) -> Option<[String; 3]> {
    let (a, b) = row.a.map(Quantity::value).zip(row.b.map(Quantity::value)).filter(|_| row.verdict.is_judged())?;
    let better = if measure.direction == Direction::Lower { a - b } else { b - a };
    let gain = if a == b { "(0.00%)".to_owned() } else { format!("({:.2}%)", 100.0 * better / a) };
    let gain = if a == 0.0 && b != 0.0 { "(-)".to_owned() } else { gain };
    let cell = |number: f64, gain: &str| format!("{number:.2} {gain:>10}");
    Some([format!("{}-{}", measure.name, row.case), cell(a, "(0.00%)"), cell(b, &gain)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_stats::verdict::Verdict;

    use crate::report::Group;

    fn gains(direction: Direction, a: u64, b: u64) -> String {
        let (a, b) = (Some(Quantity::Count(a)), Some(Quantity::Count(b)));
        let row = Row { case: "x".to_owned(), a, b, change: None, verdict: Verdict::Better, ..Row::default() };
        let measure = Measure { name: "m", title: "m", unit: "u", direction, rows: vec![row], pooled: None };
        let groups = vec![Group { name: "g", measures: vec![measure] }];
        text(&Report { sides: ["A".to_owned(), "B".to_owned()], groups, ..Report::default() })
    }

    #[test]
    fn gain_is_positive_if_b_is_better() {
        assert!(gains(Direction::Lower, 200, 100).contains("100.00   (50.00%)"));
        assert!(gains(Direction::Lower, 100, 200).contains("(-100.00%)"));
        assert!(gains(Direction::Higher, 100, 150).contains("(50.00%)"));
        assert!(gains(Direction::Lower, 0, 0).lines().nth(1).unwrap().ends_with("(0.00%)"));
        assert!(gains(Direction::Lower, 0, 3).lines().nth(1).unwrap().ends_with("(-)"));
        assert_eq!(gains(Direction::Neutral, 1, 2).lines().count(), 1);
    }
}
