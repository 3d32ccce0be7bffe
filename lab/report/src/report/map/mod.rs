//! The memory map: every pageblock of a machine, moment by moment, as A left it and as B did.
//!
//! A pageblock is a *cell*: its type, how many of its pages are in use, how many of these can be moved, and which CPU
//! owns it. Cells are in the order of addresses. Below the cells are frames, of those blocks in which A and B end up
//! most different. A page for browsers draws it ([`packed`]), a terminal prints one moment of it ([`terminal`]), and
//! JSON has the sums of each moment.

pub mod frames;
pub mod packed;
pub mod terminal;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use frames::{FrameState, Frames};

/// Moments of a map, at most.
pub const MOMENTS_MAX: usize = 64;
/// Blocks whose frames a map has, at most.
pub const FRAMES_OF_MAX: usize = 64;

/// Types of pageblocks by their number in a cell; what comes after them is not there.
pub const TYPES: [&str; 6] = ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"];
/// Number of the type of a block of which no frame is in any zone.
pub const ABSENT: u8 = TYPES.len() as u8;

/// A pageblock at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Number of its type in [`TYPES`], or [`ABSENT`].
    pub migratetype: u8,
    /// Pages in use.
    pub used: u16,
    /// Pages of these that can be moved.
    pub movable: u16,
    /// One more than the number of the CPU that owns it; 0 if none does.
    pub owner: u16,
}

/// Frames that lie together and belong to one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Name of the zone, with its node if there are several.
    pub zone: String,
    /// First frame of the first pageblock.
    pub first: u64,
    /// Number of pageblocks.
    pub blocks: u32,
}

/// The map of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryMap {
    /// What it shows: a recording.
    pub of: String,
    /// What must be known to read it, in sentences; empty where nothing must.
    pub note: String,
    /// Frames of a pageblock.
    pub block_pages: u16,
    /// Where the cells lie, in their order.
    pub stretches: Vec<Stretch>,
    /// Moments, in nanoseconds since the recording started.
    pub moments: Vec<u64>,
    /// What was there under each policy.
    pub sides: Vec<Side>,
}

/// What was there under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The policy, or where it is from.
    pub name: String,
    /// The command that prints the map, with `{time}` for a moment, and with `--block` the frames of any block; empty if
    /// there is none.
    pub command: String,
    /// All cells at each moment.
    pub cells: Vec<Vec<Cell>>,
    /// Frames of blocks at the last moment, by the block's number.
    pub frames: Frames,
}

/// What all cells of a moment come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Blocks of each type, as in [`TYPES`].
    pub by_type: [u32; TYPES.len()],
    /// Blocks of which no page is in use.
    pub empty: u32,
    /// Blocks with pages that can be moved and pages that cannot.
    pub mixed: u32,
    /// Blocks that a CPU owns.
    pub owned: u32,
    /// Pages in use.
    pub used: u64,
}

impl Cell {
    /// Whether it holds pages that can be moved, and pages that cannot.
    pub fn is_mixed(&self) -> bool {
        self.movable > 0 && self.movable < self.used
    }

    /// How different two are: pages, and more than all of these if the blocks are of different types.
    fn distance(&self, other: &Cell) -> u32 {
        let of_type = if self.migratetype == other.migratetype { 0 } else { 512 };
        of_type + u32::from(self.used.abs_diff(other.used)) + u32::from(self.movable.abs_diff(other.movable))
    }
}

impl Sums {
    /// Those of these cells.
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

/// The number of the pageblock, of so many frames, that a frame is in.
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
    /// What it is called.
    pub fn title(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        format!("{}: {}", self.of, names.join(" beside "))
    }

    /// How to read it.
    pub fn caption(&self) -> String {
        let note = if self.note.is_empty() { String::new() } else { format!(" {}", self.note) };
        format!(
            "Each cell is a pageblock of {} pages, in the order of addresses. Move the slider to see another moment; click \
             a cell, or use the arrow keys, to see what it holds.{note}",
            self.block_pages
        )
    }

    /// Cells of a moment.
    pub fn len(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.blocks as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first frame of a block.
    pub fn first_frame(&self, block: usize) -> Option<u64> {
        let mut before = 0;
        self.stretches.iter().find_map(|stretch| {
            let within = block.checked_sub(before).filter(|&within| within < stretch.blocks as usize);
            before += stretch.blocks as usize;
            within.map(|within| stretch.first + within as u64 * u64::from(self.block_pages))
        })
    }

    /// Blocks whose frames are known on all sides, those first in which the last moments of the first two sides differ
    /// most.
    pub fn differing(&self) -> Vec<usize> {
        let Some([first, rest @ ..]) = self.sides.get(..) else { return Vec::new() };
        let other = rest.first().unwrap_or(first);
        let Some((a, b)) = first.cells.last().zip(other.cells.last()) else { return Vec::new() };
        let known = |block: &u32| rest.iter().all(|side| side.frames.get(*block).is_some());
        let mut blocks: Vec<usize> = first.frames.blocks().filter(known).map(|block| block as usize).collect();
        blocks.sort_by_key(|&block| (std::cmp::Reverse(a[block].distance(&b[block])), block));
        blocks.truncate(FRAMES_OF_MAX);
        blocks
    }
}

impl Serialize for MemoryMap {
    /// The sums of each moment: cells are for maps.
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
