//! Export of recordings to files of other tools.
//!
//! ```text
//! chrome  the JSON of traces for Perfetto and chrome://tracing: events over time
//! pprof   a profile: allocations by task, kind of request and order
//! walk    the rows of a recording, one by one, for both
//! ```
//!
//! Rows are streamed. A file gets its name when it is complete.

mod chrome;
mod pprof;
mod tracks;
mod walk;

pub use chrome::chrome;
pub use pprof::pprof;
pub use walk::ExportSummary;
