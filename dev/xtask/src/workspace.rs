//! Paths of the workspace: its root, its build folder, and the files that git tracks. Also prepares `cargo` commands.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::{Error, on_file};

/// Returns the root of the workspace, two folders above this package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of xtask is two levels below the root")
}

/// Returns the folder that cargo builds into. Honours `CARGO_TARGET_DIR`.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Returns a `cargo` command that runs at the workspace's root, with the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = cargo_here();
    command.current_dir(root());
    command
}

/// Returns a `cargo` command like [`cargo`], but for the folder in which this program was called.
pub(crate) fn cargo_here() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns every file that git tracks or that the next `git add` would add, relative to the root, sorted.
///
/// # Errors
/// Returns an error if git is missing, or if the workspace is not a git repository.
pub(crate) fn files() -> Result<Vec<PathBuf>, Error> {
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

/// Returns the manifest of the workspace in `root`, reduced to the given members.
///
/// # Errors
/// Returns an error if there is no such manifest.
pub(crate) fn manifest_of(root: &Path, members: &[&str]) -> Result<String, Error> {
    let path = root.join("Cargo.toml");
    let text = fs::read_to_string(&path).map_err(on_file("read", &path))?;
    let mut manifest: toml::Table = text.parse().map_err(unreadable)?;
    let table = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let workspace = table.ok_or_else(|| unreadable("it does not describe a workspace"))?;
    workspace.insert("members".to_owned(), members.to_vec().into());
    workspace.remove("default-members");
    toml::to_string(&manifest).map_err(unreadable)
}

/// Returns the error of a manifest that cannot be read.
fn unreadable<E: std::fmt::Display>(error: E) -> Error {
    Error::Failed(format!("cannot read Cargo.toml: {error}"))
}
