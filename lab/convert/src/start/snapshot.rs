//! Reader of a Freehold snapshot, or of the start state of a recording, as flags.

use std::path::Path;

use freehold_trace::event::Section;
use freehold_trace::recording::Recording;

use super::memory_state::MemoryState;
use crate::error::Error;

/// Reads a snapshot or a recording.
///
/// # Errors
/// If the file is neither, or its kernel is unknown.
pub(crate) fn read(path: &Path) -> Result<MemoryState, Error> {
    let recording = Recording::open_any(path)?;
    let mut known = MemoryState::unknown(recording.reader.facts().clone());
    for row in recording.reader.rows() {
        let row = row?;
        if row.kind.section() != Section::Start {
            break;
        }
        known.apply(&row);
    }
    Ok(known)
}
