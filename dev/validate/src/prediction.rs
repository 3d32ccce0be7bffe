//! Predictions: recordings of one kernel, replayed as another kernel or under another setting, and compared with a real
//! kernel of that version or with that setting.
//!
//! Both kernels run the same workload on the same machine. The change from the first kernel to the second is the truth.
//! It has an interval, because kernels do not repeat exactly. The engine replays the recordings of the *first* kernel
//! as both kernels, and the change between these two replays is its prediction.

use std::fmt;
use std::path::PathBuf;

use freehold_replay::Setting;
use freehold_replay::advice::{Predictions, TrackRecord, metric_of_row};
use freehold_report::number::{change, percent};
use freehold_stats::verdict::Verdict;

use crate::cell::{Cell, Half, sample_of};
use crate::error::Error;
use crate::judge::{self, AS_RECORDED, MARGIN, Runs, Way, judge};
use crate::lab::Load;
use crate::suite::ROWS;
use crate::table::NamedTable;

/// Kernel that is recorded.
pub(crate) const FROM: &str = "6.12";
/// Kernels that its recordings are replayed as.
pub(crate) const KERNELS: [&str; 3] = ["6.18", "7.2", "7.3"];

/// Setting under which recordings are replayed.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Setting as `NAME=VALUE`.
    pub(crate) setting: &'static str,
    /// Workload, if few others would be affected by the setting.
    pub(crate) workload: Option<&'static str>,
}

/// Settings in the order in which pairs use them.
pub(crate) const TRIALS: [Trial; 7] = [
    Trial { setting: "vm.percpu_pagelist_high_fraction=1000", workload: None },
    Trial { setting: "vm.min_free_kbytes=16384", workload: None },
    Trial { setting: "transparent_hugepage.defrag=always", workload: Some("huge-pages") },
    Trial { setting: "vm.watermark_scale_factor=200", workload: None },
    Trial { setting: "vm.compaction_proactiveness=100", workload: Some("huge-pages") },
    Trial { setting: "transparent_hugepage.defrag=never", workload: Some("huge-pages") },
    Trial { setting: "vm.compaction_proactiveness=0", workload: Some("huge-pages") },
];

/// Setting whose author has published figures, and the cell on which it is predicted. 6.12, from which the other pairs
/// start, lacks it.
pub(crate) const PUBLISHED: (Cell, Trial) = (
    Cell { kernel: "7.2", workload: "huge-pages", cpus: 4, memory: 512 },
    Trial { setting: "vm.defrag_mode=1", workload: None },
);

/// Difference between the second kernel and the first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Version of the second kernel.
    Kernel(&'static str),
    /// Setting of the second kernel.
    Setting(&'static str),
}

impl Change {
    /// Returns the load of the second kernel, given the cell of the first.
    pub(crate) fn applied_to(self, cell: &Cell) -> Load {
        match self {
            Change::Kernel(version) => Load::new(&cell.on(version)),
            Change::Setting(setting) => Load { cell: cell.clone(), setting: Some(setting.to_owned()) },
        }
    }
}

/// Returns cells of the first kernel, each with a change: `count` pairs of kernels, and as many pairs of settings on
/// the same cells. A setting with its own workload replaces the workload of its cell. There are fewer pairs if there
/// are not enough cells. The last pair is [`PUBLISHED`].
pub(crate) fn pairs(count: usize, seed: u64) -> Vec<(Cell, Change)> {
    // Not every kernel can run every workload, so more cells are drawn than needed.
    let mut cells = sample_of(&[FROM], 3 * count, seed);
    let of_kernels = KERNELS.into_iter().cycle().take(count).filter_map(|to| {
        let at = cells.iter().position(|cell| cell.on(to).is_possible())?;
        Some((cells.remove(at), Change::Kernel(to)))
    });
    let of_kernels: Vec<(Cell, Change)> = of_kernels.collect();
    let of_settings = of_kernels.iter().zip(TRIALS.iter().cycle()).map(|((cell, _), trial)| {
        let cell = Cell { workload: trial.workload.unwrap_or(cell.workload), ..cell.clone() };
        (cell, Change::Setting(trial.setting))
    });
    let (cell, Trial { setting, .. }) = PUBLISHED;
    of_kernels.iter().cloned().chain(of_settings).chain([(cell, Change::Setting(setting))]).collect()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Kernel(what) | Change::Setting(what) => f.write_str(what),
        }
    }
}

/// Pair on one cell: a kernel, and the change that is predicted.
#[derive(Debug)]
pub(crate) struct PredictedRow {
    /// Cell of the first kernel.
    pub(crate) cell: Cell,
    /// Difference of the second kernel.
    pub(crate) to: Change,
    /// Prediction and truth, or the reason for which there are none.
    pub(crate) outcome: Result<Prediction, String>,
}

/// Runs that a prediction is computed from.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// Runs of the first kernel, replayed under its own rules.
    pub(crate) before: Runs,
    /// Recordings of the first kernel, replayed as the second kernel.
    pub(crate) after: Runs,
    /// Runs of the second kernel.
    pub(crate) truth: Runs,
}

/// One row of one prediction.
struct Row {
    name: &'static str,
    /// Predicted relative change; infinite if the engine's value is zero before the change only.
    predicted: f64,
    truth: Option<f64>,
    interval: Option<(f64, f64)>,
    verdict: Verdict,
}

impl Prediction {
    /// Replays the recordings of the first kernel as both kernels, and those of the second kernel under its own rules.
    ///
    /// # Errors
    /// Returns an error if a recording cannot be read or replayed.
    pub(crate) fn measure(to: Change, [before, after]: [&[PathBuf]; 2]) -> Result<Prediction, Error> {
        let settings: Vec<Setting>;
        let policy: String;
        let way = match to {
            Change::Kernel(version) => {
                policy = format!("linux-{version}");
                Way { policy: Some(&policy), ..AS_RECORDED }
            }
            Change::Setting(setting) => {
                settings = vec![setting.parse().map_err(Error::Input)?];
                Way { settings: &settings, ..AS_RECORDED }
            }
        };
        let [before, predicted] = judge::replay(before, [AS_RECORDED, way])?;
        let [truth] = judge::replay(after, [AS_RECORDED])?;
        Ok(Prediction { before, after: predicted, truth })
    }

    fn rows(&self) -> Vec<Row> {
        ROWS.iter().filter_map(|(row, name)| self.row(row, name)).collect()
    }

    /// Returns a row of the prediction, if the kernel's value is not zero both before and after.
    fn row(&self, row: &str, name: &'static str) -> Option<Row> {
        let (kernel_before, engine_before) = self.before.row(row)?;
        let (_, engine_after) = self.after.row(row)?;
        let (kernel_after, _) = self.truth.row(row)?;
        if kernel_before.mean == 0.0 && kernel_after.mean == 0.0 {
            return None;
        }
        let truth = judge(row, kernel_before, kernel_after, 1);
        let predicted = judge(row, engine_before, engine_after, 1);
        let from_nothing = if engine_after.mean > 0.0 { f64::INFINITY } else { 0.0 };
        Some(Row {
            name,
            predicted: predicted.change.unwrap_or(from_nothing),
            truth: truth.change,
            interval: truth.interval,
            verdict: truth.verdict,
        })
    }
}

impl Row {
    /// Returns whether the predicted direction is the kernel's, or `None` if the kernel's change is undecided.
    fn is_right(&self) -> Option<bool> {
        let predicted = self.predicted;
        match self.verdict {
            Verdict::NoChange => Some(predicted.abs() <= MARGIN),
            verdict if verdict.is_open() => None,
            _ => Some(predicted.abs() > MARGIN && predicted.signum() == self.truth?.signum()),
        }
    }

    /// Returns whether the predicted size is within the kernel's interval, or `None` without an interval.
    fn is_within(&self) -> Option<bool> {
        let (low, high) = self.interval?;
        Some((low..=high).contains(&self.predicted))
    }
}

/// Returns the table of all rows of all predictions.
pub(crate) fn table(predicted: &[PredictedRow]) -> NamedTable {
    let head = [
        "recorded",
        "half",
        "replayed as",
        "row",
        "predicted",
        "kernel",
        "interval of the kernel",
        "direction",
        "size",
    ];
    let done = predicted.iter().filter_map(|pair| Some((pair, pair.outcome.as_ref().ok()?)));
    let lines = done.flat_map(|(pair, prediction)| {
        prediction.rows().into_iter().map(|row| {
            let interval = row
                .interval
                .map_or("-".to_owned(), |(low, high)| format!("{} to {}", change(Some(low)), change(Some(high))));
            vec![
                pair.cell.name(),
                pair.cell.half().to_string(),
                pair.to.to_string(),
                row.name.to_owned(),
                change(Some(row.predicted).filter(|change| change.is_finite())),
                change(row.truth),
                interval,
                judgement_word(row.is_right()).to_owned(),
                judgement_word(row.is_within()).to_owned(),
            ]
        })
    });
    NamedTable::new("predictions", head, lines)
}

/// Returns the word for a judgement, which may be open.
fn judgement_word(is: Option<bool>) -> &'static str {
    match is {
        None => "open",
        Some(true) => "right",
        Some(false) => "wrong",
    }
}

/// Returns the scores of predictions by kind of change and by half of the grid. The table also has the scores of a
/// baseline that always predicts no change. This baseline is right about every row that does not change, so the engine
/// must be better than it.
pub(crate) fn scores(predicted: &[PredictedRow]) -> NamedTable {
    let (kernels, settings): (Vec<&PredictedRow>, Vec<&PredictedRow>) =
        predicted.iter().partition(|pair| matches!(pair.to, Change::Kernel(_)));
    let lines = [
        score("another kernel", kernels.into_iter()),
        score("another setting", settings.into_iter()),
        score("cells that are held out", predicted.iter().filter(|pair| pair.cell.half() == Half::HeldOut)),
        score("cells that are open", predicted.iter().filter(|pair| pair.cell.half() == Half::Open)),
        score("all", predicted.iter()),
    ];
    let head = [
        "predictions of",
        "pairs",
        "decided directions",
        "direction right",
        "direction right if nothing changed",
        "rows with an interval",
        "size within it",
        "size within it if nothing changed",
    ];
    NamedTable::new("scores", head, lines)
}

fn score<'p>(name: &str, pairs: impl Iterator<Item = &'p PredictedRow>) -> Vec<String> {
    let done: Vec<&Prediction> = pairs.filter_map(|pair| pair.outcome.as_ref().ok()).collect();
    let rows: Vec<Row> = done.iter().flat_map(|prediction| prediction.rows()).collect();
    let none: Vec<Row> = rows.iter().map(|row| Row { predicted: 0.0, ..*row }).collect();
    let (some, none) = (count_predictions(&rows), count_predictions(&none));
    vec![
        name.to_owned(),
        done.len().to_string(),
        some.decided.to_string(),
        share(some.right, some.decided),
        share(none.right, none.decided),
        some.with_interval.to_string(),
        share(some.within, some.with_interval),
        share(none.within, none.with_interval),
    ]
}

/// Counts how often predictions came true, for kernels and by the name of the setting.
pub(crate) fn track_record(predicted: &[PredictedRow]) -> TrackRecord {
    let mut record = TrackRecord::default();
    for (to, prediction) in predicted.iter().filter_map(|pair| Some((pair.to, pair.outcome.as_ref().ok()?))) {
        let of_change = match to {
            Change::Kernel(_) => &mut record.kernels,
            Change::Setting(setting) => {
                let name = setting.split_once('=').map_or(setting, |(name, _)| name);
                add_directions(&mut record, name, &prediction.rows());
                record.settings.entry(name.to_owned()).or_default()
            }
        };
        of_change.add(Predictions { pairs: 1, ..count_predictions(&prediction.rows()) });
    }
    record
}

/// Counts the directions of each metric under another value of a setting.
fn add_directions(record: &mut TrackRecord, setting: &str, rows: &[Row]) {
    for row in rows {
        if let Some((metric, is_right)) = metric_of_row(row.name).zip(row.is_right()) {
            let metrics = record.concerns.entry(setting.to_owned()).or_default();
            let directions = metrics.entry(metric.to_owned()).or_default();
            directions.decided += 1;
            directions.right += u32::from(is_right);
        }
    }
}

/// Counts the results of these rows. The number of pairs in the result is zero.
fn count_predictions(rows: &[Row]) -> Predictions {
    let mut predictions = Predictions { pairs: 0, decided: 0, right: 0, with_interval: 0, within: 0 };
    for row in rows {
        predictions.decided += u32::from(row.is_right().is_some());
        predictions.right += u32::from(row.is_right() == Some(true));
        predictions.with_interval += u32::from(row.is_within().is_some());
        predictions.within += u32::from(row.is_within() == Some(true));
    }
    predictions
}

/// Formats a count and its share of all.
fn share(so: u32, all: u32) -> String {
    if all == 0 { "-".to_owned() } else { format!("{so} ({})", percent(f64::from(so) / f64::from(all))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(predicted: f64, truth: f64, verdict: Verdict) -> Row {
        let interval = Some((truth - 0.1, truth + 0.1));
        Row { name: "x", predicted, truth: Some(truth), interval, verdict }
    }

    #[test]
    fn trial_settings_apply_to_guests_and_replays() {
        for Trial { setting, workload } in TRIALS.iter().chain([&PUBLISHED.1]) {
            let of_guest: freehold_boot::Setting = setting.parse().unwrap();
            let of_replay: Setting = setting.parse().unwrap();
            assert_eq!(of_guest.to_string(), of_replay.to_string());
            assert!(workload.is_none_or(|name| freehold_boot::Workload::find(name).is_ok()), "{workload:?}");
        }
    }

    #[test]
    fn direction_is_right_only_if_the_kernel_agrees() {
        assert_eq!(row(0.3, 0.5, Verdict::Changed).is_right(), Some(true));
        assert_eq!(row(-0.3, 0.5, Verdict::Changed).is_right(), Some(false));
        assert_eq!(row(0.01, 0.5, Verdict::Changed).is_right(), Some(false), "no change is no direction");
        assert_eq!(row(0.01, 0.0, Verdict::NoChange).is_right(), Some(true));
        assert_eq!(row(0.3, 0.0, Verdict::NoChange).is_right(), Some(false));
        assert_eq!(row(0.3, 0.2, Verdict::WithinNoise).is_right(), None);
    }

    #[test]
    fn pairs_are_possible_and_of_one_kernel() {
        let mut pairs = pairs(9, 1);
        assert_eq!(pairs.pop().map(|(cell, _)| cell), Some(PUBLISHED.0));
        assert_eq!(pairs.len(), 18);
        assert!(pairs.iter().all(|(cell, to)| cell.kernel == FROM && to.applied_to(cell).cell.is_possible()));
        let kernels: Vec<_> = pairs.iter().filter(|(_, to)| matches!(to, Change::Kernel(_))).collect();
        assert!(kernels.iter().all(|one| kernels.iter().filter(|other| other.0 == one.0).count() == 1));
    }

    #[test]
    fn right_predictions_are_counted() {
        let rows =
            [row(0.3, 0.5, Verdict::Changed), row(0.01, 0.5, Verdict::Changed), row(0.2, 0.2, Verdict::WithinNoise)];
        let expected = Predictions { pairs: 0, decided: 2, right: 1, with_interval: 3, within: 1 };
        assert_eq!(count_predictions(&rows), expected);
        assert_eq!((share(3, 4), share(0, 0)), ("3 (75.0 %)".to_owned(), "-".to_owned()));
    }

    #[test]
    fn size_is_right_within_the_kernels_interval() {
        assert_eq!(row(0.45, 0.5, Verdict::Changed).is_within(), Some(true));
        assert_eq!(row(0.3, 0.5, Verdict::Changed).is_within(), Some(false));
    }
}
