//! The command as one statically linked file, in an archive with the library, manual pages, completion scripts and
//! licences.
//!
//! The command is linked with musl, so it runs on any distribution for x86-64. The malloc's library is built for glibc,
//! because `freehold run` preloads it into the distribution's programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{VERSION, folder, glibc, program};
use crate::command;
use crate::error::Error;

/// Target of the statically linked command.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// C compiler for this target, which builds zstd.
const COMPILER: &str = "musl-gcc";

/// Returns what this machine lacks to build the archive, as a sentence.
pub(crate) fn missing() -> Option<String> {
    let has_compiler = command::output(Command::new(COMPILER).arg("--version")).is_ok();
    let has_target = command::text(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))
        .is_ok_and(|folder| Path::new(folder.trim_end()).is_dir());
    match (has_compiler, has_target) {
        (false, _) => Some(format!("{COMPILER} is missing; run `apt-get install musl-tools`")),
        (true, false) => Some(format!("the target is missing; run `rustup target add {TARGET}`")),
        (true, true) => None,
    }
}

/// Builds the archive and returns its path.
///
/// # Errors
/// Returns an error if the command cannot be built, if it is not linked statically, or if the library needs a newer
/// glibc than is supported.
pub(crate) fn build() -> Result<PathBuf, Error> {
    super::refuse(missing())?;
    let built = program::build(Some(TARGET))?;
    if let Some(version) = glibc::needed(&built)? {
        return Err(Error::Failed(format!("{} is not linked statically: it needs glibc {version}", built.display())));
    }
    let packages = folder()?;
    let name = format!("freehold-{VERSION}-x86_64-linux-static");
    program::write_tree(&built, &packages.join(&name))?;
    let archive = packages.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--sort=name", "--file"]).arg(&archive);
    command::run(tar.arg("--directory").arg(&packages).arg(&name))?;
    Ok(archive)
}
