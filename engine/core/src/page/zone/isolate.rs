//! Taking blocks off the free lists by name: one, all of a range, or one that compaction moves something to.
//!
//! linux: mm/page_alloc.c:__isolate_free_page, take_page_off_buddy, mm/compaction.c:isolate_freepages_block

use core::ops::Range;

use super::free_area::End;
use super::locked::LockedZone;
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn, ZoneKind};
use crate::platform::Platform;
use crate::policy::flags::AllocFlags;

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Cuts a block out of the free block that it is in, and puts it into another state; `false` if it is in none.
    pub(in crate::page) fn cut_out(&mut self, pfn: Pfn, order: Order, word: Word) -> bool {
        let end = pfn.offset(order.pages());
        let around = self.free_block_around(pfn).filter(|(head, found)| head.offset(found.pages()) >= end);
        if let Some((head, _)) = around {
            self.cut(head, pfn..end);
            self.map.frame(pfn).set(word);
        }
        around.is_some()
    }

    /// The free block that a frame is in: its head and order. At most eleven steps.
    pub(in crate::page) fn free_block_around(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        self.map.block_around(pfn).filter(|(_, word)| word.is_zone_free()).map(|(head, word)| (head, word.order()))
    }

    /// Takes part of a free block off its list, as interior frames; the rest stays free, as the largest blocks that
    /// fit.
    pub(in crate::page) fn cut(&mut self, head: Pfn, part: Range<Pfn>) {
        let (found, migratetype) = self.unlink(head);
        debug_assert!(
            head <= part.start && part.start < part.end && part.end <= head.offset(found.pages()),
            "isolate: frames {:?} are cut out of the block of order {} at frame {head}",
            part,
            found.get()
        );
        self.account_out(part.end.raw() - part.start.raw(), migratetype);
        self.map.frame(head).set(Word::INTERIOR);
        for (start, end) in [(head, part.start), (part.end, head.offset(found.pages()))] {
            for (at, piece) in start.blocks_up_to(end, Order::MAX) {
                self.link(at, piece, migratetype, End::Head);
            }
        }
    }

    /// Takes all frames of a range off the free lists, or none; then says which is the first that is not there. Frames
    /// on no list may be in it if they go along.
    pub(in crate::page) fn take_range(
        &mut self,
        range: &Range<Pfn>,
        goes_along: impl Fn(Word) -> bool,
    ) -> Result<(), Pfn> {
        let mut at = range.start;
        while at < range.end {
            let word = self.map.frame(at).word();
            at = match self.free_block_around(at) {
                Some((head, order)) => head.offset(order.pages()),
                None if goes_along(word) => at.offset(1),
                None => return Err(at),
            };
        }
        let mut at = range.start;
        while at < range.end {
            at = match self.free_block_around(at) {
                Some((head, order)) => {
                    let end = head.offset(order.pages());
                    self.cut(head, at..end.min(range.end));
                    end
                }
                None => at.offset(1),
            };
        }
        Ok(())
    }

    /// Order of the free block of this zone that begins here, if one does.
    pub(in crate::page) fn free_at(&self, pfn: Pfn) -> Option<Order> {
        let (frame, pageblock) = self.map.try_frame_and_pageblock(pfn)?;
        let word = frame.word();
        (word.is_zone_free() && usize::from(pageblock.zone()) == self.zone.index()).then(|| word.order())
    }

    /// Takes a free block off its list, unless the zone would fall below its min mark.
    pub(in crate::page) fn take_target(&mut self, pfn: Pfn) -> bool {
        let order = self.map.frame(pfn).word().order();
        let mark = self.zone.watermarks().min + u64::from(order.pages());
        if !self.zone.watermark_ok(Order::ZERO, mark, ZoneKind::Dma, AllocFlags::CMA) {
            return false;
        }
        let (_, migratetype) = self.unlink(pfn);
        self.account_out(order.pages(), migratetype);
        self.map.frame(pfn).set(Word::claimed_of(order));
        // What is mostly given to movable pages is theirs, with all that is free in it.
        let block = self.pageblock_order();
        if order.get() + 1 >= block.get() {
            let first = pfn.align_down(block);
            for (at, _) in first.blocks_up_to(first.offset(order.max(block).pages()), block) {
                let old = self.map.pageblock(at).migratetype();
                if old.is_mergeable() {
                    self.retype_block(at, old, MigrateType::Movable);
                }
            }
        }
        true
    }
}
