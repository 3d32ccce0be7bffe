//! Operations of CPUs within the window, and the latency of allocations.

use std::fmt;

use freehold::base::Order;
use hdrhistogram::Histogram;

/// Smallest latency that the histogram resolves, in picoseconds.
const LATENCY_MIN: u64 = 10;
/// Largest latency that the histogram resolves: ten seconds, in picoseconds.
const LATENCY_MAX: u64 = 10_000_000_000_000;
/// Significant decimal digits of latencies, which means a precision of 1 %.
const LATENCY_DIGITS: u8 = 2;

/// Operations of one CPU, or of several.
#[derive(Clone)]
pub struct Tally {
    /// Number of allocation requests.
    pub allocs: u64,
    /// Number of allocation requests that failed.
    pub failures: u64,
    /// Pages of allocation requests that succeeded.
    pub allocated_pages: u64,
    /// Number of frees.
    pub frees: u64,
    /// Number of frees on another CPU than the allocation.
    pub remote_frees: u64,
    /// Pages freed.
    pub freed_pages: u64,
    latency: Histogram<u32>,
}

impl Tally {
    /// Returns the number of successful allocations and frees.
    pub fn operations(&self) -> u64 {
        self.allocs - self.failures + self.frees
    }

    /// Counts an allocation request.
    pub fn count_alloc(&mut self, order: Order, is_served: bool) {
        self.allocs += 1;
        if is_served {
            self.allocated_pages += u64::from(order.pages());
        } else {
            self.failures += 1;
        }
    }

    /// Records the latency of an allocation.
    pub fn time_alloc(&mut self, picoseconds: u64) {
        self.latency.saturating_record(picoseconds);
    }

    /// Counts a free.
    pub fn count_free(&mut self, order: Order, is_remote: bool) {
        self.frees += 1;
        self.remote_frees += u64::from(is_remote);
        self.freed_pages += u64::from(order.pages());
    }

    /// Adds the operations of another CPU.
    pub fn add(&mut self, other: &Tally) {
        self.allocs += other.allocs;
        self.failures += other.failures;
        self.allocated_pages += other.allocated_pages;
        self.frees += other.frees;
        self.remote_frees += other.remote_frees;
        self.freed_pages += other.freed_pages;
        self.latency.add(&other.latency).expect("both histograms have the same bounds");
    }

    /// Returns a quantile of the latency of timed allocations, in picoseconds, within 1 %. The quantile is given per
    /// mille.
    pub fn latency_at_permille(&self, permille: u64) -> u64 {
        self.latency.value_at_quantile(permille as f64 / 1000.0)
    }
}

impl Default for Tally {
    fn default() -> Tally {
        let latency = Histogram::new_with_bounds(LATENCY_MIN, LATENCY_MAX, LATENCY_DIGITS);
        Tally {
            allocs: 0,
            failures: 0,
            allocated_pages: 0,
            frees: 0,
            remote_frees: 0,
            freed_pages: 0,
            latency: latency.expect("the constant bounds are valid"),
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("allocs", &self.allocs).field("frees", &self.frees).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up() {
        let (mut sum, mut other) = (Tally::default(), Tally::default());
        sum.count_alloc(Order::ZERO, true);
        other.count_alloc(Order::new(3), true);
        other.count_alloc(Order::new(3), false);
        other.count_free(Order::new(3), true);
        sum.add(&other);
        assert_eq!((sum.operations(), sum.failures, sum.remote_frees), (3, 1, 1));
        assert_eq!((sum.allocated_pages, sum.freed_pages), (9, 8));
    }

    #[test]
    fn latency_percentiles_are_within_one_percent() {
        let mut tally = Tally::default();
        for nanoseconds in 1..=1000 {
            tally.time_alloc(nanoseconds * 1000);
        }
        for (permille, nanoseconds) in [(990, 990), (500, 500), (9, 9)] {
            let found = tally.latency_at_permille(permille);
            assert!(found.abs_diff(nanoseconds * 1000) <= nanoseconds * 10, "{permille}: {found} ps");
        }
    }
}
