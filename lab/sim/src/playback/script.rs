//! A recording as a script: the task, block and time of each allocation and free, by block numbers and without frames.
//!
//! The script is made in one pass over the file. Every allocation becomes a block with a number, and a free refers to
//! that number, since frames differ from run to run. Events that do not fit this scheme are adapted or omitted, and
//! counted:
//!
//! - A free without an allocation belongs to a block from before the recording, which is allocated before the script
//!   begins.
//! - An allocation on frames that are still in use ends the block that was there: its free was silent.
//! - A block that was freed in parts is freed whole, with its last part.
//! - Failed requests, and requests with impossible flags or orders, are omitted. The engine itself decides which
//!   requests fail.
//! - Drains, reclaim and compaction are omitted: the engine and the simulated machine do their own. Pages that the
//!   recorded kernel reclaimed are freed as recorded, by the task that reclaimed them.

use std::fmt;

use freehold::base::{Gfp, Order};
use freehold_report::observer;
use freehold_trace::event::{NO_PFN, class};
use freehold_trace::{Kind, Reader, Row};
use serde::Serialize;

use super::error::PlaybackError;

/// Block number of a frame without a block of the script.
const NOTHING: u32 = u32::MAX;

/// A change of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The block is allocated.
    Alloc,
    /// The block is freed.
    Free,
}

/// Duty of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Returning memory for other tasks.
    Purger,
    /// Anything else.
    #[default]
    Other,
}

/// One step of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Nanoseconds since the recording began.
    pub time: u64,
    /// Number of the runner: a task on one of the recorded CPUs. A task that migrated has several runners.
    pub runner: u32,
    /// Number of the block.
    pub block: u32,
    /// Allocation or free.
    pub action: Action,
}

/// Request for a block of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRequest {
    /// Flags of the request.
    pub gfp: Gfp,
    /// Order of the block.
    pub order: Order,
    /// Runner that allocates the block; `None` if it was allocated before the recording.
    pub runner: Option<u32>,
}

/// Counts of events that do not fit into a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Omissions {
    /// Blocks that were allocated before the recording, according to their frees.
    pub allocated_before: u64,
    /// Frees without an event.
    pub silent_frees: u64,
    /// Blocks that were freed in parts.
    pub freed_in_parts: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Requests and frees with impossible flags, orders or frames.
    pub impossible: u64,
    /// Steps on blocks that no task named by the plan allocates or frees; 0 if the plan names none.
    pub of_others: u64,
}

/// The script.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Script {
    /// All steps, in order of time.
    pub steps: Vec<Step>,
    /// All blocks, by number.
    pub blocks: Vec<BlockRequest>,
    /// Nanoseconds from the start of the recording to its end.
    pub duration: u64,
    /// CPUs of the recorded machine.
    pub cpus: u16,
    /// Names of the tasks, by number.
    pub names: Vec<String>,
    /// Duties of the tasks, by number; empty if no purgers are named.
    pub duties: Vec<Duty>,
    /// Counts of events that did not fit.
    pub omissions: Omissions,
}

/// Omits the steps, which would be too long.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("steps", &self.steps.len())
            .field("omissions", &self.omissions)
            .finish_non_exhaustive()
    }
}

impl Script {
    /// Reads a recording once, in about the time of reading the file. Takes 5 bytes per frame of the recorded machine
    /// and 4 bytes per allocation meanwhile. For the lifetime of the script, takes 40 bytes per allocation and 24 bytes
    /// per free.
    ///
    /// # Errors
    /// Returns an error if the recording cannot be read.
    pub(crate) fn read(reader: &Reader) -> Result<Script, PlaybackError> {
        let facts = reader.facts();
        let end = facts.zones_start.iter().map(|zone| zone.start_pfn + zone.spanned).max().unwrap_or(0) as usize;
        let names = facts.tasks.iter().map(|task| task.name.clone()).collect();
        let script = Script { duration: facts.duration, cpus: facts.cpus.max(1), names, ..Script::default() };
        let mut pass = Pass { script, on_frame: vec![NOTHING; end], movable: vec![false; end], pages_left: Vec::new() };
        for batch in reader.batches() {
            observer::go_on();
            for row in batch?.rows() {
                pass.visit(&row);
            }
        }
        Ok(pass.script)
    }

    /// Returns the name of a runner's task.
    pub(crate) fn name(&self, runner: u32) -> &String {
        &self.names[self.task(runner)]
    }

    /// Returns the duty of a runner's task.
    pub(crate) fn duty(&self, runner: u32) -> Duty {
        self.duties.get(self.task(runner)).copied().unwrap_or_default()
    }

    fn task(&self, runner: u32) -> usize {
        (runner / u32::from(self.cpus)) as usize
    }

    /// Returns the steps in the time from `start` to `end`, exclusive.
    pub(crate) fn between(&self, start: u64, end: u64) -> &[Step] {
        let first = self.steps.partition_point(|step| step.time < start);
        let behind = self.steps.partition_point(|step| step.time < end);
        &self.steps[first..behind.max(first)]
    }
}

/// State of the pass over the recording.
struct Pass {
    script: Script,
    /// Block on each frame.
    on_frame: Vec<u32>,
    /// Whether each frame was movable when the recording started.
    movable: Vec<bool>,
    /// For each block, the number of pages that are not freed yet.
    pages_left: Vec<u32>,
}

impl Pass {
    fn visit(&mut self, row: &Row) {
        match row.kind {
            Kind::StartAllocated if row.args[1] & class::LRU != 0 => self.mark_movable(row),
            Kind::Alloc if row.pfn == NO_PFN => self.script.omissions.failed_requests += 1,
            Kind::Alloc => self.add_alloc(row),
            Kind::Free => self.add_free(row),
            _ => {}
        }
    }

    /// Returns the first frame of a row's block and its order, if all of its frames exist.
    fn block(&mut self, row: &Row) -> Option<(usize, Order)> {
        let start = usize::try_from(row.pfn).ok();
        let found = start.zip(Order::from_u8(row.order)).filter(|&(start, order)| {
            start.checked_add(order.pages() as usize).is_some_and(|end| end <= self.on_frame.len())
        });
        self.script.omissions.impossible += u64::from(found.is_none());
        found
    }

    fn mark_movable(&mut self, row: &Row) {
        let pages = (row.args[0].max(0) as usize).checked_shl(u32::from(row.order)).unwrap_or(0);
        let start = usize::try_from(row.pfn).unwrap_or(usize::MAX).min(self.movable.len());
        let end = start.saturating_add(pages).min(self.movable.len());
        self.movable[start..end].fill(true);
    }

    fn add_alloc(&mut self, row: &Row) {
        let gfp = Gfp::from_bits_retain(row.gfp);
        if gfp.migratetype().is_none() || gfp.highest_zone().is_none() {
            self.script.omissions.impossible += 1;
            return;
        }
        let Some((start, order)) = self.block(row) else { return };
        for frame in start..start + order.pages() as usize {
            self.end_silently(row, frame);
        }
        let block = self.add_block(BlockRequest { gfp, order, runner: Some(self.runner(row)) });
        self.on_frame[start..start + order.pages() as usize].fill(block);
        self.add_step(row, block, Action::Alloc);
    }

    fn add_free(&mut self, row: &Row) {
        let Some((start, order)) = self.block(row) else { return };
        let frames = start..start + order.pages() as usize;
        if self.on_frame[start] == NOTHING {
            self.script.omissions.allocated_before += 1;
            let gfp = if self.movable[start] { Gfp::HIGHUSER_MOVABLE } else { Gfp::KERNEL };
            let block = self.add_block(BlockRequest { gfp, order, runner: None });
            self.add_step(row, block, Action::Free);
            return;
        }
        for frame in frames {
            self.free_page(row, frame);
        }
    }

    /// Adds a block, and returns its number.
    fn add_block(&mut self, request: BlockRequest) -> u32 {
        self.script.blocks.push(request);
        self.pages_left.push(request.order.pages());
        self.script.blocks.len() as u32 - 1
    }

    /// Frees a page of a block. The block is freed with its last page.
    fn free_page(&mut self, row: &Row, frame: usize) {
        let block = std::mem::replace(&mut self.on_frame[frame], NOTHING);
        // After a silent end, the remaining frames of the old block may still refer to it.
        let Some(left) = self.pages_left.get_mut(block as usize).filter(|left| **left > 0) else { return };
        *left -= 1;
        if *left == 0 {
            let parts = self.script.blocks[block as usize].order > Order::new(row.order);
            self.script.omissions.freed_in_parts += u64::from(parts);
            self.add_step(row, block, Action::Free);
        }
    }

    /// Ends the block on a frame that is allocated again: it must have been freed without an event.
    fn end_silently(&mut self, row: &Row, frame: usize) {
        let block = self.on_frame[frame];
        if block == NOTHING || self.pages_left[block as usize] == 0 {
            return;
        }
        self.script.omissions.silent_frees += 1;
        self.pages_left[block as usize] = 0;
        self.add_step(row, block, Action::Free);
    }

    fn add_step(&mut self, row: &Row, block: u32, action: Action) {
        let runner = self.runner(row);
        self.script.steps.push(Step { time: row.time, runner, block, action });
    }

    /// Returns the runner of a row.
    fn runner(&self, row: &Row) -> u32 {
        row.task * u32::from(self.script.cpus) + u32::from(row.cpu)
    }
}
