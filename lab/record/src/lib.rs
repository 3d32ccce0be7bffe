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
    Assembler::new(&mut run, &interrupts, watch)?.write(writer, machine.facts(ram), plan.names)
}
