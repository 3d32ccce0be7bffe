//! `cargo install` from an archive of the committed tree, which contains no git repository.
//!
//! The archive is outside the workspace, so the build finds neither the repository nor its build folder's library. The
//! installed program is then copied alone into a Debian without a toolchain.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::root::{self, Root};
use super::trials::{run_answers, run_malloc};
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace;

/// Installs the command from an archive, runs it, and removes it.
pub(super) fn run() -> Result<Outcome, Error> {
    if let Some(reason) = root::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let scratch = tempfile::tempdir().map_err(on_file("create", Path::new("a temporary folder")))?;
    let tree = scratch.path().join("tree");
    unpack_tree(&tree)?;
    let prefix = scratch.path().join("prefix");
    let mut install = cargo_in(&tree, &prefix);
    command::run(install.args(["install", "--quiet", "--locked", "--profile", "dist", "--path", "lab/cli"]))?;
    let debian = Root::debian("source")?;
    let program = debian.add(&prefix.join("bin/freehold"))?;
    run_answers(&debian, &program)?;
    run_malloc(&debian, &program)?;
    command::run(cargo_in(&tree, &prefix).args(["uninstall", "--quiet", "freehold-cli"]))?;
    check_empty(&prefix.join("bin"))?;
    Ok(Outcome::Passed)
}

/// Writes the files of the last commit to `tree`.
fn unpack_tree(tree: &Path) -> Result<(), Error> {
    fs::create_dir(tree).map_err(on_file("create", tree))?;
    let archive = tree.with_extension("tar");
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "archive", "--format=tar", "HEAD", "--output"]).arg(&archive);
    command::run(git.current_dir(workspace::root()))?;
    command::run(Command::new("tar").args(["--extract", "--file"]).arg(&archive).arg("--directory").arg(tree))
}

/// Returns a `cargo` command that runs in the unpacked tree and installs below `prefix`. It builds in the folder of this
/// workspace, so that the dependencies are compiled once.
fn cargo_in(tree: &Path, prefix: &Path) -> Command {
    let mut command = workspace::cargo_here();
    command.current_dir(tree).env("CARGO_TARGET_DIR", workspace::target()).env("CARGO_INSTALL_ROOT", prefix);
    command
}

fn check_empty(folder: &Path) -> Result<(), Error> {
    let remaining = fs::read_dir(folder).map_err(on_file("read", folder))?.flatten().next();
    match remaining {
        Some(file) => Err(Error::Failed(format!("after the removal there remains {}", file.path().display()))),
        None => Ok(()),
    }
}
