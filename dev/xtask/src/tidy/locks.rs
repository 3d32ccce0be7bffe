//! Lock files: the lock files of all workspaces must be up to date, so that Cargo would not change them.
//!
//! If a lock file lacks a dependency, the next build adds it silently, and a build with `--locked` fails. The check
//! runs Cargo's update of the workspace's own packages with a lock file that Cargo may not change. The update reads the
//! registry's index, from the cache if the cache contains enough of it, and downloads no package.

use std::path::Path;
use std::process::Output;

use toml::Table;

use super::tree::{Finding, Tree, folder_of};
use crate::workspace;

/// State of a workspace's lock file.
#[derive(Debug, PartialEq, Eq)]
enum LockState {
    Fresh,
    /// Cargo would change the file, or create it.
    Stale,
    /// Cargo could not determine the state, for this reason.
    Unknown(String),
}

/// Finds workspaces whose lock file is missing or stale. Prints the workspaces for which the registry could not be
/// reached.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (manifest, _) in tree.ending("Cargo.toml").filter(|(_, text)| is_workspace(text)) {
        let folder = folder_of(manifest);
        match lock_state(&workspace::root().join(folder)) {
            LockState::Fresh => {}
            LockState::Stale => findings.push(complaint(manifest)),
            LockState::Unknown(reason) => println!("tidy: lock file of {manifest} not checked: {reason}"),
        }
    }
    findings
}

fn is_workspace(manifest: &str) -> bool {
    manifest.parse::<Table>().is_ok_and(|manifest| manifest.contains_key("workspace"))
}

fn complaint(manifest: &str) -> Finding {
    let sentence = format!("the lock file is stale; run `cargo update --workspace --manifest-path {manifest}`");
    Finding { file: manifest.to_owned(), line: 1, sentence }
}

/// Returns the state of the lock file of the workspace in `folder`. Tries without the network first, which suffices in
/// most cases.
fn lock_state(folder: &Path) -> LockState {
    match update(folder, &["--offline"]) {
        LockState::Unknown(_) => update(folder, &[]),
        state => state,
    }
}

fn update(folder: &Path, options: &[&str]) -> LockState {
    let mut cargo = workspace::cargo();
    cargo.args(["update", "--workspace", "--locked"]).args(options).current_dir(folder);
    match cargo.output() {
        Ok(output) => judge(&output),
        Err(error) => LockState::Unknown(error.to_string()),
    }
}

fn judge(output: &Output) -> LockState {
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        LockState::Fresh
    } else if text.contains("because --locked was passed") {
        LockState::Stale
    } else {
        LockState::Unknown(text.lines().find(|line| line.starts_with("error")).unwrap_or("Cargo failed").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn write(folder: &TempDir, name: &str, text: &str) {
        fs::write(folder.path().join(name), text).unwrap();
    }

    #[test]
    fn stale_lock_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src")).unwrap();
        write(&folder, "src/lib.rs", "");
        write(&folder, "Cargo.toml", "[workspace]\n[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        assert_eq!(lock_state(folder.path()), LockState::Stale, "there is no lock file");
        write(&folder, "Cargo.lock", "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n");
        assert_eq!(lock_state(folder.path()), LockState::Fresh);
        write(&folder, "Cargo.lock", "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.0.9\"\n");
        assert_eq!(lock_state(folder.path()), LockState::Stale);
    }

    #[test]
    fn workspaces_are_found_by_their_manifests() {
        assert!(is_workspace("[package]\nname = \"a\"\n\n[workspace]\n"));
        assert!(!is_workspace("[package]\nname = \"a\"\nversion.workspace = true\n"));
    }
}
