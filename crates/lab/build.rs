//! Notes the commit that the program is built from, so that results can name it.
//!
//! Without git, or outside of a repository, nothing is noted and results say so; the build never fails for it.

use std::process::Command;

fn main() {
    // A commit, or a change to what the program is made of, makes the note stale. The log moves with every commit.
    for place in ["../../.git/logs/HEAD", "../core/src", "../trace/src", "src", "build.rs"] {
        println!("cargo::rerun-if-changed={place}");
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."]).unwrap_or_default();
    let changed = if changes.is_empty() { "" } else { " and uncommitted changes" };
    println!("cargo::rustc-env=FREEHOLD_COMMIT={commit}{changed}");
}

/// What git prints, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
