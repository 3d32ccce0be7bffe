//! Uncoupled flags: checks the engine in a build in which flag values that happen to coincide have different values.
//!
//! Linux gives `ALLOC_MIN_RESERVE` and `ALLOC_KSWAPD` the values of two GFP flags, and the *coupled* conversion copies
//! those bits. First, the compiler must refuse a build that copies the bits although the values differ. Otherwise the
//! proof in `engine/core/src/policy/flags.rs` proves nothing. Then the core's unit tests must pass in a build that has
//! other values and does not copy. In the nightly run, all integration tests of pages must pass in this build too,
//! which takes minutes to compile. No other line may depend on the coincidence. Requests of the slab for pages use the
//! same conversion, so the slab's own tests would add nothing. These builds have a folder of their own.

use std::process::Command;

use super::planted;
use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Compiler flag that gives the two flags different values.
const UNCOUPLED: &str = "--cfg=freehold_uncoupled";
/// Compiler flag that makes the build copy the bits nevertheless.
const FORCE_COUPLED: &str = "--cfg=freehold_force_coupled";
/// Modules of the core's integration tests that allocate pages and check the results.
const PAGE_TESTS: &[&str] =
    &["boot::", "compaction::", "contig::", "faults::", "model::", "rules::", "threads::", "--skip", "slab::"];
/// Part of the compiler's message when it refuses the bad build.
const ASSERTION: &str = "their values must coincide";

/// Expects the compiler to refuse the bad build, and runs the core's unit tests.
///
/// # Errors
/// Returns [`Error::Failed`] if the bad build compiles, the compiler's error if it fails for another reason, or the
/// failure of a test.
pub(crate) fn sample() -> Result<Outcome, Error> {
    let mut check = with_flags(&[UNCOUPLED, FORCE_COUPLED], &["check", "--quiet"]);
    planted::find(&mut check, ASSERTION, "copies bits whose values differ, but it compiles")?;
    command::run(&mut with_flags(&[UNCOUPLED], &["test", "--lib"]))?;
    Ok(Outcome::Passed)
}

/// Runs [`sample`], and then the integration tests of pages.
///
/// # Errors
/// As [`sample`].
pub(crate) fn full() -> Result<Outcome, Error> {
    sample()?;
    command::run(with_flags(&[UNCOUPLED], &["test", "--test", "it"]).arg("--").args(PAGE_TESTS))?;
    Ok(Outcome::Passed)
}

/// Returns the command `cargo TASK` for the core. The compiler flags are exactly `flags`; flags in the user's settings
/// are ignored.
fn with_flags(flags: &[&str], task: &[&str]) -> Command {
    let mut command = cargo();
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).args(task).args(["--package", "freehold"]);
    command.arg("--target-dir").arg(workspace::target().join("uncoupled"));
    command
}
