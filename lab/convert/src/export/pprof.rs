//! Profile of allocations: the memory that was allocated, and the part of it that is in use at the end, by task, kind
//! of request and order.
//!
//! These three form the stack of a sample, with the order on top. If a recording has kernel stacks of sampled
//! allocations (`freehold record --stacks`), the profile contains them too, between order and task. They have their own
//! values: `stack_samples`, and `stack_space`, the bytes that the samples stand for. Memory: four bytes for each frame
//! up to the highest one that was allocated.

use std::io::Write;
use std::path::Path;

use freehold_pprof::NamedStacks;
use freehold_trace::event::{Kind, NO_PFN, Row};
use freehold_trace::recording::Recording;
use freehold_trace::{Facts, PartFile};

use super::walk::{ExportSummary, for_each, unwritten};
use crate::error::Error;
use crate::gfp;

/// Types of values, under the names that pprof knows from Go's heap profiles.
const TYPES: [(&str, &str); 6] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("stack_samples", "count"),
    ("stack_space", "bytes"),
];
const ALLOC_OBJECTS: usize = 0;
const ALLOC_SPACE: usize = 1;
const INUSE_OBJECTS: usize = 2;
const INUSE_SPACE: usize = 3;
const STACK_SAMPLES: usize = 4;
const STACK_SPACE: usize = 5;

/// Names of orders, so that no string is created for each row.
const ORDERS: [&str; 21] = [
    "order 0", "order 1", "order 2", "order 3", "order 4", "order 5", "order 6", "order 7", "order 8", "order 9",
    "order 10", "order 11", "order 12", "order 13", "order 14", "order 15", "order 16", "order 17", "order 18",
    "order 19", "order 20",
];

/// Name of a task without a name.
const UNKNOWN: &str = "unknown task";

/// Number of frames that are tracked: 1 TiB of 4 KiB pages. Events on higher frames are left out.
const FRAMES_MAX: u64 = 1 << 28;

/// Writes the profile of a recording, compressed, in pprof's format.
///
/// # Errors
/// If the recording cannot be read, or the file cannot be written. No file remains then.
pub fn pprof(recording: &Path, out: &Path) -> Result<ExportSummary, Error> {
    let recording = Recording::open(recording)?;
    let failed = unwritten(out);
    let mut part = PartFile::create(out).map_err(&failed)?;
    let facts = recording.reader.facts();
    let mut holders = Holders::new(facts);
    for_each(&recording, |row| {
        holders.observe(row);
        Ok(())
    })?;
    holders.add_sampled();
    let bytes = holders.stacks.to_pprof(facts.duration);
    part.write_all(&bytes).map_err(&failed)?;
    part.publish().map_err(&failed)?;
    Ok(ExportSummary { bytes: bytes.len() as u64 })
}

/// Returns the stack of a request, the innermost entry first.
fn calls<'f>(row: &Row, facts: &'f Facts) -> [&'f str; 3] {
    let task = match facts.task_name(row.task) {
        "" => UNKNOWN,
        name => name,
    };
    [ORDERS[usize::from(row.order).min(ORDERS.len() - 1)], gfp::class(row.gfp), task]
}

/// Stack of the current allocation of each frame.
struct Holders<'f> {
    facts: &'f Facts,
    stacks: NamedStacks,
    /// For each frame, the index of its stack plus one, and [`HEAD`] for the first frame of a block; 0 if it is not
    /// known.
    frames: Vec<u32>,
}

/// Marks the first frame of a block.
const HEAD: u32 = 1 << 31;

impl Holders<'_> {
    fn new(facts: &Facts) -> Holders<'_> {
        // The last two types exist only if stacks were recorded.
        let types = if facts.stacks.is_some() { TYPES.as_slice() } else { &TYPES[..STACK_SAMPLES] };
        Holders { facts, stacks: NamedStacks::new(types), frames: Vec::new() }
    }

    /// Adds the sampled kernel stacks.
    fn add_sampled(&mut self) {
        for sampled in self.facts.sampled_stacks() {
            let order = ORDERS[usize::from(sampled.order).min(ORDERS.len() - 1)];
            let task = if sampled.task.is_empty() { UNKNOWN } else { sampled.task };
            let stack = self.stacks.stack([order].into_iter().chain(sampled.frames).chain([task]));
            let bytes = sampled.pages.saturating_mul(self.facts.page_size.into());
            self.stacks.add(stack, STACK_SAMPLES, i64::try_from(sampled.samples).unwrap_or(i64::MAX));
            self.stacks.add(stack, STACK_SPACE, i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    fn observe(&mut self, row: &Row) {
        if row.pfn == NO_PFN || row.pfn >= FRAMES_MAX {
            return;
        }
        match row.kind {
            Kind::Alloc => self.allocate(row),
            Kind::Free => self.release(row),
            _ => {}
        }
    }

    fn allocate(&mut self, row: &Row) {
        let stack = self.stacks.stack(calls(row, self.facts));
        let bytes = i64::from(self.facts.page_size) << row.order;
        for (of_type, more) in [(ALLOC_OBJECTS, 1), (ALLOC_SPACE, bytes), (INUSE_OBJECTS, 1)] {
            self.stacks.add(stack, of_type, more);
        }
        // A frame that is already in use was freed, and the event is missing.
        self.release(row);
        self.stacks.add(stack, INUSE_SPACE, bytes);
        let end = (row.pfn + (1 << row.order)) as usize;
        if self.frames.len() < end {
            self.frames.resize(end, 0);
        }
        let holder = stack as u32 + 1;
        self.frames[row.pfn as usize..end].fill(holder);
        self.frames[row.pfn as usize] |= HEAD;
    }

    /// Frees pages one by one, because a block may be freed in parts. The block counts as freed with its first page.
    fn release(&mut self, row: &Row) {
        let page_size = i64::from(self.facts.page_size);
        let first = row.pfn as usize;
        let end = (first + (1 << row.order)).min(self.frames.len());
        for frame in self.frames.get_mut(first..end).unwrap_or_default() {
            let holder = std::mem::take(frame);
            let Some(stack) = (holder & !HEAD).checked_sub(1) else { continue };
            self.stacks.add(stack as usize, INUSE_SPACE, -page_size);
            if holder & HEAD != 0 {
                self.stacks.add(stack as usize, INUSE_OBJECTS, -1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::{StackCount, StackFacts, Task};

    use super::*;

    #[test]
    fn kernel_stack_is_between_order_and_task() {
        let count = StackCount { frames: vec![1, 0], task: 0, order: 0, samples: 3 };
        let symbols = ["do_anonymous_page", "alloc_pages"].map(str::to_owned).to_vec();
        let stacks = Some(StackFacts { period: 256, symbols, stacks: vec![count] });
        let facts = Facts { page_size: 4096, stacks, ..Facts::default() };
        let mut holders = Holders::new(&facts);
        holders.add_sampled();
        let calls = ["order 0", "alloc_pages", "do_anonymous_page", UNKNOWN];
        let values = [ALLOC_SPACE, STACK_SAMPLES, STACK_SPACE].map(|index| holders.stacks.value(&calls, index));
        assert_eq!(values, [0, 3, 3 * 256 * 4096].map(Some));
    }

    #[test]
    fn block_is_held_until_its_last_page_is_freed() {
        let task = Task { pid: 7, name: "cc1".to_owned() };
        let facts = Facts { page_size: 4096, tasks: vec![Task::default(), task], ..Facts::default() };
        let mut holders = Holders::new(&facts);
        for (kind, pfn, order) in [
            (Kind::Alloc, 8, 1),
            (Kind::Alloc, 100, 0),
            (Kind::Free, 8, 0),
            (Kind::Free, 77, 3),
            (Kind::Alloc, NO_PFN, 9),
            (Kind::Alloc, 100, 0),
        ] {
            holders.observe(&Row { pfn, order, task: 1, ..Row::new(kind) });
        }
        let [failed, pair, single] =
            [9, 1, 0].map(|order| calls(&Row { task: 1, order, ..Row::new(Kind::Alloc) }, &facts));
        let stacks = &holders.stacks;
        assert_eq!([0, 1, 2, 3].map(|index| stacks.value(&pair, index)), [1, 8192, 0, 4096].map(Some));
        assert_eq!([0, 1, 2, 3].map(|index| stacks.value(&single, index)), [2, 8192, 1, 4096].map(Some));
        assert_eq!(stacks.value(&failed, 0), None, "a request that failed has nothing");
    }
}
