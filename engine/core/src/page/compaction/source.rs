//! The scanner of sources: it finds movable blocks, from the start of the zone upwards.
//!
//! A pageblock is scanned without a lock, 32 pages at a time. Pageblocks with a skip hint are skipped. Direct
//! compaction with async effort also skips pageblocks that the policy excludes, mostly those of other types, and any
//! range in which the wanted block would be made and one page cannot be moved. For costly orders, a quick search of the
//! free lists comes first if the policy allows it (`fast_isolate`).
//!
//! linux: mm/compaction.c:isolate_migratepages, isolate_migratepages_block

use core::ops::Range;

use super::fast_isolate::ScanStart;
use super::run::{Aim, Run};
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};
use crate::page::migrate::Candidate;
use crate::platform::{Isolation, Platform};
use crate::policy::compaction::{self, CLUSTER, SourceFacts};
use crate::policy::flags::AllocFlags;

/// Blocks to be moved, at most [`CLUSTER`] of them.
pub(super) struct Batch {
    candidates: [Candidate; CLUSTER as usize],
    len: usize,
}

impl Batch {
    fn new() -> Batch {
        let none = Candidate { pfn: Pfn::END_MAX, word: Word::INTERIOR };
        Batch { candidates: [none; CLUSTER as usize], len: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Candidate> {
        self.candidates[..self.len].iter().copied()
    }

    /// Returns the number of pages of all blocks in the batch.
    pub(super) fn pages(&self) -> u32 {
        self.iter().map(|candidate| candidate.word.order().pages()).sum()
    }

    /// Visits all blocks in order, and keeps those for which `keeps` returns true.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(Candidate) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if keeps(self.candidates[at]) {
                self.candidates[kept] = self.candidates[at];
                kept += 1;
            }
        }
        self.len = kept;
    }

    fn push(&mut self, candidate: Candidate) {
        self.candidates[self.len] = candidate;
        self.len += 1;
    }

    fn is_full(&self) -> bool {
        self.pages() >= CLUSTER
    }
}

impl<P: Platform> Run<'_, '_, P> {
    /// Takes the next batch from the first pageblock that is worth a scan. The batch is empty if that pageblock has no
    /// block to move, or if the scanners meet. linux: mm/compaction.c:isolate_migratepages
    pub(super) fn isolate_migratepages(&mut self) -> Batch {
        let (mut at, mut is_chosen) = match self.fast_find_migrateblock() {
            ScanStart::AtScanner => (self.source, false),
            ScanStart::Chosen(block) => (block, block != self.source),
        };
        loop {
            let block = self.block_of(at);
            let end = block.offset(self.pageblock_order().pages());
            if end > self.target {
                self.source = at;
                return Batch::new();
            }
            if self.is_worth_a_scan(at, block, is_chosen) {
                return self.isolate_migratepages_block(at..end);
            }
            (at, is_chosen) = (end, false);
        }
    }

    fn is_worth_a_scan(&self, at: Pfn, block: Pfn, is_chosen: bool) -> bool {
        let map = &self.allocator.map;
        let Some((frame, pageblock)) = map.try_frame_and_pageblock(block) else { return false };
        if usize::from(pageblock.zone()) != self.zone.index() {
            return false;
        }
        if at == block && !is_chosen && pageblock.is_skipped() && !self.aim.ignores_hints() {
            return false;
        }
        let suits = !self.allocator.pageblock_skip_persistent(frame.word())
            && self.suitable_migration_source(pageblock.migratetype());
        if !suits {
            self.note_scanned_to(block.offset(self.pageblock_order().pages()));
        }
        suits
    }

    /// Returns whether the run moves pages out of a pageblock of this type.
    /// linux: mm/compaction.c:suitable_migration_source
    fn suitable_migration_source(&self, migratetype: MigrateType) -> bool {
        compaction::accepts_source(self.allocator.rules().compaction.sources, self.source_facts(), migratetype)
    }

    /// Returns the facts by which the policy chooses the pageblocks that the run empties.
    pub(super) fn source_facts(&self) -> SourceFacts {
        let Aim { order, migratetype, flags, .. } = self.aim;
        let wants_pageblock = order.is_some_and(|order| order >= self.pageblock_order());
        SourceFacts { trial: self.aim.trial(), migratetype, uses_cma: flags.contains(AllocFlags::CMA), wants_pageblock }
    }

    /// Collects the blocks in a part of a pageblock that can be moved, until the batch is full.
    /// linux: mm/compaction.c:isolate_migratepages_block
    fn isolate_migratepages_block(&mut self, part: Range<Pfn>) -> Batch {
        let (mut batch, mut at) = (Batch::new(), part.start);
        let mut scope = self.scope_of(at);
        while at < part.end {
            if scope.as_ref().is_some_and(|scope| at >= scope.end) {
                if !batch.is_empty() {
                    break;
                }
                scope = self.scope_of(at);
            }
            let Some(frame) = self.allocator.map.try_frame(at) else { break };
            let word = frame.word();
            let (pages, found) = self.classify(word, at, part.end);
            self.scan.sources += if scope.is_some() { self.looked_at(word, found, pages) } else { pages };
            match found {
                FrameUse::Source => {
                    self.note_visit(&part, &batch);
                    batch.push(Candidate { pfn: at, word });
                }
                FrameUse::Free => {}
                FrameUse::Fixed => {
                    if let Some(scope) = &scope {
                        // The wanted block cannot be made here, so the blocks that were found here stay in place.
                        batch = Batch::new();
                        at = at.max(scope.end.min(part.end));
                        continue;
                    }
                }
            }
            at = at.offset(pages);
            if batch.is_full() {
                break;
            }
        }
        self.leave_block(part, at, &batch);
        batch
    }

    /// Sets the skip hint of a pageblock that is scanned from its start and has a block to move. All of its movable
    /// blocks are about to be moved, and a block that cannot be moved now is likely to stay.
    fn note_visit(&self, part: &Range<Pfn>, batch: &Batch) {
        if batch.is_empty() && self.is_first_look(part.start) && !self.aim.ignores_hints() {
            self.allocator.map.pageblock(part.start).set_skip();
        }
    }

    /// Returns whether a scan that starts at this frame starts a pageblock.
    fn is_first_look(&self, at: Pfn) -> bool {
        at == self.block_of(at) || at == self.zone.span().0
    }

    /// For an optimistic run, returns the range from a frame on in which the wanted block may be made.
    fn scope_of(&self, at: Pfn) -> Option<Range<Pfn>> {
        let order = self.aim.order.filter(|_| self.aim.is_optimistic())?;
        Some(at..at.align_down(order).offset(order.pages()))
    }

    /// Returns the number of frames that a word describes, at most up to `end`, and their use to the run.
    fn classify(&self, word: Word, at: Pfn, end: Pfn) -> (u32, FrameUse) {
        let left = end.raw() - at.raw();
        if word.is_zone_free() {
            return (word.order().pages().min(left), FrameUse::Free);
        }
        if word.is_claimed() {
            return (word.order().pages().min(left), FrameUse::Fixed);
        }
        if !word.is_allocated() {
            return self.classify_interior(word, at, end);
        }
        let pages = word.order().pages();
        let is_source = word.is_movable()
            && !word.is_poisoned()
            && word.order() < self.order_limit()
            && pages <= left
            && self.can_isolate(at, word.order());
        (pages.min(left), if is_source { FrameUse::Source } else { FrameUse::Fixed })
    }

    /// Returns the number of frames that count as scanned if a block that stays in place ends the search of a scope:
    /// only its first frame, unless the block is so large that its order alone rules it out.
    fn looked_at(&self, word: Word, found: FrameUse, pages: u32) -> u32 {
        let is_examined = word.is_allocated() && word.order() < self.order_limit();
        if found == FrameUse::Fixed && is_examined { 1 } else { pages }
    }

    /// Returns the order from which on a block is too large to be moved.
    fn order_limit(&self) -> Order {
        self.aim.order.unwrap_or(self.pageblock_order())
    }

    fn can_isolate(&self, pfn: Pfn, order: Order) -> bool {
        let Aim { gfp, effort, .. } = self.aim;
        self.allocator.platform.can_isolate(&Isolation { pfn, order, gfp, effort })
    }

    /// Classifies a frame that is not the head of a block in use. It may be inside a free block, because places that
    /// were freed before this batch may have merged with free pages after them.
    fn classify_interior(&self, word: Word, at: Pfn, end: Pfn) -> (u32, FrameUse) {
        let around = if word.is_interior() { self.allocator.map.block_around(at) } else { None };
        match around.filter(|(_, word)| word.is_zone_free()) {
            Some((head, word)) => (head.offset(word.order().pages()).min(end).raw() - at.raw(), FrameUse::Free),
            None => (1, FrameUse::Fixed),
        }
    }

    /// Notes that there is nothing to move before `end`, which is the start of a pageblock. The next run skips this
    /// pageblock as well, because Linux rounds the position up although it is aligned already.
    fn note_scanned_to(&self, end: Pfn) {
        self.zone.compaction.note_source(end.offset(self.pageblock_order().pages()), self.aim.effort);
    }

    /// Saves the scanner's position, and sets the pageblock's skip hint if it is not worth another scan.
    fn leave_block(&mut self, part: Range<Pfn>, at: Pfn, batch: &Batch) {
        self.scan.isolated += batch.pages();
        self.source = at.min(part.end);
        let block = self.block_of(part.start);
        if at >= part.end && (batch.is_empty() || self.finishing == Some(block)) {
            if self.is_first_look(part.start) {
                self.allocator.map.pageblock(block).set_skip();
            }
            self.note_scanned_to(part.end);
        }
        if self.finishing.is_some_and(|finishing| finishing != block) {
            self.finishing = None;
        }
    }
}

/// Use of a frame to a run that looks for sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameUse {
    Source,
    Free,
    Fixed,
}
