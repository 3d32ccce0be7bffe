//! A snapshot of Freehold's, or the start state of a recording, as flags again.

use std::path::Path;

use freehold_trace::event::Section;
use freehold_trace::recording::Recording;

use super::memory_state::MemoryState;
use crate::error::Error;

/// Reads it.
///
/// # Errors
/// When it is no recording, or of a kernel that is not known.
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
