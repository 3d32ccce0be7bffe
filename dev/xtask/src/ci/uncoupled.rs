//! Uncoupled: what the engine does when two flag values that happen to coincide no longer do.
//!
//! Linux gives `ALLOC_MIN_RESERVE` and `ALLOC_KSWAPD` the values of two GFP flags, and the *coupled* conversion copies
//! those bits. First a build that copies although the values differ must be refused by the compiler, or the proof in
//! `engine/core/src/policy/flags.rs` proves nothing. Then the core's units must pass in a build with other values that
//! does not copy, and the rules by which requests are judged; by night all tests of what pages do: no other line leans on
//! the coincidence. Objects ask for pages by the same conversion, so their own tests would say no more. All of it builds
//! into a folder of its own.

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

/// Of these, what the gate has time for.
const GATE_TESTS: &[&str] = &["boot::", "rules::", "--skip", "contig::", "--skip", "slab::"];

/// Runs both parts, as far as the gate has time for them.
///
/// # Errors
/// [`Error::Failed`] when the bad build is not refused, or for another reason; the failure of the tests.
pub(crate) fn sample() -> Result<Outcome, Error> {
    run(GATE_TESTS)
}

/// Runs both parts.
///
/// # Errors
/// As [`sample`].
pub(crate) fn full() -> Result<Outcome, Error> {
    run(PAGE_TESTS)
}

fn run(filter: &[&str]) -> Result<Outcome, Error> {
    let mut check = with_flags(&[UNCOUPLED, FORCE_COUPLED], &["check", "--quiet"]);
    planted::find(&mut check, ASSERTION, "copies bits whose values differ, and yet it compiles")?;
    command::run(&mut with_flags(&[UNCOUPLED], &["test", "--lib"]))?;
    command::run(with_flags(&[UNCOUPLED], &["test", "--test", "it"]).arg("--").args(filter))?;
    Ok(Outcome::Passed)
}

/// `cargo TASK` on the core with these compiler flags and no others, whatever the user's settings add.
fn with_flags(flags: &[&str], task: &[&str]) -> Command {
    let mut command = cargo();
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).args(task).args(["--package", "freehold"]);
    command.arg("--target-dir").arg(workspace::target().join("uncoupled"));
    command
}
