//! Every way in which a command can fail.
//!
//! The text of an error is one sentence that says what to do. Whatever it is (bad input, a full disk, no permission),
//! the command was not carried out, and the exit status is 2, as for bad usage. There are four exceptions: a
//! measurement that was carried out, and contradicts what is known; a guest that was booted, and failed; a sweep that
//! was carried out but for some recordings; and a program that was run, whose status is passed on. Who interrupts has
//! the status of an interrupt.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::iter;
use std::os::unix::process::ExitStatusExt;

use freehold_record::{CaptureError, INTERRUPTED};

/// A command's failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the user gave cannot be worked with; the sentence is complete.
    #[error("{0}")]
    Input(String),

    /// A policy's name is not one.
    #[error(transparent)]
    Policy(#[from] freehold_policies::PolicyError),

    /// A recording could not be read, or not be written.
    #[error(transparent)]
    Trace(#[from] freehold_trace::Error),

    /// A file is no recording to work with.
    #[error(transparent)]
    Recording(#[from] freehold_trace::recording::OpenError),

    /// A bundled recording could not be unpacked.
    #[error("there is no memory for a bundled recording ({0}); close something, or name a file")]
    Bundled(io::Error),

    /// A recording could not be replayed.
    #[error(transparent)]
    Replay(#[from] freehold_replay::Error),

    /// Something could not be simulated.
    #[error(transparent)]
    Sim(#[from] freehold_sim::Error),

    /// A plan cannot be simulated as it stands.
    #[error(transparent)]
    Plan(#[from] freehold_sim::plan::error::OpenError),

    /// A simulated run broke down.
    #[error(transparent)]
    Run(#[from] freehold_sim::run::RunError),

    /// A sweep could not be carried out.
    #[error(transparent)]
    Sweep(#[from] freehold_sweep::Error),

    /// A sweep was carried out but for some recordings, each of which was named.
    #[error("{failures} {} left out of the sweep; what is above stands on the rest", if *.failures == 1 { "thing was" } else { "things were" })]
    Left {
        /// How many.
        failures: usize,
    },

    /// A benchmark could not be carried out.
    #[error(transparent)]
    Bench(#[from] freehold_bench::Error),

    /// This machine could not be recorded.
    #[error(transparent)]
    Capture(#[from] CaptureError),

    /// A file of another tool could not be taken in, or not be written.
    #[error(transparent)]
    Exchange(#[from] freehold_convert::Error),

    /// A process's heap could not be read.
    #[error(transparent)]
    Heap(#[from] freehold_heap_inspector::HeapError),

    /// There is nothing to compare a process's heap with.
    #[error(transparent)]
    Caches(#[from] freehold_heap_inspector::CachesError),

    /// This machine's memory could not be fragmented.
    #[error(transparent)]
    Fragment(#[from] freehold_fragmenter::Error),

    /// Compaction brought back what it was not to.
    #[error(
        "compaction brought back {returned} of {lost} lost pageblocks, and at most a tenth may come back; choose other \
         kinds by --with, or more memory"
    )]
    Returned {
        /// Pageblocks that were lost.
        lost: u64,
        /// Those of them that came back.
        returned: u64,
    },

    /// Compaction did not get so far.
    #[error(
        "compaction gave up before it came to this memory, so nothing is proved; ask again when more of the machine is \
         free"
    )]
    Unproved,

    /// The command that ran did not succeed.
    #[error("the command ended with {0}")]
    Ended(std::process::ExitStatus),

    /// The program that was run ended so; it has said itself why.
    #[error("")]
    Passed(std::process::ExitStatus),

    /// A kernel could not be booted, or not be recorded.
    #[error(transparent)]
    Boot(#[from] freehold_boot::Error),

    /// A guest was recorded, but not as it was asked for; the sentence says where the recording is.
    #[error("{0}")]
    Short(String),

    /// A guest was interrupted, and its recording kept.
    #[error("interrupted; what was recorded until then is in {}", .0.display())]
    Kept(std::path::PathBuf),

    /// A series of guests was interrupted.
    #[error("interrupted; the runs that ended are in {}, and the same command goes on from there", .0.display())]
    Halted(std::path::PathBuf),

    /// A load could not be made.
    #[error("load: {0}")]
    Load(io::Error),

    /// This program's machine code could not be shown.
    #[cfg(feature = "disasm")]
    #[error(transparent)]
    Code(#[from] freehold_disasm::CodeError),

    /// The harness was given a difference that is known, and said otherwise.
    #[error(
        "the harness was wrong about {case}, where the truth is known; measure again on a quieter machine, and trust no \
         benchmark on this one until it is right"
    )]
    WrongVerdict {
        /// The case.
        case: &'static str,
    },

    /// Simulation and threads were held against each other, and do not agree.
    #[error(
        "simulation and threads agree in {agreeing} of {all} cases; calibrate and check again on a quieter machine, or \
         trust simulated times as far as the table above goes"
    )]
    Disagreement {
        /// Cases in which they do.
        agreeing: usize,
        /// All cases.
        all: usize,
    },

    /// This process may not run on the CPU that was asked for.
    #[error(transparent)]
    Refused(#[from] freehold_timing::affinity::PinError),

    /// The answer did not leave the program.
    #[error(transparent)]
    Output(#[from] freehold_report::output::OutputError),
}

/// What a failure is to a program that asked, and can react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What was given cannot be worked with.
    Input,
    /// Something that was named is not there.
    Missing,
    /// Somebody else may, this process may not.
    Denied,
    /// The system, a disk or the kernel failed, or lacks what is needed.
    System,
    /// Somebody interrupted it.
    Interrupted,
    /// It was carried out, and came to something that is not to be.
    Outcome,
}

impl Error {
    /// What it is to a program that asked.
    pub fn cause(&self) -> Cause {
        match (self.exit_status(), self) {
            (INTERRUPTED, _) => Cause::Interrupted,
            (2, Error::Capture(CaptureError::NotRoot) | Error::Fragment(freehold_fragmenter::Error::NotRoot)) => {
                Cause::Denied
            }
            (2, Error::Capture(CaptureError::UnknownCommand(_))) => Cause::Missing,
            (2, error) => error.of_system().unwrap_or(match error {
                Error::Capture(_) | Error::Fragment(_) => Cause::System,
                _ => Cause::Input,
            }),
            _ => Cause::Outcome,
        }
    }

    /// What the system said, if it was the system.
    fn of_system(&self) -> Option<Cause> {
        let chain = iter::successors(self.source(), |error: &&(dyn std::error::Error + 'static)| (*error).source());
        let kind = chain.filter_map(|error| error.downcast_ref::<io::Error>()).next()?.kind();
        Some(match kind {
            ErrorKind::NotFound => Cause::Missing,
            ErrorKind::PermissionDenied => Cause::Denied,
            _ => Cause::System,
        })
    }

    /// The process's exit status.
    pub fn exit_status(&self) -> u8 {
        match self {
            Error::WrongVerdict { .. } | Error::Disagreement { .. } | Error::Returned { .. } => 1,
            Error::Unproved | Error::Left { .. } => 1,
            Error::Short(_) | Error::Load(_) => 1,
            Error::Ended(status) | Error::Passed(status) => passed(*status),
            Error::Boot(freehold_boot::Error::Guest(_)) => 1,
            Error::Capture(CaptureError::Aborted)
            | Error::Fragment(freehold_fragmenter::Error::Interrupted)
            | Error::Boot(freehold_boot::Error::Interrupted)
            | Error::Kept(_)
            | Error::Halted(_) => INTERRUPTED,
            _ => 2,
        }
    }

    /// Whether somebody else has said it already.
    pub fn is_said(&self) -> bool {
        matches!(self, Error::Passed(_))
    }

    /// Whether the reader of our output simply went away (`freehold inspect x | head`): no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Error::Output(error) if error.is_broken_pipe())
    }
}

/// What a shell would tell of a command that ended so.
fn passed(status: std::process::ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_verdict_is_told_from_a_command_that_was_not_carried_out() {
        assert_eq!(Error::WrongVerdict { case: "same" }.exit_status(), 1);
        assert_eq!(Error::Input("no".to_owned()).exit_status(), 2);
        assert_eq!(Error::Returned { lost: 9, returned: 9 }.exit_status(), 1);
    }

    #[test]
    fn a_program_is_told_what_kind_of_failure_it_is() {
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
    fn the_status_of_a_program_is_passed_on_as_shells_do() {
        for (raw, status) in [(7 << 8, 7), (9, 137)] {
            assert_eq!(Error::Ended(std::process::ExitStatus::from_raw(raw)).exit_status(), status);
        }
    }
}
