//! The command, built for distribution, and the tree of files that packages install with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::glibc;
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace::{self, cargo};

/// Folder of the command in a tree.
pub(super) const PROGRAMS: &str = "bin";
/// Folder of the malloc's library in a tree; `freehold run` searches it from its own folder.
pub(super) const LIBRARIES: &str = "lib/freehold";
/// Folder of the manual pages in a tree.
pub(super) const MANUAL: &str = "share/man/man1";
/// Completion scripts: the shell, and the place in a tree that the shell searches.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/freehold"),
    ("zsh", "share/zsh/site-functions/_freehold"),
    ("fish", "share/fish/vendor_completions.d/freehold.fish"),
];
/// Folder of the licences in a tree.
pub(super) const LICENCES: &str = "share/doc/freehold";
/// Files with licences, at the root of the workspace.
const LICENCE_FILES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the command with the profile `dist`, and returns its path.
///
/// # Errors
/// Returns an error if the command cannot be built.
pub(super) fn build(target: Option<&str>) -> Result<PathBuf, Error> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--profile", "dist", "--package", "freehold-cli"]);
    build.args(target.iter().flat_map(|target| ["--target", target]));
    command::run(&mut build)?;
    Ok(workspace::target().join(target.unwrap_or_default()).join("dist/freehold"))
}

/// Writes a tree as below `/usr`: the command, the malloc's library, manual pages, completion scripts and licences. The
/// folder is emptied first.
///
/// # Errors
/// Returns an error if `program` fails, if a file cannot be written, or if the library needs a newer glibc than is
/// supported.
pub(super) fn write_tree(program: &Path, tree: &Path) -> Result<(), Error> {
    if tree.exists() {
        fs::remove_dir_all(tree).map_err(on_file("remove", tree))?;
    }
    strip(program, &tree.join(PROGRAMS).join("freehold"))?;
    write_library(program, &tree.join(LIBRARIES).join("libfreehold.so"))?;
    command::run(Command::new(program).arg("man").arg(tree.join(MANUAL)))?;
    for (shell, name) in COMPLETIONS {
        let script = command::output(Command::new(program).args(["completions", shell]))?;
        let path = tree.join(name);
        create_parent(&path)?;
        fs::write(&path, script).map_err(on_file("write", &path))?;
    }
    for licence in LICENCE_FILES {
        copy(&workspace::root().join(licence), &tree.join(LICENCES).join(licence))?;
    }
    Ok(())
}

/// Copies a program without its debug information. Its symbols remain, because `freehold disasm` reads them.
fn strip(from: &Path, to: &Path) -> Result<(), Error> {
    create_parent(to)?;
    command::run(Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(from))
}

/// Writes the malloc's library, which `program` contains, to `path`.
fn write_library(program: &Path, path: &Path) -> Result<(), Error> {
    let cache = tempfile::tempdir().map_err(on_file("create", Path::new("a temporary folder")))?;
    let mut print = Command::new(program);
    let printed = command::text(print.args(["run", "--print-library"]).env("XDG_CACHE_HOME", cache.path()))?;
    let library = Path::new(printed.trim_end());
    glibc::check(library)?;
    copy(library, path)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    create_parent(to)?;
    fs::copy(from, to).map(drop).map_err(on_file("write", to))
}

fn create_parent(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(on_file("create", folder))
}
