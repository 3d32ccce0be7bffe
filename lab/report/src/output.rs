//! Output to stdout and to files.
//!
//! A file is written under a temporary name next to its final path and then renamed. A full disk or Ctrl-C therefore
//! leaves either the whole new file or the previous contents.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Reasons why a result could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A file could not be written; no unfinished file is left under its name.
    #[error("cannot write {path}: {source}; give a path in an existing folder with free space", path = path.display())]
    Write {
        /// Path as the user gave it.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// The output path is one of the inputs.
    #[error("{path} is an input and would be overwritten; name another file", path = .0.display())]
    Input(PathBuf),

    /// Two formats have the same target.
    #[error("two formats have the same target; give each format its own file")]
    SamePlace,

    /// `--format` is given, and another option also directs a format to stdout.
    #[error("--format and an option with `-` both print to stdout; keep one of them, or give the option a file")]
    StdoutTwice,

    /// Stdout could not be written.
    #[error("cannot write to stdout: {0}; send the output somewhere else")]
    Stdout(io::Error),
}

impl OutputError {
    /// Returns whether the reader closed the pipe (`freehold inspect x | head`), which is not a failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, OutputError::Stdout(source) if source.kind() == ErrorKind::BrokenPipe)
    }
}

/// Writes `bytes` to stdout and flushes it, so that a full disk behind a redirection is noticed.
///
/// # Errors
/// [`OutputError::Stdout`] if stdout cannot be written.
pub fn print(bytes: &[u8]) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(OutputError::Stdout)
}

/// Checks that [`write_atomically`] can write to `path`. The check leaves existing contents as they are and removes its
/// own temporary file. A path that is neither a regular file nor a folder, such as a pipe, is accepted without a check.
///
/// # Errors
/// [`OutputError::Write`] if the file cannot be written.
pub fn try_file(path: &Path) -> Result<(), OutputError> {
    let tried = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // Not opened here, because the reader of a pipe would notice that.
        Ok(there) if !there.is_file() => Ok(()),
        _ if path.file_name().is_none() => Err(ErrorKind::NotFound.into()),
        _ => {
            let part = part_of(path);
            File::create(&part).and_then(|_| fs::remove_file(&part))
        }
    };
    tried.map_err(|source| OutputError::Write { path: path.to_path_buf(), source })
}

/// Writes `bytes` to `path`. Afterwards the file contains all of them or, on failure, its previous contents.
///
/// A path that is not a regular file, such as `/dev/null` or a pipe, is written in place.
///
/// # Errors
/// [`OutputError::Write`], after removing the unfinished file.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let in_place = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    // A symbolic link is followed: its target is replaced, the link itself stays.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let result = if in_place { fs::write(path, bytes) } else { write_and_rename(&target, bytes) };
    result.map_err(|source| OutputError::Write { path: path.to_path_buf(), source })
}

fn write_and_rename(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = part_of(path);
    let written = write_durably(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // The error of the write is reported. An error of the removal is ignored, since the file may not exist.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Returns the temporary path under which a file is written before it is renamed.
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
