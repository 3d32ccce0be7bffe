//! Loom: checks lock-free protocols under every order of steps that the memory model allows.
//!
//! The tests are a workspace of their own (`engine/loom`). They compile the engine's sources with loom's atomics, into
//! a build folder of their own. Backtraces are off: loom prints a panic inside a coroutine, and a lock that std holds
//! while it takes the backtrace may then stay locked for ever.

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Tests with more orders of steps than the gate has time for.
const LONG: [&str; 3] = [
    "list_drain_during_local_and_remote_frees",
    "slab_settled_during_a_remote_free",
    "first_owner_free_at_the_end_of_the_slab",
];

/// Runs all tests except the long ones.
///
/// # Errors
/// Returns an error if a test fails.
pub(crate) fn sample() -> Result<Outcome, Error> {
    run(&LONG)
}

/// Runs all tests.
///
/// # Errors
/// As [`sample`].
pub(crate) fn full() -> Result<Outcome, Error> {
    run(&[])
}

fn run(left_out: &[&str]) -> Result<Outcome, Error> {
    command::run(cargo().args(["fmt", "--check", "--manifest-path", "engine/loom/Cargo.toml"]))?;
    let mut command = cargo();
    command.env("CARGO_ENCODED_RUSTFLAGS", "--cfg=loom").env("RUST_BACKTRACE", "0");
    command.args(["test", "--release", "--manifest-path", "engine/loom/Cargo.toml", "--target-dir"]);
    command.arg(workspace::target().join("loom")).arg("--").args(left_out.iter().flat_map(|&scene| ["--skip", scene]));
    command::run(&mut command).map(|()| Outcome::Passed)
}
