//! Copy of a recording without the names that identify its machine's work.
//!
//! The rows are copied as they are, because names are only in the facts.

use std::fs;
use std::path::Path;

use freehold_report::progress::Progress;
use freehold_trace::Writer;
use freehold_trace::recording::Recording;

use super::walk::{ExportSummary, unwritten};
use crate::error::Error;

/// Writes a copy of a recording or a snapshot without names; see [`freehold_trace::anonymize::anonymize`]. Only its
/// owner can read the file.
///
/// # Errors
/// If the recording cannot be read, or the file cannot be written. No file remains then.
pub fn anonymize(recording: &Path, out: &Path) -> Result<ExportSummary, Error> {
    let Recording { reader, .. } = Recording::open_any(recording)?;
    let facts = freehold_trace::anonymize::anonymize(reader.facts().clone());
    let mut writer = Writer::create(out)?;
    let progress = Progress::counting(format!("copying {}", recording.display()), reader.row_count(), "rows");
    for batch in reader.batches() {
        let batch = batch?;
        for row in batch.rows() {
            writer.push(&row)?;
        }
        progress.advance(batch.len() as u64);
    }
    writer.finish(&facts)?;
    let bytes = fs::metadata(out).map_err(unwritten(out))?.len();
    Ok(ExportSummary { bytes })
}
