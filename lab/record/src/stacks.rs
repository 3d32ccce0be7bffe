//! Kernel stacks of a sample of the allocations.
//!
//! The kernel records a stack directly after an allocation that passes the filter: its frame number is a multiple of
//! the period (a `stacktrace` trigger on the event). The sample is therefore of frames. It costs a comparison for each
//! allocation, and a stack walk for one page per period. linux: kernel/trace/trace_events_trigger.c:stacktrace_trigger
//!
//! Addresses are converted to names after the recording, from `/proc/kallsyms`.
//!
//! # Design
//!
//! The sample is of frames and not of events. A block of 2^n frames is 2^n times as likely to be sampled, so samples
//! count pages without weights. But a frame that is allocated repeatedly from the head of a CPU's list is sampled, or
//! not, by its number. The share of a program that allocates and frees a few pages again and again is therefore too
//! high or too low.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use freehold_trace::event::{NO_PFN, Row};
use freehold_trace::facts::{StackCount, StackFacts};
use rustc_hash::FxHashMap;

use crate::error::CaptureError;

/// File with the names of the kernel's functions.
const SYMBOLS: &str = "/proc/kallsyms";
/// Largest number of different stacks in a recording. The others are counted without their functions.
const STACKS_MAX: usize = 4096;
/// Functions of the tracepoint itself, with which every stack begins.
const TRACING: [&str; 2] = ["trace_event_raw_event_", "__traceiter_"];

/// Returns the text of the trigger that records stacks of one frame in `period`, a power of two.
pub(crate) fn trigger(period: u64) -> String {
    format!("stacktrace if !(pfn & {})", period - 1)
}

/// Checks that the machine shows the names of its functions.
///
/// # Errors
/// [`CaptureError::HiddenSymbols`].
pub(crate) fn expect_symbols() -> Result<(), CaptureError> {
    let is_shown = symbols()?.next().is_some_and(|(address, _)| address != 0);
    if is_shown { Ok(()) } else { Err(CaptureError::HiddenSymbols) }
}

/// Samples, collected in order of time.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// Thread and order of the last allocation on each CPU. A stack belongs to the allocation before it.
    latest: FxHashMap<u16, (u32, u8)>,
    /// Samples by addresses, task and order.
    samples: FxHashMap<(Vec<u64>, u32, u8), u64>,
}

impl Stacks {
    /// Records an allocation by thread `pid`.
    pub(crate) fn allocated(&mut self, pid: u32, row: &Row) {
        if row.pfn != NO_PFN {
            self.latest.insert(row.cpu, (pid, row.order));
        }
    }

    /// Records the stack of thread `pid` on `cpu`, which is `task` in the recording.
    pub(crate) fn sampled(&mut self, cpu: u16, pid: u32, task: u32, addresses: Vec<u64>) {
        // The allocation may be before the start of the recording, or its event may be lost.
        if let Some(&(_, order)) = self.latest.get(&cpu).filter(|(allocator, _)| *allocator == pid) {
            *self.samples.entry((addresses, task, order)).or_default() += 1;
        }
    }

    /// Returns the stacks for the recording.
    ///
    /// # Errors
    /// If the names of the kernel's functions can no longer be read.
    pub(crate) fn facts(self, period: u64) -> Result<StackFacts, CaptureError> {
        let mut addresses: Vec<u64> = self.samples.keys().flat_map(|(addresses, ..)| addresses).copied().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let names = names(&addresses, symbols()?);
        Ok(self.with_names(period, &addresses.into_iter().zip(names).collect()))
    }

    fn with_names(self, period: u64, names: &FxHashMap<u64, String>) -> StackFacts {
        let mut facts = StackFacts { period, ..StackFacts::default() };
        let mut places: FxHashMap<&str, u32> = FxHashMap::default();
        let mut counts: FxHashMap<(Vec<u32>, u32, u8), u64> = FxHashMap::default();
        for ((addresses, task, order), samples) in self.samples {
            let functions = addresses.iter().filter_map(|address| names.get(address)).map(String::as_str);
            let mut frames = Vec::new();
            for name in functions.skip_while(|name| TRACING.iter().any(|own| name.starts_with(own))) {
                frames.push(*places.entry(name).or_insert_with(|| {
                    facts.symbols.push(name.to_owned());
                    u32::try_from(facts.symbols.len() - 1).expect("a kernel has fewer than 2^32 functions")
                }));
            }
            *counts.entry((frames, task, order)).or_default() += samples;
        }
        let mut stacks: Vec<StackCount> = counts
            .into_iter()
            .map(|((frames, task, order), samples)| StackCount { frames, task, order, samples })
            .collect();
        stacks.sort_by_key(|stack| {
            (Reverse(stack.samples * facts.pages_of(stack.order)), stack.task, stack.order, stack.frames.clone())
        });
        let rest = stacks.split_off(stacks.len().min(STACKS_MAX));
        stacks.extend(without_functions(rest));
        facts.stacks = stacks;
        facts
    }
}

/// Combines these samples by task and order.
fn without_functions(stacks: Vec<StackCount>) -> Vec<StackCount> {
    let mut rest: Vec<StackCount> = Vec::new();
    for StackCount { task, order, samples, .. } in stacks {
        match rest.iter_mut().find(|known| (known.task, known.order) == (task, order)) {
            Some(known) => known.samples += samples,
            None => rest.push(StackCount { frames: Vec::new(), task, order, samples }),
        }
    }
    rest
}

/// Returns addresses and names of the kernel's functions, unsorted.
fn symbols() -> Result<impl Iterator<Item = (u64, String)>, CaptureError> {
    let path = Path::new(SYMBOLS);
    let file = File::open(path).map_err(CaptureError::kernel(path))?;
    Ok(BufReader::new(file).lines().map_while(Result::ok).filter_map(|line| symbol(&line)))
}

/// Parses a function in a line of `/proc/kallsyms`: address, type, name, and the module in brackets.
fn symbol(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
    let name = fields.next()?;
    let module = fields.next().map_or_else(String::new, |module| format!(" {module}"));
    is_code.then(|| (address, format!("{name}{module}")))
}

/// Returns the names of the functions that contain `addresses`, which are in ascending order.
fn names(addresses: &[u64], symbols: impl Iterator<Item = (u64, String)>) -> Vec<String> {
    let mut best: Vec<Option<(u64, String)>> = vec![None; addresses.len()];
    for (start, name) in symbols {
        // A function's start is stored only at the first address at or after it. The second loop passes it on to the
        // following addresses.
        let at = addresses.partition_point(|&address| address < start);
        if let Some(known) = best.get_mut(at).filter(|known| known.as_ref().is_none_or(|(known, _)| *known < start)) {
            *known = Some((start, name));
        }
    }
    let mut latest: Option<(u64, String)> = None;
    let named = addresses.iter().zip(best).map(|(address, found)| {
        latest = found.or(latest.take());
        latest.as_ref().map_or_else(|| format!("{address:#x}"), |(_, name)| name.clone())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_trace::Kind;

    fn alloc(cpu: u16, order: u8) -> Row {
        Row { cpu, order, pfn: 512, ..Row::new(Kind::Alloc) }
    }

    #[test]
    fn addresses_belong_to_the_preceding_symbol() {
        let lines = ["20 t b", "10 T a", "18 D data", "30 t c [ext4]", "10 t same", "nonsense"];
        let symbols = lines.into_iter().filter_map(symbol);
        let named = names(&[0x5, 0x10, 0x1f, 0x20, 0x2f, 0x31, 0x99], symbols.clone());
        assert_eq!(named, ["0x5", "a", "a", "b", "b", "c [ext4]", "c [ext4]"]);
        assert_eq!(names(&[], symbols), Vec::<String>::new());
    }

    #[test]
    fn stack_belongs_to_the_preceding_allocation_on_its_cpu() {
        let mut stacks = Stacks::default();
        stacks.allocated(7, &alloc(0, 0));
        stacks.allocated(8, &alloc(1, 3));
        stacks.sampled(0, 7, 1, vec![1, 2]);
        stacks.sampled(1, 8, 2, vec![1, 3]);
        stacks.sampled(1, 9, 3, vec![1, 3]);
        stacks.allocated(7, &Row { pfn: NO_PFN, ..alloc(2, 0) });
        stacks.sampled(2, 7, 1, vec![1, 2]);
        stacks.allocated(7, &alloc(0, 0));
        stacks.sampled(0, 7, 1, vec![1, 2]);
        let names = [(1, "trace_event_raw_event_mm_page_alloc"), (2, "fault"), (3, "read")];
        let facts =
            stacks.with_names(256, &names.into_iter().map(|(address, name)| (address, name.to_owned())).collect());
        let counts: Vec<_> = facts.stacks.iter().map(|stack| (stack.task, stack.order, stack.samples)).collect();
        assert_eq!(counts, [(1, 0, 2), (2, 3, 1)]);
        assert_eq!(facts.symbols[facts.stacks[0].frames[0] as usize], "fault");
        assert_eq!(facts.stacks[0].frames.len(), 1, "the tracepoint's own functions are left out");
    }

    #[test]
    fn excess_stacks_are_counted_without_frames() {
        let mut stacks = Stacks::default();
        stacks.allocated(7, &alloc(0, 0));
        let count = STACKS_MAX as u64 + 10;
        (0..count).for_each(|address| stacks.sampled(0, 7, 1, vec![address]));
        let facts = stacks.with_names(256, &(0..count).map(|address| (address, format!("f{address}"))).collect());
        assert_eq!((facts.stacks.len(), facts.stacks.iter().map(|stack| stack.samples).sum()), (STACKS_MAX + 1, count));
        assert!(facts.stacks[STACKS_MAX].frames.is_empty());
    }
}
