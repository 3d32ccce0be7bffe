//! How long blocks live, by order.
//!
//! Lifetimes go into histograms with two significant digits (a few kilobytes an order), from which the
//! quantiles are read. Quantiles speak of the blocks that died within the recording; those still
//! alive at its end are counted beside them, since leaving them out silently would make memory look short-lived.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Orders that get a row of their own; larger ones share the last.
pub(crate) const ORDERS: usize = 12;

/// Index of an order's row.
pub(crate) fn order_index(order: u8) -> usize {
    usize::from(order).min(ORDERS - 1)
}

/// Returns `part / whole`; zero for an empty whole.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Lifetimes of blocks of one order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LifetimeRow {
    /// The order.
    pub order: u8,
    /// Blocks allocated and freed within the recording.
    pub freed: u64,
    /// Half of those lived no longer than this, in nanoseconds.
    pub median_ns: u64,
    /// Nine in ten lived no longer than this.
    pub p90_ns: u64,
    /// Ninety-nine in a hundred lived no longer than this.
    pub p99_ns: u64,
    /// Blocks allocated within the recording and alive at its end.
    pub live_at_end: u64,
    /// `live_at_end` over all blocks allocated within the recording.
    pub live_share: f64,
}

/// Collects lifetimes.
#[derive(Debug)]
pub(crate) struct Lifetimes {
    histograms: Vec<Histogram<u64>>,
    live: [u64; ORDERS],
}

impl Lifetimes {
    /// Nothing collected yet.
    pub(crate) fn new() -> Lifetimes {
        let histogram = Histogram::new(2).expect("two significant digits are supported");
        Lifetimes { histograms: vec![histogram; ORDERS], live: [0; ORDERS] }
    }

    /// A block of `order` died at the age of `age_ns`.
    #[inline]
    pub(crate) fn died(&mut self, order: u8, age_ns: u64) {
        // The histogram starts at 1 ns and grows by itself.
        self.histograms[order_index(order)] += age_ns.max(1);
    }

    /// A block of `order` was alive at the end.
    pub(crate) fn survived(&mut self, order: u8) {
        self.live[order_index(order)] += 1;
    }

    /// One row for each order that occurred.
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
    fn absurd_orders_and_ages_are_not_a_crash() {
        let mut lifetimes = Lifetimes::new();
        lifetimes.died(63, u64::MAX);
        lifetimes.died(0, 0);
        assert_eq!(lifetimes.rows().len(), 2);
    }
}
