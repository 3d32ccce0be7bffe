//! The laboratory in Python: one wheel, whose functions are the commands that answer questions.
//!
//! A call takes the same way as a command line does. [`keywords`] reads off clap's definition which keywords a function
//! takes and turns them into arguments; the laboratory answers those as it would a person; [`tables`] makes Arrow of
//! what the answer has, and [`rows`] of a recording, batch by batch. [`stubs`] writes down for type checkers and people
//! what functions there are. All of this is plain Rust and needs no Python: what does is in `extension`, behind the
//! feature of that name, which maturin builds with.

#[cfg(feature = "extension")]
mod extension;
pub mod keywords;
pub mod rows;
pub mod stubs;
pub mod tables;
