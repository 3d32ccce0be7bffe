//! Event counters: a probe that counts what the engine did.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::platform::{Event, Migrated, Probe};

/// A number that goes up.
pub trait Counter: Default {
    /// Raises it.
    fn add(&self, by: u64);
    /// Reads it.
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

        /// Their values at one moment.
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
    /// Times a zone lock was taken.
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
    /// Times a stack was taken.
    stack_takes,
    /// Pageblocks of another type taken over.
    fallback_claims,
    /// Blocks taken from another type's pageblock.
    fallback_steals,
    /// Times a watermark was boosted.
    boosts,
    /// Pageblocks that joined the high-atomic reserve.
    reserves,
    /// Pageblocks that left it.
    unreserves,
    /// Times a CPU found its own list locked.
    trylock_failures,
    /// Frames taken out of use.
    withheld,
    /// Blocks that the platform moved out of the way.
    migrations,
    /// Blocks that it would not move.
    migrations_refused,
    /// Requests that failed.
    failures,
}

impl<C: Counter> Probe for Counters<C> {
    #[inline]
    fn report(&self, event: Event) {
        let add = |counter: &C, by: u32| counter.add(u64::from(by));
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
            Event::Failed { .. } => add(&self.failures, 1),
        }
    }
}
