//! Memory offlining: a range of frames is emptied, and all of its frames become Absent.
//!
//! The range is emptied like a range that is allocated by number (`contig`): its pageblocks are isolated, the platform
//! migrates the blocks in it, per-CPU lists are drained, and the free memory is taken whole or not at all. Frames that
//! are Reserved or withheld are removed as well. Taking the frames and making them Absent happens under one hold of the
//! hotplug lock. Their metadata stays in place, because it may be read without a lock. It is used again when the frames
//! come [`online`](PageAllocator::online) once more.
//!
//! linux: mm/memory_hotplug.c:offline_pages

use core::ops::Range;

use super::allocator::PageAllocator;
use super::contig::Purpose;
use super::error::ContigError;
use super::zone::Zone;
use crate::base::pageblock::NO_ZONE;
use crate::base::word::Word;
use crate::base::{Gfp, MigrateType, Pfn};
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// Removes a range of one zone from the allocator. Cost: that of [`alloc_contig_range`](Self::alloc_contig_range),
    /// two steps per frame, and two per pageblock of the whole memory. Watermarks do not change until
    /// [`set_up_watermarks`](Self::set_up_watermarks) is called again.
    ///
    /// # Errors
    /// See [`ContigError`], which names the frame that prevents the removal and its state. Every frame is then
    /// unchanged, except for blocks that were migrated. A frame that is not online is an error; so is a frame of a CMA
    /// area.
    pub fn offline(&self, range: Range<Pfn>) -> Result<(), ContigError> {
        let zone = self.zone_of_range(&range)?;
        self.expect_movable(&range, Purpose::Offline)?;
        let isolation = self.start_isolate_page_range(zone, &range)?;
        self.alloc_contig_migrate_range(zone, &range, Gfp::KERNEL, || self.offline_vacated(zone, &range))?;
        drop(isolation);
        self.forget_pageblocks(zone, &range);
        Ok(())
    }

    /// Takes an emptied range, including its Reserved and withheld frames, and makes it Absent. Both steps are under
    /// one hold of the hotplug lock, so no other call can take a Reserved frame between them. Returns the first frame
    /// that is still in use as the error.
    fn offline_vacated(&self, zone: &Zone<P::Lock>, range: &Range<Pfn>) -> Result<(), Pfn> {
        let _hotplug = self.hotplug.lock();
        let taken = self.isolate_freepages_range(zone, range, Purpose::Offline)?;
        debug_assert!(
            zone.span().0 <= range.start && range.end <= zone.span().1,
            "offline: frames {range:?} are outside of their zone {:?}",
            zone.span()
        );
        let words = range.start.up_to(range.end).map(|pfn| self.map.frame(pfn).word());
        let managed = words.filter(|word| !word.is_reserved()).count() as u64;
        self.parts_of(range).for_each(|part| self.fill(&part, Word::ABSENT));
        taken.keep_all();
        zone.drop_managed(managed);
        zone.drop_present(u64::from(range.end.raw() - range.start.raw()));
        Ok(())
    }

    /// Removes from the zone the pageblocks of a range that have no online frames and are not isolated, and shrinks the
    /// zone's span to the frames that remain.
    fn forget_pageblocks(&self, zone: &Zone<P::Lock>, range: &Range<Pfn>) {
        let _hotplug = self.hotplug.lock();
        for part in self.parts_of(range) {
            let block = part.start.align_down(self.map.pageblock_order());
            let end = block.offset(self.map.pageblock_order().pages());
            let is_gone = self.expect_all(&(block..end), Word::is_absent).is_ok();
            let mut locked = self.lock_zone(zone);
            if is_gone && self.map.pageblock(block).isolations() == 0 {
                zone.count_pageblock(self.map.pageblock(block).migratetype(), -i64::from(end.raw() - block.raw()));
                locked.set_pageblock_migratetype(block, MigrateType::Movable);
                self.map.pageblock(block).set_zone(NO_ZONE);
            }
        }
        let first = self.pageblocks_of(zone).find_map(|block| self.online_frames(block).next());
        let last = self.pageblocks_of(zone).filter_map(|block| self.online_frames(block).next_back()).last();
        zone.set_span(first.zip(last).map(|(first, last)| first..last.offset(1)));
        self.note_nearest(zone.node());
    }

    /// Returns the first frames of the pageblocks of a zone.
    fn pageblocks_of(&self, zone: &Zone<P::Lock>) -> impl Iterator<Item = Pfn> {
        self.map.pageblocks().filter(|&block| usize::from(self.map.pageblock(block).zone()) == zone.index())
    }

    /// Returns the frames of a pageblock that are online.
    fn online_frames(&self, block: Pfn) -> impl DoubleEndedIterator<Item = Pfn> {
        let end = block.offset(self.map.pageblock_order().pages());
        block.up_to(end).filter(|&pfn| !self.map.frame(pfn).word().is_absent())
    }
}
