//! Skip hints: the pageblocks that compaction does not scan, and the reset of these hints.
//!
//! A pageblock is skipped after it was scanned. After a request has found the whole zone scanned, the hints are reset
//! when kswapd goes to sleep, or when compaction restarts after the longest deferral. The reset moves from both ends of
//! the zone to its middle, and samples each pageblock. A pageblock whose sample has a movable page is worth a scan as a
//! source, and a pageblock of type Movable whose sample has a free page is worth a scan as a target. A huge page is
//! neither, and its pageblock keeps its hint. The next scan begins at the first source and the first target that were
//! found.
//!
//! linux: mm/compaction.c:__reset_isolation_suitable, __reset_isolation_pfn, pageblock_skip_persistent

use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};
use crate::page::allocator::PageAllocator;
use crate::page::zone::Zone;
use crate::platform::Platform;

/// Distance in frames between the samples of a pageblock.
const SAMPLE: u32 = Order::COSTLY.pages();

/// Purpose for which a pageblock may be scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Source,
    Target,
    Either,
}

impl Use {
    fn includes(self, other: Use) -> bool {
        self == Use::Either || self == other
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Sets the skip hint of every pageblock that is a huge page.
    pub(in crate::page) fn skip_huge_pages(&self) {
        let huge = self.map.pageblocks().filter(|&pfn| self.pageblock_skip_persistent(self.map.frame(pfn).word()));
        huge.for_each(|pfn| self.map.pageblock(pfn).set_skip());
    }

    /// Resets the hints of a zone, if a request found all of it scanned. Cost: up to 64 frames per pageblock.
    /// linux: mm/compaction.c:__reset_isolation_suitable
    pub(super) fn reset_zone_isolation_suitable(&self, zone: &Zone<P::Lock>) {
        if !zone.compaction.clear_stale() {
            return;
        }
        let (start, end) = zone.span();
        let size = self.map.pageblock_order().pages();
        let (mut source, mut target) = (start, Pfn::new(end.raw().saturating_sub(1)));
        let (mut has_source, mut has_target) = (false, false);
        while source < target {
            let wanted_below = if has_source { Use::Either } else { Use::Source };
            if self.reset_isolation_pfn(zone, source, wanted_below) && !has_source {
                has_source = true;
                zone.compaction.begin_sources_at(source);
            }
            let wanted_above = if has_target { Use::Either } else { Use::Target };
            if self.reset_isolation_pfn(zone, target, wanted_above) && !has_target {
                has_target = true;
                zone.compaction.begin_targets_at(target);
            }
            source = source.offset(size);
            target = Pfn::new(target.raw().saturating_sub(size));
        }
        if !(has_source && has_target) {
            zone.compaction.meet(source, target);
        }
    }

    /// Returns whether a sample of the pageblock around a frame shows that it is worth a scan for this use. If so, the
    /// pageblock's hint is cleared. Without a sample, the answer is yes for either use if the pageblock has no hint,
    /// and no for a huge page. linux: mm/compaction.c:__reset_isolation_pfn
    fn reset_isolation_pfn(&self, zone: &Zone<P::Lock>, pfn: Pfn, looked_for: Use) -> bool {
        let first = pfn.align_down(self.map.pageblock_order());
        let Some((frame, pageblock)) = self.map.try_frame_and_pageblock(first) else { return false };
        if usize::from(pageblock.zone()) != zone.index() || self.pageblock_skip_persistent(frame.word()) {
            return false;
        }
        if looked_for == Use::Either && !pageblock.is_skipped() {
            return true;
        }
        if looked_for == Use::Target && pageblock.migratetype() != MigrateType::Movable {
            return false;
        }
        let mut sample = (0..self.map.pageblock_order().pages()).step_by(SAMPLE as usize);
        let is_of_use = sample.any(|at| self.shows_use(first.offset(at), looked_for));
        if is_of_use {
            pageblock.clear_skip();
        }
        is_of_use
    }

    /// Returns whether a frame makes its pageblock worth a scan for this use: it is in a movable block (a source), or
    /// heads a free block (a target).
    fn shows_use(&self, pfn: Pfn, looked_for: Use) -> bool {
        let Some(frame) = self.map.try_frame(pfn) else { return false };
        let word = frame.word();
        if word.is_zone_free() {
            return looked_for.includes(Use::Target);
        }
        looked_for.includes(Use::Source) && self.is_movable_at(pfn, word)
    }

    /// Returns whether a frame, which has the given word, is in a block that can be migrated.
    fn is_movable_at(&self, pfn: Pfn, word: Word) -> bool {
        match word.is_interior() {
            true => self.map.block_around(pfn).is_some_and(|(_, head)| head.is_movable()),
            false => word.is_movable(),
        }
    }

    /// Returns whether a pageblock whose first frame has this word is a huge page, or a part of one that starts there.
    /// linux: mm/compaction.c:pageblock_skip_persistent
    pub(super) fn pageblock_skip_persistent(&self, head: Word) -> bool {
        head.is_allocated() && head.is_compound() && head.order() >= self.map.pageblock_order()
    }
}
