//! Event counters: a probe that counts the actions of the engine.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::{Order, ZoneKind};
use crate::platform::probe::{Compactor, ServedFrom};
use crate::platform::{CompactResult, Event, Migrated, Probe, Reclaimer};

/// A monotonic counter, atomic or plain.
pub trait Counter: Default {
    /// Adds to the counter.
    fn add(&self, by: u64);
    /// Returns the current value.
    fn get(&self) -> u64;
}

/// A counter for any number of threads.
impl Counter for AtomicU64 {
    #[inline]
    fn add(&self, by: u64) {
        self.fetch_add(by, Relaxed);
    }

    fn get(&self) -> u64 {
        self.load(Relaxed)
    }
}

/// A counter for one thread, at the cost of an addition.
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
        /// Counters of all events, for one thread or for many, depending on the counter type.
        #[derive(Debug, Default)]
        pub struct Counters<C = AtomicU64> {
            $($(#[$doc])* pub $name: C,)*
        }

        /// Values of all counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl<C: Counter> Counters<C> {
            /// Reads all counters, one after the other. The result is consistent only while nothing else runs.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl Counts {
            /// Returns the difference to an earlier reading.
            pub fn since(&self, earlier: &Counts) -> Counts {
                Counts { $($name: self.$name - earlier.$name,)* }
            }

            /// Returns the sum of two readings.
            pub fn plus(&self, other: &Counts) -> Counts {
                Counts { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

counters! {
    /// Number of holds of zone locks. Short ones, such as for an inspection or to start and end a capture, are not
    /// counted.
    zone_lock_acquisitions,
    /// Pages moved to or from free lists under zone locks.
    zone_lock_pages,
    /// Insertions into free lists and removals from them.
    zone_lock_links,
    /// Blocks that left the free lists of the requested type, for requests and per-CPU lists.
    zone_locked_blocks,
    /// Number of refills of per-CPU lists.
    pcp_refills,
    /// Blocks that these refills brought.
    pcp_refill_blocks,
    /// Number of drains of per-CPU lists.
    pcp_drains,
    /// Blocks that these drains, and stacks that were freed to the zone, returned to the zone.
    pcp_drain_blocks,
    /// Pages that these drains returned.
    pcp_drain_pages,
    /// Parts that were split off blocks of per-CPU lists, besides the requested ones.
    pcp_split_blocks,
    /// Blocks of per-CPU lists that were merged before they were returned.
    pcp_merge_blocks,
    /// Blocks pushed onto their owners' stacks.
    stack_pushes,
    /// Number of times that a stack was emptied.
    stack_takes,
    /// Fallbacks by claim.
    fallback_claims,
    /// Fallbacks by steal.
    fallback_steals,
    /// Number of watermark boosts.
    boosts,
    /// Number of times that a pageblock, or the pageblocks of one block, joined the high-atomic reserve.
    reserves,
    /// Number of times that a pageblock, or the pageblocks of one block, left the high-atomic reserve.
    unreserves,
    /// Number of times that a CPU found its own list, or the list to which it freed a block, locked.
    trylock_failures,
    /// Frames that were taken out of use permanently.
    withheld,
    /// Blocks that the platform migrated.
    migrations,
    /// Blocks that the platform refused to migrate.
    migrations_refused,
    /// High-atomic requests served from per-CPU lists.
    highatomic_from_list,
    /// High-atomic requests served from the reserve.
    highatomic_from_reserve,
    /// High-atomic requests served from other free lists.
    highatomic_from_ordinary,
    /// Direct reclaims of requests that may use no zone above DMA.
    allocstall_dma,
    /// Direct reclaims of requests that may use no zone above DMA32.
    allocstall_dma32,
    /// Direct reclaims of requests that may use no zone above Normal.
    allocstall_normal,
    /// Direct reclaims of requests that may use every zone.
    allocstall_movable,
    /// Direct reclaims for orders above 3 that scanned nothing, since every zone was ready for compaction.
    reclaims_costly_ready,
    /// Other direct reclaims for orders above 3.
    reclaims_costly,
    /// Direct reclaims for orders 0 to 3.
    reclaims_small,
    /// Pages that the platform scanned in direct reclaim for orders above 3.
    pgscan_costly,
    /// Pages that the platform scanned in direct reclaim for orders 0 to 3.
    pgscan_small,
    /// Pages that the platform freed in direct reclaim for orders above 3.
    pgsteal_costly,
    /// Pages that the platform freed in direct reclaim for orders 0 to 3.
    pgsteal_small,
    /// Pages that the platform scanned for kswapd.
    pgscan_kswapd,
    /// Pages that the platform scanned in direct reclaim.
    pgscan_direct,
    /// Pages that the platform freed for kswapd.
    pgsteal_kswapd,
    /// Pages that the platform freed in direct reclaim.
    pgsteal_direct,
    /// Number of times that kswapd began to balance a node.
    pageoutrun,
    /// Direct compactions that were not skipped and not, under `compaction.deferred=leave`, deferred.
    compact_stall,
    /// Direct compactions after which the request got its block.
    compact_success,
    /// Direct compactions after which the request did not get its block.
    compact_fail,
    /// Failed direct compactions that were deferred because of recent failures.
    compact_deferred,
    /// Frames scanned by the migrate scanner.
    compact_migrate_scanned,
    /// Frames scanned by the free scanner.
    compact_free_scanned,
    /// Pages isolated by compaction, as sources or as targets.
    compact_isolated,
    /// Number of times that kcompactd began to work for a request or kswapd.
    compact_daemon_wake,
    /// Frames scanned by kcompactd's migrate scanner.
    compact_daemon_migrate_scanned,
    /// Frames scanned by kcompactd's free scanner.
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
            Event::DirectReclaimEnd { order, pages, scanned } => self.count_direct(order, pages, scanned),
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
            Event::TryToCompact { .. } | Event::CompactZone { .. } => {}
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

    fn count_direct(&self, order: Order, pages: u64, scanned: u64) {
        let (reclaims, scan, steal) = match (order > Order::COSTLY, scanned + pages) {
            (true, 0) => (&self.reclaims_costly_ready, &self.pgscan_costly, &self.pgsteal_costly),
            (true, _) => (&self.reclaims_costly, &self.pgscan_costly, &self.pgsteal_costly),
            (false, _) => (&self.reclaims_small, &self.pgscan_small, &self.pgsteal_small),
        };
        add(reclaims, 1);
        scan.add(scanned);
        steal.add(pages);
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
    use crate::base::{CpuId, MigrateType, NodeId, Pfn};
    use crate::platform::Promise;

    const ORDER: Order = Order::ZERO;
    const PFN: Pfn = Pfn::new(0);
    const TYPE: MigrateType = MigrateType::Movable;

    /// Returns the counts of a single event.
    fn counted(event: Event) -> Counts {
        let counters = Counters::<Cell<u64>>::default();
        counters.report(event);
        counters.counts()
    }

    fn expect(event: Event, counts: Counts) {
        assert_eq!(counted(event), counts, "{event:?}");
    }

    #[test]
    fn list_and_zone_transfers_count_blocks_and_pages() {
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
    fn fallback_and_reserve_events_are_counted_once() {
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
    fn reclaim_is_counted_by_reclaimer_and_highest_zone() {
        let none = Counts::default();
        for (highest, counts) in [
            (ZoneKind::Dma, Counts { allocstall_dma: 1, ..none }),
            (ZoneKind::Dma32, Counts { allocstall_dma32: 1, ..none }),
            (ZoneKind::Normal, Counts { allocstall_normal: 1, ..none }),
            (ZoneKind::Movable, Counts { allocstall_movable: 1, ..none }),
        ] {
            assert_eq!(counted(Event::DirectReclaim { highest }), counts);
        }
        for (order, pages, scanned, counts) in [
            (9, 0, 0, Counts { reclaims_costly_ready: 1, ..none }),
            (4, 3, 7, Counts { reclaims_costly: 1, pgscan_costly: 7, pgsteal_costly: 3, ..none }),
            (3, 3, 7, Counts { reclaims_small: 1, pgscan_small: 7, pgsteal_small: 3, ..none }),
            (0, 0, 0, Counts { reclaims_small: 1, ..none }),
        ] {
            expect(Event::DirectReclaimEnd { order: Order::new(order), pages, scanned }, counts);
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
    fn compaction_is_counted_by_compactor_and_result() {
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
    fn since_and_plus_subtract_and_add_counts() {
        let counters = Counters::<AtomicU64>::default();
        counters.report(Event::Drain { zone: 0, cpu: CpuId(0), pages: 5 });
        let earlier = counters.counts();
        counters.report(Event::Drain { zone: 0, cpu: CpuId(0), pages: 6 });
        let since = counters.counts().since(&earlier);
        assert_eq!(since, Counts { pcp_drains: 1, pcp_drain_pages: 6, ..Counts::default() });
        assert_eq!(earlier.plus(&since), counters.counts());
    }
}
