//! Emptying an isolated range: movable blocks are migrated, per-CPU lists are drained, and the free frames are taken.
//!
//! Other CPUs continue meanwhile. A page may be allocated from a CPU's list, or freed to a list by a CPU that read the
//! pageblock's type before the isolation. The range is therefore checked again, a few times, before it is reported as
//! busy.
//!
//! linux: mm/page_alloc.c:__alloc_contig_migrate_range, mm/compaction.c:isolate_freepages_range

use core::ops::Range;

use super::range::Purpose;
use crate::base::word::Word;
use crate::base::{Gfp, MigrateType, Order, Pfn, ZoneKind};
use crate::page::alloc::Holder;
use crate::page::allocator::PageAllocator;
use crate::page::error::ContigError;
use crate::page::free::{ClaimedBlock, ClaimedRange};
use crate::page::migrate::Candidate;
use crate::page::zone::Zone;
use crate::platform::{CompactEffort, Isolation, Migrated, Platform};

/// Maximum number of rounds of migration and draining. linux: mm/page_alloc.c:__alloc_contig_migrate_range
pub(super) const ROUNDS: u32 = 5;
/// Maximum number of blocks that are allocated to find one outside of isolated pageblocks.
const TARGETS_MAX: u32 = 2;

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Takes an isolated range by `take`, which returns the first frame that it cannot take as the error. If `take`
    /// fails, drains every CPU's lists for the zone, migrates the blocks in the range and tries again, in up to five
    /// rounds. linux: mm/page_alloc.c:__alloc_contig_migrate_range
    pub(in crate::page) fn alloc_contig_migrate_range<T>(
        &self,
        zone: &Zone<P::Lock>,
        range: &Range<Pfn>,
        gfp: Gfp,
        take: impl Fn() -> Result<T, Pfn>,
    ) -> Result<T, ContigError> {
        for _ in 0..ROUNDS {
            if let Ok(taken) = take() {
                return Ok(taken);
            }
            self.drain_all_pages_zone(zone);
            Evacuation::new(self, zone, gfp).migrate_range(range);
            // A CPU that is about to free a block in the range can do so now. The platform's answer does not matter
            // here.
            let _ = self.platform.relax();
        }
        take().map_err(|pfn| ContigError::Busy { pfn, state: self.map.frame(pfn).word().state() })
    }

    /// Takes all frames of an isolated range off the free lists, or none. The caller makes blocks of them. Returns the
    /// first frame that is not free as the error; for offlining, Reserved and withheld frames are accepted too.
    pub(in crate::page) fn isolate_freepages_range(
        &self,
        zone: &Zone<P::Lock>,
        range: &Range<Pfn>,
        purpose: Purpose,
    ) -> Result<ClaimedRange<'_, 'm>, Pfn> {
        let taken;
        let mut locked = self.lock_zone(zone);
        // Frames that are on no list for good go offline together with the range.
        locked.isolate_freepages_range(range, |word| {
            purpose == Purpose::Offline && (word.is_reserved() || word == Word::WITHHELD)
        })?;
        taken = ClaimedRange::new(&self.map, range.clone());
        drop(locked);
        Ok(taken)
    }
}

/// Moves blocks out of ranges of one zone. A target that the platform did not use is kept for the next block, so blocks
/// that stay cost no allocation each. Dropping the value frees the target.
pub(super) struct Evacuation<'a, 'm, P: Platform> {
    pub(super) allocator: &'a PageAllocator<'m, P>,
    pub(super) zone: &'a Zone<P::Lock>,
    gfp: Gfp,
    /// Claimed block outside of the ranges.
    target: Option<ClaimedBlock>,
    /// Smallest order of which no target could be allocated. No more blocks of this order or above are moved.
    exhausted: Option<Order>,
}

impl<'a, 'm, P: Platform> Evacuation<'a, 'm, P> {
    pub(super) fn new(allocator: &'a PageAllocator<'m, P>, zone: &'a Zone<P::Lock>, gfp: Gfp) -> Self {
        Evacuation { allocator, zone, gfp, target: None, exhausted: None }
    }

    /// Moves every movable block in a range that the platform is willing to move.
    fn migrate_range(&mut self, range: &Range<Pfn>) {
        for (pfn, word) in self.allocator.blocks_in(range).filter(|(_, word)| word.is_movable()) {
            self.move_block(Candidate { pfn, word });
        }
    }

    /// Asks the platform once to move a block, to a place near the zone's node and outside of isolated pageblocks.
    /// Returns whether the block was moved.
    pub(super) fn move_block(&mut self, block: Candidate) -> bool {
        let (order, effort) = (block.word.order(), CompactEffort::SyncFull);
        let isolation = Isolation { pfn: block.pfn, order, gfp: self.gfp, effort };
        let is_exhausted = self.exhausted.is_some_and(|exhausted| exhausted <= order);
        let platform = &self.allocator.platform;
        if is_exhausted || !platform.migrates() || !platform.can_isolate(&isolation) {
            return false;
        }
        let Some(to) = self.alloc_target(block.word) else { return false };
        let (left_over, answer) = self.allocator.migrate_block(block, to, effort);
        match (answer, left_over) {
            (Migrated::Moved, Some(from)) => self.allocator.free_claimed(from, order),
            (Migrated::Refused, Some(to)) => self.target = Some(ClaimedBlock { pfn: to, order }),
            (Migrated::Moved | Migrated::Refused, None) => {}
        }
        answer == Migrated::Moved
    }

    /// Returns a block like the one to be moved: the kept target, if it fits, or a new block.
    fn alloc_target(&mut self, word: Word) -> Option<Pfn> {
        // The request tries hard but never ends a task, because the range is worth less than a task.
        let mut wanted = self.gfp & Gfp::KERNEL | Gfp::MOVABLE | Gfp::RETRY_MAYFAIL | Gfp::NOWARN;
        wanted.set(Gfp::COMP, word.is_compound());
        wanted.set(Gfp::HIGHMEM, self.zone.kind() == ZoneKind::Movable);
        if let Some(pfn) = self.reuse_target(Holder::many(word.refs()).word(wanted, word.order())) {
            return Some(pfn);
        }
        self.free_target();
        for _ in 0..TARGETS_MAX {
            let holder = Holder::many(word.refs());
            let Ok(to) = self.allocator.alloc(self.zone.node(), wanted, word.order(), holder) else {
                self.exhausted = Some(word.order());
                return None;
            };
            if !self.is_isolated(to) {
                return Some(to);
            }
            // The block came from a per-CPU list, which may have more blocks of isolated pageblocks.
            if self.allocator.map.frame(to).step(|word| word.is_allocated().then(|| word.claimed())).is_ok() {
                self.allocator.free_claimed(to, word.order());
            }
            self.allocator.drain_all_pages_zone(self.zone);
        }
        None
    }

    /// Gives the kept target this word, unless its order is another one, its pageblock is isolated, or a frame of it is
    /// broken.
    fn reuse_target(&mut self, word: Word) -> Option<Pfn> {
        let ClaimedBlock { pfn, order } = *self.target.as_ref()?;
        let fits = order == word.order() && !self.is_isolated(pfn);
        let frame = self.allocator.map.frame(pfn);
        if !fits || frame.step(|now| (now == Word::claimed_of(order)).then_some(word)).is_err() {
            return None;
        }
        self.target = None;
        Some(pfn)
    }

    /// Frees the kept target if its pageblock has been isolated, since it would be in the way of the range.
    pub(super) fn leave_isolated(&mut self) {
        if self.target.as_ref().is_some_and(|target| self.is_isolated(target.pfn)) {
            self.free_target();
        }
    }

    pub(super) fn free_target(&mut self) {
        if let Some(ClaimedBlock { pfn, order }) = self.target.take() {
            self.allocator.free_claimed(pfn, order);
        }
    }

    fn is_isolated(&self, pfn: Pfn) -> bool {
        self.allocator.map.pageblock(pfn).migratetype() == MigrateType::Isolate
    }
}

impl<P: Platform> Drop for Evacuation<'_, '_, P> {
    fn drop(&mut self) {
        self.free_target();
    }
}
