//! A program that runs under the malloc of this process. Its costs are those of the program and of the child processes
//! that it waited for.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::find::find_program;
use super::limit::{Limit, Restriction};
use crate::malloc::cost::Cost;
use crate::malloc::system::{Usage, wait_for_child};

/// Environment variables that select a malloc, or set its options.
const MALLOC_VARIABLES: [&str; 3] = ["LD_PRELOAD", "FREEHOLD_OPTIONS", "MALLOC_CONF"];

/// Returns a command that runs a program under the malloc of this process and under a memory limit. The program is
/// killed when this process ends.
pub(super) fn under_malloc(program: impl AsRef<OsStr>, limit: Option<Limit>) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if preloaded_library().is_none() {
        // The program may be linked with another malloc; preloading the C library makes it use that library's malloc.
        command.env("LD_PRELOAD", "libc.so.6");
    }
    let restriction = limit.map(Restriction::new).transpose()?;
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        restriction.as_ref().map_or(Ok(()), Restriction::enter)
    };
    // SAFETY: between `fork` and `exec` the closure makes two system calls, which are async-signal-safe, and it
    // allocates no memory.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}

/// Returns the path of the malloc that is preloaded into this process; `None` under the C library's malloc.
pub(super) fn preloaded_library() -> Option<PathBuf> {
    std::env::var_os("LD_PRELOAD").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns a command that runs a program of this name under the C library's malloc.
pub(super) fn under_libc(program: &str) -> Command {
    let mut command = Command::new(find_program(program).unwrap_or_else(|| program.into()));
    for variable in MALLOC_VARIABLES {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end and returns its standard output.
pub(super) fn read_output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    check_ending(command, output.status, &errors)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end and returns its costs, for `steps` operations.
pub(super) fn measure(mut command: Command, steps: usize) -> io::Result<Cost> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut errors = Vec::new();
    child.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut errors))?;
    let Usage { status, cpu_ns, peak } = wait_for_child(child)?;
    let errors = String::from_utf8_lossy(&errors);
    check_preload(&errors)?;
    check_ending(&command, status, &errors)?;
    Ok(Cost { cpu_ns, peak, steps, ..Cost::default() })
}

/// Returns an error if a command failed. The error has the last line of its standard error.
fn check_ending(command: &Command, status: ExitStatus, errors: &str) -> io::Result<()> {
    let name = command.get_program().display();
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a message");
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{name} failed with {status}: {last}"))) }
}

/// Returns an error if the dynamic loader reported that it could not preload the malloc. The loader continues without
/// it, so the program would be measured under the wrong malloc.
pub(super) fn check_preload(errors: &str) -> io::Result<()> {
    let report = errors.lines().find(|line| line.starts_with("ERROR: ld.so:"));
    report.map_or(Ok(()), |line| Err(io::Error::other(line.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_ends_is_measured() {
        let cost = measure(under_malloc("cat", None).unwrap(), 3).unwrap();
        assert!(cost.peak > 100 && cost.steps == 3, "{cost:?}");
    }

    #[test]
    fn failures_are_reported_with_the_last_line() {
        let mut command = under_malloc("sh", None).unwrap();
        command.args(["-c", "echo first >&2; echo last >&2; exit 3"]);
        assert_eq!(measure(command, 1).unwrap_err().to_string(), "sh failed with exit status: 3: last");
        let report = "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded";
        assert_eq!(
            check_preload(&format!("one\n{report}: ignored.\n")).unwrap_err().to_string(),
            format!("{report}: ignored.")
        );
    }

    #[test]
    fn limited_program_cannot_allocate_more() {
        for limit in [Limit::AddressSpace, Limit::Data] {
            let mut command = under_malloc("dd", Some(limit)).unwrap();
            command.args(["if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"]);
            assert!(measure(command, 1).is_err(), "{limit:?}");
        }
    }
}
