//! Memory map of the recorded machine, at the start and, if the recording contains it, at the end.
//!
//! Rows of state name every frame of memory, in runs. Pages on an LRU list count as movable; free pages and pages on a
//! per-CPU list count as not in use. The state of pages without flags is unknown, so they do not count as in use. At
//! the end, no later event shows which of them are on a per-CPU list. The types of pageblocks are those of the start,
//! as derived from events and contents. The map carries both caveats ([`NOTE`]).

use super::memory::{NOT_YET_MEMORY, ON_PERCPU_LIST};
use freehold_report::origin;
use freehold_report::report::map::frames::Run;
use freehold_report::report::map::{ABSENT, Cell, FrameState, Frames, MemoryMap, Side, Stretch, block_of};
use freehold_trace::event::{Section, class};
use freehold_trace::recording::name_of;
use freehold_trace::{Facts, Kind, Row};

/// Name of the only side of the map.
const RECORDED: &str = "recorded kernel";
/// Caveats for the reader.
const NOTE: &str = "Pages without flags are not counted as in use, since their state is unknown. Migratetypes at the \
                    end are those of the start.";
/// Largest order of a block of the allocator.
const ORDER_MAX: u8 = 10;

/// Requested contents of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Only the cells.
    Cells,
    /// The cells, and the frames of the pageblock with this number.
    Block(usize),
}

/// Collector that fills a map from rows.
#[derive(Debug)]
pub(crate) struct Mapping {
    look: Look,
    block_pages: u64,
    stretches: Vec<Stretch>,
    /// Cells at the start and at the end.
    cells: [Vec<Cell>; 2],
    /// `true` if the recording contains the state at the end.
    has_end: bool,
    /// Frames of the requested pageblock at the start and at the end, each with its state and the order of its block.
    frames: [Vec<(FrameState, u8)>; 2],
}

impl Mapping {
    /// Creates an empty map of the recorded zones.
    pub(crate) fn new(facts: &Facts, look: Look) -> Mapping {
        let block_pages = 1 << facts.pageblock_order.min(ORDER_MAX);
        let has_nodes = facts.zones_start.iter().any(|zone| zone.node > 0);
        let zones = facts.zones_start.iter().filter(|zone| zone.managed > 0);
        let stretches = zones.map(|zone| {
            let first = zone.start_pfn / block_pages * block_pages;
            let end = zone.start_pfn.saturating_add(zone.spanned);
            let blocks = u32::try_from((end - first).div_ceil(block_pages)).unwrap_or(u32::MAX);
            let name = if has_nodes { format!("{} of node {}", zone.name, zone.node) } else { zone.name.clone() };
            Stretch { zone: name, first, blocks }
        });
        let stretches: Vec<Stretch> = stretches.collect();
        let count = stretches.iter().map(|stretch| stretch.blocks as usize).sum();
        let cells = [(); 2].map(|()| vec![Cell { migratetype: ABSENT, ..Cell::default() }; count]);
        let wanted = if matches!(look, Look::Block(_)) { block_pages as usize } else { 0 };
        let frames = [(); 2].map(|()| vec![(FrameState::Absent, 0); wanted]);
        Mapping { look, block_pages, stretches, cells, has_end: false, frames }
    }

    /// Adds a row of state; other rows are ignored.
    pub(crate) fn observe(&mut self, row: &Row) {
        let end = match row.kind.section() {
            Section::Events => return,
            Section::Start => 0,
            Section::End => 1,
        };
        self.has_end |= end == 1;
        if row.kind == Kind::StartPageblock {
            return self.type_blocks(row);
        }
        let Some((state, pages)) = page_state(row) else { return };
        self.add(end, row.pfn, pages, state, row.order);
    }

    fn type_blocks(&mut self, row: &Row) {
        let count = u64::try_from(row.args[1]).unwrap_or(0).max(1);
        let Some(first) = self.block_of(row.pfn) else { return };
        let migratetype = u8::try_from(row.migratetype).unwrap_or(ABSENT).min(ABSENT);
        let cells = self.cells[0].iter_mut().skip(first).take(count as usize);
        cells.for_each(|cell| cell.migratetype = migratetype);
    }

    /// Adds a run of pages to its pageblocks.
    fn add(&mut self, end: usize, pfn: u64, pages: u64, state: FrameState, order: u8) {
        let (mut at, last) = (pfn, pfn.saturating_add(pages));
        while at < last {
            let next = (at / self.block_pages + 1) * self.block_pages;
            let here = (next.min(last) - at) as u16;
            if let Some(block) = self.block_of(at) {
                count(&mut self.cells[end][block], state, here);
                if self.look == Look::Block(block) {
                    let first = (at % self.block_pages) as usize;
                    self.frames[end][first..first + usize::from(here)].fill((state, order));
                }
            }
            at = next;
        }
    }

    fn block_of(&self, pfn: u64) -> Option<usize> {
        block_of(&self.stretches, self.block_pages, pfn)
    }

    /// Returns the finished map.
    pub(crate) fn finish(self, file: &str, facts: &Facts) -> MemoryMap {
        let [start, mut end] = self.cells;
        let blocks = end.iter_mut().zip(&start);
        blocks.for_each(|(cell, before)| cell.migratetype = before.migratetype);
        let (moments, cells) = match self.has_end {
            true => (vec![0, facts.duration], vec![start, end]),
            false => (vec![0], vec![start]),
        };
        let mut frames = Frames::default();
        if let Look::Block(block) = self.look {
            let last = &self.frames[usize::from(self.has_end)];
            last.iter().for_each(|&(state, order)| frames.push(block as u32, Run { state, order, pages: 1 }));
        }
        MemoryMap {
            of: name_of(file),
            note: NOTE.to_owned(),
            block_pages: self.block_pages as u16,
            stretches: self.stretches,
            moments,
            sides: vec![Side {
                name: RECORDED.to_owned(),
                command: origin::command_of(["inspect", file, "--map"]),
                cells,
                frames,
            }],
        }
    }
}

fn count(cell: &mut Cell, state: FrameState, pages: u16) {
    match state {
        FrameState::Movable => {
            cell.used = cell.used.saturating_add(pages);
            cell.movable = cell.movable.saturating_add(pages);
        }
        FrameState::Fixed | FrameState::Reserved => cell.used = cell.used.saturating_add(pages),
        FrameState::Free | FrameState::Listed | FrameState::Unknown | FrameState::Absent => {}
    }
}

/// Returns the state in a row of the start or end state, and the number of its frames.
fn page_state(row: &Row) -> Option<(FrameState, u64)> {
    let size = 1_u64 << row.order.min(63);
    let run = u64::try_from(row.args[0]).unwrap_or(0);
    Some(match row.kind {
        Kind::StartFree | Kind::EndFree => (FrameState::Free, size),
        Kind::StartAllocated | Kind::EndAllocated => {
            let state = match row.args[1] {
                flags if flags & class::OFFLINE != 0 => FrameState::Absent,
                flags if flags & class::RESERVED != 0 => FrameState::Reserved,
                flags if flags & class::LRU != 0 => FrameState::Movable,
                _ => FrameState::Fixed,
            };
            (state, run.saturating_mul(size))
        }
        Kind::StartUnknown | Kind::EndUnknown => match row.args[1] {
            ON_PERCPU_LIST => (FrameState::Listed, run),
            NOT_YET_MEMORY => (FrameState::Absent, run),
            _ => (FrameState::Unknown, run),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::ZoneFacts;

    use super::*;

    fn zone_of(name: &str, start_pfn: u64, spanned: u64) -> ZoneFacts {
        ZoneFacts { name: name.to_owned(), start_pfn, spanned, managed: spanned, ..ZoneFacts::default() }
    }

    fn map(look: Look, rows: &[Row]) -> MemoryMap {
        let zones_start = vec![zone_of("DMA", 1, 1023), zone_of("Normal", 4096, 512)];
        let facts = Facts { pageblock_order: 9, duration: 7, zones_start, ..Facts::default() };
        let mut mapping = Mapping::new(&facts, look);
        rows.iter().for_each(|row| mapping.observe(row));
        mapping.finish("a.parquet", &facts)
    }

    fn row(kind: Kind, pfn: u64, order: u8, args: [i64; 3]) -> Row {
        Row { pfn, order, args, ..Row::new(kind) }
    }

    fn cell_of(migratetype: u8, used: u16, movable: u16) -> Cell {
        Cell { migratetype, used, movable, owner: 0 }
    }

    #[test]
    fn runs_are_assigned_to_overlapping_pageblocks() {
        let rows = [
            row(Kind::StartAllocated, 510, 0, [4, class::LRU, 0]),
            row(Kind::StartAllocated, 514, 1, [2, 0, 0]),
            row(Kind::StartFree, 4096, 9, [0; 3]),
            Row { migratetype: 1, ..row(Kind::StartPageblock, 512, 0, [1, 1, 0]) },
        ];
        let map = map(Look::Cells, &rows);
        assert_eq!(map.sides[0].cells, [[cell_of(ABSENT, 2, 2), cell_of(1, 6, 2), cell_of(ABSENT, 0, 0)]]);
        assert_eq!((map.len(), map.moments.len()), (3, 1));
    }

    fn state_of_block(kind: Kind, class: i64) -> Row {
        row(kind, 512, 9, [1, class, 0])
    }

    #[test]
    fn frames_of_a_block_are_those_of_the_last_moment() {
        let rows = [state_of_block(Kind::StartAllocated, class::LRU), state_of_block(Kind::EndAllocated, 0)];
        let map = map(Look::Block(1), &rows);
        let run = Run { state: FrameState::Fixed, order: 9, pages: 512 };
        assert_eq!((map.sides[0].frames.get(1), map.moments.as_slice()), (Some([run].as_slice()), [0, 7].as_slice()));
    }
}
