//! How memory comes in: first its metadata, then its frames.
//!
//! [`online`](PageAllocator::online) makes a range of frames known, all of them Reserved;
//! [`release`](PageAllocator::release) gives some of them to the free lists, at the tails, as at boot.
//! [`adopt`](PageAllocator::adopt) gives frames to the allocator as already allocated: what a kernel does with memory it used
//! before it had an allocator, and what a replay does to begin where a recorded machine was.
//!
//! linux: mm/page_alloc.c:__free_pages_core, mm/sparse.c:sparse_add_section

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;

use super::buddy::Placement;
use super::zone::Zone;
use super::{Config, PageAllocator};
use crate::base::carve::Carver;
use crate::base::frame::Word;
use crate::base::memmap::{MemMap, SECTION_ORDER, SECTION_PAGES};
use crate::base::pageblock::NO_ZONE;
use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn, RawLock, ZoneKind};
use crate::platform::Platform;

/// Frames `[start, end)` of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First frame.
    pub start: Pfn,
    /// The frame behind the last.
    pub end: Pfn,
    /// Node.
    pub node: NodeId,
    /// Kind of zone.
    pub kind: ZoneKind,
}

/// Why a range did not come online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineError {
    /// It is empty, not aligned, ends above the configuration's limit, or names a node that does not exist.
    Range,
    /// It shares a pageblock with another zone.
    SharedPageblock {
        /// First frame of the pageblock.
        pfn: Pfn,
    },
    /// The memory handed in is smaller than [`PageAllocator::online_layout`] says.
    Metadata,
    /// A frame to be released or adopted is not Reserved, or was never online.
    NotReserved {
        /// The frame.
        pfn: Pfn,
    },
}

impl fmt::Display for OnlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnlineError::Range => {
                f.write_str("the range is empty, not aligned, too high, or on a node that does not exist")
            }
            OnlineError::SharedPageblock { pfn } => {
                write!(f, "the pageblock at frame {pfn} belongs to another zone; zones are made of whole pageblocks")
            }
            OnlineError::Metadata => f.write_str("the metadata memory is smaller than online_layout() asks for"),
            OnlineError::NotReserved { pfn } => write!(f, "frame {pfn} is already in use, or was never online"),
        }
    }
}

impl core::error::Error for OnlineError {}

pub(super) fn empty_zone<L: RawLock>(index: usize, config: &Config<'_>) -> Zone<L> {
    let node = NodeId((index / ZoneKind::COUNT) as u8);
    let kind = ZoneKind::ALL[index % ZoneKind::COUNT];
    Zone::new(index as u8, node, kind, config.policy.reserve, config.pageblock_order)
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Bytes of metadata that [`online`](Self::online) needs for a range: one section's worth for every section that
    /// is not there yet.
    pub fn online_layout(&self, range: &Range) -> Layout {
        let section = MemMap::section_layout(self.map.pageblock_order());
        let missing = sections(range).filter(|&index| !self.map.is_present(index)).count();
        Layout::from_size_align(section.size() * missing, section.align()).expect("a few MiB a section")
    }

    /// Makes a range of frames known, all of them Reserved. Must not run at the same time as another `online`.
    ///
    /// # Errors
    /// See [`OnlineError`].
    pub fn online(&self, range: &Range, metadata: &'m mut [MaybeUninit<u8>]) -> Result<(), OnlineError> {
        let known = range.node.0 < self.nodes() && u64::from(range.end.raw()) <= self.map.end();
        if range.start >= range.end || !known {
            return Err(OnlineError::Range);
        }
        let mut carver = Carver::new(metadata);
        if !sections(range).all(|index| self.map.add_section(index, &mut carver)) {
            return Err(OnlineError::Metadata);
        }
        let zone = self.zone(range.node, range.kind);
        for block in self.pageblocks_of(range) {
            let owner = self.map.pageblock(block).zone();
            if owner != NO_ZONE && usize::from(owner) != zone.index() {
                return Err(OnlineError::SharedPageblock { pfn: block });
            }
        }
        for block in self.pageblocks_of(range) {
            self.map.pageblock(block).set_zone(zone.index() as u8);
        }
        zone.grow_span(range.start, range.end);
        zone.add_present(u64::from(range.end.raw() - range.start.raw()));
        self.note_nearest(range.node);
        Ok(())
    }

    /// Gives Reserved frames to the free lists, as the largest blocks that fit, at the tails of the lists. Each
    /// pageblock goes to its own zone and type; neighbours merge as far as these allow.
    ///
    /// # Errors
    /// If a frame was never online or is not Reserved; nothing was released then.
    pub fn release(&self, start: Pfn, end: Pfn) -> Result<(), OnlineError> {
        self.expect_reserved(start, end)?;
        for (pfn, order) in start.blocks_up_to(end, self.map.pageblock_order()) {
            let zone = self.zone_of(pfn);
            let migratetype = self.map.pageblock(pfn).migratetype();
            zone.add_managed(u64::from(order.pages()));
            self.fill_interior(pfn, order);
            self.lock_zone(zone).free_block(pfn, order, migratetype, Placement::Tail);
        }
        Ok(())
    }

    /// Takes a Reserved block into the allocator as allocated, with one reference.
    ///
    /// # Errors
    /// As [`release`](Self::release); also if no block of this order can start at the frame.
    pub fn adopt(&self, pfn: Pfn, order: Order, mobility: Mobility) -> Result<(), OnlineError> {
        if !pfn.is_aligned(order) {
            return Err(OnlineError::Range);
        }
        self.expect_reserved(pfn, pfn.offset(order.pages()))?;
        self.zone_of(pfn).add_managed(u64::from(order.pages()));
        self.fill_interior(pfn, order);
        let word = Word::allocated(order).with_refs(1);
        self.map.frame(pfn).set(if mobility == Mobility::Movable { word.movable() } else { word });
        Ok(())
    }

    /// Says what a pageblock is for, before any of its frames is released. A reserved block counts against the
    /// reserve's cap.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) {
        let zone = self.zone_of(pfn);
        self.map.pageblock(pfn).set_migratetype(migratetype);
        match migratetype {
            MigrateType::HighAtomic => {
                zone.set_reserved_highatomic(zone.reserved_highatomic() + self.pageblock_pages())
            }
            MigrateType::Cma => zone.add_cma(self.pageblock_pages()),
            _ => {}
        }
    }

    fn expect_reserved(&self, start: Pfn, end: Pfn) -> Result<(), OnlineError> {
        let taken = |&pfn: &Pfn| {
            let reserved = self.map.try_frame(pfn).is_some_and(|frame| frame.word().is_reserved());
            !reserved || self.map.pageblock(pfn).zone() == NO_ZONE
        };
        start.up_to(end).find(taken).map_or(Ok(()), |pfn| Err(OnlineError::NotReserved { pfn }))
    }

    fn fill_interior(&self, pfn: Pfn, order: Order) {
        for at in pfn.up_to(pfn.offset(order.pages())) {
            self.map.frame(at).set(Word::INTERIOR);
        }
    }

    fn pageblocks_of(&self, range: &Range) -> impl Iterator<Item = Pfn> + use<P> {
        let order = self.map.pageblock_order();
        let (first, end) = (range.start.align_down(order), range.end);
        (first.raw()..end.raw()).step_by(order.pages() as usize).map(Pfn::new)
    }

    /// CPUs, for whoever drains or ticks all of them.
    pub fn cpu_ids(&self) -> impl Iterator<Item = CpuId> + use<P> {
        (0..self.cpus()).map(CpuId)
    }
}

/// Whether the owner of an adopted block lets it be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// It stays where it is.
    Fixed,
    /// It may move.
    Movable,
}

fn sections(range: &Range) -> impl Iterator<Item = usize> {
    let (first, last) = (range.start.index() >> SECTION_ORDER, range.end.index().div_ceil(SECTION_PAGES as usize));
    first..last
}
