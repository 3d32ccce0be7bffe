//! Runs a program for its heap profile: waits for the program, and converts the profiles that it wrote to pprof's
//! format.
//!
//! The library writes its text to a temporary folder, under the numbers of the process and of the profile.

use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

use freehold_pprof::{Profile, to_pprof};
use freehold_report::output::{try_file, write_atomically};

use super::{OPTIONS, child};
use crate::error::Error;

/// File name extension of the library's profiles.
const ENDING: &str = "heap";

/// Runs a command, converts the profiles that it leaves, and returns its exit status as an error unless it succeeded.
pub(super) fn run(mut command: Command, options: &str, file: &Path) -> Result<(), Error> {
    let name = Name::new(file)?;
    let folder = Folder::create()?;
    let pattern = folder.0.join(format!("%p.%n.{ENDING}"));
    command.env(OPTIONS, format!("{options},profile={}", pattern.display()));
    let program = command.get_program().to_string_lossy().into_owned();
    let (main, status) = child::run(command)?;
    let written = folder.convert(&name, main)?;
    if written == 0 {
        eprintln!(
            "freehold: `{program}` wrote no profile: the library writes a profile when the program returns from main \
             or calls exit, but not if it ends by _exit or a signal, or has set PR_SET_NO_NEW_PRIVS; see --set \
             profile-signal=NUMBER"
        );
    }
    child::pass_on(status)
}

/// Path pattern of the profiles, in which `%p` is replaced by the process and `%n` by the number of the profile.
struct Name {
    text: String,
}

impl Name {
    fn new(file: &Path) -> Result<Name, Error> {
        let text = file
            .to_str()
            .ok_or_else(|| Error::Input("the profile's name is not UTF-8; give another name".to_owned()))?;
        let name = Name { text: text.to_owned() };
        try_file(&name.path_for(0, 0))?;
        Ok(name)
    }

    /// Returns whether this profile is requested: the program's own last profile, or others that the pattern
    /// distinguishes.
    fn wants(&self, profile: &WrittenProfile, main: u32, last: u32) -> bool {
        (profile.process == main || self.text.contains("%p")) && (profile.number == last || self.text.contains("%n"))
    }

    fn path_for(&self, process: u32, number: u32) -> PathBuf {
        self.text.replace("%p", &process.to_string()).replace("%n", &number.to_string()).into()
    }
}

/// A profile that the library wrote.
struct WrittenProfile {
    path: PathBuf,
    process: u32,
    number: u32,
}

/// Temporary folder for the library's files; it is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Folder, Error> {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let folder = env::temp_dir().join(format!("freehold-profile-{}-{moment:x}", process::id()));
        if folder.to_str().is_none_or(|name| name.contains([',', '%'])) {
            return Err(unusable(&folder, "its name contains a comma or percent sign"));
        }
        let created = DirBuilder::new().mode(0o700).create(&folder);
        created.map_err(|error| unusable(&folder, &error.to_string()))?;
        Ok(Folder(folder))
    }

    /// Converts the requested profiles of the process `main` and its children, and returns their number.
    fn convert(&self, name: &Name, main: u32) -> Result<usize, Error> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        let profiles: Vec<WrittenProfile> = files.filter_map(parse_file_name).collect();
        let mut count = 0;
        for profile in &profiles {
            let of_process = profiles.iter().filter(|other| other.process == profile.process);
            let last = of_process.map(|other| other.number).max().unwrap_or(0);
            if name.wants(profile, main, last) {
                write(&profile.path, &name.path_for(profile.process, profile.number))?;
                count += 1;
            }
        }
        Ok(count)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn unusable(folder: &Path, why: &str) -> Error {
    Error::Input(format!("cannot write profiles to {}: {why}; set TMPDIR to another folder", folder.display()))
}

/// Parses a file name of the form `PROCESS.NUMBER.heap`; `None` for any other name.
fn parse_file_name(path: PathBuf) -> Option<WrittenProfile> {
    let name = path.file_name()?.to_str()?;
    let (process, number) = name.strip_suffix(ENDING)?.strip_suffix('.')?.split_once('.')?;
    Some(WrittenProfile { process: process.parse().ok()?, number: number.parse().ok()?, path })
}

fn write(from: &Path, to: &Path) -> Result<(), Error> {
    let text = fs::read_to_string(from).map_err(unreadable)?;
    let taken = fs::metadata(from).and_then(|file| file.modified()).map_err(unreadable)?;
    let profile = Profile::parse(&text).map_err(unreadable)?;
    Ok(write_atomically(to, &to_pprof(&profile, taken))?)
}

fn unreadable(error: impl Display) -> Error {
    Error::Input(format!("cannot read the profile that the library wrote: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_name_selects_processes_and_numbers() {
        let cases = [
            ("a", [true, false, false, false]),
            ("a.%p", [true, false, true, false]),
            ("a.%n", [true, true, false, false]),
            ("%p.%n", [true; 4]),
        ];
        for (text, expected) in cases {
            let name = Name { text: text.to_owned() };
            let wanted = [(7, 2), (7, 1), (8, 2), (8, 1)]
                .map(|(process, number)| name.wants(&WrittenProfile { path: PathBuf::new(), process, number }, 7, 2));
            assert_eq!(wanted, expected, "{text}");
        }
        assert_eq!(Name { text: "%p.%n".to_owned() }.path_for(7, 2), Path::new("7.2"));
    }

    #[test]
    fn profile_file_names_are_parsed() {
        let profile = parse_file_name(PathBuf::from("folder/12.3.heap")).unwrap();
        assert_eq!((profile.process, profile.number), (12, 3));
        for other in ["12.3.heap.part", "12.heap", "a.3.heap"] {
            assert!(parse_file_name(Path::new("folder").join(other)).is_none(), "{other}");
        }
    }
}
