//! Where things are: the workspace's root, its build folder, and its files as git sees them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;

/// The root of the workspace: the folder above this package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The folder that cargo builds into, honouring `CARGO_TARGET_DIR`.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// A `cargo` command that runs at the workspace's root, with the cargo that runs us.
pub fn cargo() -> Command {
    let mut command = cargo_here();
    command.current_dir(root());
    command
}

/// As [`cargo`], but in the folder in which we were called.
pub fn cargo_here() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Every file that is tracked or would be on the next `git add`, relative to the root, sorted.
///
/// # Errors
/// When git is missing or the workspace is not a git repository.
pub fn files() -> Result<Vec<PathBuf>, Error> {
    let listed = command::text(
        Command::new("git")
            // A CI checkout may belong to another user; listing files is harmless there.
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"])
            .current_dir(root()),
    )?;
    let mut files: Vec<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}
