//! Import of other tools' files to recordings, and export of recordings to other tools' files.
//!
//! Import:
//!
//! 1. [`kind`] detects the format, and [`Import`] reads `perf.data` ([`perf`]), `trace.dat` ([`tracecmd`]) or the text
//!    that both tools and the kernel print ([`text`]). Each reader returns items ([`item`]).
//! 2. [`survey`] counts the items, compares them with each other ([`pairs`]), and stores the rows until they are
//!    written ([`spool`]). Events that cannot be used are counted by reason ([`drops`]).
//! 3. [`expect`] checks that the events suffice for a recording, also by the file's [`coverage`] of the machine.
//! 4. [`machine`] determines the facts about the machine, or guesses them. [`start`] reads the state of memory at the
//!    start. [`settle`](mod@settle) combines both with the events into the start state.
//! 5. [`import`] writes the recording. Its summary is [`ImportSummary`].
//!
//! Export: [`export`] writes files for viewers of traces and of profiles, and recordings without names.
//!
//! No file is trusted. Sizes in a file are compared with the existing bytes before memory is reserved for them. Events
//! that no machine can produce are left out and counted. If a recording cannot be written completely, no file remains.

mod bytes;
mod coverage;
mod drops;
mod error;
mod expect;
mod export;
mod gfp;
mod import;
mod imported;
mod input;
mod item;
mod kind;
mod machine;
mod pairs;
mod perf;
mod records;
mod settle;
mod spool;
mod start;
mod survey;
mod tasks;
mod text;
mod tracecmd;
mod tracing;

pub use drops::DropRow;
pub use error::Error;
pub use export::{ExportSummary, anonymize, chrome, pprof};
pub use import::{Import, SyntheticStart};
pub use imported::{ImportSummary, PairCounts, StartKind};
pub use machine::MachineOverrides;
