//! Build script that records the commit a program is built from, so that its results can name it.
//!
//! Sets `FREEHOLD_COMMIT` for the compiler, and `FREEHOLD_VERSION` with the commit and its date. Without git, or outside
//! the project's own repository, `FREEHOLD_VERSION` is only the version, and results state that the commit is unknown.
//! This file is the complete build script of `freehold-findings` and `freehold-validate`, and a module of the build
//! script of `freehold-cli`.
//!
//! A new commit changes only these variables, so cargo compiles only the packages of these build scripts again.

use std::path::Path;

use std::process::Command;

/// Folders whose changes cause cargo to run this script again.
const SOURCES: [&str; 3] = ["../../engine/core/src", "../../lab/trace/src", "src"];

/// Prints the instructions for cargo.
pub(crate) fn main() {
    // Git appends to this log with every commit and checkout. Cargo would run this script at each build if the file did
    // not exist.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    for place in SOURCES.into_iter().map(str::to_owned).chain(log) {
        println!("cargo::rerun-if-changed={place}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let Some((commit, date)) = commit() else {
        println!("cargo::rustc-env=FREEHOLD_VERSION={version}");
        return;
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", "../.."]).unwrap_or_default();
    let (changed, mark) = if changes.is_empty() { ("", "") } else { (" and uncommitted changes", ", changed") };
    println!("cargo::rustc-env=FREEHOLD_COMMIT={commit}{changed}");
    println!("cargo::rustc-env=FREEHOLD_VERSION={version} ({commit} {date}{mark})");
}

/// Returns the commit and its date, if the project is the whole repository. An archive that was unpacked inside another
/// repository has no commit.
fn commit() -> Option<(String, String)> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root).canonicalize().ok()? != Path::new("../..").canonicalize().ok()? {
        return None;
    }
    let shown = git(&["show", "--no-patch", "--abbrev=12", "--format=%h %cs", "HEAD"])?;
    shown.split_once(' ').map(|(commit, date)| (commit.to_owned(), date.to_owned()))
}

/// Runs git and returns its output if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
