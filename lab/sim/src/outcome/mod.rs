//! Outcome of one run: operations, CPU time by activity, counters of the engine, and the state of memory.
//!
//! All values in an [`Outcome`] are integers. Rates are computed only by its methods.

pub mod fragmentation;
pub mod tally;
pub mod vmstat;

use freehold::stats::Counts;

use fragmentation::Fragmentation;
use tally::Tally;
use vmstat::Vmstat;

/// Picoseconds in a minute.
const PS_PER_MINUTE: f64 = 60e12;

/// CPU time by activity within the window, in picoseconds, summed over all CPUs; `background` is separate. An activity
/// that began before the window or ended after it counts with its part inside. The rest of the time was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Work outside the allocator.
    pub work: u64,
    /// Allocations from filled lists and frees to lists with room, and transfers of cache lines to the CPU that uses a
    /// page.
    pub operations: u64,
    /// Splitting and merging blocks on per-CPU lists.
    pub lists: u64,
    /// Pushing to stacks and taking them.
    pub stacks: u64,
    /// Holding zone locks.
    pub zone_hold: u64,
    /// Waiting for zone locks.
    pub zone_wait: u64,
    /// Acquiring locks of per-CPU lists that another CPU had last, including the wait.
    pub list_wait: u64,
    /// Reclaim and compaction: scanning, freeing and moving pages.
    pub reclaim: u64,
    /// Work of kswapd, kcompactd and khugepaged, on separate processors. Not part of the sum.
    pub background: u64,
}

impl Times {
    /// Returns the sum of all activities.
    pub fn sum(&self) -> u64 {
        self.work + self.in_allocator()
    }

    /// Returns the time in the allocator.
    pub fn in_allocator(&self) -> u64 {
        self.operations + self.lists + self.stacks + self.zone_hold + self.zone_wait + self.list_wait + self.reclaim
    }
}

/// Outcome of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Number of CPUs.
    pub cpus: u16,
    /// Length of the measured time, in picoseconds.
    pub span: u64,
    /// Operations of the CPUs.
    pub tally: Tally,
    /// Counters of the engine over the measured time.
    pub counts: Counts,
    /// CPU time by activity over the measured time; all zero on real threads.
    pub times: Times,
    /// State of memory at the end of the measured time.
    pub end: Fragmentation,
    /// Worst value of each field in any sample of memory.
    pub worst: Fragmentation,
    /// Counters over the measured time under the kernel's names, and gauges at its end; empty on real threads.
    pub vmstat: Vmstat,
    /// Counters and gauges at each sample of memory; counters are relative to the begin of the measured time.
    pub looks: Vec<Vmstat>,
}

impl Outcome {
    /// Returns the operations per second.
    pub fn throughput(&self) -> f64 {
        self.tally.operations() as f64 * 1e12 / self.span as f64
    }

    /// Returns the share of CPU time spent waiting for zone locks, 0 to 1.
    pub fn zone_wait_share(&self) -> f64 {
        self.share(self.times.zone_wait)
    }

    /// Returns the share of CPU time spent in the allocator, 0 to 1.
    pub fn allocator_share(&self) -> f64 {
        self.share(self.times.in_allocator())
    }

    /// Returns the zone lock acquisitions per thousand operations.
    pub fn acquisitions_per_1000(&self) -> f64 {
        self.per_1000(self.counts.zone_lock_acquisitions)
    }

    /// Returns the nanoseconds for which zone locks were held, per thousand operations.
    pub fn hold_ns_per_1000(&self) -> f64 {
        self.per_1000(self.times.zone_hold) / 1000.0
    }

    /// Returns the pages moved per zone lock acquisition.
    pub fn pages_per_acquisition(&self) -> f64 {
        ratio(self.counts.zone_lock_pages, self.counts.zone_lock_acquisitions)
    }

    /// Returns the share of frees on another CPU than the allocation, 0 to 1.
    pub fn remote_free_share(&self) -> f64 {
        ratio(self.tally.remote_frees, self.tally.frees)
    }

    /// Returns the 99th percentile of the latency of allocations, in nanoseconds.
    pub fn alloc_p99_ns(&self) -> f64 {
        self.tally.latency_at_permille(990) as f64 / 1000.0
    }

    /// Returns a time as a share of the time of all CPUs, 0 to 1.
    pub fn share(&self, picoseconds: u64) -> f64 {
        picoseconds as f64 / (self.span as f64 * f64::from(self.cpus))
    }

    /// Returns a counter by the kernel's name; 0 if the model does not have it.
    pub fn counted(&self, name: &str) -> u64 {
        self.vmstat.get(name).unwrap_or(0)
    }

    /// Returns a counter per virtual minute.
    pub fn per_minute(&self, name: &str) -> f64 {
        self.counted(name) as f64 * PS_PER_MINUTE / self.span as f64
    }

    /// Returns a counter per 1000 operations.
    pub fn counted_per_1000(&self, name: &str) -> f64 {
        self.per_1000(self.counted(name))
    }

    fn per_1000(&self, count: u64) -> f64 {
        ratio(count, self.tally.operations()) * 1000.0
    }
}

/// Returns a ratio; 0 if the denominator is zero.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
