//! Counters of the model, under the names of `/proc/vmstat`. The last ones exist only in Freehold.

use std::cell::Cell;

use crate::outcome::vmstat::Row;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that only increase.
        #[derive(Default)]
        pub(super) struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Returns names and values.
            pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
                [$((stringify!($name), self.$name.get())),*].into_iter()
            }
        }
    };
}

/// A counter that only increases.
#[derive(Default)]
pub(super) struct Counter(Cell<u64>);

impl Counter {
    /// Adds to the counter.
    #[inline]
    pub(super) fn add(&self, by: u64) {
        self.0.set(self.0.get() + by);
    }

    fn get(&self) -> u64 {
        self.0.get()
    }
}

counters! {
    /// Faults on pages that were absent, including faults that failed.
    pgfault,
    /// Pages of files that moved to the active list.
    pgactivate,
    /// Blocks that moved from the active to the inactive list.
    pgdeactivate,
    /// Blocks of the active list that were to be scanned.
    pgrefill,
    /// Blocks that moved to the tail of the inactive list after writeback.
    pgrotated,
    /// Objects that shrinkers scanned.
    slabs_scanned,
    /// Faults that allocated a huge page.
    thp_fault_alloc,
    /// Faults whose request for a huge page failed, so that they requested a small page.
    thp_fault_fallback,
    /// Huge pages that khugepaged allocated.
    thp_collapse_alloc,
    /// Failed allocations of huge pages by khugepaged.
    thp_collapse_alloc_failed,
    /// Blocks that reclaim wrote back. linux: nr_vmscan_write, which is a counter and not a gauge
    vmscan_write,
    /// Blocks that were not moved because a device uses them.
    refused_pinned,
    /// Blocks that were not moved because they were under writeback.
    refused_writeback,
    /// Blocks that were not moved because their holder refers to them by address, or because their owner changed
    /// meanwhile.
    refused_held,
    /// High-priority requests of orders 1 to 3 that could not wait.
    atomic_order1_3,
    /// Failed requests among those of orders 1 to 3.
    atomic_order1_3_failed,
    /// High-priority requests of higher orders that could not wait.
    atomic_costly,
    /// Failed requests among those of higher orders.
    atomic_costly_failed,
}
