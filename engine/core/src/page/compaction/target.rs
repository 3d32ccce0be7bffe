//! The scanner of targets: it finds free blocks, from the end of the zone downwards.
//!
//! Free blocks are taken off the lists under the zone lock, one pageblock after the other, until there are as many
//! pages as wait to be moved. Movable and CMA pageblocks are used; a run with full effort uses other types as well,
//! except Isolate. A pageblock that starts with a free block of the wanted order is never used. In the first pageblock
//! of a scan, a run with async effort reads every 32nd frame, and any other run reads every frame. The stride doubles,
//! up to 32, after each pageblock without free blocks, and is 1 after a pageblock with free blocks.
//!
//! Before the scan, a quick search looks through the free lists, from their tails, for a block in the upper part of the
//! range between the scanners (`fast_isolate`).
//!
//! linux: mm/compaction.c:isolate_freepages, isolate_freepages_block; mm/page_alloc.c:__isolate_free_page

use core::ops::Range;

use super::run::Run;
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};
use crate::page::zone::Placement;
use crate::platform::{CompactEffort, Platform};
use crate::policy::compaction::CLUSTER;

/// Reason why the scan of a part of a pageblock ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanEnd {
    /// There are enough targets for the batch.
    Enough,
    /// The scan has reached the end of the part.
    AtEnd,
    /// The zone has too little free memory to lose more.
    TooLow,
}

impl<P: Platform> Run<'_, '_, P> {
    /// Takes a block of `order` to move pages to, while `pages_left` pages still wait to be moved. Searches for more
    /// targets if none is large enough, and returns `None` if the search finds none.
    /// linux: mm/compaction.c:compaction_alloc
    pub(super) fn compaction_alloc(&mut self, order: Order, pages_left: u32) -> Option<Pfn> {
        let map = self.allocator.map;
        self.targets.take(&map, order).or_else(|| {
            self.fast_isolate_freepages(pages_left);
            if self.targets.pages() == 0 {
                self.isolate_freepages(pages_left);
            }
            self.targets.take(&map, order)
        })
    }

    /// Frees unused targets to the zone. The next run starts its scan for targets at the highest of them, or higher.
    /// linux: mm/compaction.c:release_free_list
    pub(super) fn release_free_list(&mut self) {
        let map = self.allocator.map;
        let mut highest = None;
        let mut locked = None;
        while let Some((pfn, order)) = self.targets.pop(&map) {
            let locked = locked.get_or_insert_with(|| self.allocator.lock_zone(self.zone));
            let migratetype = map.pageblock(pfn).migratetype();
            locked.free_one_page(pfn, order, migratetype, Placement::ByMergeLikelihood);
            highest = highest.max(Some(pfn));
        }
        if let Some(pfn) = highest {
            self.zone.compaction.return_target(self.block_of(pfn));
        }
    }

    /// Scans one pageblock after the other downwards, until there are enough targets or the scanners meet.
    /// linux: mm/compaction.c:isolate_freepages
    fn isolate_freepages(&mut self, needed: u32) {
        let lowest = self.block_of(self.source).offset(self.pageblock_order().pages());
        let mut stride = if self.aim.effort == CompactEffort::Async { CLUSTER } else { 1 };
        while self.block_of(self.target) >= lowest {
            let block = self.block_of(self.target);
            if self.is_target(block) {
                let had = self.targets.pages();
                let ended = self.scan_target(block, needed, stride);
                if ended != ScanEnd::AtEnd || self.targets.pages() >= needed {
                    return;
                }
                stride = if self.targets.pages() > had { 1 } else { (stride * 2).min(CLUSTER) };
            } else {
                self.target = self.below(block);
            }
        }
    }

    /// Scans a pageblock from the scanner's position on, and moves the scanner.
    fn scan_target(&mut self, block: Pfn, needed: u32, stride: u32) -> ScanEnd {
        let part = self.target..block.offset(self.pageblock_order().pages());
        let (stopped, ended) = self.isolate_freepages_block(part, needed, stride);
        self.target = stopped;
        if ended == ScanEnd::AtEnd {
            self.target = self.below(block);
            // The stride may have missed free blocks, but the pageblock is not worth a second scan.
            self.allocator.map.pageblock(block).set_skip();
            self.zone.compaction.note_target(self.target);
        }
        ended
    }

    /// Returns the pageblock before this one. For the first pageblock of memory it returns the same, because the
    /// scanners have met by then.
    pub(super) fn below(&self, block: Pfn) -> Pfn {
        Pfn::new(block.raw().saturating_sub(self.pageblock_order().pages()))
    }

    /// Returns whether pages may be moved to a pageblock.
    fn is_target(&self, block: Pfn) -> bool {
        let Some((frame, pageblock)) = self.allocator.map.try_frame_and_pageblock(block) else { return false };
        if usize::from(pageblock.zone()) != self.zone.index() {
            return false;
        }
        (self.aim.ignores_hints() || !pageblock.is_skipped())
            && self.suitable_migration_target(frame.word(), pageblock.migratetype())
    }

    /// Returns whether a pageblock is usable for targets, regardless of its skip hint.
    pub(super) fn suits_as_target(&self, block: Pfn) -> bool {
        let found = self.allocator.map.try_frame_and_pageblock(block);
        found.is_some_and(|(frame, pageblock)| {
            let is_here = usize::from(pageblock.zone()) == self.zone.index();
            is_here && self.suitable_migration_target(frame.word(), pageblock.migratetype())
        })
    }

    /// Returns whether a pageblock of this type, whose first frame has this word, is usable for targets. A pageblock
    /// that already has a block of the wanted order is not. linux: mm/compaction.c:suitable_migration_target
    fn suitable_migration_target(&self, word: Word, migratetype: MigrateType) -> bool {
        let wanted = self.aim.order.unwrap_or(self.pageblock_order());
        let is_whole = word.is_zone_free() && word.order() >= wanted;
        !is_whole
            && match migratetype {
                MigrateType::Movable | MigrateType::Cma => true,
                MigrateType::Isolate => false,
                _ => self.aim.effort == CompactEffort::SyncFull,
            }
    }

    /// Takes the free blocks of a part of a pageblock. Returns the frame at which the scan stopped, and the reason. The
    /// zone lock is taken at the first free block in each 32 frames. linux: mm/compaction.c:isolate_freepages_block
    pub(super) fn isolate_freepages_block(&mut self, part: Range<Pfn>, needed: u32, stride: u32) -> (Pfn, ScanEnd) {
        let (allocator, zone) = (self.allocator, self.zone);
        let (mut at, mut held) = (part.start, None);
        while at < part.end {
            if at.raw().is_multiple_of(CLUSTER) {
                held = None;
            }
            let Some(frame) = allocator.map.try_frame(at) else { break };
            let word = frame.word();
            if !word.is_zone_free() {
                let is_whole = word.is_allocated() && word.is_compound();
                let pages = if is_whole { word.order().pages() } else { 1 };
                self.scan.targets += pages;
                at = at.offset(pages - 1 + stride);
                continue;
            }
            let locked = held.get_or_insert_with(|| allocator.lock_zone(zone));
            let Some(order) = locked.free_order_at(at) else {
                // Another call took the block after its word was read, or the memory went offline.
                self.scan.targets += 1;
                at = at.offset(stride);
                continue;
            };
            self.scan.targets += order.pages();
            if !locked.isolate_free_page(at) {
                return (at, ScanEnd::TooLow);
            }
            self.targets.put(&locked.map, at, order);
            self.scan.isolated += order.pages();
            if self.targets.pages() >= needed && at.offset(order.pages()) < part.end {
                return (at.offset(order.pages()), ScanEnd::Enough);
            }
            at = at.offset(order.pages() - 1 + stride);
        }
        (part.end, ScanEnd::AtEnd)
    }
}
