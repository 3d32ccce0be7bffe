//! Interface of a recording to its caller: the plan, the summary, and the observer of its progress.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use freehold_trace::anonymize::Identity;

use crate::events::EventSet;
use crate::heaps::HeapReading;
use crate::tasks::Names;

/// Parameters of a recording.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Path of the recording.
    pub out: PathBuf,
    /// Duration; `None` ends the recording with the command or at Ctrl-C.
    pub duration: Option<Duration>,
    /// The command and its arguments; empty to record the machine as it is.
    pub command: Vec<OsString>,
    /// Events to record besides the usual ones.
    pub events: Vec<EventSet>,
    /// Period of sampled stacks, in allocated frames: a power of two.
    pub stacks: Option<u64>,
    /// Tasks whose names are kept.
    pub names: Names,
    /// Treatment of the kept names, and of all others, when the file is written.
    pub identity: Identity,
    /// KiB of ring for each CPU; `None` chooses a size for the machine.
    pub ring_kib: Option<u64>,
    /// Folder for raw events.
    pub spool: PathBuf,
}

/// Summary of a recording.
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
    /// File name of the command.
    pub command: Option<String>,
    /// Exit status of the command, if there was one and it ended.
    pub status: Option<ExitStatus>,
    /// Whether the command ended by itself, and not after the time limit or an interrupt.
    pub ended_by_itself: bool,
    /// Remarks on the recording.
    pub notes: Vec<String>,
}

/// Observer of a recording's progress.
pub trait Watch {
    /// Returns whether [`Watch::running`] should be called, which costs a read of the kernel's counters each second.
    fn wants_progress(&self) -> bool;
    /// Called when the page flags are being read.
    fn scanning(&mut self);
    /// Called when the run is over and its data are being read. A further interrupt aborts the recording.
    fn finishing(&mut self);
    /// Called during the run, with its duration so far and the numbers of recorded and lost events.
    fn running(&mut self, elapsed: Duration, events: u64, lost: u64);
    /// Returns the readings of the heaps of the command and its child processes since the last call. Called at
    /// intervals; must not block.
    fn heaps(&mut self, _command: u32) -> Vec<HeapReading> {
        Vec::new()
    }
    /// Called after the run, with the number of events decoded so far. Each event is decoded twice.
    fn writing(&mut self, decoded: u64);
}
