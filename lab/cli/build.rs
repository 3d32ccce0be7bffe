//! Notes the commit that the program is built from, so that results can name it; and builds the library that `freehold
//! run` preloads, so that the program carries it.
//!
//! Without git, or outside of a repository, nothing is noted and results say so. Where the library cannot be built, the
//! program carries an empty one, and looks for it beside itself. The build never fails for either.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    note_commit();
    let place = Path::new(&env::var_os("OUT_DIR").expect("cargo says where")).join("libfreehold.so");
    if let Err(reason) = build_library(&place) {
        println!("cargo::warning=`freehold run` will look for libfreehold.so beside itself: {reason}");
        fs::write(&place, []).expect("cargo's folder can be written to");
    }
}

/// The library is built in a profile of its own, by a cargo of its own, in a folder of its own.
fn build_library(place: &Path) -> Result<(), String> {
    for sources in [
        "../../engine/core/src",
        "../../malloc/heap/src",
        "../../malloc/heap/Cargo.toml",
        "../../malloc/preload",
        "../../Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={sources}");
    }
    let variable = |name: &str| env::var(name).map_err(|_| format!("cargo does not say {name}"));
    let target = variable("TARGET")?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    let profile = out.ancestors().nth(3).ok_or("cargo's folder has no profile above it")?;
    let folder = profile.join("preload-library");
    let mut command = Command::new(variable("CARGO")?);
    command.args([
        "build",
        "--locked",
        "--quiet",
        "--profile",
        "preload",
        "--package",
        "freehold-preload",
        "--target",
        &target,
    ]);
    command.arg("--target-dir").arg(&folder).current_dir("../..");
    // What this build is told of flags is not for that one.
    for name in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        command.env_remove(name);
    }
    let output = command.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().next().unwrap_or("its build failed").to_owned());
    }
    let built = folder.join(target).join("preload/libfreehold_preload.so");
    fs::copy(&built, place).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(())
}

fn note_commit() {
    // A commit, or a change to what the program is made of, makes the note stale. The log moves with every commit.
    for place in ["../../.git/logs/HEAD", "../../engine/core/src", "../trace/src", "src", "build.rs"] {
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
