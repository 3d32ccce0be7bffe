//! Environment for runs with and without the malloc: a scratch folder, the library to preload, and a search path.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::{Error, on_file};
use crate::package::glibc;

/// Scratch folder, library, and programs of this machine.
pub(crate) struct Sandbox {
    /// Path of the program `freehold`.
    pub(super) freehold: PathBuf,
    /// Copy of the library that `freehold` carries, readable by every user.
    library: PathBuf,
    /// Folder in which each run gets a folder of its own.
    pub(super) scratch: PathBuf,
    /// Folders that are searched for programs.
    path: Vec<PathBuf>,
}

impl Sandbox {
    /// Copies the library into `scratch`, and makes both readable by every user.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written, if `freehold` does not print the path of its library, or if the
    /// library needs a newer glibc than packages support.
    pub(super) fn new(freehold: PathBuf, scratch: &Path) -> Result<Sandbox, Error> {
        let permissions = Permissions::from_mode(0o755);
        fs::set_permissions(scratch, permissions.clone()).map_err(on_file("open", scratch))?;
        let carried = command::text(Command::new(&freehold).args(["run", "--print-library"]))?;
        glibc::check(Path::new(carried.trim_end()))?;
        let library = scratch.join("libfreehold.so");
        fs::copy(carried.trim_end(), &library).map_err(on_file("create", &library))?;
        fs::set_permissions(&library, permissions).map_err(on_file("open", &library))?;
        Ok(Sandbox { freehold, library, scratch: scratch.to_owned(), path: program_folders() })
    }

    /// Returns whether a program is installed.
    pub(super) fn has(&self, program: &str) -> bool {
        self.path.iter().any(|folder| folder.join(program).is_file())
    }

    /// Returns a command that preloads the library if `options` are given, and runs without the library otherwise.
    pub(super) fn command(&self, words: &[&str], options: Option<&str>) -> Result<Command, Error> {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .env("PATH", self.path_text()?)
            .env_remove("LD_PRELOAD")
            .env_remove("FREEHOLD_OPTIONS");
        if let Some(options) = options {
            command.env("LD_PRELOAD", &self.library).env("FREEHOLD_OPTIONS", options);
        }
        Ok(command)
    }

    /// Returns arguments of `env` that preload the library into the program that `env` starts, but not into the
    /// programs that start `env`.
    pub(super) fn settings(&self, options: &str) -> [String; 2] {
        [format!("LD_PRELOAD={}", self.library.display()), format!("FREEHOLD_OPTIONS={options}")]
    }

    /// Returns the value of PATH for runs.
    pub(super) fn path_text(&self) -> Result<OsString, Error> {
        env::join_paths(&self.path).map_err(|error| Error::Failed(format!("PATH: {error}")))
    }
}

/// Returns the folders in PATH, and those in which distributions keep servers outside PATH.
fn program_folders() -> Vec<PathBuf> {
    let mut folders: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    folders.push("/usr/sbin".into());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")).max());
    folders
}
