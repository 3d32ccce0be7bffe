//! The plan of a flight recorder: which events it keeps, and when it writes them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::files::Files;
use super::trigger::Trigger;
use crate::events::EventSet;
use crate::tasks::Names;

/// Time between two looks at the kernel's counters.
pub(super) const SAMPLE_INTERVAL: u64 = 1_000_000_000;

/// What to keep, and when to write it.
#[derive(Clone, Debug)]
pub struct FlightPlan {
    /// Where recordings go, and how many stay there.
    pub files: Files,
    /// How much time before a trigger is kept.
    pub window: Duration,
    /// What makes it write, besides SIGUSR1.
    pub triggers: Vec<Trigger>,
    /// How much time after a trigger is kept.
    pub tail: Duration,
    /// No trigger but SIGUSR1 makes two recordings nearer to each other than this.
    pub every: Duration,
    /// Bytes of memory for events; by default what suits the machine.
    pub memory: Option<u64>,
    /// Ends after this time; without it, when the command ends or at Ctrl-C.
    pub duration: Option<Duration>,
    /// A command that is run meanwhile, whose names are kept; may be empty.
    pub command: Vec<OsString>,
    /// Events to record besides the usual ones.
    pub events: Vec<EventSet>,
    /// Take a stack of one frame in so many that are allocated, a power of two.
    pub stacks: Option<u64>,
    /// Whose names are kept.
    pub names: Names,
    /// The folder for raw events while a recording is written.
    pub spool: PathBuf,
}
