//! Uncoupled: what the engine does when two flag values that happen to coincide no longer do.
//!
//! Linux gives `ALLOC_MIN_RESERVE` and `ALLOC_KSWAPD` the values of two GFP flags, and the *coupled* conversion copies
//! those bits. First a build that copies although the values differ must be refused by the compiler, or the proof in
//! `engine/core/src/policy/flags.rs` proves nothing. Then the core's unit tests must pass in a build with other values
//! that does not copy, and by night all integration tests of pages, whose build takes minutes: no other line may depend
//! on the coincidence. Objects ask for pages by the same conversion, so their own tests would add nothing. All of it
//! builds into a folder of its own.

use std::process::Command;

use super::planted;
use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Gives the two flags values of their own.
const UNCOUPLED: &str = "--cfg=freehold_uncoupled";
/// Flag that has the build copy the bits all the same.
const FORCE_COUPLED: &str = "--cfg=freehold_force_coupled";
/// Modules of the core's integration tests in which requests for pages are made and judged.
const PAGE_TESTS: &[&str] =
    &["boot::", "compaction::", "contig::", "faults::", "model::", "rules::", "threads::", "--skip", "slab::"];
/// Part of what the compiler then says.
const ASSERTION: &str = "their values must coincide";

/// Expects the bad build to be refused, and runs the core's unit tests.
///
/// # Errors
/// [`Error::Failed`] when the bad build is not refused, or for another reason; the failure of the tests.
pub(crate) fn sample() -> Result<Outcome, Error> {
    let mut check = with_flags(&[UNCOUPLED, FORCE_COUPLED], &["check", "--quiet"]);
    planted::find(&mut check, ASSERTION, "copies bits whose values differ, and yet it compiles")?;
    command::run(&mut with_flags(&[UNCOUPLED], &["test", "--lib"]))?;
    Ok(Outcome::Passed)
}

/// Does the same, and runs the integration tests of pages.
///
/// # Errors
/// As [`sample`].
pub(crate) fn full() -> Result<Outcome, Error> {
    sample()?;
    command::run(with_flags(&[UNCOUPLED], &["test", "--test", "it"]).arg("--").args(PAGE_TESTS))?;
    Ok(Outcome::Passed)
}

/// `cargo TASK` on the core with these compiler flags and no others, whatever the user's settings add.
fn with_flags(flags: &[&str], task: &[&str]) -> Command {
    let mut command = cargo();
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).args(task).args(["--package", "freehold"]);
    command.arg("--target-dir").arg(workspace::target().join("uncoupled"));
    command
}
