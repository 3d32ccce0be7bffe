//! `cargo xtask ci`: every check that a change must pass, in one command, cheapest first.
//!
//! The two commands of the README are read from the README, so what it promises is what is run. What takes longer than
//! a change can wait for is in [`nightly`](crate::nightly), which shares some of these checks.

mod book;
pub mod boot;
mod conformance;
mod group;
pub mod loom;
mod malloc;
pub mod planted;
mod profile;
pub mod python;
mod readme;
mod sandbox;
pub mod sanitizer;
mod smoke;
pub mod soak;
mod stages;
pub mod uncoupled;

pub use stages::STAGES;
