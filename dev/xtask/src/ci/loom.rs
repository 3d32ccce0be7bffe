//! Loom: protocols without a lock, in every order of steps that the memory model allows.
//!
//! The tests are a workspace of their own (`engine/loom`) and build into a folder of their own, with the engine's
//! sources on the checker's atomics. Without backtraces: a panic that is taken from a coroutine is printed there, and a
//! lock that std holds for it may stay locked for ever.

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// Scenes with more orders than the gate has time for.
const LONG: [&str; 3] = [
    "a_list_is_drained_while_its_slab_is_freed_into_here_and_elsewhere",
    "a_slab_is_settled_while_it_is_freed_into",
    "the_first_free_of_the_owner_meets_the_end_of_the_slab",
];

/// All scenes but the long ones.
///
/// # Errors
/// The failure of the tests.
pub(crate) fn sample() -> Result<Outcome, Error> {
    run(&LONG)
}

/// All scenes.
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
