//! The dataset in a folder: the plan, and a part for each task that is done.
//!
//! A part is written under another name in `_making`, made durable, and renamed to its place; so it is whole or not
//! there. No lock: a part has the same bytes whoever makes it, so two sweeps into one folder do each other no harm, and
//! share the work, since each looks whether a part is there right before it makes it. Names that begin with `_` are
//! none of the dataset's: readers pass over them.

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

/// The plan, and what made the results.
const MANIFEST: &str = "_plan.json";
/// Where parts are before they have their places.
const MAKING: &str = "_making";
/// Letters that a file has behind its name while it is half made.
const UNIQUE: usize = 6;
/// What begins the names of what is none of the dataset's.
const BESIDE: char = '_';
/// The end of a part's name.
const ENDING: &str = "parquet";

/// A folder with the results of one plan.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder for results of this plan: made if there is none, and else the one that holds them already.
    ///
    /// # Errors
    /// When it cannot be made, or holds something else.
    pub fn create(path: &Path, plan: &Plan) -> Result<Folder, Error> {
        if let Some(folder) = Folder::find(path, plan)? {
            return Ok(folder);
        }
        let folder = Folder { path: path.to_path_buf() };
        fs::create_dir_all(path).map_err(|source| write_error(path, source))?;
        folder.claim(plan)?;
        Ok(folder)
    }

    /// The folder for results of this plan, if it holds them already. Changes nothing.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn find(path: &Path, plan: &Plan) -> Result<Option<Folder>, Error> {
        let folder = Folder { path: path.to_path_buf() };
        // In this order: who puts parts into it has put the plan there before.
        let stranger = folder.stranger()?;
        let manifest = path.join(MANIFEST);
        match fs::read_to_string(&manifest) {
            Ok(there) => folder.expect(plan, &there).map(|()| Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => stranger.map_or(Ok(None), |stranger| {
                Err(Error::Folder(format!(
                    "{} holds something else than the results of a sweep, {}; name another folder with --into",
                    path.display(),
                    stranger.display()
                )))
            }),
            Err(source) => Err(ReadError::new(&manifest, source).into()),
        }
    }

    /// Puts the plan into the folder, unless another sweep was faster; then it has to be the same.
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

    /// A folder with results, and the plan that they are of.
    ///
    /// # Errors
    /// When it has none, or another version of this program made them.
    pub fn open(path: &Path) -> Result<(Folder, Plan), Error> {
        let manifest = path.join(MANIFEST);
        let text = fs::read_to_string(&manifest).map_err(|source| match source.kind() {
            ErrorKind::NotFound => {
                let sentence = "holds no results of a sweep; name the folder that was given to --into";
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

    /// Something that no sweep has put here before its plan, as a path in the folder; nothing if there is none.
    fn stranger(&self) -> Result<Option<PathBuf>, Error> {
        match strangers(&self.path) {
            Ok(strangers) => Ok(strangers.into_iter().min()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::new(&self.path, source).into()),
        }
    }

    /// Whether a task is done.
    ///
    /// # Errors
    /// When its part is another task's: somebody moved it there.
    pub fn has(&self, plan: &Plan, task: &Task, recording: Option<&Identity>) -> Result<bool, Error> {
        let path = self.path.join(task.path());
        let Ok(bytes) = fs::read(&path) else { return Ok(false) };
        match part::check(bytes.into(), plan, task, recording) {
            PartState::Damaged => Ok(false),
            PartState::Whole => Ok(true),
            PartState::OtherTask => Err(Error::Folder(format!(
                "{} is the part of another task; remove it, or name another folder with --into",
                path.display()
            ))),
        }
    }

    /// Puts a part into its place.
    ///
    /// # Errors
    /// When it cannot be written; then nothing stands in its place.
    pub fn put(&self, task: &Task, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path.join(task.path());
        // Another sweep that ended may have removed the half-made file.
        let put = match self.try_put(&path, task, bytes) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.try_put(&path, task, bytes),
            other => other,
        };
        put.map_err(|source| write_error(&path, source))
    }

    fn try_put(&self, path: &Path, task: &Task, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(path.parent().expect("a part lies in a folder"))?;
        let making = self.path.join(MAKING);
        fs::create_dir_all(&making)?;
        let file = write_unnamed(&making, &task.number, bytes)?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    }

    /// The bytes of all parts, in the order of their names.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn parts(&self) -> Result<impl Iterator<Item = Result<(PathBuf, Bytes), Error>> + use<>, Error> {
        let mut paths = Vec::new();
        collect(&self.path, &mut paths)?;
        paths.sort();
        Ok(paths.into_iter().map(|path| match fs::read(&path) {
            Ok(bytes) => Ok((path, bytes.into())),
            Err(source) => Err(ReadError::new(&path, source).into()),
        }))
    }

    /// Removes what sweeps that were ended left half made, and nothing else.
    pub fn conclude(&self) {
        let making = self.path.join(MAKING);
        for entry in fs::read_dir(&making).into_iter().flatten().flatten() {
            if is_half_a_part(&entry.file_name()) {
                // Another sweep that is making it makes it again.
                let _ = fs::remove_file(entry.path());
            }
        }
        // It stays if something else is in it.
        let _ = fs::remove_dir(making);
    }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    OutputError::Write { path: path.to_path_buf(), source }.into()
}

/// What lies in a folder without a plan and is no file that a sweep has half made, as paths in the folder.
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

/// What the file of this name is to be when it is whole, if it has the name of one that is half made.
fn half_made(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    let (whole, unique) = name.split_at_checked(name.len().checked_sub(UNIQUE)?)?;
    unique.bytes().all(|letter| letter.is_ascii_alphanumeric()).then_some(whole)
}

fn is_half_a_part(name: &OsStr) -> bool {
    half_made(name).is_some_and(is_number)
}

/// Writes a whole and durable file under a temporary name.
fn write_unnamed(folder: &Path, prefix: &str, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = Builder::new()
        .prefix(prefix)
        .rand_bytes(UNIQUE)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(without_name)?;
    // Past the one that would name itself in complaints.
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// What the system said, without the name of a file that nobody knows.
fn without_name(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|named| named.source()).and_then(|inner| inner.downcast_ref::<io::Error>());
    inner.and_then(io::Error::raw_os_error).map_or(error, io::Error::from_raw_os_error)
}

/// All parts below a folder.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let entries: Vec<DirEntry> =
        fs::read_dir(folder).and_then(Iterator::collect).map_err(|source| ReadError::new(folder, source))?;
    for entry in entries {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(BESIDE) {
            continue;
        }
        if path.is_dir() {
            // One that led up would be gone through again and again.
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
