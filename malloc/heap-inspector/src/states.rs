//! Memory of a heap by state, in total and by size. The totals are the sums of the rows.
//!
//! ```text
//! live      allocated by the program
//! cached    freed, and in a cache of a CPU or in a barn: the next requests of the size get it
//! kept      other free memory that is resident
//! returned  free memory that is not resident: returned to the system, never written to, or swapped out
//! ```

use std::cmp::Reverse;

use freehold_report::number::count;
use serde::Serialize;

/// Headings of the states, in the order of [`StateBytes::in_order`].
pub const HEADINGS: [&str; 4] = ["live", "cached", "kept", "returned"];

/// Memory of a heap by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct States {
    /// All memory.
    pub total: StateBytes,
    /// Parts of it.
    pub parts: Vec<StateRow>,
}

/// Bytes by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateBytes {
    /// Blocks in use by the program. In a hardened process, also freed objects in quarantine.
    pub live: u64,
    /// Freed blocks in caches of CPUs and in barns, and the sheaves that hold them.
    pub cached: u64,
    /// Other free memory that is resident.
    pub kept: u64,
    /// Free memory that is not resident: returned to the system, never written to, or swapped out.
    pub returned: u64,
}

/// A part of the memory by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StateRow {
    /// Kind of the blocks.
    pub kind: BlockKind,
    /// Bytes of an object, or the most bytes of a run; `None` for pages.
    pub size: Option<u64>,
    /// Bytes by state.
    #[serde(flatten)]
    pub bytes: StateBytes,
}

/// Kind of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// Objects of one size, and the other memory of their slabs.
    Objects,
    /// Sheaves, which hold the addresses of cached objects, and the other memory of their slabs.
    Sheaves,
    /// Runs of pages up to a size.
    Runs,
    /// Free pages, of any size.
    Pages,
}

impl BlockKind {
    /// Returns the name of the kind, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Objects => "objects",
            BlockKind::Sheaves => "sheaves",
            BlockKind::Runs => "runs",
            BlockKind::Pages => "pages",
        }
    }
}

impl States {
    /// Adds parts up.
    pub(crate) fn sum(parts: Vec<StateRow>) -> States {
        let mut total = StateBytes::default();
        parts.iter().for_each(|part| total.add(part.bytes));
        States { total, parts }
    }

    /// Returns the `most` parts with most live memory, then most cached and kept memory. Sheaves are left out.
    pub fn largest(&self, most: usize) -> Vec<&StateRow> {
        let mut parts: Vec<_> = self.parts.iter().filter(|part| part.kind != BlockKind::Sheaves).collect();
        parts.sort_by_key(|part| Reverse((part.bytes.live, part.bytes.cached + part.bytes.kept)));
        parts.truncate(most);
        parts
    }
}

impl StateBytes {
    /// Returns the bytes that are live, cached, kept and returned.
    pub fn in_order(&self) -> [u64; 4] {
        [self.live, self.cached, self.kept, self.returned]
    }

    fn add(&mut self, other: StateBytes) {
        self.live += other.live;
        self.cached += other.cached;
        self.kept += other.kept;
        self.returned += other.returned;
    }
}

impl StateRow {
    /// Returns the name of the part for people.
    pub fn label(&self) -> String {
        match (self.kind, self.size) {
            (BlockKind::Runs, Some(size)) => format!("runs up to {} KiB", count(size / 1024)),
            (_, Some(size)) => format!("{} of {} B", self.kind.name(), count(size)),
            (_, None) => format!("free {}", self.kind.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_and_sorted_by_live_memory() {
        let row = StateRow { kind: BlockKind::Objects, size: Some(1536), bytes: StateBytes::default() };
        let runs = StateBytes { live: 1, ..StateBytes::default() };
        let parts = vec![
            StateRow { kind: BlockKind::Pages, size: None, ..row },
            StateRow { kind: BlockKind::Sheaves, size: Some(64), ..row },
            StateRow { kind: BlockKind::Runs, size: Some(1 << 20), bytes: runs },
            row,
        ];
        let states = States { parts, ..States::default() };
        let labels: Vec<_> = states.largest(9).into_iter().map(StateRow::label).collect();
        assert_eq!(labels, ["runs up to 1,024 KiB", "free pages", "objects of 1,536 B"]);
        assert_eq!(states.largest(1).len(), 1);
    }
}
