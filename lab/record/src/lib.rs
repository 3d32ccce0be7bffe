//! Capture: a recording of the machine that this program runs on.
//!
//! The story in order of files: [`machine`] looks at the CPUs and the memory; [`tracefs`] makes an instance of ftrace
//! and [`events`] switches events on in it; [`drain`] empties its rings into the [`spool`] while [`run`] lets the
//! [`command`] run, takes [`sample`]s, and has [`scan`] read the page flags at both ends. When nothing runs any more,
//! [`assemble`] decodes ([`decode`]) and merges ([`merge`]) the raw pages, makes one moment of each scan,
//! holds it against the events and settles the types of pageblocks ([`freehold_trace::state`]), finds the free pages
//! that free-page reporting held ([`reported`]), says whose names may be kept ([`tasks`]), and writes the file. What the
//! command's own heaps have, the [`Watch`] is asked ([`heaps`]). [`snapshot`](mod@snapshot) does with the state of one
//! moment what needs no events. Both look at memory through [`observe`].
//!
//! Two rules hold throughout. *The run is left alone*: everything that takes memory or time is done before or
//! after it, and what the recorder does meanwhile stands in the recording under the task name
//! `freehold`. *Nothing half-done is left*: the instance, the spool and the unfinished file go away on every
//! path, panics included.

mod afterwards;
mod assemble;
mod caches;
mod clock;
mod command;
mod decode;
mod drain;
mod error;
mod events;
mod flight;
mod heaps;
mod interrupt;
mod machine;
mod merge;
mod observe;
mod rebuild;
mod reported;
mod run;
mod sample;
mod scan;
mod settings;
mod snapshot;
mod spool;
mod stacks;
mod tasks;
mod tracefs;
mod wait;
mod zones;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use freehold_trace::Writer;
use freehold_trace::facts::Facts;

pub use command::{Program, Running};
pub use error::CaptureError;
pub use events::EventSet;
pub use flight::{Files, FlightPlan, Happening, Tell, Trigger, TriggerError, fly};
pub use heaps::SeenHeap;
pub use interrupt::{INTERRUPTED, Interrupts};
pub use snapshot::{Taken, snapshot};
pub use tasks::Names;

use assemble::Assembler;
use machine::Machine;

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
    fn heaps(&mut self, _command: u32) -> Vec<SeenHeap> {
        Vec::new()
    }
    /// The run is over, and so many events were decoded so far (each event is decoded twice).
    fn writing(&mut self, decoded: u64);
}

/// Records as `plan` says.
///
/// # Errors
/// See [`CaptureError`]; nothing is left behind then.
pub fn record(plan: &Plan, watch: &mut dyn Watch) -> Result<Summary, CaptureError> {
    expect_root()?;
    let program = Program::find(&plan.command)?;
    let machine = Machine::look()?;
    let writer = Writer::create(&plan.out)?;
    let interrupts = Interrupts::listen().map_err(CaptureError::system("listen to signals"))?;
    let ram = zones::ram(&machine)?;
    let mut run = run::run(plan, program.as_ref(), &machine, &ram, &interrupts, watch)?;
    run.notes.extend(zones::ram_note(&ram, &zones::ram(&machine)?));
    Assembler::new(&mut run, &interrupts, watch)?.write(writer, facts_of(&machine, ram), plan.names)
}

/// Page frame numbers are root's to see.
fn expect_root() -> Result<(), CaptureError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(CaptureError::NotRoot) }
}

/// What is known of a machine before anything is recorded.
fn facts_of(machine: &Machine, ram: Vec<(u64, u64)>) -> Facts {
    Facts {
        writer: concat!("freehold ", env!("CARGO_PKG_VERSION")).to_owned(),
        kernel_release: machine.kernel_release.clone(),
        machine: machine.architecture.clone(),
        page_size: u32::try_from(machine.page_size).unwrap_or(0),
        cpus: u16::try_from(machine.cpus.len()).unwrap_or(u16::MAX),
        ram,
        ..Facts::default()
    }
}
