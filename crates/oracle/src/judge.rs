//! What a kernel did, and what the engine does on the same recordings: row by row, run by run.

use std::path::Path;

use freehold_measure::groups::Group;
use freehold_replay::{Conditions, Prepared, ReclaimMode, Setting};
use freehold_trace::kernel::Release;
use freehold_trace::recording::Recording;

use crate::error::Error;

/// What both did in all runs of a cell, by row.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// A row's name, what the kernel did, and what the engine did, run by run.
    pub rows: Vec<(String, Group, Group)>,
}

impl Runs {
    /// The row called `name`.
    pub fn row(&self, name: &str) -> Option<(&Group, &Group)> {
        self.rows.iter().find(|(row, ..)| row == name).map(|(_, kernel, engine)| (kernel, engine))
    }
}

/// The rules of the kernel that made this recording.
pub fn own_rules(release: Release) -> String {
    release.rules().to_owned()
}

/// Replays each recording under the policy that `rules` names for its kernel, and under these settings.
///
/// # Errors
/// If one cannot be read or replayed.
pub fn replay(
    files: &[impl AsRef<Path>],
    rules: impl Fn(Release) -> String,
    settings: &[Setting],
) -> Result<Runs, Error> {
    let mut rows: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
    for file in files {
        let recording = Recording::open(file.as_ref())?;
        let policy = freehold_registry::parse(&rules(recording.release))?;
        let prepared = Prepared::new(&recording.reader, ReclaimMode::Model)?;
        let outcome = prepared.replay(&policy.name, policy.policy, Conditions { cpus: None, settings }, |_| ())?;
        for row in outcome.fidelity {
            let at = rows.iter().position(|(name, ..)| *name == row.name).unwrap_or_else(|| {
                rows.push((row.name.clone(), Vec::new(), Vec::new()));
                rows.len() - 1
            });
            rows[at].1.push(row.recorded);
            rows[at].2.push(row.replayed);
        }
    }
    // A row that some runs lack has no spread to speak of.
    rows.retain(|(_, kernel, _)| kernel.len() == files.len());
    let rows = rows.into_iter().map(|(name, kernel, engine)| (name, Group::of(kernel), Group::of(engine)));
    Ok(Runs { rows: rows.collect() })
}
