//! Recordings as files for other tools.
//!
//! ```text
//! chrome  the JSON of traces that Perfetto and chrome://tracing open: what went on, over time
//! pprof   a profile: who allocates what
//! walk    the rows of a recording, one by one, for both
//! ```
//!
//! Rows are streamed. A file has its name when it is whole.

mod chrome;
mod pprof;
mod tracks;
mod walk;

pub use chrome::chrome;
pub use pprof::pprof;
pub use walk::ExportSummary;
