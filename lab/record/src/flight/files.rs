//! Files of the flight recorder: their folder, their names, and the number that is kept.
//!
//! A file's name contains the time in UTC and the trigger. Only files whose names this recorder could have given are
//! counted and removed.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use freehold_trace::folder_of;

use super::trigger::Trigger;
use crate::error::CaptureError;

/// Placeholder for the time in a pattern.
const TIME: &str = "{time}";
/// Placeholder for the trigger in a pattern.
const TRIGGER: &str = "{trigger}";
/// Pattern that is used if only a folder is given.
const USUAL: &str = "flight-{time}-{trigger}.parquet";
/// Format of a time: `20261126T064242Z`.
const FORMAT: &str = "%Y%m%dT%H%M%SZ";
/// Number of characters of a time.
const TIME_CHARACTERS: usize = 16;

/// Recordings of one flight recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    folder: PathBuf,
    /// Name of a file, with [`TIME`] and optionally [`TRIGGER`] in it.
    pattern: String,
    /// Largest number of files that are kept.
    keep: usize,
}

impl Files {
    /// Creates the description of files at `out`, a folder or a pattern. The newest `keep` files are kept.
    ///
    /// # Errors
    /// [`CaptureError::Pattern`] if all files would have the same name.
    pub fn new(out: &Path, keep: usize) -> Result<Files, CaptureError> {
        let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_folder = out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/');
        if is_folder || out.as_os_str().is_empty() {
            return Ok(Files { folder: out.to_path_buf(), pattern: USUAL.to_owned(), keep });
        }
        if name.matches(TIME).count() != 1 || name.matches(TRIGGER).count() > 1 {
            return Err(CaptureError::Pattern(out.to_path_buf()));
        }
        Ok(Files { folder: folder_of(out).to_path_buf(), pattern: name.to_owned(), keep })
    }

    /// Returns the folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the largest number of files that are kept.
    pub fn keep(&self) -> usize {
        self.keep
    }

    /// Returns the pattern with its folder.
    pub fn pattern(&self) -> PathBuf {
        self.folder.join(&self.pattern)
    }

    /// Checks that the folder exists.
    ///
    /// # Errors
    /// [`CaptureError::NoFolder`] if not.
    pub fn expect_folder(&self) -> Result<(), CaptureError> {
        if self.folder.is_dir() { Ok(()) } else { Err(CaptureError::NoFolder(self.folder.clone())) }
    }

    /// Returns the path of a new recording. No file has this name yet.
    pub fn next(&self, trigger: Trigger) -> PathBuf {
        let now = DateTime::<Utc>::from(std::time::SystemTime::now());
        let names = (0..).map(|seconds| self.name(now + TimeDelta::seconds(seconds), trigger));
        let mut paths = names.map(|name| self.folder.join(name)).filter(|path| !path.exists());
        paths.next().expect("there are finitely many files, so some name is free")
    }

    fn name(&self, time: DateTime<Utc>, trigger: Trigger) -> String {
        self.pattern.replace(TIME, &time.format(FORMAT).to_string()).replace(TRIGGER, trigger.name())
    }

    /// Returns the time in a name, if the name has this recorder's pattern.
    fn time_of(&self, name: &str) -> Option<NaiveDateTime> {
        let (before, _) = self.pattern.split_once(TIME)?;
        let triggers = ["allocstall", "failure", "thp-failure", "psi", "asked"];
        triggers.into_iter().find_map(|trigger| {
            let time = name.get(before.replace(TRIGGER, trigger).len()..)?.get(..TIME_CHARACTERS)?;
            let is_ours = self.pattern.replace(TIME, time).replace(TRIGGER, trigger) == name;
            NaiveDateTime::parse_from_str(time, FORMAT).ok().filter(|_| is_ours)
        })
    }

    /// Removes the oldest files beyond the number that is kept. Returns the removed files.
    pub fn prune(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut ours: Vec<(NaiveDateTime, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| Some((self.time_of(entry.file_name().to_str()?)?, entry.path())))
            .collect();
        ours.sort();
        let beyond = ours.len().saturating_sub(self.keep);
        ours.into_iter().take(beyond).map(|(_, path)| path).filter(|path| fs::remove_file(path).is_ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flight_files_are_named_by_folder_or_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path(), 3).unwrap();
        let time = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
        assert_eq!(files.name(time, Trigger::AllocStall), "flight-20260921T141320Z-allocstall.parquet");
        assert_eq!(files.pattern(), folder.path().join(USUAL));
        let own = Files::new(Path::new("a/web-{time}.parquet"), 3).unwrap();
        assert_eq!(
            (own.folder(), own.name(time, Trigger::Asked)),
            (Path::new("a"), "web-20260921T141320Z.parquet".into())
        );
        for same_each_time in ["a/web.parquet", "a/{trigger}", "{time}{time}"] {
            assert!(Files::new(Path::new(same_each_time), 3).is_err(), "{same_each_time}");
        }
    }

    #[test]
    fn prune_removes_only_the_oldest_flight_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path(), 2).unwrap();
        let ours = [
            "flight-20260921T141322Z-psi.parquet",
            "flight-20260921T141320Z-thp-failure.parquet",
            "flight-20260921T141321Z-asked.parquet",
        ];
        let others = ["flight-20260921T141319Z-mine.parquet", "flight-20269921T141319Z-psi.parquet", "r.parquet"];
        for name in ours.iter().chain(&others) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(files.prune(), [folder.path().join(ours[1])]);
        assert!(files.prune().is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn file_names_are_not_reused() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path(), 2).unwrap();
        let first = files.next(Trigger::Asked);
        fs::write(&first, "").unwrap();
        assert_ne!(files.next(Trigger::Asked), first);
    }

    #[test]
    fn missing_folder_is_an_error() {
        let files = Files::new(Path::new("/no/such/folder/"), 2).unwrap();
        assert!(files.expect_folder().unwrap_err().to_string().contains("/no/such/folder"));
    }
}
