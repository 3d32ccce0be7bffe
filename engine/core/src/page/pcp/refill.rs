//! Taking a block from a CPU's list, and refilling the list if it is empty.
//!
//! linux: mm/page_alloc.c:rmqueue_pcplist, __rmqueue_pcplist, rmqueue_bulk

use super::locked::LockedPcp;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::page::allocator::PageAllocator;
use crate::page::percpu::{list_index, part_index};
use crate::page::zone::{BlockRequest, Cursor, Zone};
use crate::platform::{Event, Platform};
use crate::policy::PcpPolicy;
use crate::policy::highatomic;
use crate::policy::pcp;

impl<P: Platform> PageAllocator<'_, P> {
    /// Takes a block from a CPU's list and sets its word to `word`, without a refill. Returns `None`, and changes
    /// nothing, if the list has no block or is locked, or the order has no list.
    #[inline]
    pub(in crate::page) fn pop_pcplist(
        &self,
        cpu: CpuId,
        zone: &Zone<P::Lock>,
        order: Order,
        migratetype: MigrateType,
        word: Word,
    ) -> Option<Pfn> {
        let index = list_index(order, migratetype, self.map.pageblock_order())?;
        let map = self.map;
        let mut lists = self.pcp_at(cpu, zone).try_lock()?;
        let pfn = lists.pop_head(&map, order, word, index)?;
        lists.tuning.free_count >>= 1;
        Some(pfn)
    }

    /// Takes a block from the calling CPU's list. Returns `None` if the policy has no lists, the order has no list, the
    /// list is locked, or it is empty and is not refilled: the zone has no blocks, or the policy excludes the request.
    /// linux: mm/page_alloc.c:rmqueue_pcplist
    #[inline]
    pub(in crate::page) fn rmqueue_pcplist(&self, zone: &Zone<P::Lock>, wanted: BlockRequest) -> Option<Pfn> {
        let pageblock_order = self.map.pageblock_order();
        let listed = list_index(wanted.order, wanted.migratetype, pageblock_order);
        let index = match self.rules().pcp {
            PcpPolicy::Off => None,
            PcpPolicy::Linux | PcpPolicy::Merge => listed,
            PcpPolicy::Owned | PcpPolicy::OwnedRemote => {
                listed.or_else(|| part_index(wanted.order, wanted.migratetype, pageblock_order))
            }
        }?;
        let Some(mut pcp) = self.try_lock_pcp(zone, self.platform.cpu()) else {
            self.report(Event::TrylockFailed { zone: zone.index() as u8 });
            return None;
        };
        pcp.lists.tuning.free_count >>= 1;
        pcp.rmqueue_pcplist(index, wanted, Word::claimed_of(wanted.order))
    }

    /// Takes up to `into.len()` single pages from the calling CPU's list under one hold of its lock, and sets their
    /// words to `word`. Refills the list when it is empty. Returns the number of pages, which is 0 if the list is
    /// locked or the policy has no lists.
    pub(in crate::page) fn rmqueue_pcplist_batch(
        &self,
        zone: &Zone<P::Lock>,
        wanted: BlockRequest,
        word: Word,
        into: &mut [Pfn],
    ) -> usize {
        debug_assert_eq!(wanted.order, Order::ZERO);
        let list = list_index(wanted.order, wanted.migratetype, self.map.pageblock_order());
        let (Some(index), false) = (list, self.rules().pcp == PcpPolicy::Off) else { return 0 };
        let Some(mut pcp) = self.try_lock_pcp(zone, self.platform.cpu()) else { return 0 };
        let mut taken = 0;
        for slot in into {
            let Some(pfn) = pcp.rmqueue_pcplist(index, wanted, word) else { break };
            *slot = pfn;
            taken += 1;
        }
        taken
    }
}

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Takes a block from a list, which is refilled if it is empty. linux: mm/page_alloc.c:__rmqueue_pcplist
    #[inline]
    fn rmqueue_pcplist(&mut self, index: u8, wanted: BlockRequest, word: Word) -> Option<Pfn> {
        let map = self.allocator.map;
        if let Some(pfn) = self.lists.pop_head(&map, wanted.order, word, index) {
            return Some(pfn);
        }
        if self.allocator.rules().pcp.owns() {
            return self.rmqueue_pcplist_owned(wanted, word);
        }
        self.refill(index, wanted);
        self.lists.pop_head(&map, wanted.order, word, index)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refill(&mut self, index: u8, wanted: BlockRequest) {
        let (limits, allocator, zone) = (self.lists.limits, self.allocator, self.zone);
        let goal = pcp::refill_blocks(&mut self.lists.tuning, &limits, wanted.order, zone.pressure());
        self.publish_limit();
        // The limit was adjusted as for a refill, even if the request is not allowed to refill the list.
        if !highatomic::refills(allocator.rules().highatomic, wanted.flags) {
            return;
        }
        self.lists.is_stirred = true;
        let blocks = if allocator.rules().pcp.owns() {
            // A recalled block may be smaller than the request.
            if !zone.may_serve(BlockRequest { order: Order::ZERO, ..wanted }, allocator.map.pageblock_order()) {
                return;
            }
            self.rmqueue_bulk_owned(wanted, goal << wanted.order.get())
        } else {
            self.rmqueue_bulk(index, wanted, goal)
        };
        allocator.report(Event::Refill { zone: zone.index() as u8, cpu: self.cpu, order: wanted.order, blocks });
    }

    /// Fills a list with up to `goal` blocks under one hold of the zone lock. Returns the number of blocks.
    /// linux: mm/page_alloc.c:rmqueue_bulk
    fn rmqueue_bulk(&mut self, index: u8, wanted: BlockRequest, goal: u32) -> u32 {
        let (allocator, cpu) = (self.allocator, self.cpu);
        let mut cursor = Cursor::Normal;
        let mut locked = allocator.lock_zone(self.zone);
        let mut blocks = 0;
        while blocks < goal {
            let Some(pfn) = locked.rmqueue(wanted, &mut cursor) else { break };
            self.lists.push_tail(&allocator.map, pfn, wanted.order, index, cpu);
            blocks += 1;
        }
        blocks
    }
}
