//! Memory by what the page flags said of it, at the start and at the end.
//!
//! Free, allocated, and of neither kind: reserved pages never were the allocator's, those that are offline or in a
//! balloon are withheld from it and allocated by nobody, and of some nothing is known.

use freehold_trace::event::{Section, class};
use freehold_trace::{Kind, Row};
use serde::Serialize;

/// `args[1]` of unknown pages that a later event found on a per-CPU list.
const ON_PERCPU_LIST: i64 = 1;
/// `args[1]` of unknown pages that the kernel had not given to the allocator yet.
const NOT_YET_MEMORY: i64 = 2;

/// States of a page, in the order of the report.
const STATES: [&str; 7] =
    ["free", "allocated", "on per-CPU lists", "unknown", "offline or in a balloon", "not initialised", "reserved"];

/// The pages in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// The state.
    pub state: &'static str,
    /// Pages at the start.
    pub start: u64,
    /// Pages at the end, which has no later events to tell per-CPU lists from unknown pages.
    pub end: u64,
}

/// Counts pages by state.
#[derive(Debug, Default)]
pub struct Memory {
    pages: [[u64; 2]; STATES.len()],
}

impl Memory {
    /// Counts a row of state; others are ignored.
    #[inline]
    pub fn observe(&mut self, row: &Row) {
        let end = match row.kind.section() {
            Section::Events => return,
            Section::Start => 0,
            Section::End => 1,
        };
        let Some((state, pages)) = pages_of(row) else { return };
        self.pages[state][end] = self.pages[state][end].saturating_add(pages);
    }

    /// The states that occur.
    pub fn rows(&self) -> Vec<MemoryRow> {
        let row = |(state, &[start, end]): (&&'static str, &[u64; 2])| MemoryRow { state, start, end };
        STATES.iter().zip(&self.pages).map(row).filter(|row| (row.start, row.end) != (0, 0)).collect()
    }
}

/// The number of the row's state, and its pages.
fn pages_of(row: &Row) -> Option<(usize, u64)> {
    let size = 1_u64.checked_shl(row.order.into()).unwrap_or(u64::MAX);
    let run = u64::try_from(row.args[0]).unwrap_or(0);
    Some(match row.kind {
        Kind::StartFree | Kind::EndFree => (0, size),
        Kind::StartAllocated | Kind::EndAllocated => {
            let state = match row.args[1] {
                of if of & class::OFFLINE != 0 => 4,
                of if of & class::RESERVED != 0 => 6,
                _ => 1,
            };
            (state, run.saturating_mul(size))
        }
        Kind::StartUnknown | Kind::EndUnknown => match row.args[1] {
            ON_PERCPU_LIST => (2, run),
            NOT_YET_MEMORY => (5, run),
            _ => (3, run),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_state() {
        let mut memory = Memory::default();
        let row = |kind, order, args| Row { pfn: 0, order, args, ..Row::new(kind) };
        for row in [
            row(Kind::StartFree, 9, [0; 3]),
            row(Kind::StartAllocated, 1, [3, class::SLAB, 0]),
            row(Kind::StartAllocated, 0, [5, class::OFFLINE, 0]),
            row(Kind::StartAllocated, 0, [7, class::RESERVED, 0]),
            row(Kind::StartUnknown, 2, [4, ON_PERCPU_LIST, 0]),
            row(Kind::EndUnknown, 0, [2, 0, 0]),
            row(Kind::Alloc, 3, [0; 3]),
        ] {
            memory.observe(&row);
        }
        let rows: Vec<_> = memory.rows().into_iter().map(|row| (row.state, row.start, row.end)).collect();
        let expected = [
            ("free", 512, 0),
            ("allocated", 6, 0),
            ("on per-CPU lists", 4, 0),
            ("unknown", 0, 2),
            ("offline or in a balloon", 5, 0),
            ("reserved", 7, 0),
        ];
        assert_eq!(rows, expected);
    }
}
