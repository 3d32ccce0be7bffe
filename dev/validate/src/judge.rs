//! Results of a kernel and of the engine on the same recordings, row by row and run by run.

use std::path::Path;

use freehold_replay::report::fidelity::FidelityRow;
use freehold_replay::{Conditions, PreparedReplay, ReclaimMode, Setting};
use freehold_report::number::change;
use freehold_stats::samples::{self, Comparison, Sample, Scale};
use freehold_stats::verdict::Direction;
use freehold_trace::recording::Recording;

use crate::error::Error;
use crate::failures::Failures;

/// Results of both sides in all runs of a cell, by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// Name of each row, the kernel's values, and the engine's values, run by run.
    pub(crate) rows: Vec<(String, Sample, Sample)>,
    /// Requests that failed.
    pub(crate) failures: Failures,
}

impl Runs {
    /// Collects the results of `recordings` recordings. Rows that are missing in some recordings are left out, because
    /// their spread would be meaningless.
    fn new((rows, failures): (Rows, Failures), recordings: usize) -> Runs {
        let whole = rows.into_iter().filter(|(_, kernel, _)| kernel.len() == recordings);
        let rows = whole.map(|(name, kernel, engine)| (name, Sample::new(kernel), Sample::new(engine))).collect();
        Runs { rows, failures }
    }

    /// Returns the row with this name.
    pub(crate) fn row(&self, name: &str) -> Option<(&Sample, &Sample)> {
        self.rows.iter().find(|(row, ..)| row == name).map(|(_, kernel, engine)| (kernel, engine))
    }
}

/// Relative changes up to this size count as no change.
pub(crate) const MARGIN: f64 = 0.02;

/// Compares the second group with the first in this row, which is one of `family` rows that are compared together.
pub(crate) fn judge(row: &str, a: &Sample, b: &Sample, family: usize) -> Comparison {
    let scale = if row.contains("index") { Scale::Numbers } else { Scale::Counts };
    samples::compare(a.clone(), b.clone(), scale, Direction::Neutral, family, MARGIN)
}

/// Formats a change, and its interval if it has one.
pub(crate) fn with_interval(judged: &Comparison) -> String {
    let interval = judged.interval.map(|(low, high)| format!(" ({} to {})", change(Some(low)), change(Some(high))));
    change(judged.change) + &interval.unwrap_or_default()
}

/// Rules and settings of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'w> {
    /// Policy of the replay, or `None` for the rules of the recorded kernel.
    pub(crate) policy: Option<&'w str>,
    /// Settings that replace the recorded ones.
    pub(crate) settings: &'w [Setting],
}

/// Replay under the rules and settings of the recorded kernel.
pub(crate) const AS_RECORDED: Way<'static> = Way { policy: None, settings: &[] };

/// Rows in the order in which they first occur, with one value per run.
type Rows = Vec<(String, Vec<f64>, Vec<f64>)>;

/// Replays each recording in each of these ways. Each recording is read once.
///
/// # Errors
/// Returns an error if a recording cannot be read or replayed.
pub(crate) fn replay<const WAYS: usize>(
    files: &[impl AsRef<Path>],
    ways: [Way<'_>; WAYS],
) -> Result<[Runs; WAYS], Error> {
    let mut all: [(Rows, Failures); WAYS] = std::array::from_fn(|_| Default::default());
    for file in files {
        let recording = Recording::open(file.as_ref())?;
        let prepared = PreparedReplay::new(&recording.reader, ReclaimMode::Model)?;
        for ((rows, failures), Way { policy, settings }) in all.iter_mut().zip(ways) {
            let policy = freehold_policies::parse(policy.unwrap_or(recording.release.rules()))?;
            let conditions = Conditions { settings, ..Conditions::default() };
            let outcome = prepared.replay(&policy.name, policy.policy, conditions, |_| ())?;
            failures.push(&outcome.course);
            outcome.fidelity.into_iter().for_each(|row| add(rows, row));
        }
    }
    Ok(all.map(|one| Runs::new(one, files.len())))
}

fn add(rows: &mut Rows, row: FidelityRow) {
    let at = rows.iter().position(|(name, ..)| *name == row.measure.name()).unwrap_or_else(|| {
        rows.push((row.measure.name().to_owned(), Vec::new(), Vec::new()));
        rows.len() - 1
    });
    rows[at].1.push(row.recorded);
    rows[at].2.push(row.replayed);
}
