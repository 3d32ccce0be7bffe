//! How bytes leave the program.
//!
//! A file is written beside its final place and renamed into it, so that a full disk or Ctrl-C leaves either the whole
//! file or none.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Why an answer did not leave the program.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A file could not be written; nothing was left under its name.
    #[error("cannot write {path}: {source}; name a place that exists and has room", path = path.display())]
    Write {
        /// The file as the user named it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A format was to go where the input is.
    #[error("{path} is what is read, and would be lost; name another file", path = .0.display())]
    Input(PathBuf),

    /// Two formats were to go to one place.
    #[error("two formats cannot go to one place; give each its own")]
    SamePlace,

    /// Stdout could not be written.
    #[error("cannot write to stdout: {0}; send the output somewhere else")]
    Stdout(io::Error),
}

impl OutputError {
    /// Whether the reader of our output simply went away (`freehold inspect x | head`): no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, OutputError::Stdout(source) if source.kind() == ErrorKind::BrokenPipe)
    }
}

/// Writes `bytes` to stdout and flushes it, so that a full disk behind a redirection is noticed.
pub fn print(bytes: &[u8]) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(OutputError::Stdout)
}

/// Whether [`write_atomically`] can write to `path`. Neither touches what is there nor leaves anything behind.
///
/// # Errors
/// When it cannot be.
pub fn try_file(path: &Path) -> Result<(), OutputError> {
    let tried = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // A pipe's reader would see it opened.
        Ok(there) if !there.is_file() => Ok(()),
        _ if path.file_name().is_none() => Err(ErrorKind::NotFound.into()),
        _ => {
            let part = part_of(path);
            File::create(&part).and_then(|_| fs::remove_file(&part))
        }
    };
    tried.map_err(|source| OutputError::Write { path: path.to_path_buf(), source })
}

/// Writes `bytes` to `path`, which afterwards holds all of them or what it held before.
///
/// Something that is not a regular file, such as `/dev/null` or a pipe, is written in place.
///
/// # Errors
/// [`OutputError::Write`], after removing the unfinished file.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let in_place = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    // What a link leads to is replaced, and not the link.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let result = if in_place { fs::write(path, bytes) } else { write_and_rename(&target, bytes) };
    result.map_err(|source| OutputError::Write { path: path.to_path_buf(), source })
}

fn write_and_rename(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = part_of(path);
    let written = write_durably(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // The first failure is the one to report; the file may not even exist.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Where a file is written before it has its name.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    PathBuf::from(part)
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(bytes)?;
    file.into_inner()?.sync_all()
}
