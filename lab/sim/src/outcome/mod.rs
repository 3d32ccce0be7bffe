//! What one run brought: operations, time by what it was spent on, what the engine counted, and what memory looks like.
//!
//! Everything in an [`Outcome`] is an integer. Rates are computed from these by the methods below, and nowhere else.

pub mod fragmentation;
pub mod tally;
pub mod vmstat;

use freehold::stats::Counts;

use fragmentation::Fragmentation;
use tally::Tally;
use vmstat::Vmstat;

/// Picoseconds in a minute.
const PS_PER_MINUTE: f64 = 60e12;

/// CPU time by what it was spent on within the window, in picoseconds, summed over all CPUs but for the last entry.
/// What began before or went on after counts with its part inside. What is missing to the whole was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Work that is not the allocator's.
    pub work: u64,
    /// Allocations and frees from and to filled lists, and lines that move to whoever uses a page.
    pub operations: u64,
    /// Cutting and merging on per-CPU lists.
    pub lists: u64,
    /// Pushing to stacks and taking them.
    pub stacks: u64,
    /// Holding zone locks.
    pub zone_hold: u64,
    /// Waiting for zone locks.
    pub zone_wait: u64,
    /// Fetching or awaiting locks of per-CPU lists.
    pub list_wait: u64,
    /// Looking for pages that can be freed or moved, freeing and moving them.
    pub reclaim: u64,
    /// All that kswapd, kcompactd and khugepaged did, on processors of their own: no part of the sum.
    pub background: u64,
}

impl Times {
    /// All of it.
    pub fn sum(&self) -> u64 {
        self.work + self.in_allocator()
    }

    /// What the allocator took.
    pub fn in_allocator(&self) -> u64 {
        self.operations + self.lists + self.stacks + self.zone_hold + self.zone_wait + self.list_wait + self.reclaim
    }
}

/// What one run brought.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Number of CPUs.
    pub cpus: u16,
    /// How long it was measured, in picoseconds.
    pub span: u64,
    /// What the CPUs did.
    pub tally: Tally,
    /// What the engine counted meanwhile.
    pub counts: Counts,
    /// What CPU time was spent on meanwhile; all zero on real threads.
    pub times: Times,
    /// What memory looked like at the end of the measured time.
    pub end: Fragmentation,
    /// The worst that was seen in every respect.
    pub worst: Fragmentation,
    /// What was counted meanwhile under the kernel's names, and what was there at the end; empty on real threads.
    pub vmstat: Vmstat,
    /// The same at each look at memory: since the measured time began, and what was there then.
    pub looks: Vec<Vmstat>,
}

impl Outcome {
    /// Operations in a second.
    pub fn throughput(&self) -> f64 {
        self.tally.operations() as f64 * 1e12 / self.span as f64
    }

    /// Share of CPU time spent waiting for zone locks, 0 to 1.
    pub fn zone_wait_share(&self) -> f64 {
        self.share(self.times.zone_wait)
    }

    /// Share of CPU time spent in the allocator, 0 to 1.
    pub fn allocator_share(&self) -> f64 {
        self.share(self.times.in_allocator())
    }

    /// Times a zone lock was taken in a thousand operations.
    pub fn acquisitions_per_1000(&self) -> f64 {
        self.per_1000(self.counts.zone_lock_acquisitions)
    }

    /// Nanoseconds that zone locks were held in a thousand operations.
    pub fn hold_ns_per_1000(&self) -> f64 {
        self.per_1000(self.times.zone_hold) / 1000.0
    }

    /// Pages moved each time a zone lock was taken.
    pub fn pages_per_acquisition(&self) -> f64 {
        ratio(self.counts.zone_lock_pages, self.counts.zone_lock_acquisitions)
    }

    /// Share of frees on another CPU than the allocation, 0 to 1.
    pub fn remote_free_share(&self) -> f64 {
        ratio(self.tally.remote_frees, self.tally.frees)
    }

    /// The latency that 99 % of allocations did not exceed, in nanoseconds.
    pub fn alloc_p99_ns(&self) -> f64 {
        self.tally.latency_at_permille(990) as f64 / 1000.0
    }

    /// So much time as a share of all CPUs' time, 0 to 1.
    pub fn share(&self, picoseconds: u64) -> f64 {
        picoseconds as f64 / (self.span as f64 * f64::from(self.cpus))
    }

    /// A counter under the kernel's name; 0 if the model does not have it.
    pub fn counted(&self, name: &str) -> u64 {
        self.vmstat.get(name).unwrap_or(0)
    }

    /// The same in a virtual minute.
    pub fn per_minute(&self, name: &str) -> f64 {
        self.counted(name) as f64 * PS_PER_MINUTE / self.span as f64
    }

    /// The same in 1000 operations.
    pub fn counted_per_1000(&self, name: &str) -> f64 {
        self.per_1000(self.counted(name))
    }

    fn per_1000(&self, count: u64) -> f64 {
        ratio(count, self.tally.operations()) * 1000.0
    }
}

/// A ratio; 0 where there is nothing to divide by.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
