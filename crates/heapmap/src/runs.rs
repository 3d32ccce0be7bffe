//! The runs of pages: what is larger than objects are.

use freehold_malloc::process::outline::Outline;
use freehold_malloc::runs::{EDGE, Kind, PAGE, of_words};
use serde::Serialize;

use crate::target::{HeapError, Target};

/// Pages whose edges are copied at a time.
const CHUNK: u32 = 1 << 12;

/// Runs in use of about a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunRow {
    /// They have fewer bytes than this power of two, or as many.
    pub most_bytes: u64,
    /// Number of them.
    pub runs: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The runs of a process, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// In use, by size.
    pub rows: Vec<RunRow>,
    /// In use.
    pub used: u64,
    /// That CPUs have at hand.
    pub at_hand: u64,
    /// Free, with memory.
    pub backed: u64,
    /// Free, without: given back, or never used.
    pub empty: u64,
}

impl Runs {
    fn add(&mut self, kind: Kind, bytes: u64) {
        match kind {
            Kind::Used => self.add_used(bytes),
            Kind::Claimed => self.at_hand += bytes,
            Kind::Backed => self.backed += bytes,
            Kind::Empty => self.empty += bytes,
            Kind::Inside => {}
        }
    }

    fn add_used(&mut self, bytes: u64) {
        self.used += bytes;
        let most_bytes = bytes.next_power_of_two();
        let at = self.rows.partition_point(|row| row.most_bytes < most_bytes);
        if self.rows.get(at).is_none_or(|row| row.most_bytes != most_bytes) {
            self.rows.insert(at, RunRow { most_bytes, ..RunRow::default() });
        }
        self.rows[at].runs += 1;
        self.rows[at].bytes += bytes;
    }
}

/// Walks the range from run to run.
///
/// # Errors
/// If the process's memory cannot be read.
pub fn walk(target: &Target, outline: &Outline) -> Result<Runs, HeapError> {
    let [edges, used] = outline.run_table;
    // The word after it is none of ours.
    let used = target.word(used)? as u32;
    let mut runs = Runs::default();
    let mut chunk = Chunk { first: 0, bytes: Vec::new() };
    let mut page = 0;
    while page < used {
        let (kind, pages) = chunk.at(target, edges, page, used)?;
        // A run that is being cut while one looks: the next edge is found page by page.
        let pages = if kind == Kind::Inside { 1 } else { pages.clamp(1, used - page) };
        runs.add(kind, u64::from(pages) * PAGE as u64);
        page += pages;
    }
    Ok(runs)
}

/// Edges of some pages.
struct Chunk {
    first: u32,
    bytes: Vec<u8>,
}

impl Chunk {
    fn at(&mut self, target: &Target, edges: u64, page: u32, end: u32) -> Result<(Kind, u32), HeapError> {
        let is_here = page >= self.first && ((page - self.first) as usize) < self.bytes.len() / EDGE;
        if !is_here {
            self.first = page;
            self.bytes = vec![0; CHUNK.min(end - page) as usize * EDGE];
            target.bytes(edges + u64::from(page) * EDGE as u64, &mut self.bytes)?;
        }
        let (words, _) = self.bytes[(page - self.first) as usize * EDGE..].as_chunks();
        Ok(of_words([words[0], words[1]].map(u32::from_ne_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_use_are_counted_by_size() {
        let mut runs = Runs::default();
        for (kind, pages) in [(Kind::Used, 9), (Kind::Used, 16), (Kind::Backed, 4), (Kind::Used, 300), (Kind::Empty, 1)]
        {
            runs.add(kind, pages * PAGE as u64);
        }
        let rows: Vec<_> = runs.rows.iter().map(|row| (row.most_bytes, row.runs, row.bytes)).collect();
        assert_eq!(rows, [(64 << 10, 2, 25 << 12), (2 << 20, 1, 300 << 12)]);
        assert_eq!([runs.used, runs.at_hand, runs.backed, runs.empty], [325 << 12, 0, 4 << 12, 1 << 12]);
    }
}
