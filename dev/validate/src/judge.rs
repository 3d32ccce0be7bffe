//! Results of a kernel and of the engine on the same recordings, row by row and run by run.

use std::path::Path;

use freehold_replay::report::fidelity::FidelityRow;
use freehold_replay::{Conditions, PreparedReplay, ReclaimMode, Setting};
use freehold_report::number::change;
use freehold_stats::samples::{self, Comparison, Sample, Scale};
use freehold_stats::verdict::{Direction, EVENTS_MIN};
use freehold_trace::recording::Recording;

use crate::decisions::Decisions;
use crate::error::Error;
use crate::failures::Failures;

/// Results of both sides in all runs of a cell, by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// Name of each row, the kernel's values, and the engine's values, run by run.
    pub(crate) rows: Vec<(String, Sample, Sample)>,
    /// Names of rows with too few events: on average fewer than [`EVENTS_MIN`] in the kernel and in the engine.
    few: Vec<String>,
    /// Requests that failed.
    pub(crate) failures: Failures,
    /// Decisions about compaction.
    pub(crate) decisions: Decisions,
}

impl Runs {
    /// Collects the results of `recordings` recordings. Rows that are missing in some recordings are left out, because
    /// their spread would be meaningless.
    fn new((rows, failures, decisions): Parts, recordings: usize) -> Runs {
        let few = rows.iter().filter(|row| row.has_few_events()).map(|row| row.name.clone()).collect();
        let whole = rows.into_iter().filter(|row| row.kernel.len() == recordings);
        let rows = whole.map(|row| (row.name, Sample::new(row.kernel), Sample::new(row.engine))).collect();
        Runs { rows, few, failures, decisions }
    }

    /// Returns whether the row with this name has too few events for its error to mean anything.
    pub(crate) fn has_few_events(&self, name: &str) -> bool {
        self.few.iter().any(|few| few == name)
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

/// Rows in the order in which they first occur.
type Rows = Vec<RowValues>;

/// Results of all runs in one way.
type Parts = (Rows, Failures, Decisions);

/// Values of a row, one per run.
#[derive(Default)]
struct RowValues {
    name: String,
    kernel: Vec<f64>,
    engine: Vec<f64>,
    /// Numbers of events behind the kernel's and the engine's value, of the runs that have them.
    events: Vec<[f64; 2]>,
}

impl RowValues {
    fn has_few_events(&self) -> bool {
        let sums = self.events.iter().fold([0.0, 0.0], |sums, events| [sums[0] + events[0], sums[1] + events[1]]);
        sums.into_iter().all(|sum| sum < EVENTS_MIN * self.events.len() as f64)
    }
}

/// Replays each recording in each of these ways. Each recording is read once.
///
/// # Errors
/// Returns an error if a recording cannot be read or replayed.
pub(crate) fn replay<const WAYS: usize>(
    files: &[impl AsRef<Path>],
    ways: [Way<'_>; WAYS],
) -> Result<[Runs; WAYS], Error> {
    let mut all: [Parts; WAYS] = std::array::from_fn(|_| Default::default());
    for file in files {
        let recording = Recording::open(file.as_ref())?;
        let prepared = PreparedReplay::new(&recording.reader, ReclaimMode::Model)?;
        for ((rows, failures, decisions), Way { policy, settings }) in all.iter_mut().zip(ways) {
            let policy = freehold_policies::parse(policy.unwrap_or(recording.release.rules()))?;
            let conditions = Conditions { settings, ..Conditions::default() };
            let outcome = prepared.replay(&policy.name, policy.policy, conditions, |_| ())?;
            failures.push(&outcome.course);
            outcome.course.compaction.iter().for_each(|compared| decisions.push(compared));
            outcome.fidelity.into_iter().for_each(|row| add(rows, row));
        }
    }
    Ok(all.map(|one| Runs::new(one, files.len())))
}

fn add(rows: &mut Rows, row: FidelityRow) {
    let name = row.measure.name();
    let at = rows.iter().position(|known| known.name == name).unwrap_or_else(|| {
        rows.push(RowValues { name: name.to_owned(), ..RowValues::default() });
        rows.len() - 1
    });
    rows[at].kernel.push(row.recorded);
    rows[at].engine.push(row.replayed);
    rows[at].events.extend(row.events);
}

#[cfg(test)]
mod tests {
    use freehold_replay::report::fidelity::FidelityMeasure;

    use super::*;

    #[test]
    fn rows_with_few_events_on_both_sides_are_known() {
        let mut rows = Rows::new();
        for (measure, kernel, engine, events) in [
            (FidelityMeasure::AllocStalls, 4.0, 19.0, Some([4.0, 19.0])),
            (FidelityMeasure::FallbackSteals, 100.0, 0.0, Some([100.0, 0.0])),
            (FidelityMeasure::FreePages, 4.0, 4.0, None),
        ] {
            for _ in 0..2 {
                add(&mut rows, FidelityRow::new(measure, kernel, engine, None).with_events(events));
            }
        }
        let runs = Runs::new((rows, Failures::default(), Decisions::default()), 2);
        let few = ["allocstall", "fallback_steals", "free_pages"].map(|name| runs.has_few_events(name));
        assert_eq!((runs.rows.len(), few), (3, [true, false, false]));
    }
}
