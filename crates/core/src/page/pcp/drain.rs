//! Putting a block on a CPU's list, and giving blocks back when the list is full, idle, or wanted elsewhere.
//!
//! A drain goes round the lists, beginning with the one that was freed to, and empties each from its tail until its
//! budget of pages is spent, all under one hold of the zone lock, or a batch under each, as the policy says. The type
//! of each block is read anew under that lock, since its pageblock may have changed hands while the block was on the
//! list.
//!
//! linux: mm/page_alloc.c:free_unref_page_commit, free_pcppages_bulk, decay_pcp_high, drain_pages

use core::mem;
use core::sync::atomic::Ordering::Relaxed;

use super::refill::pressure;
use super::{PCP_LISTS, PcpLists, REMOTE_TICKS, list_index, list_order};
use crate::base::fault::{Fault, is_planted};
use crate::base::frame::Frame;
use crate::base::lock::Guard;
use crate::base::memmap::MemMap;
use crate::base::pageblock::Pageblock;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, Pfn};
use crate::page::PageAllocator;
use crate::page::buddy::Placement;
use crate::page::free::Freed;
use crate::page::zone::{LockedZone, Zone};
use crate::platform::{Event, Platform, Probe};
use crate::policy::pcp::{self, BATCH_SCALE_MAX, Cause};
use crate::policy::{PcpPolicy, kswapd};

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Puts a claimed block on the list where it belongs: the owner's, if a CPU owns its pageblock, else the calling
    /// CPU's; `false` if it must go to the zone. Always inline: it is most of a free.
    #[inline(always)]
    pub(in crate::page) fn free_to_pcp(&self, zone: &Zone<P::Lock>, freed: Freed<'_>, pageblock: &Pageblock) -> bool {
        let (order, migratetype) = (freed.order, pageblock.migratetype());
        let (owner, cpu) = (pageblock.owner(), self.platform.cpu());
        if let Some(owner) = owner
            && (owner != cpu || order > Order::COSTLY)
        {
            return self.free_home(zone, freed, migratetype, owner);
        }
        let migratetype = match migratetype {
            MigrateType::Isolate => return false,
            MigrateType::HighAtomic | MigrateType::Cma => MigrateType::Movable,
            own => own,
        };
        let Some(index) = list_index(order, migratetype, self.map.pageblock_order()) else { return false };
        if self.policy.pcp == PcpPolicy::Off {
            return false;
        }
        match self.pcp_at(cpu, zone).try_lock() {
            Some(lists) => {
                self.put_on_list(zone, lists, freed, index, cpu);
                true
            }
            None => self.free_past_lists(zone, freed, owner),
        }
    }

    /// Puts a claimed block on a CPU's list. Always inline: it is half of a free.
    #[inline(always)]
    pub(super) fn put_on_list(
        &self,
        zone: &Zone<P::Lock>,
        mut lists: Guard<'_, P::Lock, PcpLists>,
        freed: Freed<'_>,
        index: u8,
        cpu: CpuId,
    ) {
        freed.frame.set(Word::pcp_cached(freed.order, index, cpu));
        lists.tuning.alloc_factor >>= 1;
        lists.link_head(&self.map, freed, index);
        self.drain_if_full(zone, lists, freed.order, index, cpu);
    }

    #[inline]
    fn drain_if_full(
        &self,
        zone: &Zone<P::Lock>,
        mut lists: Guard<'_, P::Lock, PcpLists>,
        order: Order,
        index: u8,
        cpu: CpuId,
    ) {
        let limits = lists.limits;
        let cause = lists.cause_of_drain(order);
        if lists.tuning.free_count < limits.batch << BATCH_SCALE_MAX {
            lists.tuning.free_count += order.pages();
        }
        let is_quiet = cause == Cause::Full && !zone.is_under_pressure() && pcp::has_room(&lists.tuning);
        if !is_quiet {
            self.tune_and_drain(zone, lists, cause, index, cpu);
        }
    }

    /// Moves the limit, and drains the list if it is above it now.
    #[inline(never)]
    fn tune_and_drain(
        &self,
        zone: &Zone<P::Lock>,
        mut lists: Guard<'_, P::Lock, PcpLists>,
        cause: Cause,
        index: u8,
        cpu: CpuId,
    ) {
        let limits = lists.limits;
        lists.expect_limited();
        let high = pcp::limit(&mut lists.tuning, &limits, pressure(zone), cause);
        self.pcp_at(cpu, zone).home.limit.store(lists.tuning.high, Relaxed);
        if lists.tuning.count >= high {
            self.absorb(zone, &mut lists, cpu);
            let pages = pcp::drain_pages(&lists.tuning, &limits, high, cause);
            self.drain_in_steps(zone, lists, pages, index, cpu);
            if zone.clear_below_high_if_met() && kswapd::hopes_for_drains(self.policy.kswapd.hope) {
                self.hope_elsewhere(zone.node());
            }
        }
    }

    /// Gives `pages` pages back, as many under each hold of the locks as the policy says. Whoever has the list's lock
    /// between two steps keeps the rest on it.
    fn drain_in_steps(
        &self,
        zone: &Zone<P::Lock>,
        lists: Guard<'_, P::Lock, PcpLists>,
        pages: u32,
        index: u8,
        cpu: CpuId,
    ) {
        let mut left = self.drain_step(zone, lists, pages, index, cpu);
        while left > 0
            && let Some(lists) = self.pcp_at(cpu, zone).try_lock()
        {
            left = self.drain_step(zone, lists, left, index, cpu);
        }
    }

    /// Gives back what may go under one hold of the locks; how many pages are left to give.
    fn drain_step(
        &self,
        zone: &Zone<P::Lock>,
        mut lists: Guard<'_, P::Lock, PcpLists>,
        left: u32,
        index: u8,
        cpu: CpuId,
    ) -> u32 {
        let step = pcp::drain_step(self.policy.drain, left, &lists.limits);
        self.drain_pages_of(zone, &mut lists, step, index, cpu);
        if lists.tuning.count == 0 { 0 } else { left - step }
    }

    /// Gives `pages` pages, or a few more, from a CPU's lists to the zone, beginning with list `first`.
    #[cold]
    #[inline(never)]
    fn drain_pages_of(&self, zone: &Zone<P::Lock>, lists: &mut PcpLists, pages: u32, first: u8, cpu: CpuId) {
        let before = lists.tuning.count;
        lists.is_stirred = true;
        let budget = pages.min(before);
        lists.expect_limited();
        match self.policy.pcp {
            PcpPolicy::Merge | PcpPolicy::Owned | PcpPolicy::OwnedRemote => {
                self.drain_merged(zone, lists, budget, first, cpu);
            }
            PcpPolicy::Linux | PcpPolicy::Off => {
                let mut locked = self.lock_zone(zone);
                lists.for_each_victim(&self.map, self.map.pageblock_order(), budget, first, |_, victim| {
                    locked.take_back(victim.pfn, victim.order);
                });
            }
        }
        self.report(Event::Drain { zone: zone.index() as u8, cpu, pages: before - lists.tuning.count });
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
        let mut lists = self.pcp_at(cpu, zone).lock();
        let limits = lists.limits;
        // Nobody else answers for what was sent to a CPU that asks for nothing.
        self.absorb(zone, &mut lists, cpu);
        let mut left = pcp::decay(&mut lists.tuning, &limits);
        self.pcp_at(cpu, zone).home.limit.store(lists.tuning.high, Relaxed);
        while left > 0 {
            let pages = left.min(limits.batch);
            self.drain_pages_of(zone, &mut lists, pages, 0, cpu);
            left -= pages;
        }
        if zone.node() != self.node_of(cpu) && lists.is_left_alone() {
            self.drain_pages_of(zone, &mut lists, limits.batch, 0, cpu);
        }
    }

    /// Gives back everything on one CPU's lists for a zone. linux: drain_pages_zone
    ///
    /// # Panics
    /// If there is no such CPU, or the zone is another allocator's.
    pub fn drain_pcp(&self, cpu: CpuId, zone: &Zone<P::Lock>) {
        self.expect_cpu(cpu);
        let zone = self.own(zone);
        loop {
            let mut lists = self.pcp_at(cpu, zone).lock();
            self.absorb(zone, &mut lists, cpu);
            if lists.tuning.count == 0 {
                return;
            }
            self.drain_some(zone, &mut lists, cpu);
        }
    }

    /// Gives back everything on a CPU's lists, whose lock is held.
    pub(super) fn drain_lists(&self, zone: &Zone<P::Lock>, lists: &mut PcpLists, cpu: CpuId) {
        while lists.tuning.count > 0 {
            self.drain_some(zone, lists, cpu);
        }
    }

    fn drain_some(&self, zone: &Zone<P::Lock>, lists: &mut PcpLists, cpu: CpuId) {
        let pages = lists.tuning.count.min(lists.limits.batch << BATCH_SCALE_MAX);
        self.drain_pages_of(zone, lists, pages, 0, cpu);
    }

    /// Gives back everything on every CPU's lists. linux: drain_all_pages
    pub fn drain_all(&self) {
        self.zones.iter().filter(|zone| zone.is_populated()).for_each(|zone| self.drain_zone(zone));
    }

    /// Gives back everything on every CPU's lists for a zone.
    pub(in crate::page) fn drain_zone(&self, zone: &Zone<P::Lock>) {
        self.cpu_ids().for_each(|cpu| self.drain_pcp(cpu, zone));
    }
}

/// A block that leaves a CPU's lists for the zone.
pub(super) struct Victim<'f> {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// Metadata of the block's first frame.
    pub(super) frame: &'f Frame,
}

impl PcpLists {
    /// Whether this free of a block of order 1 to 3 shows a CPU that frees such blocks and allocates none.
    #[inline]
    fn cause_of_drain(&mut self, order: Order) -> Cause {
        if order == Order::ZERO || order > Order::COSTLY {
            self.previous_was_high_order = false;
            return Cause::Full;
        }
        let batch = self.limits.batch;
        let freeing = self.tuning.free_count >= self.high_order_frees && self.previous_was_high_order;
        self.previous_was_high_order = true;
        if freeing && (!self.keeps_high_orders() || self.tuning.count >= batch) {
            Cause::HighOrderFrees
        } else {
            Cause::Full
        }
    }

    /// One more tick; says whether it was the last of those in which nothing stirred.
    fn is_left_alone(&mut self) -> bool {
        if mem::take(&mut self.is_stirred) {
            self.ticks_left = REMOTE_TICKS;
        }
        if self.ticks_left == 0 || self.tuning.count == 0 {
            return false;
        }
        self.ticks_left -= 1;
        self.ticks_left == 0
    }

    /// Takes blocks off the lists until `budget` pages are spent: list after list from `first` round, each from its
    /// tail until it is empty.
    pub(super) fn for_each_victim(
        &mut self,
        map: &MemMap<'_>,
        pageblock_order: Order,
        budget: u32,
        first: u8,
        mut visit: impl FnMut(&mut PcpLists, Victim<'_>),
    ) {
        let stop = self.tuning.count - budget;
        let (mut index, mut empty) = (usize::from(first), 0);
        while self.tuning.count > stop {
            let Some((pfn, frame)) = self.lists[index].pop_tail(map) else {
                empty += 1;
                assert!(empty <= 2 * PCP_LISTS, "per-CPU lists: they hold fewer pages than they count");
                index = (index + 1) % PCP_LISTS;
                continue;
            };
            let order = list_order(index as u8, pageblock_order);
            self.expect_from(pfn, frame, index, order);
            self.count_out(order.pages());
            visit(self, Victim { pfn, order, frame });
            if self.tuning.count <= stop {
                break;
            }
        }
    }
}

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Takes a block from a per-CPU list back.
    pub(super) fn take_back(&mut self, pfn: Pfn, order: Order) {
        let pageblock = self.map.pageblock(pfn);
        let trusted = is_planted(Fault::DrainTrustsList).then_some(MigrateType::Movable);
        let migratetype = trusted.unwrap_or_else(|| pageblock.migratetype());
        // The owner will want its pages back: they are used last.
        let owned = pageblock.owner().is_some();
        self.free_block(pfn, order, migratetype, if owned { Placement::Tail } else { Placement::ByMergeLikelihood });
        self.probe.report(Event::PcpuDrain { pfn, order, migratetype });
    }
}
