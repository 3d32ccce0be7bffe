//! Prediction: recorded under one kernel, replayed under the rules of another, held against that other one.
//!
//! Both kernels run the same workload on the same machine. What the second did against the first is the truth, and has an
//! interval, because kernels repeat only so well. The engine replays the *first* kernel's recordings under both kernels'
//! rules; what changes between these two replays is its prediction.

use freehold_measure::groups::{Scale, judge};
use freehold_measure::markdown;
use freehold_measure::number::{change, percent};
use freehold_measure::verdict::{Direction, Verdict, relative_change};

use crate::cell::Cell;
use crate::judge::Runs;
use crate::suite::ROWS;

/// Changes up to this are none.
const MARGIN: f64 = 0.02;

/// The kernel that is recorded, and those that it is replayed as.
pub const FROM: &str = "6.12";
/// See [`FROM`].
pub const TO: [&str; 3] = ["6.18", "7.2", "7.3"];

/// A pair of kernels on one cell.
#[derive(Debug)]
pub struct Predicted {
    /// The cell of the first kernel.
    pub cell: Cell,
    /// The second kernel's version.
    pub to: &'static str,
    /// What was predicted, and what came; or why there is nothing.
    pub outcome: Result<Prediction, String>,
}

/// The runs that a prediction stands on.
#[derive(Debug)]
pub struct Prediction {
    /// The first kernel's runs, replayed under its own rules.
    pub before: Runs,
    /// The same recordings, replayed under the rules of the second.
    pub after: Runs,
    /// The second kernel's runs.
    pub truth: Runs,
}

/// One row of one prediction.
struct Row {
    name: &'static str,
    predicted: Option<f64>,
    truth: Option<f64>,
    interval: Option<(f64, f64)>,
    verdict: Option<Verdict>,
}

impl Prediction {
    fn rows(&self) -> Vec<Row> {
        let row = |(row, name): &(&str, &'static str)| {
            let (kernel_before, engine_before) = self.before.row(row)?;
            let (_, engine_after) = self.after.row(row)?;
            let (kernel_after, _) = self.truth.row(row)?;
            if kernel_before.mean == 0.0 && kernel_after.mean == 0.0 {
                return None;
            }
            let scale = if row.contains("index") { Scale::Numbers } else { Scale::Counts };
            let truth = judge(kernel_before.clone(), kernel_after.clone(), scale, Direction::Neutral, 1, MARGIN);
            let predicted = relative_change(engine_before.mean, engine_after.mean);
            Some(Row { name, predicted, truth: truth.change, interval: truth.interval, verdict: truth.verdict })
        };
        ROWS.iter().filter_map(row).collect()
    }
}

impl Row {
    /// Whether the direction is the kernel's; nothing where the kernel leaves it open.
    fn is_right(&self) -> Option<bool> {
        let predicted = self.predicted?;
        match self.verdict? {
            Verdict::NoDifference => Some(predicted.abs() <= MARGIN),
            Verdict::Undecided => None,
            _ => Some(predicted.abs() > MARGIN && predicted.signum() == self.truth?.signum()),
        }
    }

    /// Whether the size is within the kernel's interval.
    fn is_within(&self) -> Option<bool> {
        let ((low, high), predicted) = (self.interval?, self.predicted?);
        Some((low..=high).contains(&predicted))
    }
}

/// Every row of every prediction.
pub fn table(predicted: &[Predicted]) -> String {
    let head = ["recorded", "replayed as", "row", "predicted", "the kernel", "its interval", "direction", "size"];
    let word = |is: Option<bool>| match is {
        None => "open",
        Some(true) => "right",
        Some(false) => "wrong",
    };
    let told = predicted.iter().filter_map(|pair| Some((pair, pair.outcome.as_ref().ok()?)));
    let lines = told.flat_map(|(pair, prediction)| {
        prediction.rows().into_iter().map(|row| {
            let interval = row
                .interval
                .map_or("-".to_owned(), |(low, high)| format!("{} to {}", change(Some(low)), change(Some(high))));
            vec![
                pair.cell.name(),
                pair.to.to_owned(),
                row.name.to_owned(),
                change(row.predicted),
                change(row.truth),
                interval,
                word(row.is_right()).to_owned(),
                word(row.is_within()).to_owned(),
            ]
        })
    });
    markdown::table(&head, lines)
}

/// What all of them come to, in sentences.
pub fn in_short(predicted: &[Predicted]) -> String {
    let rows: Vec<Row> =
        predicted.iter().filter_map(|pair| pair.outcome.as_ref().ok()).flat_map(Prediction::rows).collect();
    let decided: Vec<bool> = rows.iter().filter_map(Row::is_right).collect();
    let within: Vec<bool> = rows.iter().filter_map(Row::is_within).collect();
    let share = |all: &[bool]| {
        let right = all.iter().filter(|is| **is).count();
        format!("{right} of {} ({})", all.len(), percent(right as f64 / all.len().max(1) as f64))
    };
    format!(
        "Where kernels decide a direction, the prediction has it in {} rows; its size is within the kernel's interval in {}. \
         In {} rows the kernels' own spread leaves the direction open.",
        share(&decided),
        share(&within),
        rows.len() - decided.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(predicted: f64, truth: f64, verdict: Verdict) -> Row {
        let interval = Some((truth - 0.1, truth + 0.1));
        Row { name: "x", predicted: Some(predicted), truth: Some(truth), interval, verdict: Some(verdict) }
    }

    #[test]
    fn a_direction_is_right_only_with_the_kernel() {
        assert_eq!(row(0.3, 0.5, Verdict::Neither).is_right(), Some(true));
        assert_eq!(row(-0.3, 0.5, Verdict::Neither).is_right(), Some(false));
        assert_eq!(row(0.01, 0.5, Verdict::Neither).is_right(), Some(false), "no change is no direction");
        assert_eq!(row(0.01, 0.0, Verdict::NoDifference).is_right(), Some(true));
        assert_eq!(row(0.3, 0.0, Verdict::NoDifference).is_right(), Some(false));
        assert_eq!(row(0.3, 0.2, Verdict::Undecided).is_right(), None);
    }

    #[test]
    fn a_size_is_right_within_the_kernels_interval() {
        assert_eq!(row(0.45, 0.5, Verdict::Neither).is_within(), Some(true));
        assert_eq!(row(0.3, 0.5, Verdict::Neither).is_within(), Some(false));
    }
}
