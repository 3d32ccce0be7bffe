//! The place of runs with and without the malloc: a folder, the library to preload, and programs to run.

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::{Error, on_file};

/// A folder for runs, the library, and the programs of this machine.
pub(crate) struct Sandbox {
    /// The laboratory's program.
    pub(super) freehold: PathBuf,
    /// A copy of the library that it carries, readable by every user.
    library: PathBuf,
    /// The folder in which each run gets its own.
    pub(super) scratch: PathBuf,
    /// Folders with programs.
    path: Vec<PathBuf>,
}

impl Sandbox {
    /// Copies the library into `scratch`, and opens both to every user.
    ///
    /// # Errors
    /// When a file cannot be written, or the program does not say where its library is.
    pub(super) fn new(freehold: PathBuf, scratch: &Path) -> Result<Sandbox, Error> {
        let permissions = Permissions::from_mode(0o755);
        fs::set_permissions(scratch, permissions.clone()).map_err(on_file("open", scratch))?;
        let carried = command::text(Command::new(&freehold).args(["run", "--print-library"]))?;
        let library = scratch.join("libfreehold.so");
        fs::copy(carried.trim_end(), &library).map_err(on_file("create", &library))?;
        fs::set_permissions(&library, permissions).map_err(on_file("open", &library))?;
        Ok(Sandbox { freehold, library, scratch: scratch.to_owned(), path: program_folders() })
    }

    /// Whether a program is here.
    pub(super) fn has(&self, program: &str) -> bool {
        self.path.iter().any(|folder| folder.join(program).is_file())
    }

    /// A command with the library preloaded if there are options for it, and without the library otherwise.
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

    /// Arguments of `env` that preload the library into what `env` starts, but not into what starts `env`.
    pub(super) fn settings(&self, options: &str) -> [String; 2] {
        [format!("LD_PRELOAD={}", self.library.display()), format!("FREEHOLD_OPTIONS={options}")]
    }

    /// The value of PATH for runs.
    pub(super) fn path_text(&self) -> Result<OsString, Error> {
        env::join_paths(&self.path).map_err(|error| Error::Failed(format!("PATH: {error}")))
    }
}

/// The folders in PATH, and those of servers that distributions keep out of it.
fn program_folders() -> Vec<PathBuf> {
    let mut folders: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    folders.push("/usr/sbin".into());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")).max());
    folders
}
