//! The Debian package, assembled by `cargo deb` as `lab/cli/Cargo.toml` describes it.
//!
//! The generated files are in `target/dist/package`: `cargo deb` replaces `target/release` in the manifest by the folder
//! of the profile, wherever that is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{folder, glibc, program};
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace::{self, cargo};

/// Returns what this machine lacks to build the package, as a sentence.
pub(crate) fn missing() -> Option<String> {
    let has_deb = command::output(cargo().args(["deb", "--version"])).is_ok();
    let has_dpkg = command::output(Command::new("dpkg-deb").arg("--version")).is_ok();
    match (has_deb, has_dpkg) {
        (false, _) => Some("`cargo deb` is missing; run `cargo install --locked cargo-deb`".to_owned()),
        (true, false) => Some("dpkg is missing; this is not a Debian system".to_owned()),
        (true, true) => None,
    }
}

/// Builds the package with this version, and returns its path.
///
/// # Errors
/// Returns an error if `cargo deb` is missing or fails, or if the package would need a newer glibc than is supported.
pub(crate) fn build(version: &str) -> Result<PathBuf, Error> {
    super::refuse(missing())?;
    let built = program::build(None)?;
    glibc::check(&built)?;
    let tree = workspace::target().join("dist/package");
    program::write_tree(&built, &tree)?;
    compress_manual(&tree.join(program::MANUAL))?;
    let package = folder()?.join(format!("freehold_{version}_amd64.deb"));
    if package.exists() {
        fs::remove_file(&package).map_err(on_file("remove", &package))?;
    }
    let mut deb = cargo();
    deb.args(["deb", "--quiet", "--no-build", "--no-strip", "--profile", "dist", "--package", "freehold-cli"]);
    // Its output is the path again.
    command::output(deb.args(["--deb-version", version, "--output"]).arg(&package))?;
    Ok(package)
}

/// Compresses manual pages, as Debian's policy requires.
fn compress_manual(folder: &Path) -> Result<(), Error> {
    let pages = fs::read_dir(folder).map_err(on_file("read", folder))?.flatten().map(|page| page.path());
    command::run(Command::new("gzip").args(["--best", "--no-name"]).args(pages))
}
