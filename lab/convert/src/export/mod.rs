//! Recordings as files for other tools.
//!
//! ```text
//! chrome  the JSON of traces that Perfetto and chrome://tracing open: what went on, over time
//! pprof   a profile: who allocates what
//! ```
//!
//! Rows are streamed. A file has its name when it is whole.

mod chrome;
mod pprof;
mod tracks;

use std::path::Path;

use freehold_report::progress::Progress;
use freehold_trace::event::{Row, Section};
use freehold_trace::recording::Recording;

use crate::error::Error;

pub use chrome::chrome;
pub use pprof::pprof;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Bytes of the file.
    pub bytes: u64,
}

/// Calls `visit` with every row of the start and every event of a recording, in order.
fn for_each(recording: &Recording, mut visit: impl FnMut(&Row) -> Result<(), Error>) -> Result<(), Error> {
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

/// For `map_err`: a file could not be written.
fn unwritten(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| freehold_report::output::OutputError::Write { path: path.clone(), source }.into()
}
