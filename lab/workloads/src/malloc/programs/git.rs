//! `git repack` of the repository in the current folder, in a temporary clone.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::limit::Limit;
use super::subject::{read_output, under_libc, under_malloc};
use crate::malloc::cost::Cost;

pub(super) const GIT: &str = "git";
/// Commits that the clone has at most.
pub(super) const COMMITS: usize = 300;

/// Clones the last `commits` commits, and repacks the clone with one thread.
pub(super) fn repack(commits: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let clone = folder.path().join("clone.git");
    let source = format!("file://{}", repository()?.display());
    let depth = commits.to_string();
    read_output(
        plain(&mut under_libc(GIT)).args(["clone", "--quiet", "--bare", "--depth", &depth, &source]).arg(&clone),
    )?;
    let mut command = under_malloc(GIT, limit)?;
    plain(&mut command).arg("-C").arg(&clone).args(["-c", "pack.threads=1", "repack", "-adfq"]);
    super::subject::measure(command, commits)
}

/// Returns the folder of the repository that the current folder belongs to.
fn repository() -> io::Result<PathBuf> {
    let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    Ok(PathBuf::from(read_output(under_libc(GIT).args(arguments))?.trim_end()))
}

/// Makes git ignore settings outside of the repository.
fn plain(command: &mut Command) -> &mut Command {
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null")
}

/// Returns a sentence if there is no repository.
pub(super) fn obstacle() -> Option<String> {
    repository().err().map(|_| "the current folder belongs to no git repository".to_owned())
}
