//! Plan of a flight recorder: the events to keep, and the conditions to write them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use freehold_trace::anonymize::Identity;

use super::files::Files;
use super::trigger::Trigger;
use crate::events::EventSet;
use crate::tasks::Names;

/// Nanoseconds between two reads of the kernel's counters.
pub(super) const SAMPLE_INTERVAL: u64 = 1_000_000_000;

/// Events to keep, and conditions to write them.
#[derive(Clone, Debug)]
pub struct FlightPlan {
    /// Folder, names and number of the recordings.
    pub files: Files,
    /// Time before a trigger that is kept.
    pub window: Duration,
    /// Triggers besides SIGUSR1.
    pub triggers: Vec<Trigger>,
    /// Time after a trigger that is kept.
    pub tail: Duration,
    /// Shortest time between two recordings, except for those by SIGUSR1.
    pub every: Duration,
    /// Bytes of memory for events; `None` chooses a size for the machine.
    pub memory: Option<u64>,
    /// Duration of the flight recorder; `None` ends it with the command or at Ctrl-C.
    pub duration: Option<Duration>,
    /// A command that runs in the meantime, whose names are kept; may be empty.
    pub command: Vec<OsString>,
    /// Events to record besides the usual ones.
    pub events: Vec<EventSet>,
    /// Period of sampled stacks, in allocated frames: a power of two.
    pub stacks: Option<u64>,
    /// Tasks whose names are kept.
    pub names: Names,
    /// Treatment of the kept names, and of all others, when a file is written.
    pub identity: Identity,
    /// Folder for raw events while a recording is written.
    pub spool: PathBuf,
}
