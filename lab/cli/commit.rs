//! Build script that records the commit a program is built from, so that its results can name it.
//!
//! Sets `FREEHOLD_COMMIT` for the compiler. Without git, or outside a repository, nothing is set, and results state
//! that the commit is unknown. This file is the complete build script of `freehold-findings` and `freehold-validate`,
//! and a module of the build script of `freehold-cli`.

use std::process::Command;

/// Folders whose changes cause cargo to run this script again.
const SOURCES: [&str; 3] = ["../../engine/core/src", "../../lab/trace/src", "src"];

/// Prints the instructions for cargo.
pub(crate) fn main() {
    // Git appends to this log with every commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    for place in SOURCES.into_iter().map(str::to_owned).chain(log) {
        println!("cargo::rerun-if-changed={place}");
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", "../.."]).unwrap_or_default();
    let changed = if changes.is_empty() { "" } else { " and uncommitted changes" };
    println!("cargo::rustc-env=FREEHOLD_COMMIT={commit}{changed}");
}

/// Runs git and returns its output if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
