//! `cargo xtask ci`: every check that a change must pass, in one command, cheapest first.
//!
//! The two commands of the README are read from the README, so what it promises is what is run. What takes longer than
//! a change can wait for is in [`nightly`](crate::nightly), which shares some of these checks.

mod book;
pub(crate) mod boot;
mod conformance;
mod group;
pub(crate) mod loom;
mod malloc;
pub(crate) mod planted;
mod profile;
pub(crate) mod python;
mod readme;
mod sandbox;
pub(crate) mod sanitizer;
mod smoke;
pub(crate) mod soak;
mod spelling;
mod stages;
pub(crate) mod uncoupled;

pub(crate) use stages::STAGES;
