//! A series of boots: several guests, each booted several times, interleaved, with several boots at once.
//!
//! The recordings are in one folder, one file per run, and a file that exists is complete. A series that is started
//! again in its folder boots only the missing runs. The folder also holds the *plan*, a text that describes the
//! request; runs of another plan are refused.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::accelerator::Accelerator;
use crate::boot::{boot, prepare};
use crate::error::{Error, on_file};
use crate::fingerprint::{hash_bytes, hash_file, hash_folder};
use crate::guest::Guest;
use crate::interrupt::Interrupts;
use crate::outcome::{BootOutcome, RecordingEnd};
use crate::tools::Tools;

/// File with the plan of the runs in a folder.
const PLAN: &str = "plan.txt";
/// File name extension of an unfinished run.
const PART: &str = "part";

/// Guests to boot, number of boots, and folder for the recordings.
#[derive(Debug)]
pub struct Series<'a> {
    /// Programs of the host.
    pub tools: &'a Tools,
    /// Guests, each with the name that its files begin with.
    pub sides: &'a [(String, Guest)],
    /// Boots of each guest.
    pub runs: usize,
    /// Concurrent boots.
    pub jobs: usize,
    /// Way to execute the guests.
    pub accelerator: Accelerator,
    /// Folder for the recordings, which need not exist.
    pub folder: &'a Path,
}

/// A run that is to be made or exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    side: usize,
    run: usize,
}

/// A finished run of a series.
#[derive(Clone, Copy, Debug)]
pub struct SeriesRun<'a> {
    /// Name of the guest.
    pub side: &'a str,
    /// Number of the run, from 1.
    pub run: usize,
    /// Outcome of the boot; `None` if the recording existed already.
    pub boot: Option<BootOutcome>,
}

impl Series<'_> {
    /// Boots the missing runs, and calls `on_run` for every run as it ends. Returns the recordings, by guest and run.
    ///
    /// # Errors
    /// The first error of a boot; [`Error::Interrupted`]. Recordings that are complete by then remain in the folder.
    pub fn record(
        &self,
        interrupts: &Interrupts,
        on_run: &(dyn Fn(SeriesRun<'_>) + Sync),
    ) -> Result<Vec<Vec<PathBuf>>, Error> {
        for (_, guest) in self.sides {
            prepare(guest, &mut |_| ())?;
        }
        let _lock = self.open()?;
        let turns = self.turns();
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while let Some(turn) = turns.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.take(*turn, interrupts) {
                            Ok(boot) => on_run(SeriesRun { side: &self.sides[turn.side].0, run: turn.run + 1, boot }),
                            Err(error) => {
                                next.store(turns.len(), Ordering::Relaxed);
                                failure.lock().unwrap_or_else(|poison| poison.into_inner()).get_or_insert(error);
                            }
                        }
                    }
                });
            }
        });
        match failure.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
            Some(error) => Err(error),
            None => Ok((0..self.sides.len()).map(|side| self.files(side)).collect()),
        }
    }

    /// Creates the folder, or checks that it holds runs of the same plan. Other series are locked out of the folder
    /// until the returned file is dropped.
    fn open(&self) -> Result<File, Error> {
        fs::create_dir_all(self.folder).map_err(on_file("create", self.folder))?;
        let path = self.folder.join(PLAN);
        let plan = self.plan()?;
        match fs::read_to_string(&path) {
            Ok(found) if found == plan => {}
            Err(_) if is_empty(self.folder) => fs::write(&path, plan).map_err(on_file("write", &path))?,
            _ => {
                let folder = self.folder.display();
                let parts = "kernel, guest, workload and recorder";
                return Err(Error::Input(format!(
                    "{folder} contains other files than runs with the same {parts}; give another folder"
                )));
            }
        }
        let lock = File::open(&path).map_err(on_file("read", &path))?;
        if lock.try_lock().is_err() {
            return Err(Error::Input(format!(
                "another series of boots writes to {}; wait until it ends",
                self.folder.display()
            )));
        }
        self.clear_parts()?;
        Ok(lock)
    }

    /// Removes unfinished files of a series that was killed.
    fn clear_parts(&self) -> Result<(), Error> {
        for entry in fs::read_dir(self.folder).map_err(on_file("read", self.folder))? {
            let path = entry.map_err(on_file("read", self.folder))?.path();
            if path.extension().is_some_and(|extension| extension == PART) {
                fs::remove_file(&path).map_err(on_file("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Returns the plan as text, with fingerprints of the files that it names. The number of runs is not part of it, so
    /// that a later series can request more.
    fn plan(&self) -> Result<String, Error> {
        let mut plan = format!("executed by: {:?}\nrecorder: {}\n", self.accelerator, hash_file(&self.tools.freehold)?);
        for (name, guest) in self.sides {
            let (image, script) = (hash_file(&guest.kernel.image)?, hash_bytes(guest.workload.script.as_bytes()));
            let root = guest.root.as_deref().map_or(Ok("none".to_owned()), hash_folder)?;
            let (guest, limit) = (guest.describe(), guest.timeout.as_secs());
            let prints = format!("image {image}, script {script}, root {root}");
            plan += &format!("{name}: {guest}, at most {limit} s; {prints}\n");
        }
        Ok(plan)
    }

    /// Returns the runs in the order in which they are started: each round has all guests, and every other round is in
    /// reverse order.
    fn turns(&self) -> Vec<Turn> {
        let count = self.sides.len();
        let mut turns = Vec::with_capacity(self.runs * count);
        for run in 0..self.runs {
            for place in 0..count {
                turns.push(Turn { side: if run.is_multiple_of(2) { place } else { count - 1 - place }, run });
            }
        }
        turns
    }

    fn take(&self, turn: Turn, interrupts: &Interrupts) -> Result<Option<BootOutcome>, Error> {
        let file = self.file(turn);
        if file.is_file() {
            return Ok(None);
        }
        if interrupts.count() > 0 {
            return Err(Error::Interrupted);
        }
        // A run that is interrupted must not be counted, so a recording gets its final name only at the end.
        let part = tempfile::Builder::new()
            .suffix(&format!(".{PART}"))
            .tempfile_in(self.folder)
            .map_err(on_file("create", self.folder))?
            .into_temp_path();
        let (name, guest) = &self.sides[turn.side];
        let mut last = String::new();
        let of_side = if self.sides.len() > 1 { format!(" of {name}") } else { String::new() };
        let run = format!("run {}{of_side}", turn.run + 1);
        let outcome = boot(self.tools, guest, self.accelerator, &part, interrupts, &mut |sentence| {
            sentence.clone_into(&mut last);
        })
        .map_err(|error| match error {
            Error::Guest(sentence) => Error::Guest(format!("{run}: {sentence}")),
            other => other,
        })?;
        if outcome.end == RecordingEnd::Interrupted {
            return Err(Error::Interrupted);
        }
        if let Some(shortfall) = outcome.end.shortfall(guest.timeout) {
            return Err(Error::Guest(format!("{run}: {shortfall}; last message of the guest: {last}")));
        }
        part.persist(&file).map_err(|error| on_file("write", &file)(error.error))?;
        Ok(Some(outcome))
    }

    fn file(&self, turn: Turn) -> PathBuf {
        self.folder.join(format!("{}-{:02}.parquet", self.sides[turn.side].0, turn.run + 1))
    }

    fn files(&self, side: usize) -> Vec<PathBuf> {
        (0..self.runs).map(|run| self.file(Turn { side, run })).collect()
    }
}

/// Returns whether a folder has no entries, or cannot be read.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel::Kernel;
    use crate::kernel::tests::unpack_package;
    use crate::workload::Workload;

    fn guest(root: &Path) -> Guest {
        unpack_package(root, "6.12.9-cloud", "boot/vmlinuz-6.12.9-cloud");
        Guest {
            kernel: Kernel::below(root).unwrap(),
            cpus: 2,
            memory: "512M".parse().unwrap(),
            workload: Workload::find("small").unwrap(),
            root: None,
            settings: Vec::new(),
            append: String::new(),
            record: Vec::new(),
            timeout: Duration::from_secs(1),
        }
    }

    /// Calls `check` with a series of three runs whose folder is `runs` below `folder`.
    fn with_series(folder: &Path, guest: &Guest, check: impl Fn(&Series<'_>)) {
        fs::write(folder.join("freehold"), "recorder").unwrap();
        let tools = Tools {
            qemu: "qemu".into(),
            busybox: "busybox".into(),
            setpriv: "setpriv".into(),
            freehold: folder.join("freehold"),
        };
        let sides = ["a", "b"].map(|name| (name.to_owned(), guest.clone()));
        let accelerator = Accelerator::Emulation;
        check(&Series { tools: &tools, sides: &sides, runs: 3, jobs: 2, accelerator, folder: &folder.join("runs") });
    }

    #[test]
    fn rounds_alternate() {
        let folder = tempfile::tempdir().unwrap();
        with_series(folder.path(), &guest(folder.path()), |series| {
            let order: Vec<usize> = series.turns().iter().map(|turn| turn.side).collect();
            assert_eq!(order, [0, 1, 1, 0, 0, 1]);
        });
    }

    /// Files represent complete runs, so a series whose files all exist boots nothing.
    #[test]
    fn complete_series_boots_nothing() {
        let folder = tempfile::tempdir().unwrap();
        with_series(folder.path(), &guest(folder.path()), |series| {
            drop(series.open().unwrap());
            (0..2).flat_map(|side| series.files(side)).for_each(|file| fs::write(file, "run").unwrap());
            let files = series.record(&Interrupts::with_count(0), &|run| assert!(run.boot.is_none())).unwrap();
            assert_eq!(files.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        });
    }

    #[test]
    fn series_of_another_plan_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let first = guest(folder.path());
        with_series(folder.path(), &first, |series| drop(series.open().unwrap()));
        with_series(folder.path(), &first, |series| drop(series.open().unwrap()));
        let larger = Guest { cpus: 4, ..first.clone() };
        with_series(folder.path(), &larger, |series| assert!(series.open().is_err()));
        let script = first.workload.script.clone() + "# more";
        let other = Guest { workload: Workload { script, ..first.workload.clone() }, ..first };
        with_series(folder.path(), &other, |series| assert!(series.open().is_err()));
    }

    #[test]
    fn rebuilt_kernel_makes_the_series_stale() {
        let folder = tempfile::tempdir().unwrap();
        let first = guest(folder.path());
        with_series(folder.path(), &first, |series| drop(series.open().unwrap()));
        let image = fs::read(&first.kernel.image).unwrap();
        fs::write(&first.kernel.image, [image, vec![1]].concat()).unwrap();
        with_series(folder.path(), &first, |series| assert!(series.open().is_err()));
    }

    #[test]
    fn foreign_recordings_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("runs")).unwrap();
        fs::write(folder.path().join("runs/a-01.parquet"), "foreign").unwrap();
        with_series(folder.path(), &guest(folder.path()), |series| assert!(series.open().is_err()));
    }

    #[test]
    fn unfinished_files_of_a_killed_series_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        with_series(folder.path(), &guest(folder.path()), |series| {
            drop(series.open().unwrap());
            let names = [".tmpX.part", "a-01.parquet"].map(|name| series.folder.join(name));
            names.iter().for_each(|name| fs::write(name, "").unwrap());
            drop(series.open().unwrap());
            assert_eq!(names.map(|name| name.exists()), [false, true]);
        });
    }

    #[test]
    fn concurrent_series_in_a_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        with_series(folder.path(), &guest(folder.path()), |series| {
            let _first = series.open().unwrap();
            assert!(series.open().is_err());
        });
    }

    #[test]
    fn interrupt_ends_a_series() {
        let folder = tempfile::tempdir().unwrap();
        with_series(folder.path(), &guest(folder.path()), |series| {
            let outcome = series.record(&Interrupts::with_count(1), &|_| panic!("nothing was to be booted"));
            assert!(matches!(outcome, Err(Error::Interrupted)));
        });
    }
}
