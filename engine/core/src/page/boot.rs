//! How memory comes in: first its metadata, then its frames.
//!
//! [`online`](PageAllocator::online) makes a range of frames known, all of them Reserved;
//! [`release`](PageAllocator::release) gives some of them to the free lists, at the tails, as at boot.
//! [`adopt`](PageAllocator::adopt) gives frames to the allocator as already allocated: what a kernel does with memory
//! it used before it had an allocator, and what a replay does to begin where a recorded machine was.
//!
//! Each takes frames from one state to the next, Absent to Reserved to in use, and refuses those in any other: what was
//! never online, what is online already, what somebody else was quicker with. That is looked at and written under one
//! lock, a pageblock under each hold; if a later pageblock is refused, the earlier ones are put back.
//!
//! linux: mm/page_alloc.c:__free_pages_core, mm/sparse.c:sparse_add_section

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops;

use super::allocator::PageAllocator;
use super::free::ClaimedRange;
use super::zone::{Placement, Zone};
use crate::base::carve::{Carver, Storage};
use crate::base::pageblock::NO_ZONE;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::platform::Platform;

/// Frames `[start, end)` of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First frame of the range.
    pub start: Pfn,
    /// The frame after the range's last.
    pub end: Pfn,
    /// Node that the frames belong to.
    pub node: NodeId,
    /// Kind of the zone that the frames join.
    pub kind: ZoneKind,
}

/// Why a range did not come online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineError {
    /// It is empty, not aligned, outside of the configuration's limits, or names a node that does not exist.
    Range,
    /// A frame of the range is online already.
    Overlap {
        /// Number of the first such frame.
        pfn: Pfn,
    },
    /// A pageblock cannot be for [`MigrateType::Isolate`], nor for anything else while it is isolated.
    Isolated {
        /// First frame of the pageblock in question.
        pfn: Pfn,
    },
    /// It shares a pageblock with another zone.
    SharedPageblock {
        /// First frame of the pageblock in question.
        pfn: Pfn,
    },
    /// The memory handed in is smaller than [`PageAllocator::online_layout`] says.
    Metadata,
    /// A frame to be released or adopted is not Reserved: it is in use already, or not online.
    NotReserved {
        /// Number of the first such frame.
        pfn: Pfn,
    },
}

impl fmt::Display for OnlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnlineError::Range => {
                f.write_str("the range is empty, not aligned, outside of the limits, or on a node that does not exist")
            }
            OnlineError::Overlap { pfn } => write!(f, "frame {pfn} is online already"),
            OnlineError::Isolated { pfn } => {
                write!(f, "the pageblock at frame {pfn} is, or would be, isolated; give it a type that requests have")
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

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Bytes of metadata that [`online`](Self::online) needs for a range: one section's worth for every section that
    /// is not there yet.
    pub fn online_layout(&self, range: &Range) -> Layout {
        let geometry = self.map.geometry();
        let sections = geometry.sections_of(&(range.start..range.end));
        geometry.layout_of(sections.filter(|&index| !self.map.is_present(index)))
    }

    /// Makes a range of frames known, all of them Reserved. Cost: a step a frame.
    ///
    /// # Errors
    /// See [`OnlineError`]. No frame is known that was not before; but under [`OnlineError::Metadata`] what was handed
    /// in may serve as metadata from now on, as far as it went.
    pub fn online(&self, range: &Range, metadata: &'m mut [MaybeUninit<u8>]) -> Result<(), OnlineError> {
        self.online_in(range, metadata.into())
    }

    /// The same, in memory that may be known to be zeros ([`Storage::zeroed`]): what begins as zeros is not written
    /// then.
    ///
    /// # Errors
    /// As [`online`](Self::online).
    pub fn online_in(&self, range: &Range, metadata: Storage<'m>) -> Result<(), OnlineError> {
        let (frames, bounds) = (range.start..range.end, self.map.frames_max());
        let (start, end) = (u64::from(range.start.raw()), u64::from(range.end.raw()));
        if start >= end || start < bounds.start || end > bounds.end || range.node.0 >= self.nodes() {
            return Err(OnlineError::Range);
        }
        self.add_sections(&frames, metadata)?;
        let zone = self.zone(range.node, range.kind);
        self.claim_by_pageblock(&frames, &|part| self.make_known(part, zone), &|part| self.make_absent(part))?;
        let hotplug = self.hotplug.lock();
        zone.grow_span(range.start, range.end);
        self.note_nearest(range.node);
        drop(hotplug);
        Ok(())
    }

    fn add_sections(&self, frames: &ops::Range<Pfn>, metadata: Storage<'m>) -> Result<(), OnlineError> {
        let mut carver = Carver::new(metadata);
        for index in self.map.geometry().sections_of(frames) {
            let _hotplug = self.hotplug.lock();
            if !self.map.add_section(index, &mut carver) {
                return Err(OnlineError::Metadata);
            }
        }
        Ok(())
    }

    /// Takes the parts of a range that lie in one pageblock each, one after the other, each under the lock; if one is
    /// refused, those before it are put back.
    fn claim_by_pageblock(
        &self,
        frames: &ops::Range<Pfn>,
        take: &dyn Fn(&ops::Range<Pfn>) -> Result<(), OnlineError>,
        put_back: &dyn Fn(&ops::Range<Pfn>),
    ) -> Result<(), OnlineError> {
        for part in self.parts_of(frames) {
            let _hotplug = self.hotplug.lock();
            if let Err(error) = take(&part) {
                self.parts_of(&(frames.start..part.start)).for_each(|part| put_back(&part));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The parts of a range that lie in one pageblock each.
    pub(super) fn parts_of(&self, frames: &ops::Range<Pfn>) -> impl Iterator<Item = ops::Range<Pfn>> + use<P> {
        let (order, mut at, end) = (self.map.pageblock_order(), frames.start, frames.end);
        core::iter::from_fn(move || {
            // The last block that could be named is never online, and ends nowhere.
            let next = at.align_down(order).checked_offset(order.pages()).map_or(end, |next| end.min(next));
            (at < end).then(|| core::mem::replace(&mut at, next)..next)
        })
    }

    /// Gives frames that were never online to a zone, together with their pageblock.
    fn make_known(&self, part: &ops::Range<Pfn>, zone: &Zone<P::Lock>) -> Result<(), OnlineError> {
        let block = part.start.align_down(self.map.pageblock_order());
        let pageblock = self.map.pageblock(block);
        if pageblock.zone() != NO_ZONE && usize::from(pageblock.zone()) != zone.index() {
            return Err(OnlineError::SharedPageblock { pfn: block });
        }
        self.expect_all(part, Word::is_absent).map_err(|pfn| OnlineError::Overlap { pfn })?;
        self.fill(part, Word::RESERVED);
        pageblock.set_zone(zone.index() as u8);
        zone.add_present(pages_in(part));
        Ok(())
    }

    /// Forgets frames of one pageblock, and whose that is if nothing of it is left.
    fn make_absent(&self, part: &ops::Range<Pfn>) {
        self.zone_of(part.start).drop_present(pages_in(part));
        self.fill(part, Word::ABSENT);
        let (block, order) = (part.start.align_down(self.map.pageblock_order()), self.map.pageblock_order());
        if self.expect_all(&(block..block.offset(order.pages())), Word::is_absent).is_ok() {
            let _areas = self.zone_of(block).areas.lock();
            if self.map.pageblock(block).isolations() == 0 {
                self.map.pageblock(block).set_zone(NO_ZONE);
            }
        }
    }

    /// Gives Reserved frames to the free lists, as the largest blocks that fit, at the tails of the lists. Each
    /// pageblock goes to its own zone and type; neighbours merge as far as these allow. Cost: a step a frame.
    ///
    /// # Errors
    /// If the range ends before it starts, or a frame is not Reserved; nothing was released then.
    pub fn release(&self, start: Pfn, end: Pfn) -> Result<(), OnlineError> {
        self.claim_reserved(&(start..end))?;
        self.release_claimed(start..end);
        Ok(())
    }

    /// Gives frames that were taken out of Reserved to the free lists.
    pub(super) fn release_claimed(&self, frames: ops::Range<Pfn>) {
        let mut rest = ClaimedRange::new(&self.map, frames.clone());
        for (pfn, order) in frames.start.blocks_up_to(frames.end, self.map.pageblock_order()) {
            rest.keep_before(pfn.offset(order.pages()));
            let mut locked = self.lock_zone(self.zone_of(pfn));
            // Whoever isolates the pageblock changes its type under the lock.
            let migratetype = self.map.pageblock(pfn).migratetype();
            locked.free_one_page(pfn, order, migratetype, Placement::Tail);
        }
    }

    /// Takes a Reserved block into the allocator as allocated, with one reference. Cost: a step a frame.
    ///
    /// # Errors
    /// As [`release`](Self::release); also if no block of this order can start at the frame, or it would lie in two
    /// zones.
    pub fn adopt(&self, pfn: Pfn, order: Order, mobility: Mobility) -> Result<(), OnlineError> {
        let end = pfn.checked_offset(order.pages()).filter(|_| pfn.is_aligned(order)).ok_or(OnlineError::Range)?;
        let zone = self.zone_number_at(pfn);
        if let Some(part) = self.parts_of(&(pfn..end)).find(|part| self.zone_number_at(part.start) != zone) {
            return Err(OnlineError::SharedPageblock { pfn: part.start });
        }
        self.claim_reserved(&(pfn..end))?;
        let word = Word::allocated(order).with_refs(1);
        self.map.frame(pfn).set(if mobility == Mobility::Movable { word.movable() } else { word });
        Ok(())
    }

    /// Number of the zone of a frame's pageblock, if there is metadata for it.
    fn zone_number_at(&self, pfn: Pfn) -> Option<u8> {
        self.map.try_frame_and_pageblock(pfn).map(|(_, pageblock)| pageblock.zone())
    }

    /// The same with all frames of a range, each a page by itself. Cost: a step a frame.
    ///
    /// # Errors
    /// As [`release`](Self::release); no page was taken then.
    pub fn adopt_each(&self, start: Pfn, end: Pfn, mobility: Mobility) -> Result<(), OnlineError> {
        self.claim_reserved(&(start..end))?;
        let word = Word::allocated(Order::ZERO).with_refs(1);
        self.fill(&(start..end), if mobility == Mobility::Movable { word.movable() } else { word });
        Ok(())
    }

    /// Makes managed frames inside no block of Reserved ones: the caller's, to make blocks of.
    fn claim_reserved(&self, frames: &ops::Range<Pfn>) -> Result<(), OnlineError> {
        if frames.start > frames.end {
            return Err(OnlineError::Range);
        }
        self.claim_by_pageblock(frames, &|part| self.claim_reserved_part(part), &|part| {
            self.fill(part, Word::RESERVED);
            self.zone_of(part.start).drop_managed(pages_in(part));
        })
    }

    fn claim_reserved_part(&self, part: &ops::Range<Pfn>) -> Result<(), OnlineError> {
        self.expect_all(part, Word::is_reserved).map_err(|pfn| OnlineError::NotReserved { pfn })?;
        self.claim_part(part);
        Ok(())
    }

    #[inline(never)]
    fn claim_part(&self, part: &ops::Range<Pfn>) {
        self.fill(part, Word::INTERIOR);
        self.zone_of(part.start).add_managed(pages_in(part));
    }

    /// Claims whole Reserved pageblocks and gives them a type in the same step, all under one hold of the lock.
    pub(super) fn claim_reserved_as(
        &self,
        frames: &ops::Range<Pfn>,
        migratetype: MigrateType,
    ) -> Result<(), OnlineError> {
        let _hotplug = self.hotplug.lock();
        self.expect_all(frames, Word::is_reserved).map_err(|pfn| OnlineError::NotReserved { pfn })?;
        for part in self.parts_of(frames) {
            if let Err(error) = self.retype_unused(part.start, migratetype) {
                let earlier = self.parts_of(&(frames.start..part.start));
                earlier.for_each(|part| _ = self.retype_unused(part.start, MigrateType::Movable));
                return Err(error);
            }
        }
        self.parts_of(frames).for_each(|part| self.claim_part(&part));
        Ok(())
    }

    /// Says what a pageblock is for, before any of its frames is released. A reserved block counts against the
    /// reserve's cap.
    ///
    /// # Errors
    /// If its memory is not online, a frame of it was released or adopted already, or the type is
    /// [`MigrateType::Isolate`], which no pageblock is for.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<(), OnlineError> {
        let _hotplug = self.hotplug.lock();
        let order = self.map.pageblock_order();
        let block = pfn.align_down(order);
        let found = self.map.try_frame_and_pageblock(block).map(|(_, pageblock)| pageblock);
        found.filter(|found| found.zone() != NO_ZONE).ok_or(OnlineError::NotReserved { pfn })?;
        self.expect_all(&(block..block.offset(order.pages())), |word| word.is_absent() || word.is_reserved())
            .map_err(|pfn| OnlineError::NotReserved { pfn })?;
        self.retype_unused(block, migratetype)
    }

    /// Gives a pageblock, none of which is in use, another type. Under the lock for what is online.
    fn retype_unused(&self, block: Pfn, migratetype: MigrateType) -> Result<(), OnlineError> {
        let (pageblock, order) = (self.map.pageblock(block), self.map.pageblock_order());
        let zone = self.zone_of(block);
        // Isolation is counted under this lock.
        let _areas = zone.areas.lock();
        if migratetype == MigrateType::Isolate || pageblock.isolations() > 0 {
            return Err(OnlineError::Isolated { pfn: block });
        }
        zone.count_pageblock(pageblock.migratetype(), -(order.pages() as i64));
        pageblock.set_migratetype(migratetype);
        zone.count_pageblock(migratetype, order.pages().into());
        Ok(())
    }

    /// Refuses frames that are not all as they should be: says which is not.
    pub(super) fn expect_all(&self, frames: &ops::Range<Pfn>, is_right: impl Fn(Word) -> bool) -> Result<(), Pfn> {
        let mut at = frames.start;
        while at < frames.end {
            let found = self.map.try_frames(&(at..frames.end)).ok_or(at)?;
            match found.iter().position(|frame| !is_right(frame.word())) {
                Some(wrong) => return Err(Pfn::new(at.raw() + wrong as u32)),
                None => at = Pfn::new(at.raw() + found.len() as u32),
            }
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn fill(&self, frames: &ops::Range<Pfn>, word: Word) {
        self.map.frames(frames).flatten().for_each(|frame| frame.set(word));
    }

    /// All CPUs, for example to drain or tick each of them.
    pub fn cpu_ids(&self) -> impl Iterator<Item = CpuId> + use<P> {
        (0..self.cpus()).map(CpuId)
    }
}

fn pages_in(part: &ops::Range<Pfn>) -> u64 {
    u64::from(part.end.raw() - part.start.raw())
}

/// Whether the owner of an adopted block lets it be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// The block stays where it is: it cannot be migrated.
    Fixed,
    /// The block may be migrated.
    Movable,
}
