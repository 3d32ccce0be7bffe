//! Memory maps: the state of every pageblock of a machine at several moments, under A and under B.
//!
//! A *cell* is the state of one pageblock: its type, the number of its pages in use, the number of these that are
//! movable, and the CPU that owns it. Cells are in the order of addresses. A map may also have the frames of some
//! pageblocks at its last moment. An HTML page contains pictures of the moment in which A and B differ most
//! ([`difference`], [`picture`]). Its script draws all moments ([`packed`]) and shows the frames of the pageblocks in
//! which A and B differ most. A terminal prints one moment of the map ([`terminal`]), and JSON contains the sums of
//! each moment.

pub mod difference;
pub mod frames;
pub mod packed;
pub mod picture;
pub mod terminal;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use frames::{FrameState, Frames};

/// Largest number of moments of a map.
pub const MOMENTS_MAX: usize = 64;
/// Largest number of pageblocks whose frames an HTML page contains.
pub const FRAMES_OF_MAX: usize = 64;

/// Types of pageblocks, by their number in a cell.
pub const TYPES: [&str; 6] = ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"];
/// Type number of a pageblock that has no frame in any zone.
pub const ABSENT: u8 = TYPES.len() as u8;

/// State of a pageblock at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Type of the pageblock, an index in [`TYPES`] or [`ABSENT`].
    pub migratetype: u8,
    /// Pages in use, including reserved ones.
    pub used: u16,
    /// Pages in use that are movable.
    pub movable: u16,
    /// Number of the owning CPU plus one; 0 without an owner.
    pub owner: u16,
}

/// Contiguous pageblocks of one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Name of the zone, with its node if there are several nodes.
    pub zone: String,
    /// First frame of the first pageblock.
    pub first: u64,
    /// Number of pageblocks.
    pub blocks: u32,
}

/// Memory map of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryMap {
    /// Name of the recording that the map shows.
    pub of: String,
    /// Caveats for the reader, in sentences; empty if there are none.
    pub note: String,
    /// Frames of a pageblock.
    pub block_pages: u16,
    /// Stretches of memory, in the order of their cells.
    pub stretches: Vec<Stretch>,
    /// Times of the moments, in nanoseconds since the start of the recording.
    pub moments: Vec<u64>,
    /// Contents of memory, one side for each policy.
    pub sides: Vec<Side>,
}

/// Contents of memory under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Name of the policy or of the source.
    pub name: String,
    /// Command that prints this side, with `{time}` in place of the moment. With `--block`, it prints the frames of any
    /// pageblock. Empty if there is no such command.
    pub command: String,
    /// Cells, all of them for each moment.
    pub cells: Vec<Vec<Cell>>,
    /// Frames of some pageblocks at the last moment, by the number of the pageblock.
    pub frames: Frames,
}

/// Sums over all cells of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Number of pageblocks of each type, indexed as [`TYPES`].
    pub by_type: [u32; TYPES.len()],
    /// Number of pageblocks without a page in use.
    pub empty: u32,
    /// Number of mixed pageblocks: movable and unmovable pages are in use.
    pub mixed: u32,
    /// Number of pageblocks that a CPU owns.
    pub owned: u32,
    /// Number of pages in use.
    pub used: u64,
}

impl Cell {
    /// Returns whether the pageblock has both movable and unmovable pages in use.
    pub fn is_mixed(&self) -> bool {
        self.movable > 0 && self.movable < self.used
    }
}

impl Sums {
    /// Returns the sums over these cells. Absent pageblocks are not counted.
    pub fn from_cells(cells: &[Cell]) -> Sums {
        let mut sums = Sums::default();
        for cell in cells {
            let Some(count) = sums.by_type.get_mut(usize::from(cell.migratetype)) else { continue };
            *count += 1;
            sums.empty += u32::from(cell.used == 0);
            sums.mixed += u32::from(cell.is_mixed());
            sums.owned += u32::from(cell.owner > 0);
            sums.used += u64::from(cell.used);
        }
        sums
    }
}

/// Returns the number of the pageblock that contains a frame, where a pageblock has `block_pages` frames; `None` if no
/// stretch contains the frame.
pub fn block_of(stretches: &[Stretch], block_pages: u64, pfn: u64) -> Option<usize> {
    let mut before = 0;
    stretches.iter().find_map(|stretch| {
        let within = pfn.checked_sub(stretch.first).map(|frames| frames / block_pages);
        let within = within.filter(|&within| within < u64::from(stretch.blocks));
        let block = within.map(|within| before + within as usize);
        before += stretch.blocks as usize;
        block
    })
}

impl MemoryMap {
    /// Returns the title of the map.
    pub fn title(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        format!("{}: {}", self.of, names.join(" and "))
    }

    /// Returns the number of cells of one moment.
    pub fn len(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.blocks as usize).sum()
    }

    /// Returns whether the map has no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the cells of a side at a moment; nothing if the map has no such side or moment.
    pub fn cells(&self, side: usize, moment: usize) -> &[Cell] {
        self.sides.get(side).and_then(|side| side.cells.get(moment)).map_or(&[], Vec::as_slice)
    }

    /// Returns the first frame of a pageblock; `None` if the map has no pageblock of this number.
    pub fn first_frame(&self, block: usize) -> Option<u64> {
        let (stretch, within) = self.stretch(block)?;
        Some(stretch.first + within as u64 * u64::from(self.block_pages))
    }

    /// Returns the name of the zone of a pageblock; `None` if the map has no pageblock of this number.
    pub fn zone(&self, block: usize) -> Option<&str> {
        self.stretch(block).map(|(stretch, _)| stretch.zone.as_str())
    }

    /// Returns the stretch of a pageblock, and the number of the pageblock within it.
    fn stretch(&self, block: usize) -> Option<(&Stretch, usize)> {
        let mut before = 0;
        self.stretches.iter().find_map(|stretch| {
            let within = block.checked_sub(before).filter(|&within| within < stretch.blocks as usize);
            before += stretch.blocks as usize;
            within.map(|within| (stretch, within))
        })
    }
}

impl Serialize for MemoryMap {
    /// Serializes the sums of each moment instead of the cells, which only pages and terminals draw.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct SideSums<'s> {
            name: &'s str,
            moments: Vec<Sums>,
        }
        let sides = self.sides.iter().map(|side| SideSums {
            name: &side.name,
            moments: side.cells.iter().map(|cells| Sums::from_cells(cells)).collect(),
        });
        let mut map = serializer.serialize_struct("MemoryMap", 6)?;
        map.serialize_field("of", &self.of)?;
        map.serialize_field("block_pages", &self.block_pages)?;
        map.serialize_field("blocks", &self.len())?;
        map.serialize_field("stretches", &self.stretches)?;
        map.serialize_field("moments", &self.moments)?;
        map.serialize_field("sides", &sides.collect::<Vec<_>>())?;
        map.end()
    }
}
