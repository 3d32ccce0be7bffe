//! Freeing a block whose pageblock is owned by a CPU: the block is returned to the owner.
//!
//! A free on the owner itself is an ordinary free. On another CPU, `owned` tries the owner's lock and puts the block on
//! the owner's list; if the lock is taken, the block is freed to the zone. `owned-remote` pushes the block onto the
//! owner's stack, which takes no lock. The owner also pushes onto its own stack if an interrupt finds its lists locked.
//! The whole stack moves to the owner's lists when these run out, when they are drained, and at each tick.
//!
//! If memory is short, or fewer pageblocks are whole than CPUs are near the zone, a block up to order 3 is put on the
//! list of the CPU that frees it. The reasons are different. If memory is short, pages that wait for their owners make
//! other CPUs reclaim. If whole pageblocks are few, the owner would reuse the block before its buddies are freed,
//! whereas a block that is freed to the zone is merged and allocated last. If that list is locked, `owned-remote`
//! pushes the block onto the owner's stack nevertheless, and `owned` frees it to the zone. A larger block is always
//! returned to the owner, where it is split or merged. A larger block of a pageblock without an owner stays on the
//! lists of the CPU that frees it, unless memory is short.
//!
//! No other CPU empties the stack of a CPU that does not allocate. A stack may therefore hold no more pages than the
//! limit of the owner's lists: the CPU that exceeds that limit with a push frees the whole stack to the zone. The same
//! happens if the owner is offline. Each round of the slow path frees all stacks to the zones before anything is
//! reclaimed or the request fails.
//!
//! The stack was proposed by Rik van Riel in May 2026, in reply to the proposal of owned pageblocks.
//!
//! # Design
//!
//! *A free reads the owner without the zone lock.* An outdated owner puts a page on a list where it is merely cached,
//! and the next drain frees it to the zone. A free on the owner's own CPU takes the ordinary path with one more
//! comparison. Only a free on another CPU, or of an order that no request uses, leaves the fast path.
//!
//! *The bound of a stack.* A request that is about to fail frees all stacks; unless it fails lightly, it then frees the
//! lists of its CPU and takes the slow path once more. A request fails lightly if its order is above 3, or above 0
//! without the right to reclaim; the lists of its CPU are then not freed. List and stack together hold less than twice
//! the limit and a pageblock, which one recall or a request for a huge page may add. A tighter bound would need a read
//! of the list's count in each push, and only the owner accesses that count. Pages for which the list has no room when
//! the owner takes its stack are freed to the zone.
//!
//! *Pages are returned only while contiguous memory is plentiful*: up to order 3, while the zone has as many whole free
//! pageblocks as CPUs near it, so that each CPU could still open one (`ZoneFlag::FewWhole`). On a machine full of page
//! cache, kswapd raises the zone above its high watermark again and again. Pages that it frees in that state would go
//! to the owners of the pageblocks, which allocate them again as single pages, the last freed page first. In the zone
//! these pages merge with their buddies, and the zone allocates its smallest blocks first. In the workload `webhost`
//! this condition alone decided whether ownership costs huge pages. Two other conditions were tried. Memory above the
//! high watermark is not sufficient, because that holds in exactly this state. An eighth of memory above it, which is
//! the maximum on all lists, is too strict, because a machine in use hardly ever has it. `check()` compares the flag
//! with the free lists.
//!
//! *A range that is freed inside an owned pageblock* is returned in chunks. If no CPU owns the pageblock, the chunks go
//! to the lists of the CPU that frees, also at orders 4 to 8, unless memory is short, because the zone then needs them
//! more.

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

/// Number of blocks of a stack that are freed to the zone under one hold of its lock, as many as in the largest drain
/// of single pages.
const BLOCKS_A_HOLD: usize = 63 << 5;

impl<P: Platform> PageAllocator<'_, P> {
    /// Gives a claimed block to the CPU that owns its pageblock, which has this type. The owner is another CPU, or this
    /// CPU if requests do not use blocks of this order. Returns `false` if the block must be freed to the zone.
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
            let looked_early = is_planted(Fault::FreeLooksEarly).then(|| pcp.remote_frees.stack.is_closed());
            match self.try_lock_pcp(zone, owner) {
                // The stack's state is read under the lock, because the call that closes the stack drains the lists
                // afterwards.
                Some(_) if looked_early.unwrap_or_else(|| pcp.remote_frees.stack.is_closed()) => return false,
                Some(lists) => {
                    lists.free_to_list(freed, self.map.frame(freed.pfn), index);
                    return true;
                }
                None => return self.free_past_locked_lists(zone, freed, Some(owner)),
            }
        }
        self.push_to_owner(zone, freed, owner)
    }

    /// Puts a claimed block of an order that requests do not use, between 3 and the pageblock order, on this CPU's list
    /// for parts of pageblocks, under a policy that owns pageblocks. Returns `false` if the block must be freed to the
    /// zone: memory is short, the pageblock has an owner or is isolated, there is no list for the order, or the list is
    /// locked.
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
                lists.free_to_list(freed, self.map.frame(pfn), index);
                true
            }
            None => self.free_past_locked_lists(zone, freed, None),
        }
    }

    /// Frees a block whose list is locked, and reports the failed attempt to lock it. Under `owned-remote` the block is
    /// pushed onto the stack of its pageblock's owner, if there is one. Otherwise returns `false`: the block must be
    /// freed to the zone.
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
        let pages = pcp.remote_frees.stack.push(&self.map, pfn, order);
        if pages.is_none_or(|pages| pages > pcp.remote_frees.limit.load(Relaxed)) {
            self.flush_stack(zone, owner);
        }
        true
    }

    /// Frees the blocks on a CPU's stack to the zone. Returns whether there were any.
    #[cold]
    fn flush_stack(&self, zone: &Zone<P::Lock>, cpu: CpuId) -> bool {
        let stack = &self.pcp_at(cpu, zone).remote_frees.stack;
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

    /// Frees blocks that were taken off a stack to the zone, [`BLOCKS_A_HOLD`] under each hold of its lock.
    fn free_pcp_chain(&self, zone: &Zone<P::Lock>, mut blocks: Chain) {
        while !blocks.is_empty() {
            let mut locked = self.lock_zone(zone);
            for _ in 0..BLOCKS_A_HOLD {
                let Some((pfn, frame)) = blocks.pop(&self.map) else { return };
                locked.free_pcp_block(pfn, frame.word().order());
            }
        }
    }

    /// Frees the blocks on all stacks to their zones. Returns whether there were any; only `owned-remote` has stacks.
    /// Cost: two loads per CPU and zone if all stacks are empty.
    pub(in crate::page) fn flush_stacks(&self) -> bool {
        if self.rules().pcp != PcpPolicy::OwnedRemote {
            return false;
        }
        let zones = self.zones.iter().filter(|zone| zone.is_populated());
        zones
            .flat_map(|zone| self.cpu_ids().map(move |cpu| (zone, cpu)))
            .fold(false, |any, (zone, cpu)| self.flush_stack(zone, cpu) || any)
    }

    /// Under `owned-remote`, drains the calling CPU's lists for all zones, which may hold pages that it took from its
    /// stack for a request that could not use them. Returns whether the lists had pages; `false` under any other
    /// policy. The call does not wait for the lock of a list, because the caller may have interrupted the code that
    /// holds the lock. linux: mm/page_alloc.c:drain_local_pages
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

    /// Takes all pages from a CPU that does not run any more. Afterwards it owns no pageblock, its lists and stacks are
    /// empty, and pages that would be returned to it are freed to the zone. All code that ran on the CPU must have
    /// ended: a free that is still in progress there may leave its page on a list, where the next drain of all CPUs
    /// finds it. Cost: one step per pageblock of the whole memory for each zone, under the zone's lock.
    /// [`SlabAllocator::cpu_dead`](crate::slab::SlabAllocator::cpu_dead) must be called before, because it frees pages.
    /// linux: mm/page_alloc.c:page_alloc_cpu_dead
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_dead(&self, cpu: CpuId) {
        self.expect_cpu(cpu);
        for zone in self.zones.iter().filter(|zone| zone.is_populated()) {
            if !is_planted(Fault::OfflineStaysOpen) {
                self.pcp_at(cpu, zone).remote_frees.stack.close();
            }
            self.disown_all(zone, cpu);
            self.drain_pages_zone(cpu, zone);
        }
    }

    /// Lets a CPU that runs again own pageblocks, and opens its stacks. linux: mm/page_alloc.c:page_alloc_cpu_online
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_online(&self, cpu: CpuId) {
        self.expect_cpu(cpu);
        self.zones.iter().for_each(|zone| self.pcp_at(cpu, zone).remote_frees.stack.open());
    }

    fn disown_all(&self, zone: &Zone<P::Lock>, cpu: CpuId) {
        // A zone may start inside a pageblock.
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
    /// Moves the blocks on the CPU's stack to its lists. Returns whether there were any. A block whose pageblock the
    /// CPU no longer owns is freed to the zone. So is a block for which the lists are full: a CPU whose requests do not
    /// use the returned blocks would otherwise never free a block itself, and thus never drain them.
    pub(super) fn absorb_stack(&mut self) -> bool {
        let (allocator, map, cpu) = (self.allocator, &self.allocator.map, self.cpu);
        let remote_frees = self.remote_frees;
        if remote_frees.stack.is_empty() || is_planted(Fault::DrainLeavesStack) {
            return false;
        }
        self.lists.expect_remote_frees_limited(remote_frees.limit.load(Relaxed), cpu);
        allocator.report(Event::StackTake { zone: self.zone.index() as u8, owner: cpu });
        let mut left_over = Chain::default();
        // Whole pageblocks are on the lists as halves; see `own_pageblocks`.
        run::gather(map, remote_frees.stack.take(map), map.half_pageblock_order(), |pfn, order| {
            let pageblock = map.pageblock(pfn);
            let migratetype = pageblock.migratetype();
            let is_owned_here = pageblock.owner() == Some(cpu) && migratetype.is_mergeable();
            let is_welcome = is_owned_here && self.lists.count() < self.lists.high();
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
