//! Putting a block on a CPU's list, and giving blocks back when the list is full, idle, or wanted elsewhere.
//!
//! A drain goes round the lists, beginning with the one that was freed to, and empties each from its tail until its
//! budget of pages is spent, all under one hold of the zone lock, or a batch under each, as the policy says. The type
//! of each block is read anew under that lock, since its pageblock may have changed hands while the block was on the
//! list.
//!
//! linux: mm/page_alloc.c:free_unref_page_commit, free_pcppages_bulk, decay_pcp_high, drain_pages

use core::sync::atomic::Ordering::Relaxed;

use super::locked::LockedPcp;
use crate::base::frame::Frame;
use crate::base::pageblock::Pageblock;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order};
use crate::page::allocator::PageAllocator;
use crate::page::free::ClaimedBlock;
use crate::page::percpu::list_index;
use crate::page::zone::Zone;
use crate::platform::{Event, Platform};
use crate::policy::pcp::{self, BATCH_SCALE_MAX, Cause};
use crate::policy::{PcpPolicy, kswapd};

impl<P: Platform> PageAllocator<'_, P> {
    /// Puts a claimed block on the list where it belongs: the calling CPU's, or that of the CPU that owns its
    /// pageblock, as `home` says; `false` if it must go to the zone. Always inline: it is most of a free.
    #[inline(always)]
    pub(in crate::page) fn try_free_to_pcp(
        &self,
        zone: &Zone<P::Lock>,
        freed: ClaimedBlock,
        frame: &Frame,
        pageblock: &Pageblock,
    ) -> bool {
        let (order, migratetype) = (freed.order, pageblock.migratetype());
        let (owner, cpu) = (pageblock.owner(), self.platform.cpu());
        // Where memory is short, or whole pageblocks are few, a page is of more use where it is freed than at home.
        // What no request asks for meets its buddies at home.
        if let Some(owner) = owner
            && (order > Order::COSTLY || (owner != cpu && zone.has_plenty()))
        {
            return self.free_to_owner(zone, freed, migratetype, owner);
        }
        let list_type = match migratetype {
            MigrateType::Isolate => return false,
            MigrateType::HighAtomic | MigrateType::Cma => MigrateType::Movable,
            own => own,
        };
        let Some(index) = list_index(order, list_type, self.map.pageblock_order()) else { return false };
        if self.rules().pcp == PcpPolicy::Off {
            return false;
        }
        match self.try_lock_pcp(zone, cpu) {
            Some(pcp) => {
                pcp.free_unref_page_commit(freed, frame, index);
                true
            }
            None => self.free_past_locked_lists(zone, freed, owner),
        }
    }

    /// One tick of time (a second) for one CPU's lists: limits that are not used shrink, and what is above them goes
    /// back, a batch under each hold of the zone lock. If the zone is on another node, a batch goes back after three
    /// ticks in which the lists were left alone. linux: decay_pcp_high, mm/vmstat.c:refresh_cpu_vm_stats
    ///
    /// # Panics
    /// If there is no such CPU, or the zone is another allocator's.
    pub fn decay_pcp(&self, cpu: CpuId, zone: &Zone<P::Lock>) {
        self.expect_cpu(cpu);
        let zone = self.own(zone);
        let mut pcp = self.lock_pcp(zone, cpu);
        let limits = pcp.lists.limits;
        // Nobody else answers for what was sent to a CPU that asks for nothing.
        pcp.absorb_stack();
        let mut left = pcp::decay(&mut pcp.lists.tuning, &limits);
        pcp.publish_limit();
        while left > 0 {
            let pages = left.min(limits.batch);
            pcp.free_pcppages_bulk(pages, 0);
            left -= pages;
        }
        if zone.node() != self.node_of(cpu) && pcp.lists.is_left_alone() {
            pcp.free_pcppages_bulk(limits.batch, 0);
        }
    }

    /// Gives back everything on one CPU's lists for a zone. linux: drain_pages_zone
    ///
    /// # Panics
    /// If there is no such CPU, or the zone is another allocator's.
    pub fn drain_pages_zone(&self, cpu: CpuId, zone: &Zone<P::Lock>) {
        self.expect_cpu(cpu);
        let zone = self.own(zone);
        loop {
            let mut pcp = self.lock_pcp(zone, cpu);
            pcp.absorb_stack();
            if pcp.lists.count() == 0 {
                return;
            }
            pcp.drain_some();
        }
    }

    /// Gives back everything on every CPU's lists. linux: drain_all_pages
    pub fn drain_all_pages(&self) {
        self.zones.iter().filter(|zone| zone.is_populated()).for_each(|zone| self.drain_all_pages_zone(zone));
    }

    /// Gives back everything on every CPU's lists for a zone. linux: mm/page_alloc.c:__drain_all_pages
    pub(in crate::page) fn drain_all_pages_zone(&self, zone: &Zone<P::Lock>) {
        self.cpu_ids().for_each(|cpu| self.drain_pages_zone(cpu, zone));
    }
}

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Puts a claimed block on a list. Always inline: it is half of a free.
    /// linux: mm/page_alloc.c:free_unref_page_commit
    #[inline(always)]
    pub(super) fn free_unref_page_commit(mut self, freed: ClaimedBlock, frame: &Frame, index: u8) {
        frame.set(Word::pcp_cached(freed.order, index, self.cpu));
        self.lists.tuning.alloc_factor >>= 1;
        let map = self.allocator.map;
        self.lists.link_head(&map, freed.pfn, freed.order, index);
        self.drain_if_full(freed.order, index);
    }

    #[inline]
    fn drain_if_full(mut self, order: Order, index: u8) {
        let limits = self.lists.limits;
        let cause = self.lists.cause_of_drain(order);
        if self.lists.tuning.free_count < limits.batch << BATCH_SCALE_MAX {
            self.lists.tuning.free_count += order.pages();
        }
        let is_quiet =
            cause == Cause::Full && !self.zone.is_under_pressure() && pcp::has_room(&self.lists.tuning, &limits);
        if !is_quiet {
            self.tune_and_drain(cause, index);
        }
    }

    /// Moves the limit, and drains the lists if they are above it now. linux: mm/page_alloc.c:nr_pcp_high
    #[inline(never)]
    fn tune_and_drain(mut self, cause: Cause, index: u8) {
        let (limits, zone, allocator) = (self.lists.limits, self.zone, self.allocator);
        self.lists.expect_limited();
        let high = pcp::limit(&mut self.lists.tuning, &limits, zone.pressure(), cause);
        self.publish_limit();
        if self.lists.count() >= high {
            self.absorb_stack();
            let pages = pcp::drain_pages(&self.lists.tuning, &limits, high, cause);
            self.drain_in_steps(pages, index);
            if zone.clear_below_high_if_met() && kswapd::hopes_for_drains(allocator.rules().kswapd.hope) {
                allocator.clear_hopeless_after_drain(zone.node());
            }
        }
    }

    /// Lets others see how many pages may wait on the stack: as many as the limit is now.
    pub(super) fn publish_limit(&self) {
        self.home.limit.store(self.lists.tuning.high, Relaxed);
    }

    /// Gives `pages` pages back, as many under each hold of the locks as the policy says. Whoever has the list's lock
    /// between two steps keeps the rest on it.
    fn drain_in_steps(self, pages: u32, index: u8) {
        let (allocator, zone, cpu) = (self.allocator, self.zone, self.cpu);
        let mut left = self.drain_step(pages, index);
        while left > 0
            && let Some(pcp) = allocator.try_lock_pcp(zone, cpu)
        {
            left = pcp.drain_step(left, index);
        }
    }

    /// Gives back what may go under one hold of the locks; how many pages are left to give.
    fn drain_step(mut self, left: u32, index: u8) -> u32 {
        let step = pcp::drain_step(self.allocator.rules().drain, left, &self.lists.limits);
        self.free_pcppages_bulk(step, index);
        if self.lists.count() == 0 { 0 } else { left - step }
    }

    /// Gives `pages` pages, or a few more, from the lists to the zone, beginning with list `first`.
    /// linux: mm/page_alloc.c:free_pcppages_bulk
    #[cold]
    #[inline(never)]
    fn free_pcppages_bulk(&mut self, pages: u32, first: u8) {
        let (allocator, zone, before) = (self.allocator, self.zone, self.lists.count());
        self.lists.is_stirred = true;
        let budget = pages.min(before);
        self.lists.expect_limited();
        match allocator.rules().pcp {
            PcpPolicy::Merge | PcpPolicy::Owned | PcpPolicy::OwnedRemote => self.drain_merged(budget, first),
            PcpPolicy::Linux | PcpPolicy::Off => {
                let mut locked = allocator.lock_zone(zone);
                self.lists.for_each_victim(&allocator.map, budget, first, |_, victim| {
                    locked.free_pcp_block(victim.pfn, victim.order);
                });
            }
        }
        let drained = before - self.lists.count();
        allocator.report(Event::Drain { zone: zone.index() as u8, cpu: self.cpu, pages: drained });
    }

    /// Gives back everything on the lists.
    pub(super) fn drain(&mut self) {
        while self.lists.count() > 0 {
            self.drain_some();
        }
    }

    fn drain_some(&mut self) {
        let pages = self.lists.count().min(self.lists.limits.batch << BATCH_SCALE_MAX);
        self.free_pcppages_bulk(pages, 0);
    }
}
