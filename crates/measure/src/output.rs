//! How an answer leaves the program: as text for people, as JSON for programs, or both.
//!
//! `--json FILE` writes the JSON to a file and still prints the text; `--json -` prints the JSON alone.
//! A JSON file is written beside its final place and renamed into it, so a full disk or Ctrl-C leaves
//! either the whole file or none.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Serialize;

use crate::terminal::Style;

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

/// The option `--json`, shared by every command that has something to report.
#[derive(Clone, Debug, Default, Args)]
pub struct JsonArgs {
    /// Write the result as JSON to FILE as well; `-` prints JSON instead of tables
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<JsonTarget>,
}

/// Where JSON goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonTarget {
    /// Stdout, in place of the text.
    Stdout,
    /// This file, beside the text on stdout.
    File(PathBuf),
}

impl FromStr for JsonTarget {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<JsonTarget, Infallible> {
        Ok(match text {
            "-" => JsonTarget::Stdout,
            path => JsonTarget::File(PathBuf::from(path)),
        })
    }
}

/// What a command found: one value with two views.
pub trait Report: Serialize {
    /// The view for people, lines ended by newlines.
    fn text(&self, style: Style) -> String;
}

/// Sends `report` where the user wants it.
///
/// # Errors
/// When stdout or the JSON file cannot be written. The file is written before anything is printed.
pub fn emit(report: &impl Report, json: &JsonArgs, style: Style) -> Result<(), OutputError> {
    write_json(report, json)?;
    match &json.json {
        Some(JsonTarget::Stdout) => print(&to_json(report)),
        Some(JsonTarget::File(_)) | None => print(report.text(style).as_bytes()),
    }
}

/// Writes the JSON file that was asked for, if it is a file.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(report: &impl Serialize, json: &JsonArgs) -> Result<(), OutputError> {
    let Some(JsonTarget::File(path)) = &json.json else { return Ok(()) };
    write_atomically(path, &to_json(report))
}

/// Pretty JSON, ended by a newline, of a value that cannot fail to serialise: our reports have string keys and plain data.
fn to_json(report: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(report).expect("a report is plain data with string keys");
    text.push(b'\n');
    text
}

/// Writes `bytes` to stdout and flushes it, so that a full disk behind a redirection is noticed.
pub fn print(bytes: &[u8]) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(OutputError::Stdout)
}

/// Whether the JSON file can be written: before work that takes long, because afterwards is late to hear that it cannot be.
///
/// # Errors
/// When it cannot be.
pub fn try_json(json: &JsonArgs) -> Result<(), OutputError> {
    match &json.json {
        Some(JsonTarget::File(path)) => try_file(path),
        Some(JsonTarget::Stdout) | None => Ok(()),
    }
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
    let result = if in_place { fs::write(path, bytes) } else { write_and_rename(path, bytes) };
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
