//! Inputs of commands that take several recordings: snapshots among them are passed over.

use std::path::{Path, PathBuf};

use freehold_report::notes;
use freehold_trace::Reader;

use crate::error::Error;

/// Returns the files without snapshots, which have no events, and prints a note that names the snapshots. A single file
/// is returned unchanged, so that the command that opens it reports the reason. So is a file that cannot be read.
///
/// # Errors
/// If all of several files are snapshots.
pub(crate) fn without_snapshots(files: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let (snapshots, recordings): (Vec<PathBuf>, Vec<PathBuf>) =
        files.iter().cloned().partition(|file| files.len() > 1 && is_snapshot(file));
    if snapshots.is_empty() {
        return Ok(recordings);
    }
    if recordings.is_empty() {
        return Err(Error::Input(format!(
            "all {} files are snapshots, which have no events; name a file of `freehold record`",
            snapshots.len()
        )));
    }
    let names: Vec<String> = snapshots.iter().map(|file| file.display().to_string()).collect();
    notes::print(&format!("passed over snapshots, which have no events: {}", names.join(", ")));
    Ok(recordings)
}

fn is_snapshot(file: &Path) -> bool {
    // Opening a pipe would wait for its writer.
    file.is_file() && Reader::open(file).is_ok_and(|reader| reader.facts().is_snapshot())
}
