//! `cargo xtask ci`: every check that a change must pass, in one command. The quickest checks run first.
//!
//! The two commands in the README are read from the README, so that the gate runs the commands that readers see. Checks
//! that take too long for a change are in [`nightly`](crate::nightly), which shares some of these modules.

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
pub(crate) mod storm;
pub(crate) mod uncoupled;

pub(crate) use stages::RUN;
