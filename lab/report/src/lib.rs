//! Reports, and how they are written out.
//!
//! [`report`] contains the model of a report and a renderer for each output format. [`number`], [`terminal`] and
//! [`markdown`] format numbers, terminal text and Markdown, and a [`data_table`] is written as Markdown and as CSV.
//! [`formats`] and [`output`] write results to stdout and to files, and [`origin`] identifies the command, the commit
//! and the machine behind a result. [`notes`] prints lines beside a result. [`progress`], [`observer`],
//! [`parallel`] and [`room`] serve long runs: progress lines, cancellation, worker threads and memory limits.

pub mod data_table;
pub mod formats;
pub mod markdown;
pub mod notes;
pub mod number;
pub mod observer;
pub mod origin;
pub mod output;
pub mod parallel;
pub mod progress;
pub mod report;
pub mod room;
pub mod terminal;
