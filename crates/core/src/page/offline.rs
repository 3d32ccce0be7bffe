//! How memory goes: a range of frames that nobody keeps back is emptied, and is Absent afterwards.
//!
//! It is emptied as a range that somebody wants by name is (`contig`): its pageblocks are isolated, the platform moves
//! what is in the way, CPUs' lists are drained, and what is free is taken whole or not at all. Frames that were never given to
//! the allocator, and those out of use for ever, go along. Then, under the lock for what is online, all of them become
//! Absent. Their metadata stays where it is, since somebody may be reading it without a lock: it serves again when the frames
//! come [`online`](PageAllocator::online) once more.
//!
//! linux: mm/memory_hotplug.c:offline_pages

use core::ops::Range;

use super::PageAllocator;
use super::contig::{ContigError, Purpose};
use super::zone::Zone;
use crate::base::pageblock::NO_ZONE;
use crate::base::word::Word;
use crate::base::{Gfp, MigrateType, Pfn};
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// Takes a range of one zone out of the allocator. Cost: as
    /// [`alloc_contig_range`](Self::alloc_contig_range), and two steps a frame. Watermarks stay what they are until
    /// [`set_up_watermarks`](Self::set_up_watermarks) is called again.
    ///
    /// # Errors
    /// See [`ContigError`]: which frame stands in the way, and what it is; every frame is as it was, but for blocks that
    /// were moved. A frame that is not online is an error; so is one of a CMA area.
    pub fn offline(&self, range: Range<Pfn>) -> Result<(), ContigError> {
        let zone = self.zone_of_range(&range)?;
        self.expect_movable(&range, Purpose::Offline)?;
        let isolation = self.isolate_range(zone, &range)?;
        let taken = self.vacate(zone, &range, Gfp::KERNEL, Purpose::Offline)?;
        let forgotten = self.forget_frames(zone, &range);
        taken.keep_all();
        drop(isolation);
        forgotten?;
        self.forget_pageblocks(zone, &range);
        Ok(())
    }

    /// Makes Absent what was taken, and what is Reserved or withheld; if somebody was quicker with a Reserved frame,
    /// what was taken goes back.
    fn forget_frames(&self, zone: &Zone<P::Lock>, range: &Range<Pfn>) -> Result<(), ContigError> {
        let goes = |word: Word| word.is_interior() || word.is_reserved() || word == Word::WITHHELD;
        let hotplug = self.hotplug.lock();
        let words = || range.start.up_to(range.end).map(|pfn| (pfn, self.map.frame(pfn).word()));
        if let Some((pfn, word)) = words().find(|&(_, word)| !goes(word)) {
            drop(hotplug);
            self.give_back_taken(range);
            return Err(ContigError::Busy { pfn, state: word.state() });
        }
        debug_assert!(
            zone.span().0 <= range.start && range.end <= zone.span().1,
            "offline: frames {range:?} are outside of their zone, {:?}",
            zone.span()
        );
        let managed = words().filter(|(_, word)| !word.is_reserved()).count() as u64;
        self.parts_of(range).for_each(|part| self.fill(&part, Word::ABSENT));
        zone.drop_managed(managed);
        zone.drop_present(u64::from(range.end.raw() - range.start.raw()));
        Ok(())
    }

    /// Frees what was taken of a range: the frames of it that are in no block.
    pub(super) fn give_back_taken(&self, range: &Range<Pfn>) {
        let is_taken = |pfn: Pfn| self.map.block_around(pfn).is_none() && self.map.frame(pfn).word().is_interior();
        let (mut run, mut at) = (range.start, range.start);
        while at < range.end {
            let next = at.offset(1);
            if !is_taken(at) {
                self.free_run(run..at);
                run = next;
            }
            at = next;
        }
        self.free_run(run..range.end);
    }

    /// Gives up pageblocks of which nothing is left, and makes the zone as small as what is left.
    fn forget_pageblocks(&self, zone: &Zone<P::Lock>, range: &Range<Pfn>) {
        let _hotplug = self.hotplug.lock();
        for part in self.parts_of(range) {
            let block = part.start.align_down(self.map.pageblock_order());
            let end = block.offset(self.map.pageblock_order().pages());
            let is_gone = self.expect_all(&(block..end), Word::is_absent).is_ok();
            let mut locked = self.lock_zone(zone);
            if is_gone && self.map.pageblock(block).isolations() == 0 {
                zone.count_pageblock(self.map.pageblock(block).migratetype(), -i64::from(end.raw() - block.raw()));
                locked.set_type(block, MigrateType::Movable);
                self.map.pageblock(block).set_zone(NO_ZONE);
            }
        }
        let of_zone = |block: &Pfn| usize::from(self.map.pageblock(*block).zone()) == zone.index();
        let online = |pfn: &Pfn| !self.map.frame(*pfn).word().is_absent();
        let frames = |block: Pfn| block.up_to(block.offset(self.map.pageblock_order().pages()));
        let first = self.map.pageblocks().filter(of_zone).find_map(|block| frames(block).find(online));
        let last = self.map.pageblocks().filter(of_zone).filter_map(|block| frames(block).rfind(online)).last();
        zone.set_span(first.zip(last).map(|(first, last)| first..last.offset(1)));
        self.note_nearest(zone.node());
    }
}
