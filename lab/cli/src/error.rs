//! Errors of the commands, their exit status, and their cause.
//!
//! The text of an error is one sentence; for bad input and failures of the system, it also states what to do.
//! Only the text of [`Error::Passed`] is empty. The exit status is 2 (as for bad usage) for every failure that kept the
//! command from being carried out or its result from being written: bad input, a full disk, no permission. The
//! exceptions have another status:
//!
//! - 1: the command was carried out, with a result that counts as a failure. These results are a benchmark or
//!   calibration that contradicts a known result, a check of `age --apply` that failed or proved nothing, a guest that
//!   failed or was not recorded as requested, and a sweep without some of its recordings or tasks. A load that failed
//!   also has status 1.
//! - The status of the command or program that was run, if it failed; 128 and the number of the signal if a signal
//!   ended it.
//! - [`NOT_FOUND`] if there is no such program, and [`NOT_STARTED`] if it cannot be started, as for `env`.
//! - [`INTERRUPTED`]: the command was interrupted.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::iter;
use std::os::unix::process::ExitStatusExt;

use freehold_record::{CaptureError, INTERRUPTED};

/// Exit status if there is no program of the given name, as in shells.
const NOT_FOUND: u8 = 127;
/// Exit status if a program exists and cannot be started, as in shells.
const NOT_STARTED: u8 = 126;

/// Failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user's input is not usable; the text is a complete sentence.
    #[error("{0}")]
    Input(String),

    /// A recording would replace an existing file.
    #[error("{} exists; give --force to replace it, or name another file", .0.display())]
    Exists(std::path::PathBuf),

    /// The name of a policy is invalid.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A recording could not be read or written.
    #[error(transparent)]
    Trace(#[from] freehold_trace::Error),

    /// A file is not a usable recording.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// A bundled recording could not be unpacked.
    #[error("not enough memory to unpack a bundled recording ({0}); free some memory, or name a recording file")]
    Bundled(io::Error),

    /// A recording could not be replayed.
    #[error(transparent)]
    Replay(#[from] freehold_replay::Error),

    /// A simulation could not be carried out.
    #[error(transparent)]
    Sim(#[from] freehold_sim::Error),

    /// A plan cannot be simulated in its present form.
    #[error(transparent)]
    Plan(#[from] freehold_sim::plan::error::OpenError),

    /// A simulated run failed.
    #[error(transparent)]
    Run(#[from] freehold_sim::run::RunError),

    /// A sweep could not be carried out.
    #[error(transparent)]
    Sweep(#[from] freehold_sweep::Error),

    /// A sweep was carried out without some recordings or tasks, each of which was named on stderr.
    #[error("inputs left out of the sweep because of errors: {failures}; the report above covers the other inputs")]
    Left {
        /// Number of recordings and tasks that failed.
        failures: usize,
    },

    /// A benchmark could not be carried out.
    #[error(transparent)]
    Bench(#[from] freehold_bench::Error),

    /// This machine could not be recorded.
    #[error(transparent)]
    Capture(#[from] CaptureError),

    /// A file of another tool could not be read or written.
    #[error(transparent)]
    Exchange(#[from] freehold_convert::Error),

    /// The heap of a process could not be read.
    #[error(transparent)]
    Heap(#[from] freehold_heap_inspector::HeapError),

    /// There are no caches to compare the heap of a process with.
    #[error(transparent)]
    Caches(#[from] freehold_heap_inspector::CachesError),

    /// This machine's memory could not be fragmented.
    #[error(transparent)]
    Fragment(#[from] freehold_fragmenter::Error),

    /// Compaction recovered more of the lost pageblocks than the check permits.
    #[error(
        "compaction recovered {returned} of {lost} lost pageblocks, and the check permits at most a tenth; choose \
         other kinds with --with, or more --memory"
    )]
    Returned {
        /// Pageblocks that were lost.
        lost: u64,
        /// Lost pageblocks that compaction recovered.
        returned: u64,
    },

    /// Compaction stopped before it reached the fragmented memory, so the check proved nothing.
    #[error(
        "the check is inconclusive: compaction stopped before it reached the fragmented memory; run the command again \
         when the machine has more free memory"
    )]
    Unproved,

    /// The command that ran on fragmented memory did not succeed.
    #[error("the command ended with {0}")]
    Ended(std::process::ExitStatus),

    /// A program could not be started.
    #[error("cannot run `{program}`: {source}")]
    Start {
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },

    /// The program that was run ended with this status; it has reported the reason itself.
    #[error("")]
    Passed(std::process::ExitStatus),

    /// A kernel could not be booted or recorded.
    #[error(transparent)]
    Boot(#[from] freehold_boot::Error),

    /// A guest was recorded, but not as requested; the sentence names the recording.
    #[error("{0}")]
    Short(String),

    /// A guest was interrupted, and its recording was kept.
    #[error("interrupted; the recording up to the interrupt is in {}", .0.display())]
    Kept(std::path::PathBuf),

    /// A series of guests was interrupted.
    #[error("interrupted; the completed runs are in {}, and the same command does the remaining runs", .0.display())]
    Halted(std::path::PathBuf),

    /// A load of `freehold load` failed.
    #[error("the load failed: {0}")]
    Load(io::Error),

    /// This program's machine code could not be shown.
    #[cfg(feature = "disasm")]
    #[error(transparent)]
    Code(#[from] freehold_disasm::CodeError),

    /// The harness was given a known difference and returned another verdict.
    #[error(
        "the harness gave a wrong verdict for {case}, whose true difference is known; measure again on a quieter \
         machine, and do not use benchmark results of this machine until the verdict is right"
    )]
    WrongVerdict {
        /// Name of the case.
        case: &'static str,
    },

    /// Simulation and threads were compared, and do not agree.
    #[error(
        "simulation and threads agree in {agreeing} of {all} cases; calibrate and check again on a quieter machine, or \
         take the errors in the table above into account"
    )]
    Disagreement {
        /// Cases in which they agree.
        agreeing: usize,
        /// All cases.
        all: usize,
    },

    /// This process may not run on the requested CPU.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),

    /// The answer could not be written.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),
}

/// Cause of a failure, for a calling program that can react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The input is not usable.
    Input,
    /// A named object does not exist.
    Missing,
    /// This process lacks the permission.
    Denied,
    /// The system, a disk or the kernel failed, or lacks a required feature.
    System,
    /// The command was interrupted.
    Interrupted,
    /// The command was carried out, with a result that counts as a failure.
    Outcome,
}

impl Error {
    /// Returns the cause for a calling program.
    pub fn cause(&self) -> Cause {
        match (self.exit_status(), self) {
            (INTERRUPTED, _) => Cause::Interrupted,
            (2, Error::Capture(CaptureError::NotRoot) | Error::Fragment(freehold_fragmenter::Error::NotRoot)) => {
                Cause::Denied
            }
            (NOT_FOUND, error) if error.is_of_start() => Cause::Missing,
            (NOT_STARTED, error) if error.is_of_start() => error.of_system().unwrap_or(Cause::System),
            (2, error) => error.of_system().unwrap_or(match error {
                Error::Capture(_) | Error::Fragment(_) => Cause::System,
                _ => Cause::Input,
            }),
            _ => Cause::Outcome,
        }
    }

    /// Returns the cause that the first I/O error among the sources of this error indicates; `None` if there is none.
    fn of_system(&self) -> Option<Cause> {
        let chain = iter::successors(self.source(), |error: &&(dyn std::error::Error + 'static)| (*error).source());
        let kind = chain.filter_map(|error| error.downcast_ref::<io::Error>()).next()?.kind();
        Some(match kind {
            ErrorKind::NotFound => Cause::Missing,
            ErrorKind::PermissionDenied => Cause::Denied,
            _ => Cause::System,
        })
    }

    /// Returns the process's exit status.
    pub fn exit_status(&self) -> u8 {
        match self {
            Error::WrongVerdict { .. } | Error::Disagreement { .. } | Error::Returned { .. } => 1,
            Error::Unproved | Error::Left { .. } => 1,
            Error::Short(_) | Error::Load(_) => 1,
            Error::Ended(status) | Error::Passed(status) => passed(*status),
            Error::Start { source, .. } if source.kind() == ErrorKind::NotFound => NOT_FOUND,
            Error::Start { .. } => NOT_STARTED,
            Error::Capture(error) | Error::Fragment(freehold_fragmenter::Error::Command(error)) => of_capture(error),
            Error::Boot(freehold_boot::Error::Guest(_)) => 1,
            Error::Fragment(freehold_fragmenter::Error::Interrupted)
            | Error::Boot(freehold_boot::Error::Interrupted)
            | Error::Kept(_)
            | Error::Halted(_) => INTERRUPTED,
            _ => 2,
        }
    }

    /// Returns whether a program could not be started.
    fn is_of_start(&self) -> bool {
        !matches!(self, Error::Ended(_) | Error::Passed(_))
    }

    /// Returns whether another program has already reported this failure.
    pub fn is_said(&self) -> bool {
        matches!(self, Error::Passed(_))
    }

    /// Returns whether the reader of the output closed it (`freehold inspect x | head`), which is not a failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Output(error) if error.is_broken_pipe())
    }
}

/// Returns the exit status for an error of the recorder.
fn of_capture(error: &CaptureError) -> u8 {
    match error {
        CaptureError::Aborted => INTERRUPTED,
        CaptureError::UnknownCommand(_) => NOT_FOUND,
        CaptureError::Spawn { .. } => NOT_STARTED,
        _ => 2,
    }
}

/// Returns the exit status that a shell would report for a command with this status: its own, or 128 and the number of
/// the signal that ended it. Returns 1 if the result does not fit.
fn passed(status: std::process::ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_separates_a_wrong_verdict_from_an_error() {
        assert_eq!(Error::WrongVerdict { case: "same" }.exit_status(), 1);
        assert_eq!(Error::Input("no".to_owned()).exit_status(), 2);
        assert_eq!(Error::Returned { lost: 9, returned: 9 }.exit_status(), 1);
    }

    #[test]
    fn errors_map_to_machine_readable_causes() {
        let reads = [
            (ErrorKind::NotFound, Cause::Missing),
            (ErrorKind::PermissionDenied, Cause::Denied),
            (ErrorKind::StorageFull, Cause::System),
        ];
        for (kind, cause) in reads {
            let path = std::path::PathBuf::from("x");
            assert_eq!(Error::Trace(freehold_trace::Error::Read { path, source: kind.into() }).cause(), cause);
        }
        assert_eq!(Error::Capture(CaptureError::NotRoot).cause(), Cause::Denied);
        assert_eq!(Error::Capture(CaptureError::NoTracefs(ErrorKind::NotFound.into())).cause(), Cause::System);
        assert_eq!(Error::Capture(CaptureError::Aborted).cause(), Cause::Interrupted);
        assert_eq!(Error::Input("no".to_owned()).cause(), Cause::Input);
        assert_eq!(Error::Unproved.cause(), Cause::Outcome);
    }

    #[test]
    fn exit_status_of_a_program_is_passed_on_as_in_shells() {
        for (raw, status) in [(7 << 8, 7), (9, 137)] {
            assert_eq!(Error::Ended(std::process::ExitStatus::from_raw(raw)).exit_status(), status);
        }
    }
}
