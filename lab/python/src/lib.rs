//! Python bindings of the laboratory, built as a wheel. The functions of the module are the commands that return a
//! report.
//!
//! A call is processed like a command line. [`keywords`] derives the parameters of a function from clap's definition
//! and converts a call to arguments. The command then runs as it does for a user. [`tables`] converts the tables of its
//! report to Arrow, and [`rows`] the rows of a recording, batch by batch. [`stubs`] writes the signatures and
//! docstrings for type checkers and users. All of these are plain Rust and need no Python. The part that needs Python
//! is in `extension`, behind the feature of that name, which maturin enables.

#[cfg(feature = "extension")]
mod extension;
pub mod keywords;
pub mod rows;
pub mod stubs;
pub mod tables;
