//! What a kernel did, and what the engine does on the same recordings: row by row, run by run.

use std::path::Path;

use freehold_replay::report::fidelity::FidelityRow;
use freehold_replay::{Conditions, PreparedReplay, ReclaimMode, Setting};
use freehold_report::number::change;
use freehold_stats::samples::{self, Comparison, Sample, Scale};
use freehold_stats::verdict::Direction;
use freehold_trace::recording::Recording;

use crate::error::Error;
use crate::failures::Failures;

/// What both did in all runs of a cell, by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// A row's name, what the kernel did, and what the engine did, run by run.
    pub(crate) rows: Vec<(String, Sample, Sample)>,
    /// Requests that failed.
    pub(crate) failures: Failures,
}

impl Runs {
    /// What so many recordings gave. A row that some of them lack has no spread to speak of.
    fn new((rows, failures): (Rows, Failures), recordings: usize) -> Runs {
        let whole = rows.into_iter().filter(|(_, kernel, _)| kernel.len() == recordings);
        let rows = whole.map(|(name, kernel, engine)| (name, Sample::new(kernel), Sample::new(engine))).collect();
        Runs { rows, failures }
    }

    /// The row called `name`.
    pub(crate) fn row(&self, name: &str) -> Option<(&Sample, &Sample)> {
        self.rows.iter().find(|(row, ..)| row == name).map(|(_, kernel, engine)| (kernel, engine))
    }
}

/// Changes up to this are none.
pub(crate) const MARGIN: f64 = 0.02;

/// How the second group stands against the first, in this row, which is one of `family`.
pub(crate) fn judge(row: &str, a: &Sample, b: &Sample, family: usize) -> Comparison {
    let scale = if row.contains("index") { Scale::Numbers } else { Scale::Counts };
    samples::compare(a.clone(), b.clone(), scale, Direction::Neutral, family, MARGIN)
}

/// A change, and its interval where there is one.
pub(crate) fn with_interval(judged: &Comparison) -> String {
    let interval = judged.interval.map(|(low, high)| format!(" ({} to {})", change(Some(low)), change(Some(high))));
    change(judged.change) + &interval.unwrap_or_default()
}

/// How recordings are replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'w> {
    /// Under this policy; without one, under the rules of the kernel that was recorded.
    pub(crate) policy: Option<&'w str>,
    /// Under these settings, where they are not as they were recorded.
    pub(crate) settings: &'w [Setting],
}

/// Under the recorded kernel's rules, set as it was.
pub(crate) const AS_RECORDED: Way<'static> = Way { policy: None, settings: &[] };

/// Rows as they come, run by run.
type Rows = Vec<(String, Vec<f64>, Vec<f64>)>;

/// Replays each recording in each of these ways; it is read once.
///
/// # Errors
/// If one cannot be read or replayed.
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
