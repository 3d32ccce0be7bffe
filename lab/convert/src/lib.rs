//! Files of other tools become recordings, and recordings become files of other tools.
//!
//! In: [`Import`] reads `perf.data` ([`perf`]), `trace.dat` ([`tracecmd`]) and what both tools and the kernel print
//! ([`text`]); [`kind`] tells them apart. Each hands on items ([`item`]), which [`survey`] counts, holds against each
//! other ([`pairs`]) and lets wait ([`spool`]). Events that cannot be used are counted by reason ([`drops`]). What part
//! of the machine's events a file has is in [`coverage`], and whether that is enough in [`expect`]. What is known of the
//! machine, or guessed, is in [`machine`]; how memory lay, in [`start`]; [`settle`](mod@settle) makes the start state of
//! both and of the events, and [`import`] puts the recording together. What came of it is [`ImportSummary`].
//!
//! Out: [`export`] writes what viewers of traces and of profiles open.
//!
//! No file is trusted. What it says is held against what is there before anything is reserved or believed, and what no
//! machine can have made is left out and counted. Nothing is left of a recording that cannot be written whole.

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
pub use export::{ExportSummary, chrome, pprof};
pub use import::{Import, SyntheticStart};
pub use imported::{ImportSummary, PairCounts, StartKind};
pub use machine::MachineOverrides;
