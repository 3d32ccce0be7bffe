//! Runs of pages, which hold blocks that are too large for objects.

use std::ops::Range;

use freehold_malloc::process::outline::Outline;
use freehold_malloc::runs::{EDGE, Kind, PAGE, decode_edge};
use serde::Serialize;

use crate::amount::Amount;
use crate::target::{HeapError, Target};

/// Pages that are read at a time.
const CHUNK: u32 = 1 << 12;

/// Runs of similar size that are in use or cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunRow {
    /// Most bytes of a run in this row, a power of two.
    pub most_bytes: u64,
    /// Number of runs in use.
    pub runs: u64,
    /// Bytes of the runs in use.
    pub bytes: u64,
    /// Bytes of runs in CPUs' caches, and of runs that a hardened process holds after their free.
    pub cached_bytes: u64,
}

/// Runs of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Runs in use or cached, by size.
    pub rows: Vec<RunRow>,
    /// All runs in use.
    pub used: Amount,
    /// Runs in CPUs' caches, and runs that a hardened process holds after their free.
    pub claimed: Amount,
    /// Free runs. The part that was returned to the system, or never used, is not in memory.
    pub free: Amount,
}

impl Runs {
    fn add(&mut self, kind: Kind, amount: Amount) {
        match kind {
            Kind::Used => {
                self.used.add(amount);
                let row = self.row(amount.bytes);
                row.runs += 1;
                row.bytes += amount.bytes;
            }
            Kind::Claimed => {
                self.claimed.add(amount);
                self.row(amount.bytes).cached_bytes += amount.bytes;
            }
            Kind::Backed | Kind::Empty => self.free.add(amount),
            Kind::Inside => {}
        }
    }

    /// Returns the row of runs of `bytes` bytes.
    fn row(&mut self, bytes: u64) -> &mut RunRow {
        let most_bytes = bytes.next_power_of_two();
        let at = self.rows.partition_point(|row| row.most_bytes < most_bytes);
        if self.rows.get(at).is_none_or(|row| row.most_bytes != most_bytes) {
            self.rows.insert(at, RunRow { most_bytes, ..RunRow::default() });
        }
        &mut self.rows[at]
    }
}

/// Reads the range of runs from its start to its end.
///
/// # Errors
/// If the process's memory cannot be read.
pub(crate) fn walk(target: &mut Target, outline: &Outline) -> Result<Runs, HeapError> {
    // The number of pages is 32 bits wide; the upper half of the word belongs to another variable. The process lists a
    // hole before the pages behind it, so the holes are read last.
    let pages = target.word(outline.run_pages)? & u64::from(u32::MAX);
    let holes = target.holes(outline.run_holes)?;
    let end = target.end_page(pages, &holes)?;
    let mut runs = Runs::default();
    let mut run = PartialRun { kind: Kind::Inside, rest: 0, amount: Amount::default() };
    for (first, pages) in chunks(end, &holes) {
        let in_memory = target.in_memory(target.place(outline.runs, first.into(), PAGE)?, pages)?;
        let mut edges = vec![0; pages as usize * EDGE];
        if run.rest < pages {
            target.bytes(target.place(outline.run_table, first.into(), EDGE)?, &mut edges)?;
        }
        for (edge, is_in_memory) in edges.chunks_exact(EDGE).zip(in_memory) {
            let (words, _) = edge.as_chunks();
            let (kind, length) = decode_edge([words[0], words[1]].map(u32::from_ne_bytes));
            // If a run is split or merged during the read, it is counted as its pages were when they were read.
            if run.rest == 0 && kind != Kind::Inside {
                run = PartialRun { kind, rest: length.max(1), amount: Amount::default() };
            }
            if run.rest > 0 {
                run.rest -= 1;
                run.amount.add(Amount::from_pages(1, is_in_memory.into()));
                if run.rest == 0 {
                    runs.add(run.kind, run.amount);
                }
            }
        }
    }
    Ok(runs)
}

/// Returns the chunks of the range that are read, each with its first page and its number of pages: up to [`CHUNK`]
/// pages that are in no hole.
fn chunks(end: u32, holes: &[Range<u32>]) -> impl Iterator<Item = (u32, u32)> {
    let starts = std::iter::once(0).chain(holes.iter().map(|hole| hole.end));
    let ends = holes.iter().map(|hole| hole.start).chain(std::iter::once(end));
    let parts = starts.zip(ends).map(move |(start, part_end)| start..part_end.min(end));
    parts.flat_map(|part| part.clone().step_by(CHUNK as usize).map(move |first| (first, CHUNK.min(part.end - first))))
}

/// A run whose pages are not all read yet.
struct PartialRun {
    kind: Kind,
    rest: u32,
    amount: Amount,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_holes_are_not_read() {
        assert!(chunks(5, &[]).eq([(0, 5)]));
        assert!(chunks(0, &[]).next().is_none());
        let read = chunks(3 * CHUNK, &[10..CHUNK, CHUNK + 7..3 * CHUNK - 1]);
        assert!(read.eq([(0, 10), (CHUNK, 7), (3 * CHUNK - 1, 1)]));
        assert!(chunks(2 * CHUNK, &[]).eq([(0, CHUNK), (CHUNK, CHUNK)]));
        assert!(chunks(8, &[2..4, 9..20]).eq([(0, 2), (4, 4)]), "a hole that was made later");
    }

    #[test]
    fn runs_in_use_or_cached_are_counted_by_size() {
        let mut runs = Runs::default();
        let used = [9, 16, 300].map(|pages| (Kind::Used, pages));
        for (kind, pages) in used.into_iter().chain([(Kind::Backed, 4), (Kind::Claimed, 10), (Kind::Empty, 1)]) {
            runs.add(kind, Amount { bytes: pages * PAGE as u64, in_memory: PAGE as u64 });
        }
        let rows: Vec<_> =
            runs.rows.iter().map(|row| (row.most_bytes, row.runs, row.bytes, row.cached_bytes)).collect();
        assert_eq!(rows, [(64 << 10, 2, 25 << 12, 10 << 12), (2 << 20, 1, 300 << 12, 0)]);
        let used = Amount { bytes: 325 << 12, in_memory: 3 << 12 };
        let free = Amount { bytes: 5 << 12, in_memory: 2 << 12 };
        let claimed = Amount { bytes: 10 << 12, in_memory: 1 << 12 };
        let expected = [used, claimed, free];
        assert_eq!([runs.used, runs.claimed, runs.free], expected);
    }
}
