//! Reports and how they leave the program.
//!
//! [`report`] is the model of a report and has a renderer for each kind of reader. [`number`], [`terminal`] and
//! [`markdown`] format numbers, terminal text and Markdown; [`formats`], [`output`] and [`origin`] write files and name
//! the commit and machine they come from. [`progress`], [`observer`], [`parallel`] and [`room`] serve long runs:
//! progress lines, cancellation, worker threads and memory limits.

pub mod formats;
pub mod markdown;
pub mod number;
pub mod observer;
pub mod origin;
pub mod output;
pub mod parallel;
pub mod progress;
pub mod report;
pub mod room;
pub mod terminal;
