//! Search for a block under the zone lock, with fallback to pageblocks of other types.
//!
//! The request's own type is searched first, then CMA areas if the request may use them; CMA areas come first if more
//! than half of the free pages are in them. Next, a whole pageblock of another type is *claimed*. Finally, unless the
//! request has NOFRAGMENT, pages are *stolen* and the pageblock keeps its type.
//!
//! linux: mm/page_alloc.c:__rmqueue, __rmqueue_claim, __rmqueue_steal, try_to_steal_block, prep_move_freepages_block

use super::locked::LockedZone;
use super::{Zone, ZoneFlag, bit};
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::{Event, Platform, Probe};
use crate::policy::fallback::{self, Contents};
use crate::policy::flags::AllocFlags;
use crate::policy::watermark;

/// Step at which the search of a bulk refill continues. A step that found no block is not repeated under the same hold
/// of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::page) enum Cursor {
    /// Blocks of the request's own type.
    Normal,
    /// CMA areas, for movable requests.
    Cma,
    /// Claim of another type's pageblock.
    Claim,
    /// Steal of another type's pages.
    Steal,
}

/// A request as it is passed to the methods under the zone lock.
#[derive(Clone, Copy, Debug)]
pub(in crate::page) struct BlockRequest {
    pub(in crate::page) order: Order,
    pub(in crate::page) migratetype: MigrateType,
    pub(in crate::page) flags: AllocFlags,
}

impl<L> Zone<L> {
    /// Returns whether there is a free block that [`LockedZone::rmqueue_buddy`] may give to a request. The answer is a
    /// hint that is read without the lock, so a free on another CPU at the same time may be missed.
    pub(in crate::page) fn may_serve(&self, wanted: BlockRequest, pageblock_order: Order) -> bool {
        let BlockRequest { order, migratetype, flags } = wanted;
        let keeps_types = flags.contains(AllocFlags::NOFRAGMENT);
        let others = fallback::order_of_attempts(migratetype).iter().fold(0, |types, &other| types | bit(other));
        let own = bit(migratetype) | bit(MigrateType::Cma) | bit(MigrateType::HighAtomic);
        self.has_block_of(order, own)
            || self.has_block_of(if keeps_types { order.max(pageblock_order) } else { order }, others)
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Takes and claims a block, from the sources that the rules allow. Returns `None` if they have none.
    /// linux: mm/page_alloc.c:__rmqueue
    pub(in crate::page) fn rmqueue(&mut self, wanted: BlockRequest, cursor: &mut Cursor) -> Option<Pfn> {
        let BlockRequest { order, migratetype, flags } = wanted;
        if flags.contains(AllocFlags::CMA)
            && self.prefers_cma()
            && let Some(pfn) = self.rmqueue_smallest(order, MigrateType::Cma)
        {
            return Some(pfn);
        }
        if *cursor <= Cursor::Normal
            && let Some(pfn) = self.rmqueue_smallest(order, migratetype)
        {
            return Some(pfn);
        }
        if *cursor <= Cursor::Cma
            && flags.contains(AllocFlags::CMA)
            && let Some(pfn) = self.rmqueue_smallest(order, MigrateType::Cma)
        {
            *cursor = Cursor::Cma;
            return Some(pfn);
        }
        if *cursor <= Cursor::Claim
            && let Some(pfn) = self.rmqueue_claim(wanted)
        {
            // The claim has filled the list of the request's own type.
            *cursor = Cursor::Normal;
            return Some(pfn);
        }
        if flags.contains(AllocFlags::NOFRAGMENT) {
            return None;
        }
        let pfn = self.rmqueue_steal(wanted)?;
        *cursor = Cursor::Steal;
        Some(pfn)
    }

    /// Returns whether CMA areas are used first, which is the case if they have more than half of the free pages.
    fn prefers_cma(&self) -> bool {
        self.zone.free_cma() > self.zone.free_pages() / 2
    }

    /// Claims a pageblock of another type, and takes a block of it. Free blocks of other types are tried from the
    /// largest order down: while the policy considers them claimable, and with NOFRAGMENT only whole pageblocks.
    /// Returns `None` if no claim succeeds. linux: mm/page_alloc.c:__rmqueue_claim
    fn rmqueue_claim(&mut self, wanted: BlockRequest) -> Option<Pfn> {
        let block = self.pageblock_order();
        let least =
            if wanted.flags.contains(AllocFlags::NOFRAGMENT) && wanted.order < block { block } else { wanted.order };
        for found in least.to(Order::MAX).rev() {
            let Some(from) = self.find_suitable_fallback(found, wanted.migratetype) else { continue };
            if !fallback::is_claimable(found, wanted.migratetype, block, self.grouping) {
                return None;
            }
            if let Some(pfn) = self.try_to_claim_block(found, from, wanted) {
                self.probe.report(Event::Claim { found, wanted: wanted.migratetype, from });
                return Some(pfn);
            }
        }
        None
    }

    /// Claims the pageblock of the first block of this order and type, and takes a block for the request from it. A
    /// block smaller than a pageblock boosts the watermarks, and its pageblock is claimed only if enough of its pages
    /// suit the request; otherwise returns `None`. linux: mm/page_alloc.c:try_to_steal_block
    fn try_to_claim_block(&mut self, found: Order, from: MigrateType, wanted: BlockRequest) -> Option<Pfn> {
        let candidate = self.areas.area(found).list(from).first()?;
        if found >= self.pageblock_order() {
            self.del_page_from_free_list(candidate);
            self.change_pageblock_range(candidate, found, wanted.migratetype);
            self.account_moved(found.pages(), from, wanted.migratetype);
            self.account_out(wanted.order.pages(), wanted.migratetype);
            self.expand(candidate, found, wanted.order, wanted.migratetype);
            self.map.frame(candidate).set(Word::claimed_of(wanted.order));
            return Some(candidate);
        }
        self.boost_watermark(wanted.flags);
        let block = candidate.align_down(self.pageblock_order());
        let contents = self.pageblock_contents(block)?;
        if !fallback::takes_over(contents, wanted.migratetype, from, self.grouping) {
            return None;
        }
        self.move_freepages_block(block, from, wanted.migratetype);
        self.rmqueue_smallest(wanted.order, wanted.migratetype)
    }

    /// Takes a block of another type's pageblock, from the smallest sufficient free block. The pageblock and the rest
    /// of the free block keep their type. linux: mm/page_alloc.c:__rmqueue_steal
    fn rmqueue_steal(&mut self, wanted: BlockRequest) -> Option<Pfn> {
        let (found, from) = wanted
            .order
            .to(Order::MAX)
            .find_map(|found| Some((found, self.find_suitable_fallback(found, wanted.migratetype)?)))?;
        let pfn = self.areas.area(found).list(from).first()?;
        self.del_page_from_free_list(pfn);
        self.account_out(wanted.order.pages(), from);
        self.expand(pfn, found, wanted.order, from);
        self.map.frame(pfn).set(Word::claimed_of(wanted.order));
        self.probe.report(Event::Steal { found, wanted: wanted.migratetype, from });
        Some(pfn)
    }

    /// Returns the first type, in the order of attempts, that has a block of exactly this order.
    /// linux: mm/page_alloc.c:find_suitable_fallback
    fn find_suitable_fallback(&self, order: Order, migratetype: MigrateType) -> Option<MigrateType> {
        let area = self.areas.area(order);
        fallback::order_of_attempts(migratetype).iter().copied().find(|&other| area.has(other))
    }

    /// Boosts the watermarks, if the zone is large enough and boosting is on, so that reclaim frees whole blocks before
    /// more types are mixed. linux: mm/page_alloc.c:boost_watermark
    fn boost_watermark(&mut self, flags: AllocFlags) {
        let (zone, high) = (self.zone, self.zone.watermarks().high);
        let block = u64::from(self.pageblock_order().pages());
        if let Some(pages) = watermark::boosted(zone.boost(), high, self.boost_factor, zone.managed(), block) {
            zone.set_boost(pages);
            self.probe.report(Event::Boost { zone: zone.index() as u8, pages });
            if flags.contains(AllocFlags::KSWAPD) {
                zone.set(ZoneFlag::BoostedWatermark);
            }
        }
    }

    /// Counts the free and movable pages of the pageblock at `block`. Returns `None` if it is not wholly within the
    /// zone's span. Cost: a walk over the pageblock, at most one step per frame.
    /// linux: mm/page_alloc.c:prep_move_freepages_block
    fn pageblock_contents(&self, block: Pfn) -> Option<Contents> {
        let pages = self.pageblock_order().pages();
        if !self.spans_block(block) {
            return None;
        }
        let mut contents = Contents { pages, free: 0, movable: 0 };
        self.for_each_head(block, |word| {
            let size = word.order().pages().min(pages);
            if word.is_zone_free() {
                contents.free += size;
            } else if word.is_of_movable_request() {
                contents.movable += size;
            }
        });
        Some(contents)
    }

    /// Returns whether all frames of the pageblock at `block` are within the zone's span.
    pub(in crate::page) fn spans_block(&self, block: Pfn) -> bool {
        let (start, end) = self.zone.span();
        start <= block && block.offset(self.pageblock_order().pages()) <= end
    }

    /// Visits the words of all frames of a pageblock, except frames inside a block whose head was visited.
    fn for_each_head(&self, block: Pfn, mut visit: impl FnMut(Word)) {
        let end = block.offset(self.pageblock_order().pages());
        let mut at = block;
        while at < end {
            let word = self.map.frame(at).word();
            visit(word);
            at = at.offset(word.pages_to_next_head());
        }
    }

    /// Moves every free page of a pageblock of type `old` to type `new`, and changes the pageblock's type. Returns the
    /// number of pages moved. linux: mm/page_alloc.c:move_freepages_block
    pub(in crate::page) fn move_freepages_block(&mut self, block: Pfn, old: MigrateType, new: MigrateType) -> u32 {
        let end = block.offset(self.pageblock_order().pages());
        let (mut at, mut moved) = (block, 0);
        while at < end {
            let word = self.map.frame(at).word();
            if word.is_zone_free() {
                self.expect_type(at, old);
                self.move_to_free_list(at, new);
                moved += word.order().pages();
            }
            at = at.offset(word.pages_to_next_head());
        }
        self.set_pageblock_migratetype(block, new);
        self.account_moved(moved, old, new);
        moved
    }
}
