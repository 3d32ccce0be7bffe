//! Real programs under the malloc: the output and exit status of each must equal those of a run without the malloc.
//!
//! The stage first checks the malloc's conformance with C ([`conformance`]), then its heap profiles against a program
//! whose memory is known ([`profile`]), and runs a short soak ([`storm`]). After that it runs the scripts in
//! `dev/xtask/malloc`. Each script gives a program some work in a folder of its own, and uses only sockets in that
//! folder. It runs without the malloc first, and then with the library that `freehold run` carries, once for each set
//! of options. A script whose programs are missing on this machine is left out, with a message.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::sandbox::Sandbox;
use super::{conformance, profile, smoke, storm};
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace;

/// Script, and the conditions of its runs.
struct Case {
    /// Name of the script without its extension.
    name: &'static str,
    /// Programs that the script runs.
    needs: &'static [&'static str],
    /// Arguments with which the first program in `needs` allocates and exits at once. Empty for a program with its own
    /// malloc, whose functions take precedence over the library's.
    hello: &'static [&'static str],
    /// Sets of options under which the script runs.
    options: &'static [&'static str],
    /// User that runs the script if this process is root.
    user: User,
}

/// User of a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// User that runs the stage.
    Own,
    /// Unprivileged user without files, for programs that refuse to run as root.
    Nobody,
}

const VERSION: &[&str] = &["--version"];
/// Both ways of returning memory to the system.
const BOTH: &[&str] = &["return=frees", "return=helper"];
/// Both ways, and a hardened process, which reports misuse of memory. The programs must cause no report.
const HARDENED: &[&str] = &["return=frees", "return=helper", "hardened=on"];
/// Both ways, and per-CPU sections replaced by locks.
const ALL: &[&str] = &["return=frees", "return=helper", "sections=locks,return=helper"];

/// Longest scripts first.
const CASES: [Case; 11] = [
    Case { name: "python3", needs: &["python3"], hello: VERSION, options: ALL, user: User::Own },
    Case { name: "gcc", needs: &["gcc"], hello: VERSION, options: HARDENED, user: User::Own },
    Case { name: "java", needs: &["java"], hello: VERSION, options: BOTH, user: User::Own },
    Case {
        name: "redis",
        needs: &["redis-server", "redis-benchmark", "redis-cli"],
        hello: VERSION,
        options: HARDENED,
        user: User::Own,
    },
    Case {
        name: "postgres",
        needs: &["postgres", "initdb", "psql", "pgbench", "pg_isready"],
        hello: VERSION,
        options: BOTH,
        user: User::Nobody,
    },
    Case {
        name: "nginx",
        needs: &["nginx", "curl"],
        hello: &["-t", "-c", "/dev/null", "-e", "/dev/null"],
        options: BOTH,
        user: User::Own,
    },
    Case { name: "git", needs: &["git"], hello: VERSION, options: HARDENED, user: User::Own },
    Case { name: "rustc", needs: &["rustc"], hello: &[], options: BOTH, user: User::Own },
    Case { name: "node", needs: &["node"], hello: VERSION, options: BOTH, user: User::Own },
    Case { name: "sqlite3", needs: &["sqlite3"], hello: VERSION, options: HARDENED, user: User::Own },
    Case { name: "perl", needs: &["perl"], hello: VERSION, options: HARDENED, user: User::Own },
];

/// Seconds after which a run is terminated together with all processes that it started.
const PATIENCE: &str = "100";
/// Scripts that run at once. Most of them wait for something now and then.
const AT_ONCE: usize = 2;
/// Prefix of the allocator's own messages.
const COMPLAINT: &str = "freehold:";
/// User and group ID of the unprivileged user.
const NOBODY: u32 = 65534;

/// Runs all checks that this machine has the programs for.
///
/// # Errors
/// Returns an error if a build fails, if a program behaves differently under the malloc, or if a check of conformance
/// or profiles fails.
pub(crate) fn run() -> Result<Outcome, Error> {
    let scratch = tempfile::tempdir().map_err(on_file("create a folder in", &env::temp_dir()))?;
    let sandbox = Sandbox::new(smoke::freehold()?, scratch.path())?;
    let checked = conformance::run(&sandbox)? + profile::run(&sandbox)? + storm::run_briefly(&sandbox)?;
    let (present, absent): (Vec<_>, Vec<_>) = CASES.iter().partition(|case| sandbox.missing(case).is_none());
    for case in absent {
        println!("  skipped: {}, because `{}` is not installed", case.name, sandbox.missing(case).unwrap_or_default());
    }
    sandbox.run_all(&present)?;
    let is_empty = present.is_empty() && checked == 0;
    Ok(if is_empty {
        Outcome::Skipped("neither a compiler nor any of the programs is installed".into())
    } else {
        Outcome::Passed
    })
}

impl Sandbox {
    /// Returns the first program that a case needs and that this machine lacks.
    fn missing(&self, case: &Case) -> Option<&'static str> {
        case.needs.iter().copied().find(|program| !self.has(program))
    }

    /// Runs all cases, [`AT_ONCE`] at a time. A worker stops at its first failure. Returns the failure of one worker,
    /// if any.
    fn run_all(&self, cases: &[&Case]) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(|| self.run_remaining(cases, &next))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        })
    }

    /// Takes cases from `next` and runs each on this thread, until one fails or none is left.
    fn run_remaining(&self, cases: &[&Case], next: &AtomicUsize) -> Result<(), Error> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            self.compare(case)?;
        }
        Ok(())
    }

    /// Runs one script without the malloc and under each set of options, and compares the results.
    fn compare(&self, case: &Case) -> Result<(), Error> {
        if !case.hello.is_empty() {
            self.carries(case)?;
        }
        let plain = self.perform(case, None)?;
        for options in case.options {
            let under = self.perform(case, Some(options))?;
            judge(&plain, &under).map_err(|sentence| {
                Error::Failed(format!("dev/xtask/malloc/{}.sh under {options}: {sentence}", case.name))
            })?;
        }
        println!("  {} has the same output under {}", case.name, case.options.join(" and "));
        Ok(())
    }

    /// Checks that the library is loaded into the program: with `--stats`, it prints a message when the program exits.
    fn carries(&self, case: &Case) -> Result<(), Error> {
        let mut command = Command::new(&self.freehold);
        command.args(["run", "--stats", "--", case.needs[0]]).args(case.hello).env("PATH", self.path_text()?);
        let said = String::from_utf8_lossy(&output(&mut command)?.stderr).into_owned();
        if said.lines().any(|line| line.starts_with(COMPLAINT)) {
            return Ok(());
        }
        Err(Error::Failed(format!("the malloc is not loaded into `{}`: {}", command::line(&command), said.trim())))
    }

    /// Runs a script in a folder of its own.
    fn perform(&self, case: &Case, options: Option<&str>) -> Result<Output, Error> {
        let folder = self.scratch.join(format!("{}-{}", case.name, options.unwrap_or("plain").replace(',', "-")));
        fs::create_dir(&folder).map_err(on_file("create", &folder))?;
        let script = fs::read(workspace::root().join("dev/xtask/malloc").join(case.name).with_extension("sh"));
        let script = script.map_err(on_file("read", Path::new(case.name)))?;
        let copy = folder.join("script.sh");
        fs::write(&copy, script).map_err(on_file("write", &copy))?;
        let is_root = fs::metadata(&folder).map_err(on_file("read", &folder))?.uid() == 0;
        let mut words = vec!["timeout", PATIENCE, "sh"];
        if is_root && case.user == User::Nobody {
            chown(&folder, Some(NOBODY), Some(NOBODY)).map_err(on_file("change the owner of", &folder))?;
            words.splice(0..0, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        let mut command = self.command(&words, options)?;
        output(command.arg(&copy).arg(workspace::root()).current_dir(&folder))
    }
}

/// Runs a command and returns its exit status and output.
fn output(command: &mut Command) -> Result<Output, Error> {
    let output = command.stdin(Stdio::null()).output();
    output.map_err(|error| Error::Failed(format!("cannot start `{}`: {error}", command::line(command))))
}

/// Checks that a run under the malloc had the exit status and stdout of the plain run, and that the allocator printed
/// no message. Also checks that the plain run succeeded and printed something.
fn judge(plain: &Output, under: &Output) -> Result<(), String> {
    let [said, complaints] = [plain, under].map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    if !plain.status.success() || plain.stdout.is_empty() {
        return Err(format!("the script fails without the malloc ({}): {}", plain.status, said.trim()));
    }
    if under.status != plain.status {
        return Err(format!("the script ended with {}: {}", under.status, complaints.trim()));
    }
    if let Some(complaint) = complaints.lines().find(|line| line.starts_with(COMPLAINT)) {
        return Err(format!("the allocator reports: {complaint}"));
    }
    if under.stdout == plain.stdout {
        return Ok(());
    }
    let [old, new] = [plain, under].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let difference = old.lines().zip(new.lines()).position(|(old, new)| old != new);
    let index = difference.unwrap_or_else(|| old.lines().count().min(new.lines().count()));
    let [old_line, new_line] = [&old, &new].map(|text| text.lines().nth(index).unwrap_or("nothing"));
    Err(format!("line {} of the output should be `{old_line}`, but is `{new_line}`", index + 1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn ended(status: i32, stdout: &str, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(status), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn planted_output_difference_is_detected() {
        let plain = ended(0, "one\ntwo\n", "");
        assert_eq!(judge(&plain, &ended(0, "one\ntwo\n", "a warning\n")), Ok(()));
        let sentence = judge(&plain, &ended(0, "one\ntoo\n", "")).unwrap_err();
        assert_eq!(sentence, "line 2 of the output should be `two`, but is `too`");
        assert!(judge(&plain, &ended(0, "one\n", "")).unwrap_err().contains("is `nothing`"));
        assert!(judge(&plain, &ended(0, "one\ntwo\nthree\n", "")).is_err());
        assert!(judge(&plain, &ended(0, "one\ntwo", "")).is_err());
    }

    #[test]
    fn different_exit_or_freehold_message_is_detected() {
        let plain = ended(0, "one\n", "");
        assert!(judge(&plain, &ended(6, "one\n", "")).is_err());
        assert!(judge(&plain, &ended(1 << 8, "one\n", "")).is_err());
        assert!(judge(&plain, &ended(0, "one\n", "freehold: free(0x1): not an object\n")).is_err());
    }

    #[test]
    fn program_failing_without_freehold_proves_nothing() {
        assert!(judge(&ended(1 << 8, "one\n", ""), &ended(1 << 8, "one\n", "")).is_err());
        assert!(judge(&ended(0, "", ""), &ended(0, "", "")).is_err());
    }

    #[test]
    fn cases_and_scripts_correspond() {
        let folder = workspace::root().join("dev/xtask/malloc");
        let scripts = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut scripts: Vec<_> =
            scripts.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        scripts.sort();
        let mut names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        assert_eq!(scripts, names);
    }
}
