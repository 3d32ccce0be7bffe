//! The dataset in a folder: the plan, and a part for each task that is done.
//!
//! A part is written under a temporary name in `_making`, made durable, and renamed to its place, so the place has
//! either a whole part or none. No lock is needed: a part has the same bytes in every sweep, so two sweeps into one
//! folder do not disturb each other. They even share the work, because each sweep checks for a part right before it
//! makes the part. Names that start with `_` do not belong to the dataset, and its readers skip them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use freehold_report::output::OutputError;
use tempfile::{Builder, NamedTempFile};

use crate::error::{Error, ReadError};
use crate::part::{self, PartState};
use crate::plan::Plan;
use crate::subject::Identity;
use crate::task::{Task, is_number};

/// File with the plan and the version of the program that made the results.
const MANIFEST: &str = "_plan.json";
/// Folder of unfinished parts.
const MAKING: &str = "_making";
/// Number of random characters at the end of the name of an unfinished file.
const UNIQUE: usize = 6;
/// First character of names that do not belong to the dataset.
const BESIDE: char = '_';
/// Extension of parts.
const ENDING: &str = "parquet";

/// Folder with the results of one plan.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens the folder for the results of this plan, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created or read, or if it contains other files, or the results of another plan or of
    /// another version of this program.
    pub fn create(path: &Path, plan: &Plan) -> Result<Folder, Error> {
        if let Some(folder) = Folder::find(path, plan)? {
            return Ok(folder);
        }
        let folder = Folder { path: path.to_path_buf() };
        fs::create_dir_all(path).map_err(|source| write_error(path, source))?;
        folder.claim(plan)?;
        Ok(folder)
    }

    /// Returns the folder for the results of this plan, if it contains the plan already. Nothing is changed on disk.
    ///
    /// # Errors
    /// If the folder cannot be read, or if it contains other files, or the results of another plan or of another
    /// version of this program.
    pub fn find(path: &Path, plan: &Plan) -> Result<Option<Folder>, Error> {
        let folder = Folder { path: path.to_path_buf() };
        // Foreign files are looked for before the plan is read. A sweep writes the plan before any part, so a part of a
        // concurrent sweep that is seen here is not mistaken for a foreign file.
        let stranger = folder.stranger()?;
        let manifest = path.join(MANIFEST);
        match fs::read_to_string(&manifest) {
            Ok(there) => folder.expect(plan, &there).map(|()| Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => stranger.map_or(Ok(None), |stranger| {
                Err(Error::Folder(format!(
                    "{} contains {}, which is not a result of a sweep; name another folder with --into",
                    path.display(),
                    stranger.display()
                )))
            }),
            Err(source) => Err(ReadError::new(&manifest, source).into()),
        }
    }

    /// Writes the plan into the folder. If another sweep was faster, its plan must be the same.
    fn claim(&self, plan: &Plan) -> Result<(), Error> {
        let manifest = self.path.join(MANIFEST);
        let file = write_unnamed(&self.path, MANIFEST, plan.manifest().as_bytes());
        match file.and_then(|file| file.persist_noclobber(&manifest).map_err(|error| error.error)) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let there = fs::read_to_string(&manifest).map_err(|source| ReadError::new(&manifest, source))?;
                self.expect(plan, &there)
            }
            Err(source) => Err(write_error(&manifest, source)),
        }
    }

    /// Opens a folder with results, and the plan of these results.
    ///
    /// # Errors
    /// If the folder has no plan or the plan cannot be read, or if another version of this program made the results.
    pub fn open(path: &Path) -> Result<(Folder, Plan), Error> {
        let manifest = path.join(MANIFEST);
        let text = fs::read_to_string(&manifest).map_err(|source| match source.kind() {
            ErrorKind::NotFound => {
                let sentence = "contains no results of a sweep; name the folder that was given to --into";
                Error::Folder(format!("{} {sentence}", path.display()))
            }
            _ => ReadError::new(&manifest, source).into(),
        })?;
        let plan = Plan::from_manifest(&text)
            .map_err(|error| Error::Folder(format!("{}: {error}", path.join(MANIFEST).display())))?;
        Ok((Folder { path: path.to_path_buf() }, plan))
    }

    fn expect(&self, plan: &Plan, manifest: &str) -> Result<(), Error> {
        plan.difference(manifest).map_or(Ok(()), |difference| {
            Err(Error::Folder(format!("{} {difference}; name another folder with --into", self.path.display())))
        })
    }

    /// Returns the first file that is not an unfinished file of a sweep, as a path in the folder; `None` if there is no
    /// such file.
    fn stranger(&self) -> Result<Option<PathBuf>, Error> {
        match strangers(&self.path) {
            Ok(strangers) => Ok(strangers.into_iter().min()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::new(&self.path, source).into()),
        }
    }

    /// Returns whether a task is done. A part that is damaged or cannot be read counts as not done.
    ///
    /// # Errors
    /// If the place of its part contains an intact part with another header ([`PartState::OtherTask`]).
    pub fn has(&self, plan: &Plan, task: &Task, recording: Option<&Identity>) -> Result<bool, Error> {
        let path = self.path.join(task.path());
        let Ok(bytes) = fs::read(&path) else { return Ok(false) };
        match part::check(bytes.into(), plan, task, recording) {
            PartState::Damaged => Ok(false),
            PartState::Whole => Ok(true),
            PartState::OtherTask => Err(Error::Folder(format!(
                "{} is the result of another task; remove it, or name another folder with --into",
                path.display()
            ))),
        }
    }

    /// Writes a part to its place.
    ///
    /// # Errors
    /// If the part cannot be written. In this case its place stays as it was.
    pub fn put(&self, task: &Task, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path.join(task.path());
        // A concurrent sweep that ended may have removed the unfinished file or its folder, so the write is tried once
        // more.
        let put = match self.try_put(&path, task, bytes) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.try_put(&path, task, bytes),
            other => other,
        };
        put.map_err(|source| write_error(&path, source))
    }

    fn try_put(&self, path: &Path, task: &Task, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(path.parent().expect("the path of a part has a folder"))?;
        let making = self.path.join(MAKING);
        fs::create_dir_all(&making)?;
        let file = write_unnamed(&making, &task.number, bytes)?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    }

    /// Returns the bytes of all parts, in the order of their paths.
    ///
    /// # Errors
    /// If the folder cannot be read. A part that cannot be read is an error of the iterator.
    pub fn parts(&self) -> Result<impl Iterator<Item = Result<(PathBuf, Bytes), Error>> + use<>, Error> {
        let mut paths = Vec::new();
        collect(&self.path, &mut paths)?;
        paths.sort();
        Ok(paths.into_iter().map(|path| match fs::read(&path) {
            Ok(bytes) => Ok((path, bytes.into())),
            Err(source) => Err(ReadError::new(&path, source).into()),
        }))
    }

    /// Removes the unfinished parts of interrupted sweeps, and nothing else. Unfinished parts of sweeps that still run
    /// cannot be distinguished and are removed too; these sweeps write them again.
    pub fn conclude(&self) {
        let making = self.path.join(MAKING);
        for entry in fs::read_dir(&making).into_iter().flatten().flatten() {
            if is_half_a_part(&entry.file_name()) {
                // A concurrent sweep that is still writing this part will write it again. An error is ignored, because
                // the file may be gone.
                let _ = fs::remove_file(entry.path());
            }
        }
        // The folder stays if it contains other files.
        let _ = fs::remove_dir(making);
    }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    OutputError::Write { path: path.to_path_buf(), source }.into()
}

/// Returns the files of a folder that are not unfinished files of a sweep, as paths in the folder.
fn strangers(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut strangers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if name == MAKING && entry.is_dir() && !entry.is_symlink() {
            let inside = fs::read_dir(&entry)?.map(|inside| inside.map(|inside| inside.file_name()));
            let names = inside.collect::<io::Result<Vec<OsString>>>()?;
            strangers
                .extend(names.iter().filter(|name| !is_half_a_part(name)).map(|name| Path::new(MAKING).join(name)));
        } else if half_made(&name) != Some(MANIFEST) {
            strangers.push(name.into());
        }
    }
    Ok(strangers)
}

/// Returns the final name or task number of a file, if its name is that of an unfinished file.
fn half_made(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    let (whole, unique) = name.split_at_checked(name.len().checked_sub(UNIQUE)?)?;
    unique.bytes().all(|letter| letter.is_ascii_alphanumeric()).then_some(whole)
}

fn is_half_a_part(name: &OsStr) -> bool {
    half_made(name).is_some_and(is_number)
}

/// Writes a complete and durable file under a temporary name.
fn write_unnamed(folder: &Path, prefix: &str, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = Builder::new()
        .prefix(prefix)
        .rand_bytes(UNIQUE)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(without_name)?;
    // Uses the inner file, because errors of the wrapper contain the temporary name.
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Returns the system's error without the temporary name, which is meaningless to the user.
fn without_name(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|named| named.source()).and_then(|inner| inner.downcast_ref::<io::Error>());
    inner.and_then(io::Error::raw_os_error).map_or(error, io::Error::from_raw_os_error)
}

/// Collects the paths of all parts below a folder.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let entries: Vec<DirEntry> =
        fs::read_dir(folder).and_then(Iterator::collect).map_err(|source| ReadError::new(folder, source))?;
    for entry in entries {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(BESIDE) {
            continue;
        }
        if path.is_dir() {
            // A link to a parent folder would cause endless recursion.
            if path.is_symlink() {
                let sentence = "is a link to another folder; put the folder itself there, or remove the link";
                return Err(Error::Folder(format!("{} {sentence}", path.display())));
            }
            collect(&path, paths)?;
        } else if path.is_file() && path.extension().is_some_and(|ending| ending == ENDING) {
            paths.push(path);
        }
    }
    Ok(())
}
