//! The caller's side of a recording: the plan, the summary, and the observer of its progress.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::events::EventSet;
use crate::heaps::HeapReading;
use crate::tasks::Names;

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The recording.
    pub out: PathBuf,
    /// Stop after this time; without it, when the command ends or at Ctrl-C.
    pub duration: Option<Duration>,
    /// The command and its arguments; empty to record the machine as it is.
    pub command: Vec<OsString>,
    /// Events to record besides the usual ones.
    pub events: Vec<EventSet>,
    /// Take a stack of one frame in so many that are allocated, a power of two.
    pub stacks: Option<u64>,
    /// Whose names are kept.
    pub names: Names,
    /// KiB of ring for each CPU, if the user wants other than what suits the machine.
    pub ring_kib: Option<u64>,
    /// The folder for raw events.
    pub spool: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Events in the recording.
    pub events: u64,
    /// Rows in the recording: events and state.
    pub rows: u64,
    /// Events that the kernel dropped.
    pub lost: u64,
    /// Time from the start state to the end state.
    pub duration: Duration,
    /// The command's file name.
    pub command: Option<String>,
    /// How the command ended, if there was one and it did.
    pub status: Option<ExitStatus>,
    /// What is worth knowing about this recording.
    pub notes: Vec<String>,
}

/// Is told how a recording goes on.
pub trait Watch {
    /// Whether [`Watch::running`] is worth its cost: a look at the kernel's counters each second.
    fn wants_progress(&self) -> bool;
    /// The page flags are being read.
    fn scanning(&mut self);
    /// The run is over: what it left is being read. A further interrupt gives the recording up.
    fn finishing(&mut self);
    /// The run has lasted so long; so many events were recorded and lost.
    fn running(&mut self, elapsed: Duration, events: u64, lost: u64);
    /// What was seen of the heaps of the command and of processes below it since the last time: asked now and then, and
    /// not waited for.
    fn heaps(&mut self, _command: u32) -> Vec<HeapReading> {
        Vec::new()
    }
    /// The run is over, and so many events were decoded so far (each event is decoded twice).
    fn writing(&mut self, decoded: u64);
}
