//! Recorder of the machine on which this program runs.
//!
//! 1. [`machine`] reads the numbers of CPUs and memory. [`tracefs`] creates an instance of ftrace, and [`events`]
//!    enables events in it.
//! 2. [`drain`] empties the rings into the [`spool`]. Meanwhile [`run`] runs the [`command`] and takes [`sample`]s, and
//!    [`scan`] reads the page flags at the start and at the end. The [`Watch`] provides readings of the command's heaps
//!    ([`heaps`]).
//! 3. After the run, [`assemble`] decodes the raw pages ([`decode`]) and merges them ([`merge`]). It brings each scan
//!    to one moment, compares it with the events, and determines the types of pageblocks ([`freehold_trace::state`]).
//!    It finds the free pages that free-page reporting held ([`reported`]), removes the names that may not be kept
//!    ([`tasks`]), and writes the file.
//!
//! [`snapshot`](mod@snapshot) records the state of one moment without events. A recording and a snapshot both read
//! memory through [`observe`].
//!
//! Two rules apply everywhere. *The run is not disturbed*: all work that needs memory or time is done before or after
//! it. The recorder's own work during the run is in the recording under the task name `freehold`. *No partial state
//! remains*: the instance, the spool and the unfinished file are removed on every path, including panics.

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
mod plan;
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

use freehold_trace::Writer;

pub use command::{Program, Running};
pub use error::CaptureError;
pub use events::EventSet;
pub use flight::{Files, FlightEvent, FlightListener, FlightPlan, Trigger, TriggerError, fly};
pub use heaps::HeapReading;
pub use interrupt::{INTERRUPTED, Interrupts};
pub use plan::{Plan, Summary, Watch};
pub use snapshot::{SnapshotSummary, snapshot};
pub use tasks::Names;

use assemble::Assembler;
use machine::{Machine, expect_root};

/// Makes a recording according to `plan`.
///
/// # Errors
/// See [`CaptureError`]; nothing remains then.
pub fn record(plan: &Plan, watch: &mut dyn Watch) -> Result<Summary, CaptureError> {
    expect_root()?;
    let program = Program::find(&plan.command)?;
    let machine = Machine::look()?;
    let writer = Writer::create(&plan.out)?;
    let interrupts = Interrupts::listen().map_err(CaptureError::system("register signal handlers"))?;
    let ram = zones::ram(&machine)?;
    let mut run = run::run(plan, program.as_ref(), &machine, &ram, &interrupts, watch)?;
    run.notes.extend(zones::ram_note(&ram, &zones::ram(&machine)?));
    let assembler = Assembler::new(&mut run, &interrupts, watch)?;
    assembler.write(writer, machine.facts(ram), plan.names, plan.identity)
}
