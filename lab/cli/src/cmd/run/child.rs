//! Runs a program as a child process, and waits for it.
//!
//! Signals sent to this process are meant for the child, so they are passed on. Signals of a terminal are not, because
//! the terminal sends them to both.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Child, Command};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGSYS, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::error::Error;

/// Signals that are passed on, except those that this process inherited as ignored.
const PASSED_ON: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Runs a command, and returns its process ID and its exit status.
pub(super) fn run(mut command: Command) -> Result<(u32, process::ExitStatus), Error> {
    // Signals are registered before the spawn, so that a signal that arrives earlier is queued and passed on.
    let ignored = ignored_signals();
    let passed_on = PASSED_ON.into_iter().filter(|signal| ignored & 1 << (signal - 1) == 0);
    let signals = SignalsInfo::<WithRawSiginfo>::new(passed_on);
    let signals = signals.map_err(|error| Error::Input(format!("cannot pass signals on: {error}")))?;
    let child = command.spawn().map_err(|error| cannot_run(&command, error))?;
    let process = child.id();
    let status = wait(child, signals)?;
    if status.signal() == Some(SIGSYS) {
        eprintln!(
            "freehold: `{}` made a system call that its filter forbids; if it does so with this malloc only, give \
             --set system-calls=few",
            command.get_program().display()
        );
    }
    Ok((process, status))
}

/// Returns the error for a command that could not be started.
pub(super) fn cannot_run(command: &Command, source: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

/// Returns an exit status other than success as an error.
pub(super) fn pass_on(status: process::ExitStatus) -> Result<(), Error> {
    if status.success() { Ok(()) } else { Err(Error::Passed(status)) }
}

/// Returns the signals that this process inherited as ignored, as a bit mask. The child inherits them too, unless this
/// process installs handlers for them.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.unwrap_or(0)
}

/// Waits for a program, and passes signals on to it until it has ended.
fn wait(mut child: Child, mut signals: SignalsInfo<WithRawSiginfo>) -> Result<process::ExitStatus, Error> {
    let pid = Pid::from_child(&child);
    let handle = signals.handle();
    let passing = thread::spawn(move || {
        for signal in &mut signals {
            // The kernel sends a terminal's signals to the whole process group, so the child has them already.
            let is_from_terminal = signal.si_code > 0;
            if !is_from_terminal && let Some(signal) = Signal::from_named_raw(signal.si_signo) {
                let _sent = kill_process(pid, signal);
            }
        }
    });
    // `NOWAIT` leaves the child a zombie, so its process ID is not reused while signals are passed on.
    while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .is_err_and(|error| error == rustix::io::Errno::INTR)
    {}
    handle.close();
    let _ended = passing.join();
    child.wait().map_err(|error| Error::Input(format!("cannot wait for the program: {error}")))
}
