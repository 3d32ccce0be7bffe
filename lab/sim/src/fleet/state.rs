//! Finished runs of a fleet in a file, so that an interrupted fleet can be continued.
//!
//! The file has one JSON value per line. The first line identifies the question and the build of the program. Each
//! finished run appends one line immediately. A last line without a line end was cut off by the interruption, and its
//! run is done again. A file of another question, of other policies or of another build is refused, since its runs are
//! not comparable. The number of hosts is not part of the question.
//!
//! Without an explicit path, the file is in the user's state folder. Its name is derived from the first line, and it is
//! removed when all runs are done. If there is no such folder, finished runs are not saved.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use freehold_report::origin::Program;
use freehold_report::output::OutputError;
use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;
use super::host::HostResult;
use crate::error::Error;

/// Version of the file's format.
const FORMAT: u32 = 1;

/// First line: the question, and the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    freehold_fleet: u32,
    /// Version and commit of the program.
    program: String,
    /// Fingerprint of the program's file.
    build: String,
    /// Name of the plan.
    plan: String,
    /// Fingerprint of all inputs of a run but the host and policy: plan, changes, costs, seed.
    question: String,
    /// Policies in their order.
    policies: Vec<String>,
}

/// A finished run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    host: u32,
    policy: String,
    result: HostResult,
}

/// Location of the file of finished runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This file, which is not removed.
    File(PathBuf),
    /// A file in the user's state folder, which is removed when all runs are done.
    Default,
}

/// Finished runs, by host and policy.
#[derive(Debug)]
pub struct State {
    done: HashMap<(u32, String), HostResult>,
    journal: Option<Journal>,
}

/// The open file.
#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    is_kept: bool,
}

impl Header {
    /// Creates the header for a question to this program.
    ///
    /// # Errors
    /// Returns an error if the program cannot read its own file.
    pub fn new(plan: &str, question: Fingerprint, policies: &[String]) -> Result<Header, Error> {
        let build = Fingerprint::from_this_program()
            .map_err(|error| Error::Input(format!("cannot read /proc/self/exe: {error}; mount /proc")))?;
        Ok(Header {
            freehold_fleet: FORMAT,
            program: Program::this().version(),
            build: build.text(),
            plan: plan.to_owned(),
            question: question.text(),
            policies: policies.to_vec(),
        })
    }

    /// Returns the reason why runs under `other` do not answer this question; `None` if they do.
    fn difference(&self, other: &Header) -> Option<String> {
        if other.freehold_fleet != self.freehold_fleet || (&other.program, &other.build) != (&self.program, &self.build)
        {
            return Some(format!("was written by another build of this program ({})", other.program));
        }
        if other.plan != self.plan {
            return Some(format!("belongs to the plan {}", other.plan));
        }
        if other.question != self.question {
            return Some("belongs to the same plan with other values, costs or another seed".to_owned());
        }
        (other.policies != self.policies).then(|| format!("belongs to the policies {}", other.policies.join(" ")))
    }

    /// Returns a file name that is unique to the header.
    fn file_name(&self) -> String {
        let all = serde_json::to_vec(self).expect("a header serializes to JSON");
        format!("fleet-{}.jsonl", Fingerprint::default().with(all).text())
    }
}

impl State {
    /// Opens or creates the file, and reads the finished runs. Without a path and a state folder, there is no file and
    /// no finished run.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, is in use, or belongs to another question.
    pub fn open(place: &Place, header: &Header) -> Result<State, Error> {
        let (path, is_kept) = match place {
            Place::File(path) => (path.clone(), true),
            Place::Default => match default_folder() {
                Some(folder) => (folder.join(header.file_name()), false),
                None => return Ok(State { done: HashMap::new(), journal: None }),
            },
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|source| OutputError::Write { path: path.clone(), source })?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Error::Input(format!(
                "another fleet is writing to {}; wait for it, or name another file with --resume",
                path.display()
            )));
        }
        let done = read(&path, &mut file, header)?;
        Ok(State { done, journal: Some(Journal { path, file: Mutex::new(file), is_kept }) })
    }

    /// Returns the result of a host under a policy, if it has been run.
    pub fn get(&self, host: u32, policy: &str) -> Option<&HostResult> {
        self.done.get(&(host, policy.to_owned()))
    }

    /// Returns the path of the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.journal.as_ref().map(|journal| journal.path.as_path())
    }

    /// Saves the result of a host; does nothing if there is no file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn keep(&self, host: u32, policy: &str, result: &HostResult) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.write(&Line { host, policy: policy.to_owned(), result: result.clone() })
    }

    /// Removes the file if its location is the default, after all runs are done.
    pub fn conclude(self) {
        if let Some(journal) = self.journal.filter(|journal| !journal.is_kept) {
            // A failure is harmless: only the same program with the same question would read the file again.
            let _ = fs::remove_file(journal.path);
        }
    }
}

impl Journal {
    fn write(&self, line: &impl Serialize) -> Result<(), Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write_line(&mut file, line).map_err(|source| OutputError::Write { path: self.path.clone(), source }.into())
    }
}

fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    file.write_all(&json_line(line))
}

fn json_line(line: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("a line serializes to JSON");
    text.push(b'\n');
    text
}

/// Reads all complete lines, and truncates the file after them. Writes the header if there is no complete line.
fn read(path: &Path, file: &mut File, header: &Header) -> Result<HashMap<(u32, String), HostResult>, Error> {
    let text = match io::read_to_string(&*file) {
        Ok(text) => text,
        Err(error) => return Err(refusal(path, &format!("cannot be read as the state of a fleet ({error})"))),
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].lines();
    let first = lines.next();
    match first.map(serde_json::from_str::<Header>) {
        // The file is empty, or its first line was cut off.
        None if json_line(header).starts_with(text.as_bytes()) => {}
        None | Some(Err(_)) => return Err(refusal(path, "is not the state of a fleet")),
        Some(Ok(found)) => {
            if let Some(difference) = header.difference(&found) {
                return Err(refusal(path, &difference));
            }
        }
    }
    file.set_len(whole as u64)
        .and_then(|()| file.seek(SeekFrom::End(0)))
        .and_then(|_| if first.is_none() { write_line(file, header) } else { Ok(()) })
        .map_err(|source| OutputError::Write { path: path.to_path_buf(), source })?;
    let mut done = HashMap::new();
    for (number, line) in lines.enumerate() {
        match serde_json::from_str::<Line>(line) {
            Ok(Line { host, policy, result }) => done.insert((host, policy), result),
            Err(_) => return Err(refusal(path, &format!("is damaged on line {}", number + 2))),
        };
    }
    Ok(done)
}

/// Returns the error for a file that is not the state of this fleet.
fn refusal(path: &Path, reason: &str) -> Error {
    Error::Input(format!("{} {reason}; remove it, or name another file with --resume", path.display()))
}

/// Returns the user's folder for the state of programs, and creates it if necessary; `None` if that is impossible.
fn default_folder() -> Option<PathBuf> {
    let base = folder_variable("XDG_STATE_HOME").or_else(|| Some(folder_variable("HOME")?.join(".local/state")))?;
    let folder = base.join("freehold");
    fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Returns the folder that an environment variable names.
fn folder_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::vmstat::Vmstat;

    fn header(question: &str) -> Header {
        Header::new("webhost", Fingerprint::default().with(question), &["linux-6.12".to_owned()]).unwrap()
    }

    fn result(value: u64) -> HostResult {
        let vmstat = Vmstat::new([("pgscan_kswapd", value)]);
        HostResult { duration_ms: 1, memory_pages: 1, free_pageblocks: value, reserved_pages: vec![value], vmstat }
    }

    fn open(path: &Path, header: &Header) -> Result<State, String> {
        State::open(&Place::File(path.to_path_buf()), header).map_err(|error| error.to_string())
    }

    #[test]
    fn finished_runs_survive_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let state = open(&path, &header("a")).unwrap();
        state.keep(1, "linux-6.12", &result(5)).unwrap();
        state.keep(2, "linux-6.12", &result(6)).unwrap();
        drop(state);
        // Simulates an interruption while the third run was being written.
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [whole.as_slice(), b"{\"host\":3,\"pol"].concat()).unwrap();
        let state = open(&path, &header("a")).unwrap();
        assert_eq!(state.get(2, "linux-6.12"), Some(&result(6)));
        assert_eq!((state.get(3, "linux-6.12"), state.get(2, "freehold")), (None, None));
        state.keep(3, "linux-6.12", &result(7)).unwrap();
        drop(state);
        assert_eq!(open(&path, &header("a")).unwrap().get(3, "linux-6.12"), Some(&result(7)));
    }

    #[test]
    fn truncated_header_means_no_finished_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::write(&path, &json_line(&header("a"))[..10]).unwrap();
        open(&path, &header("a")).unwrap().keep(1, "linux-6.12", &result(5)).unwrap();
        assert!(open(&path, &header("a")).unwrap().get(1, "linux-6.12").is_some());
    }

    #[test]
    fn state_of_another_fleet_is_an_error_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        drop(open(&path, &header("a")).unwrap());
        let ours = header("a");
        let other_build = Header { build: String::new(), ..ours.clone() };
        let other_plan = Header { plan: "build".to_owned(), ..ours.clone() };
        let other_policy = Header { policies: vec!["freehold".to_owned()], ..ours };
        for (other, why) in [
            (header("b"), "other values, costs or another seed"),
            (other_build, "another build of this program"),
            (other_plan, "belongs to the plan webhost"),
            (other_policy, "belongs to the policies linux-6.12"),
        ] {
            let before = fs::read(&path).unwrap();
            let error = open(&path, &other).unwrap_err();
            assert!(error.contains(why) && error.contains("--resume") && !error.contains('\n'), "{error}");
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }

    #[test]
    fn invalid_state_file_is_an_error_and_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let damaged = [json_line(&header("a")), b"{}\n".to_vec()].concat();
        for (text, why) in [
            (b"my notes\n".as_slice(), "is not the state of a fleet"),
            (b"my notes", "is not the state of a fleet"),
            (b"\xff\xfe\n", "cannot be read as the state of a fleet"),
            (&damaged, "is damaged on line 2"),
        ] {
            fs::write(&path, text).unwrap();
            let error = open(&path, &header("a")).unwrap_err();
            assert!(error.contains(why), "{error}");
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn state_file_in_use_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let _first = open(&path, &header("a")).unwrap();
        assert!(open(&path, &header("a")).unwrap_err().contains("another fleet is writing"));
    }
}
