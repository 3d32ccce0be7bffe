//! Event counters: a probe that counts what the engine did.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::ZoneKind;
use crate::platform::probe::{Compactor, ServedFrom};
use crate::platform::{CompactResult, Event, Migrated, Probe, Reclaimer};

/// A number that only goes up, as an atomic or plain.
pub trait Counter: Default {
    /// Adds to the number.
    fn add(&self, by: u64);
    /// The number at this moment.
    fn get(&self) -> u64;
}

/// Counts for any number of threads.
impl Counter for AtomicU64 {
    #[inline]
    fn add(&self, by: u64) {
        self.fetch_add(by, Relaxed);
    }

    fn get(&self) -> u64 {
        self.load(Relaxed)
    }
}

/// Counts for one thread, at the price of an addition.
impl Counter for Cell<u64> {
    #[inline]
    fn add(&self, by: u64) {
        self.set(self.get() + by);
    }

    fn get(&self) -> u64 {
        Cell::get(self)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters, raised by one thread or by many, as their type says.
        #[derive(Debug, Default)]
        pub struct Counters<C = AtomicU64> {
            $($(#[$doc])* pub $name: C,)*
        }

        /// The counters' values at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl<C: Counter> Counters<C> {
            /// Reads all of them. They are read one after the other: exact when nothing runs.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl Counts {
            /// What was counted since `earlier`.
            pub fn since(&self, earlier: &Counts) -> Counts {
                Counts { $($name: self.$name - earlier.$name,)* }
            }

            /// What was counted here and there.
            pub fn plus(&self, other: &Counts) -> Counts {
                Counts { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

counters! {
    /// Times that a zone lock was taken.
    zone_lock_acquisitions,
    /// Pages moved to or from free lists under zone locks.
    zone_lock_pages,
    /// Insertions into free lists and removals from them.
    zone_lock_links,
    /// Blocks that left the free lists of the type asked for.
    zone_locked_blocks,
    /// Times a per-CPU list was filled.
    pcp_refills,
    /// Blocks that these refills brought.
    pcp_refill_blocks,
    /// Times a per-CPU list gave pages back.
    pcp_drains,
    /// Blocks that these drains returned to the zone.
    pcp_drain_blocks,
    /// Pages that these drains returned.
    pcp_drain_pages,
    /// Parts that blocks of per-CPU lists were cut into, besides those that were wanted.
    pcp_split_blocks,
    /// Blocks of per-CPU lists that were merged before they were given back.
    pcp_merge_blocks,
    /// Blocks pushed onto their owners' stacks.
    stack_pushes,
    /// Times that a stack was taken whole.
    stack_takes,
    /// Pageblocks of another type taken over.
    fallback_claims,
    /// Blocks taken from another type's pageblock.
    fallback_steals,
    /// Times a watermark was boosted.
    boosts,
    /// Pageblocks that joined the high-atomic reserve.
    reserves,
    /// Pageblocks that left the high-atomic reserve.
    unreserves,
    /// Times a CPU found its own list locked.
    trylock_failures,
    /// Frames taken out of use for ever.
    withheld,
    /// Blocks that the platform moved out of the way.
    migrations,
    /// Blocks that it would not move.
    migrations_refused,
    /// High-atomic requests served by per-CPU lists.
    highatomic_from_list,
    /// High-atomic requests served by the reserve.
    highatomic_from_reserve,
    /// High-atomic requests served by other free lists.
    highatomic_from_ordinary,
    /// Requests that reclaimed for themselves and could use no zone above DMA.
    allocstall_dma,
    /// The same, no zone above DMA32.
    allocstall_dma32,
    /// The same, no zone above Normal.
    allocstall_normal,
    /// The same, when every zone could be used.
    allocstall_movable,
    /// Pages that the platform looked at for kswapd.
    pgscan_kswapd,
    /// Pages that requests looked at themselves.
    pgscan_direct,
    /// Pages that the platform freed for kswapd.
    pgsteal_kswapd,
    /// Pages that requests freed themselves.
    pgsteal_direct,
    /// Times kswapd began to balance a node.
    pageoutrun,
    /// Requests that compacted for themselves.
    compact_stall,
    /// Those that got their block so.
    compact_success,
    /// Those of them that did not get their block.
    compact_fail,
    /// Those of these for which nothing was tried, because compaction had failed lately.
    compact_deferred,
    /// Frames that compaction looked at for pages to move.
    compact_migrate_scanned,
    /// Frames that it looked at for free pages.
    compact_free_scanned,
    /// Pages that it set apart, to be moved or to be moved to.
    compact_isolated,
    /// Times kcompactd began to work for somebody.
    compact_daemon_wake,
    /// Its part of the frames looked at for pages to move.
    compact_daemon_migrate_scanned,
    /// Its part of the frames looked at for free pages.
    compact_daemon_free_scanned,
    /// Promises that the platform broke.
    broken_promises,
    /// Requests that failed, on every path.
    failures,
}

#[inline]
fn add<C: Counter>(counter: &C, by: u32) {
    counter.add(u64::from(by));
}

impl<C: Counter> Probe for Counters<C> {
    #[inline]
    fn report(&self, event: Event) {
        match event {
            Event::ZoneLockReleased { pages, links, .. } => {
                add(&self.zone_lock_acquisitions, 1);
                add(&self.zone_lock_pages, pages);
                add(&self.zone_lock_links, links);
            }
            Event::ZoneLocked { .. } => add(&self.zone_locked_blocks, 1),
            Event::PcpuDrain { .. } => add(&self.pcp_drain_blocks, 1),
            Event::Refill { blocks, .. } => {
                add(&self.pcp_refills, 1);
                add(&self.pcp_refill_blocks, blocks);
            }
            Event::Drain { pages, .. } => {
                add(&self.pcp_drains, 1);
                add(&self.pcp_drain_pages, pages);
            }
            Event::PcpSplit { blocks, .. } => add(&self.pcp_split_blocks, blocks),
            Event::PcpMerge { blocks, .. } => add(&self.pcp_merge_blocks, blocks),
            Event::StackPush { .. } => add(&self.stack_pushes, 1),
            Event::StackTake { .. } => add(&self.stack_takes, 1),
            Event::Claim { .. } => add(&self.fallback_claims, 1),
            Event::Steal { .. } => add(&self.fallback_steals, 1),
            Event::Boost { .. } => add(&self.boosts, 1),
            Event::Reserve { .. } => add(&self.reserves, 1),
            Event::Unreserve { .. } => add(&self.unreserves, 1),
            Event::TrylockFailed { .. } => add(&self.trylock_failures, 1),
            Event::Withheld { .. } => add(&self.withheld, 1),
            Event::Migrate { answer: Migrated::Moved, .. } => add(&self.migrations, 1),
            Event::Migrate { answer: Migrated::Refused, .. } => add(&self.migrations_refused, 1),
            Event::HighAtomicServed { from, .. } => add(self.served(from), 1),
            Event::DirectReclaim { highest } => add(self.stalls(highest), 1),
            Event::Reclaim { by, pages, scanned } => self.count_reclaim(by, pages, scanned),
            Event::KswapdRun { .. } => add(&self.pageoutrun, 1),
            Event::KcompactdRun { .. } => add(&self.compact_daemon_wake, 1),
            Event::CompactStall { result } => {
                add(&self.compact_stall, 1);
                let got_it = result == CompactResult::Succeeded;
                add(if got_it { &self.compact_success } else { &self.compact_fail }, 1);
                add(&self.compact_deferred, (result == CompactResult::Deferred).into());
            }
            Event::CompactScan { by, migrate_scanned, free_scanned, isolated, .. } => {
                self.count_scan(by, migrate_scanned, free_scanned);
                add(&self.compact_isolated, isolated);
            }
            Event::BrokenPromise { .. } => add(&self.broken_promises, 1),
            Event::Failed { .. } => add(&self.failures, 1),
        }
    }
}

impl<C: Counter> Counters<C> {
    fn served(&self, from: ServedFrom) -> &C {
        match from {
            ServedFrom::List => &self.highatomic_from_list,
            ServedFrom::Reserve => &self.highatomic_from_reserve,
            ServedFrom::Ordinary => &self.highatomic_from_ordinary,
        }
    }

    fn stalls(&self, highest: ZoneKind) -> &C {
        match highest {
            ZoneKind::Dma => &self.allocstall_dma,
            ZoneKind::Dma32 => &self.allocstall_dma32,
            ZoneKind::Normal => &self.allocstall_normal,
            ZoneKind::Movable => &self.allocstall_movable,
        }
    }

    fn count_reclaim(&self, by: Reclaimer, pages: u64, scanned: u64) {
        let (scan, steal) = match by {
            Reclaimer::Direct => (&self.pgscan_direct, &self.pgsteal_direct),
            Reclaimer::Kswapd => (&self.pgscan_kswapd, &self.pgsteal_kswapd),
        };
        scan.add(scanned);
        steal.add(pages);
    }

    fn count_scan(&self, by: Compactor, migrate_scanned: u32, free_scanned: u32) {
        self.compact_migrate_scanned.add(u64::from(migrate_scanned));
        self.compact_free_scanned.add(u64::from(free_scanned));
        if by == Compactor::Kcompactd {
            self.compact_daemon_migrate_scanned.add(u64::from(migrate_scanned));
            self.compact_daemon_free_scanned.add(u64::from(free_scanned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn};
    use crate::platform::Promise;

    const ORDER: Order = Order::ZERO;
    const PFN: Pfn = Pfn::new(0);
    const TYPE: MigrateType = MigrateType::Movable;

    /// What one event counts, beginning with nothing.
    fn counted(event: Event) -> Counts {
        let counters = Counters::<Cell<u64>>::default();
        counters.report(event);
        counters.counts()
    }

    fn expect(event: Event, counts: Counts) {
        assert_eq!(counted(event), counts, "{event:?}");
    }

    #[test]
    fn what_moves_between_lists_and_zone_is_counted_in_blocks_and_pages() {
        let none = Counts::default();
        let (zone, cpu, migratetype) = (0, CpuId(0), TYPE);
        let counts = Counts { zone_lock_acquisitions: 1, zone_lock_pages: 32, zone_lock_links: 7, ..none };
        expect(Event::ZoneLockReleased { zone, pages: 32, links: 7 }, counts);
        expect(Event::ZoneLocked { pfn: PFN, order: ORDER, migratetype }, Counts { zone_locked_blocks: 1, ..none });
        expect(Event::PcpuDrain { pfn: PFN, order: ORDER, migratetype }, Counts { pcp_drain_blocks: 1, ..none });
        let counts = Counts { pcp_refills: 1, pcp_refill_blocks: 9, ..none };
        expect(Event::Refill { zone, cpu, order: ORDER, blocks: 9 }, counts);
        expect(Event::Drain { zone, cpu, pages: 9 }, Counts { pcp_drains: 1, pcp_drain_pages: 9, ..none });
        expect(Event::PcpSplit { zone, cpu, blocks: 3 }, Counts { pcp_split_blocks: 3, ..none });
        expect(Event::PcpMerge { zone, cpu, blocks: 3 }, Counts { pcp_merge_blocks: 3, ..none });
        let push = Event::StackPush { zone, owner: cpu, pfn: PFN, order: ORDER };
        expect(push, Counts { stack_pushes: 1, ..none });
        expect(Event::StackTake { zone, owner: cpu }, Counts { stack_takes: 1, ..none });
        expect(Event::TrylockFailed { zone }, Counts { trylock_failures: 1, ..none });
    }

    #[test]
    fn each_mix_of_types_and_each_step_of_the_reserve_is_counted_once() {
        let none = Counts::default();
        let (found, wanted, from, zone) = (ORDER, TYPE, TYPE, 0);
        expect(Event::Claim { found, wanted, from }, Counts { fallback_claims: 1, ..none });
        expect(Event::Steal { found, wanted, from }, Counts { fallback_steals: 1, ..none });
        expect(Event::Boost { zone, pages: 512 }, Counts { boosts: 1, ..none });
        expect(Event::Reserve { zone, order: ORDER }, Counts { reserves: 1, ..none });
        expect(Event::Unreserve { zone }, Counts { unreserves: 1, ..none });
        expect(Event::Withheld { pfn: PFN }, Counts { withheld: 1, ..none });
        for (from, counts) in [
            (ServedFrom::List, Counts { highatomic_from_list: 1, ..none }),
            (ServedFrom::Reserve, Counts { highatomic_from_reserve: 1, ..none }),
            (ServedFrom::Ordinary, Counts { highatomic_from_ordinary: 1, ..none }),
        ] {
            expect(Event::HighAtomicServed { order: ORDER, from }, counts);
        }
        expect(Event::BrokenPromise { promise: Promise::Reclaim }, Counts { broken_promises: 1, ..none });
        expect(Event::Failed { order: ORDER }, Counts { failures: 1, ..none });
    }

    #[test]
    fn reclaim_is_counted_by_who_asked_and_which_zones_it_was_for() {
        let none = Counts::default();
        for (highest, counts) in [
            (ZoneKind::Dma, Counts { allocstall_dma: 1, ..none }),
            (ZoneKind::Dma32, Counts { allocstall_dma32: 1, ..none }),
            (ZoneKind::Normal, Counts { allocstall_normal: 1, ..none }),
            (ZoneKind::Movable, Counts { allocstall_movable: 1, ..none }),
        ] {
            assert_eq!(counted(Event::DirectReclaim { highest }), counts);
        }
        for (by, counts) in [
            (Reclaimer::Direct, Counts { pgsteal_direct: 3, pgscan_direct: 7, ..none }),
            (Reclaimer::Kswapd, Counts { pgsteal_kswapd: 3, pgscan_kswapd: 7, ..none }),
        ] {
            expect(Event::Reclaim { by, pages: 3, scanned: 7 }, counts);
        }
        expect(Event::KswapdRun { node: NodeId(0) }, Counts { pageoutrun: 1, ..none });
    }

    #[test]
    fn compaction_is_counted_by_who_compacts_and_how_it_ended() {
        let none = Counts::default();
        for (answer, counts) in [
            (Migrated::Moved, Counts { migrations: 1, ..none }),
            (Migrated::Refused, Counts { migrations_refused: 1, ..none }),
        ] {
            assert_eq!(counted(Event::Migrate { order: ORDER, answer }), counts);
        }
        expect(Event::KcompactdRun { node: NodeId(0) }, Counts { compact_daemon_wake: 1, ..none });
        let failed = Counts { compact_stall: 1, compact_fail: 1, ..none };
        for (result, counts) in [
            (CompactResult::Succeeded, Counts { compact_stall: 1, compact_success: 1, ..none }),
            (CompactResult::Failed, failed),
            (CompactResult::Deferred, Counts { compact_deferred: 1, ..failed }),
        ] {
            assert_eq!(counted(Event::CompactStall { result }), counts);
        }
        let direct = Counts { compact_migrate_scanned: 5, compact_free_scanned: 6, compact_isolated: 2, ..none };
        let daemon = Counts { compact_daemon_migrate_scanned: 5, compact_daemon_free_scanned: 6, ..direct };
        for (by, counts) in [(Compactor::Direct, direct), (Compactor::Kcompactd, daemon)] {
            expect(Event::CompactScan { zone: 0, by, migrate_scanned: 5, free_scanned: 6, isolated: 2 }, counts);
        }
    }

    #[test]
    fn counts_are_taken_apart_and_together() {
        let counters = Counters::<AtomicU64>::default();
        counters.report(Event::Drain { zone: 0, cpu: CpuId(0), pages: 5 });
        let earlier = counters.counts();
        counters.report(Event::Drain { zone: 0, cpu: CpuId(0), pages: 6 });
        let since = counters.counts().since(&earlier);
        assert_eq!(since, Counts { pcp_drains: 1, pcp_drain_pages: 6, ..Counts::default() });
        assert_eq!(earlier.plus(&since), counters.counts());
    }
}
