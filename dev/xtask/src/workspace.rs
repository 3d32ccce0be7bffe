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
pub(crate) fn manifest_of(root: &Path, members: &[String]) -> Result<String, Error> {
    let mut manifest = read_manifest(root)?;
    let table = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let workspace = table.ok_or_else(|| unreadable("it does not describe a workspace"))?;
    workspace.insert("members".to_owned(), members.to_vec().into());
    workspace.remove("default-members");
    toml::to_string(&manifest).map_err(unreadable)
}

/// Returns the given members of the workspace in `root`, followed by every other member that they depend on. Follows
/// dependencies that a member inherits from the workspace.
///
/// # Errors
/// Returns an error if the manifest of the workspace or of one of these members cannot be read.
pub(crate) fn with_dependencies(root: &Path, members: &[&str]) -> Result<Vec<String>, Error> {
    let workspace = read_manifest(root)?;
    let folders = workspace.get("workspace").and_then(|table| table.get("dependencies"));
    let mut found: Vec<String> = members.iter().map(ToString::to_string).collect();
    let mut next = 0;
    while let Some(member) = found.get(next) {
        let manifest = read_manifest(&root.join(member))?;
        let tables = ["dependencies", "dev-dependencies", "build-dependencies"].map(|kind| manifest.get(kind));
        let names = tables.into_iter().flatten().filter_map(toml::Value::as_table).flat_map(toml::Table::keys);
        for name in names {
            let folder = folders.and_then(|all| all.get(name)).and_then(|one| one.get("path"));
            match folder.and_then(toml::Value::as_str) {
                Some(folder) if !found.iter().any(|known| known == folder) => found.push(folder.to_owned()),
                _ => {}
            }
        }
        next += 1;
    }
    Ok(found)
}

/// Reads the manifest in a folder.
fn read_manifest(folder: &Path) -> Result<toml::Table, Error> {
    let path = folder.join("Cargo.toml");
    fs::read_to_string(&path).map_err(on_file("read", &path))?.parse().map_err(unreadable)
}

/// Returns the error of a manifest that cannot be read.
fn unreadable<E: std::fmt::Display>(error: E) -> Error {
    Error::Failed(format!("cannot read Cargo.toml: {error}"))
}

#[cfg(test)]
mod tests {
    use super::with_dependencies;

    #[test]
    fn members_are_followed_by_all_they_depend_on() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("", "[workspace.dependencies]\nb = { path = \"b\" }\nc = { path = \"lower/c\" }\nd = { path = \"d\" }\n"),
            ("a", "[dependencies]\nfar = \"1\"\n[dev-dependencies]\nb.workspace = true\n"),
            ("b", "[dependencies]\nc.workspace = true\n"),
            ("lower/c", "[dependencies]\nb.workspace = true\n"),
        ];
        for (folder, manifest) in files {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
            std::fs::write(root.path().join(folder).join("Cargo.toml"), manifest).unwrap();
        }
        assert_eq!(with_dependencies(root.path(), &["a"]).unwrap(), ["a", "b", "lower/c"]);
        assert!(with_dependencies(root.path(), &["d"]).is_err(), "the manifest of d is missing");
    }
}
