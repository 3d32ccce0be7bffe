//! Migration of a batch of sources: each source is moved to a target of its order, and its old place is freed.
//!
//! A batch ends when there are no targets left. If there is no target of a compound block's order, the block is split
//! if its users allow it, and is moved page by page. As in Linux, such a block still counts as a block that could not
//! be moved.
//!
//! linux: mm/migrate.c:migrate_pages_batch, try_split_folio; mm/compaction.c:compact_zone

use super::run::{Run, Supply};
use super::source::Batch;
use crate::base::{Order, Pfn};
use crate::page::allocator::PageAllocator;
use crate::page::migrate::Candidate;
use crate::platform::{Migrated, Platform, SplitBlock};

/// Result for one block of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    /// The block was moved, and its old place has to be freed.
    Done,
    /// The block stays in place, or has been moved page by page.
    None,
    /// The block stays in place because there is no target.
    NoTarget,
}

impl<P: Platform> Run<'_, '_, P> {
    /// Moves the blocks of a batch, as far as there are targets, and frees the old places. Returns whether there were
    /// enough targets. linux: mm/migrate.c:migrate_pages
    pub(super) fn migrate_pages(&mut self, mut batch: Batch) -> Supply {
        let block = self.block_of(Pfn::new(self.source.raw() - 1));
        let (mut pages_left, mut supply, found) = (batch.pages(), Supply::Enough, batch.len());
        batch.retain(|candidate| {
            if supply == Supply::Exhausted {
                return false;
            }
            let moved = self.move_whole_or_split(candidate, pages_left);
            pages_left -= candidate.word.order().pages();
            if moved == Move::NoTarget {
                supply = Supply::Exhausted;
            }
            moved == Move::Done
        });
        self.moved_in = Some(block);
        if batch.len() < found {
            self.finish_block(block);
        }
        self.capture_during(|allocator| {
            batch.iter().for_each(|Candidate { pfn, word }| allocator.free_claimed(pfn, word.order()));
        });
        supply
    }

    /// Lets the scan of a pageblock go on to its end although a block in it could not be moved, unless the scan has
    /// ended or the run ignores skip hints. At the end the skip hint is set, so that the quick search of the free lists
    /// for sources ([`fast_find_migrateblock`](Self::fast_find_migrateblock)) does not choose this pageblock again and
    /// again.
    fn finish_block(&mut self, block: Pfn) {
        let is_begun = !self.source.is_aligned(self.pageblock_order());
        if is_begun && !self.aim.ignores_hints() && self.finishing.replace(block) != Some(block) {
            // The pageblock cannot become whole even if lists are drained.
            let is_lost = self.aim.order == Some(self.pageblock_order());
            self.moved_in = self.moved_in.filter(|_| !is_lost);
        }
    }

    fn move_whole_or_split(&mut self, candidate: Candidate, pages_left: u32) -> Move {
        match self.compaction_alloc(candidate.word.order(), pages_left) {
            Some(to) => self.migrate_candidate(candidate, to),
            None if self.split(candidate) => self.move_pages(candidate),
            None => Move::NoTarget,
        }
    }

    /// Moves one block to a target. Returns [`Move::Done`] if its old place has to be freed.
    fn migrate_candidate(&mut self, candidate: Candidate, to: Pfn) -> Move {
        let map = &self.allocator.map;
        let order = candidate.word.order();
        map.frame(to).set(candidate.word);
        let (left_over, answer) = self.allocator.migrate_block(candidate, to, self.aim.effort);
        match (answer, left_over) {
            (Migrated::Moved, Some(_)) => return Move::Done,
            (Migrated::Refused, Some(to)) => self.targets.put(map, to, order),
            (Migrated::Moved | Migrated::Refused, None) => {}
        }
        Move::None
    }

    /// Asks the users of a compound block to let it be split. Returns whether it was split.
    fn split(&self, Candidate { pfn, word }: Candidate) -> bool {
        let order = word.order();
        if order == Order::ZERO || !word.is_compound() {
            return false;
        }
        self.allocator.platform.split(&Whole { allocator: self.allocator, pfn, order });
        let now = self.allocator.map.frame(pfn).word();
        now.is_allocated_of(Order::ZERO) && now.is_movable()
    }

    /// Moves the pages of a block that was split, as far as there are targets.
    fn move_pages(&mut self, split: Candidate) -> Move {
        let pages = split.word.order().pages();
        for page in 0..pages {
            let pfn = split.pfn.offset(page);
            let word = self.allocator.map.frame(pfn).word();
            if !word.is_allocated_of(Order::ZERO) || !word.is_movable() || word.is_poisoned() {
                continue;
            }
            let Some(to) = self.compaction_alloc(Order::ZERO, pages - page) else { break };
            if self.migrate_candidate(Candidate { pfn, word }, to) == Move::Done {
                self.capture_during(|allocator| allocator.free_claimed(pfn, Order::ZERO));
            }
        }
        Move::None
    }
}

/// A compound block that the platform may split.
struct Whole<'a, 'm, P: Platform> {
    allocator: &'a PageAllocator<'m, P>,
    pfn: Pfn,
    order: Order,
}

impl<P: Platform> SplitBlock for Whole<'_, '_, P> {
    fn pfn(&self) -> Pfn {
        self.pfn
    }

    fn order(&self) -> Order {
        self.order
    }

    fn split(&self) -> bool {
        self.allocator.split_compound(self.pfn, self.order, Order::ZERO).is_ok()
    }
}
