//! Divergence of a replay from the recorded kernel: a few counts of both, at the times of the recorded samples.
//!
//! Free memory is the amount at that time. Stalls and scanned pages are counted from the first sample on.

use freehold::base::Order;
use freehold::stats::Counts;
use freehold_trace::facts::{Facts, Sample};

use super::counts::{STALLS, free_blocks, pages_from, stalls, vmstat_until};
use super::{Engine, HUGE};
use crate::report::course::{Divergence, Pair};

/// Recorder of the divergence while a replay runs.
#[derive(Debug)]
pub(crate) struct Line<'f> {
    facts: &'f Facts,
    /// Number of the next sample.
    next: usize,
    moments: Vec<Divergence>,
}

impl<'f> Line<'f> {
    /// Creates the recorder, before the first event. The first sample is the common start of both, so the first
    /// comparison is at the second.
    pub(crate) fn new(facts: &'f Facts) -> Line<'f> {
        Line { facts, next: 1, moments: Vec::new() }
    }

    /// Returns the time of the next sample; `u64::MAX` after the last.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        self.facts.samples.get(self.next).map_or(u64::MAX, |sample| sample.time)
    }

    /// Compares the engine with the next sample. Must be called when the replay has reached the sample's time.
    pub(crate) fn take(&mut self, engine: &Engine<'_>, counts: &Counts) {
        let now = &self.facts.samples[self.next];
        self.next += 1;
        let [free_pages, huge] = [Order::ZERO, Order::new(HUGE)].map(|from| {
            let recorded = pages_from(from, |order| recorded_free(now, order));
            Pair::new(recorded, pages_from(from, |order| free_blocks(engine, order)))
        });
        self.moments.push(Divergence {
            time: now.time,
            free_pages,
            free_pageblocks: Pair::new(huge.recorded >> HUGE, huge.replayed >> HUGE),
            stalls: Pair::new(self.vmstat_sum(now, &STALLS), stalls(counts)),
            scanned_by_kswapd: Pair::new(self.vmstat_sum(now, &["pgscan_kswapd"]), counts.pgscan_kswapd),
            scanned_by_requests: Pair::new(self.vmstat_sum(now, &["pgscan_direct"]), counts.pgscan_direct),
            compact_stalls: Pair::new(self.vmstat_sum(now, &["compact_stall"]), counts.compact_stall),
        });
    }

    /// Returns the sum of the increases of these counters of `/proc/vmstat` up to a sample.
    fn vmstat_sum(&self, sample: &Sample, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| vmstat_until(self.facts, sample, name)).sum()
    }

    /// Returns all comparisons so far, and removes them from the recorder.
    pub(crate) fn take_all(&mut self) -> Vec<Divergence> {
        std::mem::take(&mut self.moments)
    }
}

/// Returns the number of free blocks of `order` in a sample, over all zones.
fn recorded_free(sample: &Sample, order: Order) -> u64 {
    sample.buddyinfo.iter().map(|blocks| blocks.get(order.index()).copied().unwrap_or(0)).sum()
}
