//! Walk over the rows of a recording, shared by all exports.

use std::path::Path;

use freehold_report::progress::Progress;
use freehold_trace::event::{Row, Section};
use freehold_trace::recording::Recording;

use crate::error::Error;

/// The outcome of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Calls `visit` with every start-state row and every event of a recording, in order.
pub(super) fn for_each(recording: &Recording, mut visit: impl FnMut(&Row) -> Result<(), Error>) -> Result<(), Error> {
    let progress =
        Progress::counting(format!("reading {}", recording.path.display()), recording.reader.row_count(), "rows");
    for batch in recording.reader.batches() {
        let batch = batch?;
        for row in batch.rows().filter(|row| row.kind.section() != Section::End) {
            visit(&row)?;
        }
        progress.advance(batch.len() as u64);
    }
    Ok(())
}

/// Returns a function for `map_err` that creates the error of a failed write.
pub(super) fn unwritten(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| freehold_report::output::OutputError::Write { path: path.clone(), source }.into()
}
