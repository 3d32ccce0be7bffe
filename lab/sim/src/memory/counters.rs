//! What the model counts, under the names of `/proc/vmstat`; at the end what only Freehold counts.

use std::cell::Cell;

use crate::outcome::vmstat::Row;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that only go up.
        #[derive(Default)]
        pub(super) struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Names and values.
            pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
                [$((stringify!($name), self.$name.get())),*].into_iter()
            }
        }
    };
}

/// A number that goes up.
#[derive(Default)]
pub(super) struct Counter(Cell<u64>);

impl Counter {
    /// Raises it.
    #[inline]
    pub(super) fn add(&self, by: u64) {
        self.0.set(self.0.get() + by);
    }

    fn get(&self) -> u64 {
        self.0.get()
    }
}

counters! {
    /// Faults that brought a page or a huge page.
    pgfault,
    /// Pages of files that went to the active list.
    pgactivate,
    /// Pages that came down from it.
    pgdeactivate,
    /// Pages of the active list that were looked at.
    pgrefill,
    /// Pages that went to the tail once they were written.
    pgrotated,
    /// Objects that shrinkers looked at.
    slabs_scanned,
    /// Faults that brought a huge page.
    thp_fault_alloc,
    /// Faults that wanted one and took a small page.
    thp_fault_fallback,
    /// Huge pages that khugepaged got.
    thp_collapse_alloc,
    /// Those that it did not get.
    thp_collapse_alloc_failed,
    /// Pages that went out to be written because reclaim came to them. linux: nr_vmscan_write, which is no gauge
    vmscan_write,
    /// Blocks that would not move since a device uses them.
    refused_pinned,
    /// Those that were being written.
    refused_writeback,
    /// Those that somebody holds by their address, or that changed hands meanwhile.
    refused_held,
    /// High-priority requests of orders 1 to 3 that could not wait.
    atomic_order1_3,
    /// Those that failed.
    atomic_order1_3_failed,
    /// Such requests of higher orders.
    atomic_costly,
    /// Those that failed.
    atomic_costly_failed,
}
