//! Background tasks of a node: the state that kswapd and kcompactd keep between two calls of the platform.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::background::{Errand, Errands, Phase};
use crate::base::{Order, ZoneKind};

/// Failed runs after which kswapd gives up and leaves the node to direct reclaim. linux: MAX_RECLAIM_RETRIES
const FAILURES_MAX: u32 = 16;
/// The background tasks of a node.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kswapd: Kswapd,
    pub(super) kcompactd: Kcompactd,
}

/// State of a node's kswapd: its phase, its errands, and its run.
#[derive(Debug, Default)]
pub(super) struct Kswapd {
    pub(super) phase: Phase,
    pub(super) errands: Errands,
    /// Failed runs since the last event after which kswapd tries again (see [`Hope`](crate::policy::kswapd::Hope)).
    pub(super) failures: AtomicU32,
    pub(super) run: SavedRun,
}

impl Kswapd {
    /// Lets kswapd run again after it has given up, because pages were freed. linux: pg_data_t.kswapd_failures
    pub(super) fn clear_hopeless(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.phase.is_asleep()
    }

    /// Stores a phase number without any check.
    #[cfg(feature = "damage")]
    pub(super) fn plant_phase(&self, phase: u8) {
        self.phase.plant(phase);
    }

    /// Stores a packed word as the pending errand.
    #[cfg(feature = "damage")]
    pub(super) fn plant_errand(&self, word: u16) {
        self.errands.plant(word);
    }

    /// Returns whether kswapd has given up after too many failed runs. linux: MAX_RECLAIM_RETRIES
    pub(super) fn is_hopeless(&self) -> bool {
        self.failures.load(Relaxed) >= FAILURES_MAX
    }
}

/// State of a node's kcompactd: its phase, and its pending errand.
#[derive(Debug, Default)]
pub(super) struct Kcompactd {
    pub(super) phase: Phase,
    pub(super) errands: Errands,
    /// Ticks for which proactive compaction pauses, after a proactive run without progress.
    pub(super) ticks_left: AtomicU32,
}

/// Progress of a kswapd run between its passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KswapdRun {
    /// Order and zones that the run was started for.
    pub(super) errand: Errand,
    /// Order that the run still reclaims for.
    pub(super) order: Order,
    /// Priority of the next pass, from 12 down to 0.
    pub(super) priority: u8,
    /// Pages that the run has freed so far.
    pub(super) freed: u64,
    /// Boosted pages that remain to be reclaimed.
    pub(super) boost_left: u64,
    /// Boost of each zone when the run began, in pages.
    pub(super) boosts: [u64; ZoneKind::COUNT],
}

/// Storage for a run between two passes. Only the thread that drives kswapd reads and writes it. The transitions of the
/// phase order the accesses of successive drivers.
#[derive(Debug, Default)]
pub(super) struct SavedRun {
    /// Priority, order and errand, packed; 0 if there is no run.
    head: AtomicU32,
    /// One more than the highest zone of the last run; 0 before the first run.
    highest: AtomicU32,
    freed: AtomicU64,
    boost_left: AtomicU64,
    boosts: [AtomicU64; ZoneKind::COUNT],
}

impl SavedRun {
    pub(super) fn save(&self, run: &KswapdRun) {
        let KswapdRun { errand, order, priority, freed, boost_left, boosts } = *run;
        self.head.store(u32::from_be_bytes([priority, order.get(), errand.order.get(), errand.highest as u8]), Relaxed);
        self.freed.store(freed, Relaxed);
        self.boost_left.store(boost_left, Relaxed);
        self.boosts.iter().zip(boosts).for_each(|(kept, boost)| kept.store(boost, Relaxed));
    }

    pub(super) fn take(&self) -> Option<KswapdRun> {
        let [priority, order, wanted, highest] = self.head.swap(0, Relaxed).to_be_bytes();
        (priority > 0).then(|| KswapdRun {
            errand: Errand { order: Order::new(wanted), highest: ZoneKind::ALL[usize::from(highest)] },
            order: Order::new(order),
            priority,
            freed: self.freed.load(Relaxed),
            boost_left: self.boost_left.load(Relaxed),
            boosts: self.boosts.each_ref().map(|boost| boost.load(Relaxed)),
        })
    }

    /// Remembers the highest zone of the run.
    pub(super) fn end(&self, highest: ZoneKind) {
        self.highest.store(highest as u32 + 1, Relaxed);
    }

    /// Returns the highest zone of the last run, for a run without an errand.
    pub(super) fn highest(&self) -> ZoneKind {
        let last = self.highest.load(Relaxed).checked_sub(1);
        last.map_or(ZoneKind::Movable, |highest| ZoneKind::ALL[highest as usize])
    }
}
