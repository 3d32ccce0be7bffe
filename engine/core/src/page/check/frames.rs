//! Check of all frames: the state of each, and its agreement with its neighbours.

use super::Violation;
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn, State};
use crate::page::allocator::PageAllocator;
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// Checks that all frames of a pageblock without a zone are Absent. Returns the number of pages.
    pub(super) fn check_hole(&self, block: Pfn) -> Result<u32, Violation> {
        let pages = self.map.pageblock_order().pages();
        let mut words = (0..pages).map(|page| Pfn::new(block.raw() + page)).map(|at| (at, self.map.frame(at).word()));
        let stray = words.find(|(_, word)| !word.is_absent());
        stray.map_or(Ok(pages), |(pfn, word)| Err(stray_frame(pfn, word)))
    }

    /// Checks a head and the other frames of its block. Returns the number of pages in the block.
    pub(super) fn check_head(&self, pfn: Pfn) -> Result<u32, Violation> {
        let word = self.map.frame(pfn).word();
        if !word.is_sound() {
            return Err(Violation::Word { pfn, bits: word.bits() });
        }
        let order = match word.state() {
            State::Absent => return Ok(1),
            State::Reserved | State::Withheld => return self.check_place(pfn, Order::ZERO).map(|()| 1),
            State::Interior => return Err(Violation::Orphan { pfn }),
            State::ZoneFree { order, .. }
            | State::PcpCached { order, .. }
            | State::RemotePending { order }
            | State::Allocated { order, .. }
            | State::Claimed { order } => order,
        };
        if !pfn.is_aligned(order) {
            return Err(Violation::Inside { pfn, state: word.state() });
        }
        self.check_place(pfn, order)?;
        if let State::ZoneFree { migratetype, .. } = word.state() {
            self.check_free(pfn, order, migratetype)?;
        }
        let inside = pfn.offset(1).up_to(pfn.offset(order.pages()));
        let stray = inside.map(|at| (at, self.map.frame(at).word())).find(|(_, word)| !word.is_interior());
        stray.map_or(Ok(order.pages()), |(pfn, word)| Err(stray_frame(pfn, word)))
    }

    /// Checks that a block is in one zone and within the span of this zone.
    fn check_place(&self, pfn: Pfn, order: Order) -> Result<(), Violation> {
        let (number, end) = (self.map.pageblock(pfn).zone(), pfn.offset(order.pages()));
        let zone = &self.zones[usize::from(number)];
        let mut pageblocks = pfn.blocks_up_to(end, self.map.pageblock_order());
        if pageblocks.any(|(block, _)| self.map.pageblock(block).zone() != number) {
            return Err(Violation::Across { pfn });
        }
        let (first, last) = zone.span();
        if first <= pfn && end <= last { Ok(()) } else { Err(Violation::Span { pfn, zone: zone.index() }) }
    }

    fn check_free(&self, pfn: Pfn, order: Order, migratetype: MigrateType) -> Result<(), Violation> {
        let is_whole = order >= self.map.pageblock_order();
        for (block, _) in pfn.blocks_up_to(pfn.offset(order.pages()), self.map.pageblock_order()) {
            let pageblock = self.map.pageblock(block);
            if is_whole && pageblock.owner().is_some() {
                return Err(Violation::Owner { pfn: block });
            }
        }
        let around = self.map.pageblock(pfn);
        if !is_whole && around.owner().is_some() && !around.is_listed() {
            return Err(Violation::Owner { pfn });
        }
        let mut pageblocks = pfn.blocks_up_to(pfn.offset(order.pages()), self.map.pageblock_order());
        if pageblocks.any(|(block, _)| self.map.pageblock(block).migratetype() != migratetype) {
            return Err(Violation::WrongType { pfn, listed: migratetype });
        }
        let twin = State::ZoneFree { order, migratetype };
        if order < self.map.pageblock_order() && self.state(pfn.buddy(order)) == Some(twin) {
            return Err(Violation::Unmerged { pfn, order });
        }
        Ok(())
    }
}

/// Returns the violation for a frame with an unexpected state.
fn stray_frame(pfn: Pfn, word: Word) -> Violation {
    if word.is_sound() {
        Violation::Inside { pfn, state: word.state() }
    } else {
        Violation::Word { pfn, bits: word.bits() }
    }
}
