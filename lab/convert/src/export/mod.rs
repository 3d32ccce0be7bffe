//! Export of recordings to files of other tools, and to recordings without names.
//!
//! ```text
//! anonymous  a recording without the names of the machine's programs and drivers
//! chrome     the JSON of traces for Perfetto and chrome://tracing: events over time
//! pprof      a profile: allocations by task, kind of request and order
//! walk       the rows of a recording, one by one, for `chrome` and `pprof`
//! ```
//!
//! Rows are streamed. A file gets its name when it is complete.

mod anonymous;
mod chrome;
mod pprof;
mod tracks;
mod walk;

pub use anonymous::anonymize;
pub use chrome::chrome;
pub use pprof::pprof;
pub use walk::ExportSummary;
