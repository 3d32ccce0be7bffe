//! The way home: a free of a page whose pageblock some CPU owns.
//!
//! On the owner itself it is a free like any other. On another CPU, `owned` tries the owner's lock and puts the page
//! on the owner's list, or gives up and goes to the zone; `owned-remote` pushes it onto the owner's stack, which takes
//! no lock at all, and so does the owner when an interrupt finds its own lists locked. The owner takes the whole stack
//! when it next runs out, or drains.
//!
//! Where memory is short, or fewer pageblocks are whole than CPUs are near the zone, a free up to order 3 goes the
//! ordinary way, to the list of the CPU that frees. Where memory is short, a page that waits for its owner is one that
//! somebody reclaims for. Where whole pageblocks are few, its owner would give it out again before its buddies come,
//! while on its way through the zone it is merged and taken last. If that list is locked, it goes home all the same. A
//! larger block always goes home, where it is cut or merged; one that nobody owns stays on the lists of the CPU that
//! frees it, unless memory is short.
//!
//! Nobody answers for a CPU that does not allocate, so a stack may hold no more pages than the owner's lists may: the
//! CPU that pushes it over that limit takes all of it to the zone. The same goes for a CPU that is offline. And before
//! a request fails, it looks into all stacks.
//!
//! The stack is Rik van Riel's answer to the proposal, of May 2026.

use core::sync::atomic::Ordering::Relaxed;

use super::locked::LockedPcp;
use crate::base::chain::Chain;
use crate::base::fault::{Fault, is_planted};
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, Order, run};
use crate::page::allocator::PageAllocator;
use crate::page::free::ClaimedBlock;
use crate::page::percpu::part_index;
use crate::page::zone::Zone;
use crate::platform::{Event, Platform};
use crate::policy::PcpPolicy;

/// Blocks that go from a stack to the zone under one hold of its lock, as many as a drain of single pages at most.
const BLOCKS_A_HOLD: usize = 63 << 5;

impl<P: Platform> PageAllocator<'_, P> {
    /// Gives a claimed block of an owned pageblock of this type to its owner, another CPU; or to this one, if no
    /// request asks for blocks of its order. `false` if it must go to the zone.
    #[inline(never)]
    pub(super) fn free_to_owner(
        &self,
        zone: &Zone<P::Lock>,
        freed: ClaimedBlock,
        migratetype: MigrateType,
        owner: CpuId,
    ) -> bool {
        if !migratetype.is_mergeable() {
            return false;
        }
        let Some(index) = part_index(freed.order, migratetype, self.map.pageblock_order()) else { return false };
        let takes_locks = self.rules().pcp == PcpPolicy::Owned;
        let pcp = self.pcp_at(owner, zone);
        if takes_locks || owner == self.platform.cpu() {
            let looked_early = is_planted(Fault::FreeLooksEarly).then(|| pcp.home.stack.is_closed());
            match self.try_lock_pcp(zone, owner) {
                // Seen under the lock: the call that closes the stack empties the lists afterwards.
                Some(_) if looked_early.unwrap_or_else(|| pcp.home.stack.is_closed()) => return false,
                Some(lists) => {
                    lists.free_unref_page_commit(freed, self.map.frame(freed.pfn), index);
                    return true;
                }
                None => return self.free_past_locked_lists(zone, freed, Some(owner)),
            }
        }
        self.push_to_owner(zone, freed, owner)
    }

    /// Puts a claimed block of an order that no request asks for, and of a pageblock that is nobody's, on this CPU's
    /// list for parts; `false` if it must go to the zone, as it must where memory is short.
    #[cold]
    #[inline(never)]
    pub(in crate::page) fn free_part_to_pcp(&self, zone: &Zone<P::Lock>, freed: ClaimedBlock) -> bool {
        let (ClaimedBlock { pfn, order }, pageblock) = (freed, self.map.pageblock(freed.pfn));
        let is_for_lists = order > Order::COSTLY && self.rules().pcp.owns() && zone.is_well_above_high();
        if !is_for_lists || pageblock.owner().is_some() {
            return false;
        }
        let migratetype = match pageblock.migratetype() {
            MigrateType::Isolate => return false,
            MigrateType::HighAtomic | MigrateType::Cma => MigrateType::Movable,
            own => own,
        };
        let Some(index) = part_index(order, migratetype, self.map.pageblock_order()) else { return false };
        match self.try_lock_pcp(zone, self.platform.cpu()) {
            Some(lists) => {
                lists.free_unref_page_commit(freed, self.map.frame(pfn), index);
                true
            }
            None => self.free_past_locked_lists(zone, freed, None),
        }
    }

    /// Frees a block whose list is locked: pushes it onto its owner's stack, if it has an owner; returns `false` if it
    /// must go to the zone.
    #[cold]
    #[inline(never)]
    pub(super) fn free_past_locked_lists(
        &self,
        zone: &Zone<P::Lock>,
        freed: ClaimedBlock,
        owner: Option<CpuId>,
    ) -> bool {
        self.report(Event::TrylockFailed { zone: zone.index() as u8 });
        match owner {
            Some(owner) if self.rules().pcp == PcpPolicy::OwnedRemote => self.push_to_owner(zone, freed, owner),
            _ => false,
        }
    }

    fn push_to_owner(&self, zone: &Zone<P::Lock>, freed: ClaimedBlock, owner: CpuId) -> bool {
        let ClaimedBlock { pfn, order } = freed;
        let pcp = self.pcp_at(owner, zone);
        self.report(Event::StackPush { zone: zone.index() as u8, owner, pfn, order });
        let pages = pcp.home.stack.push(&self.map, pfn, order);
        if pages.is_none_or(|pages| pages > pcp.home.limit.load(Relaxed)) {
            self.flush_stack(zone, owner);
        }
        true
    }

    /// Gives what is on a CPU's stack to the zone; says whether anything was.
    #[cold]
    fn flush_stack(&self, zone: &Zone<P::Lock>, cpu: CpuId) -> bool {
        let stack = &self.pcp_at(cpu, zone).home.stack;
        if stack.is_empty() {
            return false;
        }
        self.report(Event::StackTake { zone: zone.index() as u8, owner: cpu });
        let mut gathered = Chain::default();
        run::gather(&self.map, stack.take(&self.map), self.map.pageblock_order(), |pfn, order| {
            gathered.push(&self.map, pfn, Word::claimed_of(order));
        });
        self.free_pcp_chain(zone, gathered);
        true
    }

    /// Gives blocks that came off a stack to the zone, so many under each hold of its lock.
    fn free_pcp_chain(&self, zone: &Zone<P::Lock>, mut blocks: Chain) {
        while !blocks.is_empty() {
            let mut locked = self.lock_zone(zone);
            for _ in 0..BLOCKS_A_HOLD {
                let Some((pfn, frame)) = blocks.pop(&self.map) else { return };
                locked.free_pcp_block(pfn, frame.word().order());
            }
        }
    }

    /// Gives what is on any stack to its zone; says whether anything was. Two loads for each CPU and zone.
    pub(in crate::page) fn flush_stacks(&self) -> bool {
        if self.rules().pcp != PcpPolicy::OwnedRemote {
            return false;
        }
        let zones = self.zones.iter().filter(|zone| zone.is_populated());
        zones
            .flat_map(|zone| self.cpu_ids().map(move |cpu| (zone, cpu)))
            .fold(false, |any, (zone, cpu)| self.flush_stack(zone, cpu) || any)
    }

    /// Gives back what the calling CPU brought home, maybe for a request that could not use it; says whether anything
    /// was. Awaits no list's lock: the caller may have interrupted the code that holds it.
    /// linux: mm/page_alloc.c:drain_local_pages
    #[cold]
    pub(in crate::page) fn drain_local_pages(&self) -> bool {
        if self.rules().pcp != PcpPolicy::OwnedRemote {
            return false;
        }
        let here = self.platform.cpu();
        let mut any = false;
        for zone in self.zones.iter().filter(|zone| zone.is_populated()) {
            if let Some(mut pcp) = self.try_lock_pcp(zone, here) {
                any |= pcp.lists.count() > 0;
                pcp.drain();
            }
        }
        any
    }

    /// Takes its pages from a CPU that does not run any more: it owns no pageblock, its lists and stacks are empty, and
    /// what is still freed to it goes to the zone. Whatever ran on it must have ended: a free that is still under way
    /// there may leave its page on a list, where the next drain of all CPUs finds it. Cost: a step a pageblock.
    /// A slab's part is [`SlabAllocator::cpu_dead`](crate::slab::SlabAllocator::cpu_dead), which comes first, since it
    /// frees pages. linux: mm/page_alloc.c:page_alloc_cpu_dead
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_dead(&self, cpu: CpuId) {
        self.expect_cpu(cpu);
        for zone in self.zones.iter().filter(|zone| zone.is_populated()) {
            if !is_planted(Fault::OfflineStaysOpen) {
                self.pcp_at(cpu, zone).home.stack.close();
            }
            self.disown_all(zone, cpu);
            self.drain_pages_zone(cpu, zone);
        }
    }

    /// Lets a CPU that runs again own pageblocks, and take frees by its stacks. linux:
    /// mm/page_alloc.c:page_alloc_cpu_online
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_online(&self, cpu: CpuId) {
        self.expect_cpu(cpu);
        self.zones.iter().for_each(|zone| self.pcp_at(cpu, zone).home.stack.open());
    }

    fn disown_all(&self, zone: &Zone<P::Lock>, cpu: CpuId) {
        // A zone may begin inside of a pageblock.
        let (first, end) = zone.span();
        let start = first.align_down(self.map.pageblock_order());
        let mut locked = self.lock_zone(zone);
        for block in self.map.pageblocks().filter(|&block| start <= block && block < end) {
            let pageblock = self.map.pageblock(block);
            if usize::from(pageblock.zone()) == zone.index() && pageblock.owner() == Some(cpu) {
                locked.disown(block);
            }
        }
    }
}

impl<P: Platform> LockedPcp<'_, '_, P> {
    /// Brings what is on the CPU's stack to its lists; says whether anything was. What is not of its own pageblocks any
    /// more goes to the zone, and so does what comes when the lists are full: a CPU that asks for other blocks than
    /// those that come home would never free any to be drained with them.
    pub(super) fn absorb_stack(&mut self) -> bool {
        let (allocator, map, cpu) = (self.allocator, &self.allocator.map, self.cpu);
        let home = self.home;
        if home.stack.is_empty() || is_planted(Fault::DrainLeavesStack) {
            return false;
        }
        self.lists.expect_home_limited(home.limit.load(Relaxed), cpu);
        allocator.report(Event::StackTake { zone: self.zone.index() as u8, owner: cpu });
        let mut left_over = Chain::default();
        // Whole pageblocks lie as halves on the lists: see `own_pageblocks`.
        run::gather(map, home.stack.take(map), map.half_pageblock_order(), |pfn, order| {
            let pageblock = map.pageblock(pfn);
            let migratetype = pageblock.migratetype();
            let is_home = pageblock.owner() == Some(cpu) && migratetype.is_mergeable();
            let is_welcome = is_home && self.lists.count() < self.lists.high();
            match part_index(order, migratetype, map.pageblock_order()).filter(|_| is_welcome) {
                Some(index) => self.lists.push_head(map, pfn, order, index, cpu),
                None => left_over.push(map, pfn, Word::claimed_of(order)),
            }
        });
        if !left_over.is_empty() {
            allocator.free_pcp_chain(self.zone, left_over);
        }
        true
    }
}
