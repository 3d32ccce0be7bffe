//! Putting a block on a CPU's list, and draining lists that are full or idle, or whose pages are needed elsewhere.
//!
//! A drain visits the lists in turn, starting with the list to which the free that causes the drain has added a block,
//! and empties each list from its tail until the drain's budget of pages is used up. The policy decides whether it does
//! so under one hold of the zone lock, or under one hold per batch. The type of each block is read again under the zone
//! lock, because the pageblock may have changed its type while the block was on the list.
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
    /// Puts a claimed block on the calling CPU's list, or gives it to the CPU that owns its pageblock, according to
    /// `remote_frees`. Returns `false` if the caller must free the block to the zone. Always inlined, because it is
    /// most of a free.
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
        // Up to order 3, a block is returned to its owner only if memory and whole pageblocks are plentiful; otherwise
        // it is more useful on the CPU that frees it. A larger block, whose order requests do not use, merges with its
        // buddies on the owner's lists.
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

    /// Does the work of one tick (a second) for one CPU's lists of a zone. The blocks on the CPU's stack move to the
    /// lists, an unused limit shrinks, and pages above the limit are given back to the zone, one batch under each hold
    /// of the zone lock. If the zone is on another node, a batch is given back after three ticks without activity.
    /// linux: decay_pcp_high, mm/vmstat.c:refresh_cpu_vm_stats
    ///
    /// # Panics
    /// If there is no such CPU, or the zone belongs to another allocator.
    pub fn decay_pcp(&self, cpu: CpuId, zone: &Zone<P::Lock>) {
        self.expect_cpu(cpu);
        let zone = self.own(zone);
        let mut pcp = self.lock_pcp(zone, cpu);
        let limits = pcp.lists.limits;
        // An idle CPU has no request that would empty its stack, so the tick does.
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

    /// Drains one CPU's lists for a zone, and its stack. Waits for the lock of the lists. linux: drain_pages_zone
    ///
    /// # Panics
    /// If there is no such CPU, or the zone belongs to another allocator.
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

    /// Drains every CPU's lists and stacks, for all zones. Waits for the lock of each. linux: drain_all_pages
    pub fn drain_all_pages(&self) {
        self.zones.iter().filter(|zone| zone.is_populated()).for_each(|zone| self.drain_all_pages_zone(zone));
    }

    /// Drains every CPU's lists and stacks for a zone. linux: mm/page_alloc.c:__drain_all_pages
    pub(in crate::page) fn drain_all_pages_zone(&self, zone: &Zone<P::Lock>) {
        self.cpu_ids().for_each(|cpu| self.drain_pages_zone(cpu, zone));
    }
}

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Puts a claimed block on the head of a list, and drains the lists if they are full. Always inlined, because it is
    /// half of a free. linux: mm/page_alloc.c:free_unref_page_commit
    #[inline(always)]
    pub(super) fn free_unref_page_commit(mut self, freed: ClaimedBlock, frame: &Frame, index: u8) {
        frame.set(Word::pcp_cached(freed.order, index, self.cpu));
        self.lists.tuning.alloc_factor >>= 1;
        let map = self.allocator.map;
        self.lists.link_head(&map, freed.pfn, freed.order, index);
        self.drain_if_full(freed.order, index);
    }

    /// Puts a claimed block on the head of a list like [`free_unref_page_commit`](Self::free_unref_page_commit), by a
    /// call.
    #[inline(never)]
    pub(super) fn free_to_list(self, freed: ClaimedBlock, frame: &Frame, index: u8) {
        self.free_unref_page_commit(freed, frame, index);
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

    /// Adjusts the limit, and drains the lists if they are at or above it now. linux: mm/page_alloc.c:nr_pcp_high
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

    /// Publishes the limit as the maximum number of pages on the CPU's stack.
    pub(super) fn publish_limit(&self) {
        self.remote_frees.limit.store(self.lists.tuning.high, Relaxed);
    }

    /// Gives `pages` pages back, as many under each hold of the locks as the policy allows. If another holder has the
    /// lists' lock between two steps, the rest stays on the lists.
    fn drain_in_steps(self, pages: u32, index: u8) {
        let (allocator, zone, cpu) = (self.allocator, self.zone, self.cpu);
        let mut left = self.drain_step(pages, index);
        while left > 0
            && let Some(pcp) = allocator.try_lock_pcp(zone, cpu)
        {
            left = pcp.drain_step(left, index);
        }
    }

    /// Gives back the pages of one hold of the locks. Returns the number of pages that are left to give.
    fn drain_step(mut self, left: u32, index: u8) -> u32 {
        let step = pcp::drain_step(self.allocator.rules().drain, left, &self.lists.limits);
        self.free_pcppages_bulk(step, index);
        if self.lists.count() == 0 { 0 } else { left - step }
    }

    /// Gives `pages` pages, or a few more if blocks are large, from the lists to the zone, or all pages if there are
    /// fewer, starting with list `first`. linux: mm/page_alloc.c:free_pcppages_bulk
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

    /// Drains all of the CPU's lists for the zone, but not its stack.
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
