//! Dependencies, checked by `cargo deny` with the rules in `deny.toml`.
//!
//! `cargo deny` takes minutes to install, so these stages run at night only. They are skipped on a machine without it.

use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::cargo;

/// Checks licences, and that every package comes from crates.io. Needs no network.
///
/// # Errors
/// Returns an error if a package breaks a rule in `deny.toml`.
pub(crate) fn licences() -> Result<Outcome, Error> {
    if !is_installed() {
        return Ok(missing());
    }
    command::run(deny().args(["--offline", "check", "licenses", "sources"])).map(|()| Outcome::Passed)
}

/// Checks the versions in `Cargo.lock` against the RustSec advisory database, which is downloaded first. The stage is
/// skipped if the download fails.
///
/// # Errors
/// Returns an error if an advisory applies to a package.
pub(crate) fn advisories() -> Result<Outcome, Error> {
    if !is_installed() {
        return Ok(missing());
    }
    if command::output(deny().args(["fetch", "db"])).is_err() {
        let sentence = "the advisory database cannot be downloaded; `cargo deny fetch db` prints the cause";
        return Ok(Outcome::Skipped(sentence.to_owned()));
    }
    command::run(deny().args(["check", "--disable-fetch", "advisories"])).map(|()| Outcome::Passed)
}

fn is_installed() -> bool {
    command::output(deny().arg("--version")).is_ok()
}

fn missing() -> Outcome {
    Outcome::Skipped("`cargo deny` is missing; run `cargo install --locked cargo-deny`".to_owned())
}

fn deny() -> Command {
    let mut command = cargo();
    command.arg("deny");
    command
}
