//! State of each frame and pageblock: its use, the starts of blocks, its type and zone.

use std::collections::BTreeMap;
use std::ops::Range;

use freehold::base::{MigrateType, Order};

use super::owned::Owned;

/// Use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// No use that the reference tracks.
    Gone,
    /// In a block on a free list.
    Free,
    /// In a block on a per-CPU list.
    Listed,
    /// In a block on a stack.
    Stacked,
    /// Allocated and movable.
    Movable,
    /// Allocated and not movable.
    Fixed,
}

/// An allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocatedBlock {
    pub order: u8,
    pub movable: bool,
    pub compound: bool,
    /// Whether the block contains a broken frame.
    pub poisoned: bool,
}

/// State of each frame and pageblock.
pub(crate) struct Map {
    /// Order of a pageblock.
    pub block: u8,
    pub pages: Vec<Page>,
    /// Free blocks by first frame.
    pub heads: BTreeMap<u32, (u8, MigrateType)>,
    /// Allocated blocks by first frame.
    held: BTreeMap<u32, AllocatedBlock>,
    types: Vec<MigrateType>,
    /// Pageblocks that compaction skips.
    pub skipped: Vec<bool>,
    zones: Vec<Option<usize>>,
    pub owned: Owned,
}

impl Map {
    pub(crate) fn new(end: u32, block: Order) -> Map {
        let blocks = (end >> block.get()) as usize + 1;
        Map {
            block: block.get(),
            pages: vec![Page::Gone; end as usize],
            heads: BTreeMap::new(),
            held: BTreeMap::new(),
            types: vec![MigrateType::Movable; blocks],
            skipped: vec![false; blocks],
            zones: vec![None; blocks],
            owned: Owned::new(blocks),
        }
    }

    pub(crate) fn assign(&mut self, frames: Range<u32>, zone: usize) {
        for pfn in frames {
            self.zones[(pfn >> self.block) as usize] = Some(zone);
        }
    }

    pub(crate) fn zone(&self, pfn: u32) -> Option<usize> {
        *self.zones.get((pfn >> self.block) as usize)?
    }

    /// Returns whether a frame is in an allocated, movable block.
    fn is_movable(&self, pfn: u32) -> bool {
        self.held_around(pfn).and_then(|head| self.held(head)).is_some_and(|held| held.movable)
    }

    /// Clears the skip hint of the pageblock around a frame if a sample of one in eight of its frames contains a
    /// movable page (`sources`) or the head of a free block (`targets`). Returns whether it cleared the hint or did not
    /// need to.
    pub(crate) fn clears_hint(&mut self, zone: usize, pfn: u32, sources: bool, targets: bool) -> bool {
        let (block, first) = ((pfn >> self.block) as usize, pfn >> self.block << self.block);
        let huge = self.held(first).is_some_and(|held| held.compound && held.order >= self.block);
        if self.zone(pfn) != Some(zone) || huge {
            return false;
        }
        if sources && targets && !self.skipped[block] {
            return true;
        }
        if !sources && self.types[block] != MigrateType::Movable {
            return false;
        }
        let mut frames = (first..first + (1 << self.block)).step_by(8);
        let found = frames.any(|at| sources && self.is_movable(at) || targets && self.free_order(at).is_some());
        self.skipped[block] &= !found;
        found
    }

    pub(crate) fn type_of(&self, pfn: u32) -> MigrateType {
        self.types[(pfn >> self.block) as usize]
    }

    pub(crate) fn set_type(&mut self, pfn: u32, migratetype: MigrateType) {
        self.end_by_use(pfn);
        self.types[(pfn >> self.block) as usize] = migratetype;
    }

    pub(crate) fn set_types(&mut self, pfn: u32, order: u8, migratetype: MigrateType) {
        for at in (pfn..pfn + (1 << order)).step_by(1 << self.block) {
            self.set_type(at, migratetype);
        }
    }

    pub(crate) fn free_order(&self, head: u32) -> Option<u8> {
        Some(self.heads.get(&head)?.0)
    }

    /// Returns the free block around a frame.
    pub(crate) fn free_around(&self, pfn: u32) -> Option<(u32, u8)> {
        let (&head, &(order, _)) = self.heads.range(..=pfn).next_back()?;
        (pfn < head + (1 << order)).then_some((head, order))
    }

    /// Returns the highest frame number plus one.
    pub(crate) fn end(&self) -> u32 {
        self.pages.len() as u32
    }

    pub(crate) fn page(&self, pfn: u32) -> Page {
        self.pages[pfn as usize]
    }

    /// Returns the allocated block that starts at a frame.
    pub(crate) fn held(&self, pfn: u32) -> Option<AllocatedBlock> {
        self.held.get(&pfn).copied()
    }

    /// Records an allocated block.
    pub(crate) fn hold(&mut self, pfn: u32, held: AllocatedBlock) {
        self.held.insert(pfn, held);
        self.paint(pfn, held.order, if held.movable { Page::Movable } else { Page::Fixed });
    }

    /// Removes the record of an allocated block.
    pub(crate) fn unhold(&mut self, pfn: u32) -> AllocatedBlock {
        let held = self.held.remove(&pfn).expect("a block that was owned");
        self.paint(pfn, held.order, Page::Gone);
        held
    }

    /// Changes the record of an allocated block.
    pub(crate) fn change_held(&mut self, pfn: u32, change: impl FnOnce(&mut AllocatedBlock)) {
        change(self.held.get_mut(&pfn).expect("the block is owned"));
    }

    /// Returns the start of the allocated block around a frame.
    pub(crate) fn held_around(&self, pfn: u32) -> Option<u32> {
        let (&start, held) = self.held.range(..=pfn).next_back()?;
        (pfn < start + (1 << held.order)).then_some(start)
    }

    /// Sets the use of all frames of a block.
    pub(crate) fn paint(&mut self, pfn: u32, order: u8, page: Page) {
        self.pages[pfn as usize..][..1 << order].fill(page);
    }
}
