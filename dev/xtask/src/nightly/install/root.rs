//! Root folders of systems that contain no file of this machine's toolchain.
//!
//! A Debian root is a copy of a base that debootstrap downloads once, to `target/install/debian`. It has Python, because
//! the wheel needs it. Programs in it see their own processes and no network. Entering a root needs root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Release of the Debian root: the oldest that the documents name.
const RELEASE: &str = "bookworm";
/// Package of the Debian root in addition to the minimal ones.
const PYTHON: &str = "python3-venv";
/// Mounts `/proc` and enters the root.
const ENTER: &str = r#"mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;
/// Folders in which package managers write logs and states. Their files are no part of a package.
const STATES: [&str; 3] = ["var/cache/", "var/lib/dpkg/", "var/log/"];

/// Root folder of a system.
pub(super) struct Root {
    folder: PathBuf,
    /// Whether the root has a C library and a folder for `/proc`.
    system: System,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum System {
    Nothing,
    Debian,
}

impl Root {
    /// Creates a root with nothing in it.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub(super) fn empty(name: &str) -> Result<Root, Error> {
        let folder = folder()?.join(name);
        remove(&folder)?;
        fs::create_dir(&folder).map_err(on_file("create", &folder))?;
        Ok(Root { folder, system: System::Nothing })
    }

    /// Creates a root with a minimal Debian. [`missing`] names the reason if this fails.
    ///
    /// # Errors
    /// Returns an error if the base cannot be downloaded or copied.
    pub(super) fn debian(name: &str) -> Result<Root, Error> {
        let root = folder()?.join(name);
        remove(&root)?;
        command::run(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(base()?).arg(&root))?;
        Ok(Root { folder: root, system: System::Debian })
    }

    /// Returns the path on this machine of a file in the root.
    pub(super) fn path(&self, place: &str) -> PathBuf {
        self.folder.join(place.trim_start_matches('/'))
    }

    /// Copies a file into the root, below a name in the top folder, and returns its path in the root.
    ///
    /// # Errors
    /// Returns an error if the file cannot be copied.
    pub(super) fn add(&self, file: &Path) -> Result<String, Error> {
        let name = file.file_name().unwrap_or(file.as_os_str());
        let place = self.folder.join(name);
        fs::copy(file, &place).map_err(on_file("write", &place))?;
        Ok(format!("/{}", name.to_string_lossy()))
    }

    /// Returns a command that runs in the root, with an environment as after a login.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = match self.system {
            System::Nothing => Command::new("chroot"),
            System::Debian => Command::new("unshare"),
        };
        if self.system == System::Debian {
            command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER]);
        }
        command.arg(&self.folder).args(words).env_clear();
        command.envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/root"), ("PYTHONDONTWRITEBYTECODE", "1")]);
        command
    }

    /// Returns all files and folders of the root, except those in [`STATES`].
    ///
    /// # Errors
    /// Returns an error if the root cannot be listed.
    pub(super) fn files(&self) -> Result<BTreeSet<String>, Error> {
        let listed =
            command::text(Command::new("find").arg(&self.folder).args(["-mindepth", "1", "-printf", "%P\\n"]))?;
        let is_content = |file: &&str| !STATES.iter().any(|state| file.starts_with(state));
        Ok(listed.lines().filter(is_content).map(str::to_owned).collect())
    }
}

/// Returns what this machine lacks to create and enter a Debian root, as a sentence.
pub(super) fn missing() -> Option<String> {
    cannot_enter().or_else(|| base().err().map(|error| format!("there is no Debian root: {error}")))
}

/// Returns why this process cannot enter a root, as a sentence.
pub(super) fn cannot_enter() -> Option<String> {
    let is_root = command::text(Command::new("id").arg("-u")).is_ok_and(|user| user.trim() == "0");
    (!is_root).then(|| "only root can enter a clean root".to_owned())
}

/// Returns the base of the Debian roots, which is downloaded if this machine does not have it.
fn base() -> Result<PathBuf, Error> {
    let base = folder()?.join("debian");
    if base.join("usr/bin/python3").exists() {
        return Ok(base);
    }
    let part = base.with_extension("part");
    remove(&part)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &format!("--include={PYTHON}"), RELEASE]).arg(&part);
    command::output(&mut debootstrap)?;
    remove(&base)?;
    fs::rename(&part, &base).map_err(on_file("create", &base))?;
    Ok(base)
}

/// Returns the folder of the roots.
fn folder() -> Result<PathBuf, Error> {
    let folder = workspace::target().join("install");
    fs::create_dir_all(&folder).map_err(on_file("create", &folder))?;
    Ok(folder)
}

fn remove(folder: &Path) -> Result<(), Error> {
    match folder.exists() {
        true => fs::remove_dir_all(folder).map_err(on_file("remove", folder)),
        false => Ok(()),
    }
}
