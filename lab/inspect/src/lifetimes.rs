//! Lifetimes of blocks, by order.
//!
//! Lifetimes are collected in histograms with two significant digits, a few kilobytes for each order, from which the
//! quantiles are read. Quantiles cover only the blocks that were freed within the recording. Blocks that are still live
//! at the end are counted separately, because leaving them out would make memory look shorter-lived than it is.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Number of orders with a separate row; larger orders share the last row.
pub(crate) const ORDERS: usize = 12;

/// Returns the row index of an order.
pub(crate) fn order_index(order: u8) -> usize {
    usize::from(order).min(ORDERS - 1)
}

/// Returns `part / whole`; zero if `whole` is zero.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Lifetimes of blocks of one order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LifetimeRow {
    /// Order; the last row also contains larger orders.
    pub order: u8,
    /// Blocks allocated and freed within the recording.
    pub freed: u64,
    /// Median lifetime of these blocks, in nanoseconds.
    pub median_ns: u64,
    /// 90th percentile of the lifetime, in nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile of the lifetime, in nanoseconds.
    pub p99_ns: u64,
    /// Blocks allocated within the recording and live at its end.
    pub live_at_end: u64,
    /// `live_at_end` divided by all blocks allocated within the recording.
    pub live_share: f64,
}

/// Collector of lifetimes.
#[derive(Debug)]
pub(crate) struct Lifetimes {
    histograms: Vec<Histogram<u64>>,
    live: [u64; ORDERS],
}

impl Lifetimes {
    /// Creates an empty collector.
    pub(crate) fn new() -> Lifetimes {
        let histogram = Histogram::new(2).expect("a histogram with two significant digits is valid");
        Lifetimes { histograms: vec![histogram; ORDERS], live: [0; ORDERS] }
    }

    /// Adds a block of `order` that was freed at an age of `age_ns`.
    #[inline]
    pub(crate) fn died(&mut self, order: u8, age_ns: u64) {
        // The smallest value of the histogram is 1 ns; its range grows automatically.
        self.histograms[order_index(order)] += age_ns.max(1);
    }

    /// Adds a block of `order` that was live at the end.
    pub(crate) fn survived(&mut self, order: u8) {
        self.live[order_index(order)] += 1;
    }

    /// Returns a row for each order that occurred.
    pub(crate) fn rows(&self) -> Vec<LifetimeRow> {
        (0..ORDERS).filter_map(|index| self.row(index)).collect()
    }

    fn row(&self, index: usize) -> Option<LifetimeRow> {
        let histogram = &self.histograms[index];
        let (freed, live_at_end) = (histogram.len(), self.live[index]);
        let allocated = freed + live_at_end;
        (allocated > 0).then(|| LifetimeRow {
            order: index as u8,
            freed,
            median_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            live_at_end,
            live_share: share(live_at_end, allocated),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut lifetimes = Lifetimes::new();
        for age in 1..=1000 {
            lifetimes.died(3, age * 1000);
        }
        lifetimes.survived(3);
        let rows = lifetimes.rows();
        assert_eq!(rows.len(), 1);
        let LifetimeRow { median_ns, p90_ns, p99_ns, .. } = rows[0];
        for (found, exact) in [(median_ns, 500_000.0), (p90_ns, 900_000.0), (p99_ns, 990_000.0)] {
            assert!((found as f64 / exact - 1.0).abs() < 0.01, "{rows:?}");
        }
        assert_eq!((rows[0].order, rows[0].freed, rows[0].live_at_end), (3, 1000, 1));
    }

    #[test]
    fn extreme_orders_and_ages_never_panic() {
        let mut lifetimes = Lifetimes::new();
        lifetimes.died(63, u64::MAX);
        lifetimes.died(0, 0);
        assert_eq!(lifetimes.rows().len(), 2);
    }
}
