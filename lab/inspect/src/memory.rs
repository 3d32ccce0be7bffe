//! Memory by page state and use, from the page flags at the start and at the end.
//!
//! Besides free and allocated pages, there are pages in neither state: reserved pages were never managed by the
//! allocator, pages that are offline or in a balloon are withheld from it, and the state of some pages is unknown.
//! Allocated pages are also counted by use, as far as the flags show it.

use freehold_trace::event::{Section, class};
use freehold_trace::{Kind, Row};
use serde::Serialize;

/// `args[1]` of unknown pages that a later event found on a per-CPU list.
pub(crate) const ON_PERCPU_LIST: i64 = 1;
/// `args[1]` of unknown pages that the kernel had not given to the allocator yet.
pub(crate) const NOT_YET_MEMORY: i64 = 2;

/// States of a page, in the order of the report.
const STATES: [&str; 7] =
    ["free", "allocated", "on per-CPU lists", "unknown", "offline or in a balloon", "not initialised", "reserved"];

/// State of pages on per-CPU lists, which is not known at the end.
pub(crate) const ON_LISTS: &str = STATES[2];
/// Index of the state of allocated pages.
const ALLOCATED: usize = 1;
/// Uses of an allocated page, in the order of the report: a name, the class bits that must be set, and the bits that
/// must be clear.
const USES: [(&str, i64, i64); 13] = [
    ("of tasks", class::ANON | class::LRU, TYPED),
    ("- in huge pages", class::ANON | class::LRU | class::THP, TYPED),
    ("- mapped more than once", class::ANON | class::LRU | class::SHARED, TYPED),
    ("of files", class::FILE | class::LRU, TYPED),
    ("- active ones", class::FILE | class::LRU | class::ACTIVE, TYPED),
    ("- dirty ones", class::FILE | class::LRU | class::DIRTY, TYPED),
    ("- mapped more than once", class::FILE | class::LRU | class::SHARED, TYPED),
    ("mapped, and on no LRU list", class::FILE, class::LRU | TYPED),
    ("of tasks, and on no LRU list", class::ANON, class::LRU | TYPED),
    ("slabs", class::SLAB, 0),
    ("page tables", class::PAGE_TABLE, 0),
    ("of hugetlbfs", class::HUGETLB, 0),
    ("other pages of the kernel", 0, KNOWN),
];
/// Page types that override the other flags: in a slab page, for example, the field that marks anonymous pages has
/// another meaning.
const TYPED: i64 = class::SLAB | class::PAGE_TABLE | class::HUGETLB;
/// Flags of all known uses.
const KNOWN: i64 = class::ANON | class::LRU | class::FILE | TYPED;

/// Pages in one state or of one use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Name of the state or use.
    pub state: &'static str,
    /// Pages at the start.
    pub start: u64,
    /// Pages at the end. Pages on per-CPU lists count as unknown here, because no later events identify them.
    pub end: u64,
}

/// Counters of pages by state and use.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pages: [[u64; 2]; STATES.len()],
    uses: [[u64; 2]; USES.len()],
}

impl Memory {
    /// Counts a row of state; other rows are ignored.
    #[inline]
    pub(crate) fn observe(&mut self, row: &Row) {
        let end = match row.kind.section() {
            Section::Events => return,
            Section::Start => 0,
            Section::End => 1,
        };
        let Some((state, pages)) = pages_of(row) else { return };
        add(&mut self.pages[state][end], pages);
        if state == ALLOCATED {
            for ((_, with, without), counts) in USES.iter().zip(&mut self.uses) {
                if row.args[1] & (with | without) == *with {
                    add(&mut counts[end], pages);
                }
            }
        }
    }

    /// Returns the states that occur.
    pub(crate) fn rows(&self) -> Vec<MemoryRow> {
        rows(STATES.iter().copied().zip(&self.pages))
    }

    /// Returns the uses that occur.
    pub(crate) fn uses(&self) -> Vec<MemoryRow> {
        rows(USES.iter().map(|(name, ..)| *name).zip(&self.uses))
    }
}

fn rows<'m>(counts: impl Iterator<Item = (&'static str, &'m [u64; 2])>) -> Vec<MemoryRow> {
    let occurring = counts.filter(|(_, pages)| **pages != [0, 0]);
    occurring.map(|(state, &[start, end])| MemoryRow { state, start, end }).collect()
}

/// Adds to a count without overflow, which a forged file could cause.
fn add(count: &mut u64, pages: u64) {
    *count = count.saturating_add(pages);
}

/// Returns the state index and the number of pages of a row.
fn pages_of(row: &Row) -> Option<(usize, u64)> {
    let size = 1_u64.checked_shl(row.order.into()).unwrap_or(u64::MAX);
    let run = u64::try_from(row.args[0]).unwrap_or(0);
    Some(match row.kind {
        Kind::StartFree | Kind::EndFree => (0, size),
        Kind::StartAllocated | Kind::EndAllocated => {
            let state = match row.args[1] {
                flags if flags & class::OFFLINE != 0 => 4,
                flags if flags & class::RESERVED != 0 => 6,
                _ => ALLOCATED,
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

    fn row_of(kind: Kind, order: u8, args: [i64; 3]) -> Row {
        Row { pfn: 0, order, args, ..Row::new(kind) }
    }

    #[test]
    fn pages_are_counted_by_state() {
        let mut memory = Memory::default();
        for row_of in [
            row_of(Kind::StartFree, 9, [0; 3]),
            row_of(Kind::StartAllocated, 1, [3, class::SLAB, 0]),
            row_of(Kind::StartAllocated, 0, [5, class::OFFLINE, 0]),
            row_of(Kind::StartAllocated, 0, [7, class::RESERVED, 0]),
            row_of(Kind::StartUnknown, 2, [4, ON_PERCPU_LIST, 0]),
            row_of(Kind::EndUnknown, 0, [2, 0, 0]),
            row_of(Kind::Alloc, 3, [0; 3]),
        ] {
            memory.observe(&row_of);
        }
        let rows: Vec<_> = memory.rows().into_iter().map(|row_of| (row_of.state, row_of.start, row_of.end)).collect();
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

    fn allocated_at_start(order: u8, pages: i64, class: i64) -> Row {
        Row { pfn: 0, order, args: [pages, class, 0], ..Row::new(Kind::StartAllocated) }
    }

    #[test]
    fn allocated_pages_are_counted_by_use() {
        let mut memory = Memory::default();
        let file = class::FILE | class::LRU;
        for row in [
            allocated_at_start(9, 1, class::ANON | class::LRU | class::THP),
            allocated_at_start(0, 3, class::ANON | class::LRU | class::ACTIVE | class::SHARED),
            allocated_at_start(0, 5, file | class::ACTIVE | class::DIRTY),
            allocated_at_start(2, 1, file | class::UNEVICTABLE),
            allocated_at_start(3, 1, class::SLAB),
            allocated_at_start(0, 2, 0),
            allocated_at_start(0, 9, class::RESERVED),
        ] {
            memory.observe(&row);
        }
        let uses: Vec<_> = memory.uses().into_iter().map(|row| (row.state, row.start)).collect();
        let expected = [
            ("of tasks", 515),
            ("- in huge pages", 512),
            ("- mapped more than once", 3),
            ("of files", 9),
            ("- active ones", 5),
            ("- dirty ones", 5),
            ("slabs", 8),
            ("other pages of the kernel", 2),
        ];
        assert_eq!(uses, expected);
    }

    #[test]
    fn uses_sum_to_the_allocated_pages() {
        let flags = [class::ANON, class::LRU, class::FILE, class::SLAB, class::PAGE_TABLE, class::HUGETLB, class::THP];
        let mut memory = Memory::default();
        for combination in 0..1_usize << flags.len() {
            let set = flags.iter().enumerate().filter(|(bit, _)| combination >> bit & 1 != 0);
            let class = set.fold(0, |class, (_, flag)| class | flag);
            let is_possible = (class & TYPED).count_ones() <= 1 && class & (class::ANON | class::FILE | TYPED) != 0;
            if is_possible && class & (class::ANON | class::FILE) != class::ANON | class::FILE {
                memory.observe(&row_of(Kind::StartAllocated, 0, [1, class, 0]));
            }
        }
        let wholes = memory.uses().into_iter().filter(|row| !row.state.starts_with('-'));
        assert_eq!(wholes.map(|row| row.start).sum::<u64>(), memory.rows()[0].start);
    }
}
