//! Smoke tests: every command of `freehold` runs once, as a user would run it, on the bundled recordings.
//!
//! The list of commands is read from the output of `freehold help`. A command without a case here fails the stage, so
//! that every new command needs a case. The output is checked by two rules only. A successful run prints something on
//! stdout, except by commands whose only result is files (`man`, `record`, `snapshot`). A refusal prints one sentence
//! on stderr and nothing on stdout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace::{self, cargo};

/// One run of a command of the laboratory.
struct Case {
    /// Name of the command.
    name: &'static str,
    /// Arguments of the command. [`SCRATCH`] is replaced by a folder below the build folder.
    arguments: &'static [&'static str],
    /// Expected ending of the run.
    ending: Ending,
}

/// Expected ending of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Exit code 0 and output on stdout.
    Good,
    /// Exit code 0 and no output on stdout.
    Quiet,
    /// Exit code 0 and no output on stdout, or exit code 2 on a machine without root or tracefs.
    QuietOrRefused,
    /// Exit code 2 and one sentence on stderr.
    Refused,
}

/// Placeholder for a folder that the case may write to.
const SCRATCH: &str = "{scratch}";
/// Small recordings in the repository.
const CALM: &str = "recordings/oracle-calm.parquet";
const PRESSURE: &str = "recordings/oracle-pressure.parquet";

/// Cases, at least one for every command.
const CASES: [Case; 75] = [
    good("help", &[]),
    good("help", &["record"]),
    good("policies", &[]),
    good("policies", &["--json", "-"]),
    good("boot", &["--list"]),
    refused("boot", &["--kernel", "README.md"]),
    good("inspect", &[CALM]),
    good("inspect", &[PRESSURE, "--json", "-"]),
    good("inspect", &[PRESSURE, "--map", "--html", "{scratch}/inspect.html"]),
    good("map", &[CALM, "--policy", "freehold", "--at", "1s"]),
    good("map", &[CALM, "--block", "17", "--json", "-"]),
    refused("map", &[CALM, "--block", "1000000"]),
    good("replay", &[CALM, "--policy", "linux-6.12"]),
    good("replay", &[PRESSURE, "--policy", "linux-6.12,pcp=merge,pcp.batch=31", "--cpus", "16", "--json", "-"]),
    refused("replay", &[CALM, "--policy", "linux-6.21"]),
    good("compare", &[CALM, PRESSURE, "--b", "linux-6.12,pcp=merge", "--b", "linux-6.12,pcp.batch=31"]),
    good("compare", &[CALM, "--json", "-"]),
    good("compare", &[CALM, "--html", "{scratch}/compare.html"]),
    refused("compare", &[CALM, "--html", "{scratch}/no/such/folder.html"]),
    refused("compare", &["README.md"]),
    good("advise", &[CALM]),
    good("advise", &[PRESSURE, "--all", "--json", "-"]),
    refused("advise", &[CALM, PRESSURE]),
    good("import", &["lab/convert/tests/samples/perf.data", "--out", "{scratch}/perf.parquet"]),
    good("import", &["lab/convert/tests/samples/trace-v7-zstd.dat", "--out", "{scratch}/t.parquet", "--json", "-"]),
    good("replay", &["{scratch}/perf.parquet"]),
    refused("import", &["README.md", "--out", "{scratch}/none.parquet"]),
    good("export", &[CALM, "--chrome", "{scratch}/calm.json", "--pprof", "{scratch}/calm.pb.gz"]),
    refused("export", &["README.md", "--chrome", "{scratch}/none.json"]),
    good("diff", &[CALM, PRESSURE]),
    good("diff", &[CALM, PRESSURE, "--json", "-"]),
    good("sim", &["--list"]),
    good("sim", &["purge", "--quick", "--cpus", "1,8", "--picture", "{scratch}/purge.svg"]),
    good("sim", &["small-machine", "--quick", "--b", "freehold", "--json", "-"]),
    good("sim", &["mallocs", "--quick", "--cpus", "32"]),
    refused("sim", &["mallocs", "--quick", "--set", "workload.cpus_per_purger=1"]),
    good("sim", &["webhost", "--quick", "--cpus", "4", "--set", "machine.memory=256 MiB", "--vmstat"]),
    good("sim", &["fragment", "--quick", "--b", "freehold"]),
    refused("sim", &["prge"]),
    good("age", &["--memory", "256MiB", "--out", "{scratch}/old.parquet"]),
    good("sim", &["webhost", "--quick", "--cpus", "4", "--start", "{scratch}/old.parquet", "--json", "-"]),
    refused("age", &["--fixed", "90"]),
    refused("age", &["--apply", "--memory", "1MiB"]),
    good("fleet", &["small-machine", "--quick", "--hosts", "2", "--hosts-table"]),
    good("fleet", &["small-machine", "--quick", "--hosts", "6", "--b", "freehold", "--json", "-"]),
    refused("fleet", &["webhsot"]),
    good("sweep", &["plans/sweep-reserve.toml", CALM, "--into", "{scratch}/sweep"]),
    good("sweep", &["--report", "{scratch}/sweep", "--json", "-"]),
    refused("sweep", &["plans/purge.toml", CALM, "--into", "{scratch}/none"]),
    good("calibrate", &["--turns", "1", "--out", "{scratch}/costs.toml"]),
    good("sim", &["pingpong", "--quick", "--cpus", "2", "--costs", "{scratch}/costs.toml"]),
    refused("calibrate", &["--check", "--runs", "2"]),
    good("bench", &["--list"]),
    good("bench", &["--quick", "--runs", "2"]),
    refused("bench", &["flgas"]),
    good("bench", &["malloc", "--quick", "--runs", "1", "--json", "-"]),
    good("bench", &["corruption", "--quick", "--json", "-"]),
    good("bench", &["malloc", "--quick", "--runs", "1", "--table", "threads", "--table", "forks"]),
    refused("bench", &["pages", "--table", "pairs"]),
    good("run", &["--stats", "--", "ls"]),
    good("run", &["--hardened", "--", "ls"]),
    good("run", &["--print-library"]),
    good("run", &["--profile", "{scratch}/heap.pb.gz", "--set", "profile-rate=4k", "--", "ls"]),
    refused("run", &["--profile", "/nowhere/heap.pb.gz", "--", "ls"]),
    refused("run", &["--set", "colour=red", "--", "ls"]),
    refused("heap", &["1"]),
    good("disasm", &["flags"]),
    good("disasm", &["--list", "--json", "-"]),
    refused("disasm", &["flasg"]),
    good("completions", &["bash"]),
    Case { name: "man", arguments: &[SCRATCH], ending: Ending::Quiet },
    Case {
        name: "record",
        arguments: &["--quiet", "--out", "{scratch}/true.parquet", "--", "true"],
        ending: Ending::QuietOrRefused,
    },
    Case {
        name: "record",
        arguments: &[
            "--quiet",
            "--stacks",
            "--flight",
            "9s",
            "--out",
            "{scratch}/",
            "--",
            "sh",
            "-c",
            "kill -USR1 $PPID",
        ],
        ending: Ending::QuietOrRefused,
    },
    refused("record", &["--flight", "60s", "--out", "r.parquet"]),
    Case {
        name: "snapshot",
        arguments: &["--quiet", "--out", "{scratch}/now.parquet"],
        ending: Ending::QuietOrRefused,
    },
];

const fn good(name: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { name, arguments, ending: Ending::Good }
}

const fn refused(name: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { name, arguments, ending: Ending::Refused }
}

/// Runs every case.
///
/// # Errors
/// Returns [`Error::Failed`] if a command has no case, or if a case ends in an unexpected way.
pub(crate) fn run() -> Result<Outcome, Error> {
    let freehold = freehold()?;
    let help = command::text(Command::new(&freehold).arg("help"))?;
    if let Some(name) = commands(&help).find(|name| CASES.iter().all(|case| case.name != *name)) {
        return Err(Error::Failed(format!(
            "`freehold {name}` has no smoke case; add one to dev/xtask/src/ci/smoke.rs"
        )));
    }
    let scratch = workspace::target().join("smoke");
    // A command such as a sweep must not continue from files of an earlier version.
    if scratch.is_dir() {
        fs::remove_dir_all(&scratch).map_err(on_file("remove", &scratch))?;
    }
    fs::create_dir_all(&scratch).map_err(on_file("create", &scratch))?;
    CASES.iter().try_for_each(|case| case.run(&freehold, &scratch))?;
    Ok(Outcome::Passed)
}

impl Case {
    fn run(&self, freehold: &Path, scratch: &Path) -> Result<(), Error> {
        let arguments = self.arguments.iter().map(|word| word.replace(SCRATCH, &scratch.to_string_lossy()));
        let mut command = Command::new(freehold);
        command.arg(self.name).args(arguments).current_dir(workspace::root()).stdin(Stdio::null());
        let line = command::line(&command);
        let output = command.output();
        let output = output.map_err(|error| Error::Failed(format!("cannot start `{line}`: {error}")))?;
        judge(self.ending, &output).map_err(|sentence| Error::Failed(format!("`{line}` {sentence}")))?;
        println!("  {line}");
        Ok(())
    }
}

/// Builds the program `freehold` and the library beside it, and returns the program's path.
///
/// The program is selected by its binary and not by its package, so that cargo chooses the same features as for the
/// README's command and builds the program once. The library is the one in the packages: without the standard library,
/// and optimised across crates.
pub(crate) fn freehold() -> Result<PathBuf, Error> {
    command::run(cargo().args(["build", "--quiet", "--release", "--bin", "freehold"]))?;
    command::run(cargo().args(["build", "--quiet", "--profile", "preload", "--package", "freehold-preload"]))?;
    let built = workspace::target().join("preload/libfreehold_preload.so");
    let folder = workspace::target().join("release");
    let (made, beside) = (folder.join("libfreehold.so.new"), folder.join("libfreehold.so"));
    fs::copy(&built, &made).map_err(on_file("write", &made))?;
    // Programs that run with the old library keep it, because the file is replaced and not overwritten.
    fs::rename(&made, &beside).map_err(on_file("write", &beside))?;
    Ok(folder.join("freehold"))
}

/// Returns the names in the help text's list of commands.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| line.starts_with("  "));
    // A wrapped description is indented further than the names.
    list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next())
}

/// Checks that a run ended as expected.
fn judge(ending: Ending, output: &Output) -> Result<(), String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let allowed: &[i32] = match ending {
        Ending::Good | Ending::Quiet => &[0],
        Ending::QuietOrRefused => &[0, 2],
        Ending::Refused => &[2],
    };
    let code = output.status.code();
    if !code.is_some_and(|code| allowed.contains(&code)) {
        return Err(format!("ended with {}: {}", output.status, stderr.trim()));
    }
    if code == Some(2) {
        let is_sentence = stderr.trim().lines().count() == 1 && output.stdout.is_empty();
        return if is_sentence {
            Ok(())
        } else {
            Err(format!("did not print one sentence on stderr with exit code 2: {}", stderr.trim()))
        };
    }
    match (ending, output.stdout.is_empty()) {
        (Ending::Good, true) => Err("printed nothing".to_owned()),
        (Ending::Quiet | Ending::QuietOrRefused, false) => {
            Err("printed something on stdout, but should not".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(code << 8), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn commands_are_parsed_from_the_help() {
        let help =
            "About.\n\nCommands:\n  compare  Replay\n           and compare\n  help     Print\n\nOptions:\n  -h\n";
        assert_eq!(commands(help).collect::<Vec<_>>(), ["compare", "help"]);
    }

    #[test]
    fn bad_endings_are_found() {
        assert!(judge(Ending::Good, &output(0, "table", "")).is_ok());
        assert!(judge(Ending::Good, &output(0, "", "")).is_err());
        assert!(judge(Ending::Good, &output(101, "", "panicked")).is_err());
        assert!(judge(Ending::Refused, &output(2, "", "no such policy\n")).is_ok());
        assert!(judge(Ending::Refused, &output(2, "half a table", "no such policy\n")).is_err());
        assert!(judge(Ending::Refused, &output(2, "", "one\ntwo\n")).is_err());
        assert!(judge(Ending::Refused, &output(0, "table", "")).is_err());
        assert!(judge(Ending::Quiet, &output(0, "table", "")).is_err());
        assert!(judge(Ending::QuietOrRefused, &output(2, "", "not root\n")).is_ok());
    }
}
