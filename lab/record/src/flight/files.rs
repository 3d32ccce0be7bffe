//! Where the flight recorder's files go, what they are called, and how many stay.
//!
//! A file is called by the time, in UTC, and by what happened. Only files whose names this recorder could have given
//! count, and only those are removed.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use freehold_trace::folder_of;

use super::trigger::Trigger;
use crate::error::CaptureError;

/// Stands in a pattern for the time.
const TIME: &str = "{time}";
/// Stands in a pattern for what happened.
const TRIGGER: &str = "{trigger}";
/// The pattern where a folder alone is given.
const USUAL: &str = "flight-{time}-{trigger}.parquet";
/// How a time is written: `20261126T064242Z`.
const FORMAT: &str = "%Y%m%dT%H%M%SZ";
/// Characters of a time.
const TIME_CHARACTERS: usize = 16;

/// Recordings of one flight recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    folder: PathBuf,
    /// The file's name with [`TIME`] and perhaps [`TRIGGER`] in it.
    pattern: String,
    /// Most files that stay.
    keep: usize,
}

impl Files {
    /// Files at `out`, a folder or a pattern, of which the newest `keep` stay.
    ///
    /// # Errors
    /// [`CaptureError::Pattern`] if a name would be the same each time.
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

    /// Where they go.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Most files that stay.
    pub fn keep(&self) -> usize {
        self.keep
    }

    /// The whole pattern.
    pub fn pattern(&self) -> PathBuf {
        self.folder.join(&self.pattern)
    }

    /// Refuses a folder that is not there.
    ///
    /// # Errors
    /// [`CaptureError::NoFolder`].
    pub fn expect_folder(&self) -> Result<(), CaptureError> {
        if self.folder.is_dir() { Ok(()) } else { Err(CaptureError::NoFolder(self.folder.clone())) }
    }

    /// The name of a recording that is made now; no file has it yet.
    pub fn next(&self, trigger: Trigger) -> PathBuf {
        let now = DateTime::<Utc>::from(std::time::SystemTime::now());
        let names = (0..).map(|seconds| self.name(now + TimeDelta::seconds(seconds), trigger));
        let mut paths = names.map(|name| self.folder.join(name)).filter(|path| !path.exists());
        paths.next().expect("some second has no file yet")
    }

    fn name(&self, time: DateTime<Utc>, trigger: Trigger) -> String {
        self.pattern.replace(TIME, &time.format(FORMAT).to_string()).replace(TRIGGER, trigger.name())
    }

    /// The time in a name, if it is one of ours.
    fn time_of(&self, name: &str) -> Option<NaiveDateTime> {
        let (before, _) = self.pattern.split_once(TIME)?;
        let triggers = ["allocstall", "failure", "thp-failure", "psi", "asked"];
        triggers.into_iter().find_map(|trigger| {
            let time = name.get(before.replace(TRIGGER, trigger).len()..)?.get(..TIME_CHARACTERS)?;
            let is_ours = self.pattern.replace(TIME, time).replace(TRIGGER, trigger) == name;
            NaiveDateTime::parse_from_str(time, FORMAT).ok().filter(|_| is_ours)
        })
    }

    /// Removes the oldest files beyond those that stay; says which went.
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
    fn a_folder_gets_names_of_ours_and_a_pattern_its_own() {
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
    fn the_oldest_go_and_nothing_else_does() {
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
    fn no_name_is_given_twice() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path(), 2).unwrap();
        let first = files.next(Trigger::Asked);
        fs::write(&first, "").unwrap();
        assert_ne!(files.next(Trigger::Asked), first);
    }

    #[test]
    fn a_folder_that_is_not_there_is_refused() {
        let files = Files::new(Path::new("/no/such/folder/"), 2).unwrap();
        assert!(files.expect_folder().unwrap_err().to_string().contains("/no/such/folder"));
    }
}
