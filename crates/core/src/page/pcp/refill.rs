//! Taking a block from a CPU's list, and filling the list when it is empty.
//!
//! linux: mm/page_alloc.c:rmqueue_pcplist, __rmqueue_pcplist, rmqueue_bulk

use core::sync::atomic::Ordering::Relaxed;

use super::{PcpLists, list_index, part_index};
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::page::PageAllocator;
use crate::page::zone::{Cursor, Wanted, Zone, ZoneFlag};
use crate::platform::{Event, Platform};
use crate::policy::PcpPolicy;
use crate::policy::highatomic;
use crate::policy::pcp::{self, Pressure};

impl<P: Platform> PageAllocator<'_, P> {
    /// A block from a CPU's list as it is, given out as `word`; `None`, and no trace left, if there is none.
    #[inline]
    pub(in crate::page) fn take_listed(
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

    /// A block from the calling CPU's list; `None` if the order has no list, the list is locked, or the zone
    /// has nothing to fill it with.
    #[inline]
    pub(in crate::page) fn take_from_pcp(&self, zone: &Zone<P::Lock>, wanted: Wanted) -> Option<Pfn> {
        let pageblock_order = self.map.pageblock_order();
        let listed = list_index(wanted.order, wanted.migratetype, pageblock_order);
        let index = match self.rules().pcp {
            PcpPolicy::Off => None,
            PcpPolicy::Linux | PcpPolicy::Merge => listed,
            PcpPolicy::Owned | PcpPolicy::OwnedRemote => {
                listed.or_else(|| part_index(wanted.order, wanted.migratetype, pageblock_order))
            }
        }?;
        let cpu = self.platform.cpu();
        let Some(mut lists) = self.pcp_at(cpu, zone).try_lock() else {
            self.report(Event::TrylockFailed { zone: zone.index() as u8 });
            return None;
        };
        lists.tuning.free_count >>= 1;
        self.pop_or_refill(zone, &mut lists, index, wanted, Word::claimed_of(wanted.order), cpu)
    }

    #[inline]
    fn pop_or_refill(
        &self,
        zone: &Zone<P::Lock>,
        lists: &mut PcpLists,
        index: u8,
        wanted: Wanted,
        word: Word,
        cpu: CpuId,
    ) -> Option<Pfn> {
        if let Some(pfn) = lists.pop_head(&self.map, wanted.order, word, index) {
            return Some(pfn);
        }
        if self.rules().pcp.owns() {
            return self.pop_owned(zone, lists, wanted, word, cpu);
        }
        self.refill(zone, lists, index, wanted, cpu);
        lists.pop_head(&self.map, wanted.order, word, index)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refill(&self, zone: &Zone<P::Lock>, lists: &mut PcpLists, index: u8, wanted: Wanted, cpu: CpuId) {
        let limits = lists.limits;
        let goal = pcp::refill_blocks(&mut lists.tuning, &limits, wanted.order, pressure(zone));
        self.pcp_at(cpu, zone).home.limit.store(lists.tuning.high, Relaxed);
        // The list is tuned as for a refill all the same.
        if !highatomic::refills(self.rules().highatomic, wanted.flags) {
            return;
        }
        lists.is_stirred = true;
        let blocks = if self.rules().pcp.owns() {
            self.refill_owned(zone, lists, wanted, cpu, goal << wanted.order.get())
        } else {
            self.refill_classic(zone, lists, index, wanted, cpu, goal)
        };
        self.report(Event::Refill { zone: zone.index() as u8, cpu, order: wanted.order, blocks });
    }

    fn refill_classic(
        &self,
        zone: &Zone<P::Lock>,
        lists: &mut PcpLists,
        index: u8,
        wanted: Wanted,
        cpu: CpuId,
        goal: u32,
    ) -> u32 {
        let mut cursor = Cursor::Normal;
        let mut locked = self.lock_zone(zone);
        let mut blocks = 0;
        while blocks < goal {
            let Some(pfn) = locked.take(wanted, &mut cursor) else { break };
            lists.push_tail(&self.map, pfn, wanted.order, index, cpu);
            blocks += 1;
        }
        blocks
    }

    /// Up to `into.len()` single pages from the calling CPU's list, given out as `word`, under one hold of its lock;
    /// says how many.
    pub(in crate::page) fn take_bulk_from_pcp(
        &self,
        zone: &Zone<P::Lock>,
        wanted: Wanted,
        word: Word,
        into: &mut [Pfn],
    ) -> usize {
        debug_assert_eq!(wanted.order, Order::ZERO);
        let index = list_index(wanted.order, wanted.migratetype, self.map.pageblock_order());
        let (Some(index), false) = (index, self.rules().pcp == PcpPolicy::Off) else { return 0 };
        let cpu = self.platform.cpu();
        let Some(mut lists) = self.pcp_at(cpu, zone).try_lock() else { return 0 };
        let mut taken = 0;
        for slot in into {
            let Some(pfn) = self.pop_or_refill(zone, &mut lists, index, wanted, word, cpu) else { break };
            *slot = pfn;
            taken += 1;
        }
        taken
    }
}

/// The zone's situation as the lists' tuning sees it.
pub(super) fn pressure<L>(zone: &Zone<L>) -> Pressure {
    Pressure { below_high: zone.has(ZoneFlag::BelowHigh), reclaim_active: zone.has(ZoneFlag::ReclaimActive) }
}
