//! The subjects: one kind of work, on an engine or on the floor, on one thread or on two.

use std::sync::Mutex;

use freehold::base::{CpuId, Gfp};
use freehold::platform::host::run_on_cpu;
use freehold_policies::NamedPolicy;
use freehold_timing::spin_barrier::{SpinBarrier, run_beside};

use super::floor::Floor;
use super::work::{Blocks, EngineBlocks, Work, get_for_another, put_elsewhere};
use crate::engine::{GIB, with_cpus};
use crate::error::Error;
use crate::subject::{Case, Sample, Subject, Then};

/// Name of the floor in tables.
const FLOOR: &str = "lower bound: an array of frames for each CPU, behind a lock";

/// A case, and its work on blocks.
pub(super) struct Row {
    /// Description of the case.
    pub case: Case,
    /// GFP flags of its requests.
    pub gfp: Gfp,
    /// Order of its blocks.
    pub order: u8,
    /// Timed loop.
    pub work: Work,
}

/// Threads that do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threading {
    /// One thread, on a machine with `cpus` CPUs.
    One {
        /// CPUs of the machine.
        cpus: u16,
    },
    /// Two threads at once. The result is the sum of both samples, that is, the mean time per operation.
    Two {
        /// CPU of the second thread.
        partner: u16,
    },
    /// This thread allocates and a second thread frees. The result is the time of the frees.
    Elsewhere {
        /// CPU of the second thread.
        partner: u16,
    },
}

/// Allocator of the blocks.
enum Source {
    Engine(NamedPolicy),
    Floor,
}

/// A row on one or two threads, as one side of a comparison.
pub(super) struct PageLoop {
    name: String,
    row: &'static Row,
    threading: Threading,
    source: Source,
}

impl PageLoop {
    /// Returns the row under a policy.
    pub(super) fn under(policy: &NamedPolicy, row: &'static Row, threading: Threading) -> PageLoop {
        PageLoop { name: policy.name.clone(), row, threading, source: Source::Engine(policy.clone()) }
    }

    /// Returns the row on the floor, on one thread.
    pub(super) fn on_floor(row: &'static Row) -> PageLoop {
        PageLoop { name: FLOOR.to_owned(), row, threading: Threading::One { cpus: 1 }, source: Source::Floor }
    }

    /// Returns the subject with `words` appended to its name.
    pub(super) fn and(self, words: &str) -> PageLoop {
        PageLoop { name: format!("{}, {words}", self.name), ..self }
    }

    fn take_samples(&self, blocks: &impl Blocks, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        let work = self.row.work;
        match self.threading {
            Threading::One { .. } => {
                let alone = SpinBarrier::new(1);
                then(&mut || Ok(work.time(blocks, operations, &alone)))
            }
            Threading::Two { partner } => then(&mut || {
                let each = |barrier: &SpinBarrier| work.time(blocks, operations, barrier);
                let (here, there) = run_beside(partner, each, on_second(each))?;
                Ok(here + there)
            }),
            Threading::Elsewhere { partner } => then(&mut || free_elsewhere(blocks, operations, partner)),
        }
    }
}

impl Subject for PageLoop {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error> {
        let cpus = self.threading.cpus();
        let pages = self.threading.pages();
        match &self.source {
            Source::Floor => self.take_samples(&Floor::new(cpus, GIB), operations, then),
            Source::Engine(policy) => with_cpus(policy, pages, cpus, |engine| {
                self.take_samples(&EngineBlocks::new(engine, self.row.gfp, self.row.order), operations, then)
            })?,
        }
    }
}

impl Threading {
    fn cpus(self) -> u16 {
        match self {
            Threading::One { cpus } => cpus,
            Threading::Two { .. } | Threading::Elsewhere { .. } => 2,
        }
    }

    /// Returns the frames of the machine. Half of them remain free in every case.
    fn pages(self) -> u32 {
        2 * GIB * u32::from(self.cpus())
    }
}

/// Times frees on another CPU than the one that allocated.
pub(super) fn free_elsewhere(blocks: &impl Blocks, operations: u64, partner: u16) -> Result<Sample, Error> {
    let mailbox = Mutex::new(Vec::new());
    let (get, put) = (
        |barrier: &SpinBarrier| get_for_another(blocks, operations, &mailbox, barrier),
        |barrier: &SpinBarrier| put_elsewhere(blocks, operations, &mailbox, barrier),
    );
    let ((), put) = run_beside(partner, get, on_second(put))?;
    Ok(put)
}

/// Wraps work so that it runs as CPU 1 of a machine.
fn on_second<R>(work: impl FnOnce(&SpinBarrier) -> R) -> impl FnOnce(&SpinBarrier) -> R {
    |barrier| {
        run_on_cpu(CpuId(1));
        work(barrier)
    }
}
