//! Adding memory: first its metadata, then its frames.
//!
//! [`online`](PageAllocator::online) adds a range of frames, all of them Reserved. [`release`](PageAllocator::release)
//! then puts some of them on the tails of the free lists, as at boot. [`adopt`](PageAllocator::adopt) instead turns
//! Reserved frames into allocated blocks. A kernel adopts the memory that it used before it had an allocator, and a
//! replay adopts memory to start from the state of the recorded machine.
//!
//! Each of these calls moves frames from one state to the next: Absent to Reserved to in use. A frame in any other
//! state is refused, whether it was never online, is online already, or was taken by another call first. Frames are
//! checked and written under the hotplug lock, one pageblock per hold. If a later pageblock is refused, the earlier
//! ones are restored.
//!
//! linux: mm/page_alloc.c:__free_pages_core, mm/sparse.c:sparse_add_section
//!
//! # Design
//!
//! A word of zero, as in fresh metadata, means Absent. A frame that never came online is therefore refused wherever a
//! caller names it, even in the middle of a pageblock. `online` takes frames from Absent to Reserved, `release` and
//! `adopt` take Reserved frames into use, and `offline` makes frames Absent. All of them run under the hotplug lock.
//! `online`, `release` and `adopt` accept frames in no other state.
//!
//! Metadata stays when frames are removed, because it is read without a lock. The last 1024 of the 32-bit frame numbers
//! are not used, so that the frame after a block always has a number.

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
    /// The frame after the last frame of the range.
    pub end: Pfn,
    /// Node that the frames belong to.
    pub node: NodeId,
    /// Kind of the zone that the frames join.
    pub kind: ZoneKind,
}

/// Reason why a range was not brought online, released or adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineError {
    /// The range is empty, not aligned, outside of the configuration's limits, or names a node that does not exist.
    Range,
    /// A frame of the range is online already.
    Overlap {
        /// Number of the first such frame.
        pfn: Pfn,
    },
    /// A pageblock cannot get the type [`MigrateType::Isolate`], and cannot change its type while it is isolated.
    Isolated {
        /// First frame of the pageblock in question.
        pfn: Pfn,
    },
    /// The range shares a pageblock with another zone.
    SharedPageblock {
        /// First frame of the pageblock in question.
        pfn: Pfn,
    },
    /// The metadata memory is smaller than [`PageAllocator::online_layout`] requires.
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
                write!(f, "the pageblock at frame {pfn} is or would be isolated; use a type that requests have")
            }
            OnlineError::SharedPageblock { pfn } => {
                write!(f, "the pageblock at frame {pfn} belongs to another zone; zones are made of whole pageblocks")
            }
            OnlineError::Metadata => f.write_str("the metadata memory is smaller than online_layout() requires"),
            OnlineError::NotReserved { pfn } => write!(f, "frame {pfn} is already in use, or was never online"),
        }
    }
}

impl core::error::Error for OnlineError {}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Returns the size of the metadata that [`online`](Self::online) needs for a range: the metadata of every section
    /// that is not present yet.
    pub fn online_layout(&self, range: &Range) -> Layout {
        let geometry = self.map.geometry();
        let sections = geometry.sections_of(&(range.start..range.end));
        geometry.layout_of(sections.filter(|&index| !self.map.is_present(index)))
    }

    /// Brings a range of frames online, all of them Reserved. Cost: one step per frame.
    ///
    /// # Errors
    /// See [`OnlineError`]. No frame changes its state. Unless the error is [`OnlineError::Range`], however, the memory
    /// may already serve as metadata of the sections; under [`OnlineError::Metadata`] of as many as it was large enough
    /// for.
    pub fn online(&self, range: &Range, metadata: &'m mut [MaybeUninit<u8>]) -> Result<(), OnlineError> {
        self.online_in(range, metadata.into())
    }

    /// Brings a range online like [`online`](Self::online), with metadata memory that may be known to be zeroed
    /// ([`Storage::zeroed`]). Metadata that starts as zeros is then not written.
    ///
    /// # Errors
    /// See [`online`](Self::online).
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

    /// Splits a range at pageblock borders and takes each part in turn, each under one hold of the hotplug lock. If a
    /// part is refused, the parts before it are put back, and the error is returned.
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

    /// Splits a range into parts that are in one pageblock each.
    pub(super) fn parts_of(&self, frames: &ops::Range<Pfn>) -> impl Iterator<Item = ops::Range<Pfn>> + use<P> {
        let (order, mut at, end) = (self.map.pageblock_order(), frames.start, frames.end);
        core::iter::from_fn(move || {
            // A block at the very end of the frame numbers has no end that fits a `Pfn`. Its frames are never online.
            let next = at.align_down(order).checked_offset(order.pages()).map_or(end, |next| end.min(next));
            (at < end).then(|| core::mem::replace(&mut at, next)..next)
        })
    }

    /// Adds Absent frames of one pageblock to a zone as Reserved ones, together with the pageblock. Refuses frames that
    /// are not Absent, and a pageblock of another zone. The caller holds the hotplug lock.
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

    /// Makes frames of one pageblock Absent. If no frame of the pageblock is online afterwards and the pageblock is not
    /// isolated, it leaves its zone.
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

    /// Puts Reserved frames on the tails of the free lists, as the largest blocks that fit. Each pageblock is released
    /// to its own zone and type; adjacent blocks merge as far as zones and types allow. Cost: one step per frame.
    ///
    /// # Errors
    /// If the range ends before it starts, or a frame is not Reserved. Nothing is released then.
    pub fn release(&self, start: Pfn, end: Pfn) -> Result<(), OnlineError> {
        self.claim_reserved(&(start..end))?;
        self.release_claimed(start..end);
        Ok(())
    }

    /// Puts frames that were claimed from Reserved on the free lists.
    pub(super) fn release_claimed(&self, frames: ops::Range<Pfn>) {
        let mut rest = ClaimedRange::new(&self.map, frames.clone());
        for (pfn, order) in frames.start.blocks_up_to(frames.end, self.map.pageblock_order()) {
            rest.keep_before(pfn.offset(order.pages()));
            let mut locked = self.lock_zone(self.zone_of(pfn));
            // The type is read under the zone lock, because isolation changes it under that lock.
            let migratetype = self.map.pageblock(pfn).migratetype();
            locked.free_one_page(pfn, order, migratetype, Placement::Tail);
        }
    }

    /// Turns a Reserved block into an allocated one, with one reference. Cost: one step per frame.
    ///
    /// # Errors
    /// See [`release`](Self::release). Also if no block of this order can start at the frame, or the block would be in
    /// two zones.
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

    /// Returns the zone number of a frame's pageblock, if the frame has metadata.
    fn zone_number_at(&self, pfn: Pfn) -> Option<u8> {
        self.map.try_frame_and_pageblock(pfn).map(|(_, pageblock)| pageblock.zone())
    }

    /// Turns every Reserved frame of a range into an allocated page of order 0, with one reference. Cost: one step per
    /// frame.
    ///
    /// # Errors
    /// See [`release`](Self::release). No page is adopted then.
    pub fn adopt_each(&self, start: Pfn, end: Pfn, mobility: Mobility) -> Result<(), OnlineError> {
        self.claim_reserved(&(start..end))?;
        let word = Word::allocated(Order::ZERO).with_refs(1);
        self.fill(&(start..end), if mobility == Mobility::Movable { word.movable() } else { word });
        Ok(())
    }

    /// Turns Reserved frames into managed ones that are Interior and in no block. The caller then makes blocks of them.
    /// If a frame is not Reserved, all frames are left Reserved, and the error names this frame.
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

    /// Claims whole Reserved pageblocks and sets their type, all under one hold of the hotplug lock. If a pageblock
    /// cannot get the type, the earlier ones become Movable again.
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

    /// Sets the type of a pageblock before any of its frames is released. A HighAtomic pageblock counts towards the cap
    /// of the high-atomic reserve.
    ///
    /// # Errors
    /// If the memory of the pageblock is not online, a frame of it was released or adopted already, the pageblock is
    /// isolated, or the type is [`MigrateType::Isolate`].
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

    /// Changes the type of a pageblock that has no frame in use. The caller holds the hotplug lock.
    fn retype_unused(&self, block: Pfn, migratetype: MigrateType) -> Result<(), OnlineError> {
        let (pageblock, order) = (self.map.pageblock(block), self.map.pageblock_order());
        let zone = self.zone_of(block);
        // The number of isolations changes under this lock.
        let _areas = zone.areas.lock();
        if migratetype == MigrateType::Isolate || pageblock.isolations() > 0 {
            return Err(OnlineError::Isolated { pfn: block });
        }
        zone.count_pageblock(pageblock.migratetype(), -(order.pages() as i64));
        pageblock.set_migratetype(migratetype);
        zone.count_pageblock(migratetype, order.pages().into());
        Ok(())
    }

    /// Checks that all frames of a range have metadata and satisfy `is_right`. Returns the first frame that does not as
    /// the error.
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

    /// Returns all CPU numbers, for example to drain or tick each CPU.
    pub fn cpu_ids(&self) -> impl Iterator<Item = CpuId> + use<P> {
        (0..self.cpus()).map(CpuId)
    }
}

fn pages_in(part: &ops::Range<Pfn>) -> u64 {
    u64::from(part.end.raw() - part.start.raw())
}

/// Declares whether an adopted block may be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// The block stays where it is: it cannot be migrated.
    Fixed,
    /// The block may be migrated.
    Movable,
}
