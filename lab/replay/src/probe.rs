//! Probe of a replay: counters of all events, and a journal of the decisions about one request.
//!
//! Several requests can be under way at once, each on its own fiber. The platform therefore takes the journal of a
//! fiber that it suspends, and puts it back when the fiber continues.

use std::cell::{Cell, RefCell};

use freehold::platform::probe::Compactor;
use freehold::platform::{Event, Probe};
use freehold::stats::{Counters, Counts};
use rustc_hash::FxHashMap;

/// Counters and journal.
#[derive(Debug, Default)]
pub(crate) struct ReplayProbe {
    pub(crate) counters: Counters<Cell<u64>>,
    pub(crate) journal: Journal,
}

impl ReplayProbe {
    /// Reads all counters.
    pub(crate) fn counts(&self) -> Counts {
        self.counters.counts()
    }
}

impl Probe for ReplayProbe {
    #[inline]
    fn report(&self, event: Event) {
        self.counters.report(event);
        if let Event::TryToCompact { .. }
        | Event::CompactZone { by: Compactor::Direct, .. }
        | Event::DirectReclaimEnd { .. } = event
        {
            self.journal.note(event);
        }
    }
}

/// Events of compaction and reclaim by requests.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Events of the running request; `None` if no request is running.
    open: RefCell<Option<Vec<Event>>>,
    /// Events of answered requests, by the rows of the recorded requests. Requests without events are left out.
    closed: RefCell<FxHashMap<u64, Vec<Event>>>,
}

impl Journal {
    #[cold]
    fn note(&self, event: Event) {
        if let Some(events) = &mut *self.open.borrow_mut() {
            events.push(event);
        }
    }

    /// Starts the journal of a request.
    pub(crate) fn begin(&self) {
        self.resume(Some(Vec::new()));
    }

    /// Ends the journal of the running request, whose recorded event is at this row.
    pub(crate) fn end(&self, row: u64) {
        if let Some(events) = self.suspend().filter(|events| !events.is_empty()) {
            self.closed.borrow_mut().insert(row, events);
        }
    }

    /// Returns the journal of the running request, and removes it.
    pub(crate) fn suspend(&self) -> Option<Vec<Event>> {
        self.open.take()
    }

    /// Continues with the journal of another request.
    pub(crate) fn resume(&self, events: Option<Vec<Event>>) {
        self.open.replace(events);
    }

    /// Returns the events of an answered request, and removes them.
    pub(crate) fn take(&self, row: u64) -> Vec<Event> {
        let mut closed = self.closed.borrow_mut();
        if closed.is_empty() { Vec::new() } else { closed.remove(&row).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use freehold::base::Order;
    use freehold::platform::CompactEffort;
    use freehold::platform::probe::ZoneOutcome;

    use super::*;

    const BEGIN: Event = Event::TryToCompact { order: Order::COSTLY, effort: CompactEffort::Async };

    #[test]
    fn journals_of_two_requests_are_kept_apart() {
        let probe = ReplayProbe::default();
        probe.report(BEGIN);
        probe.journal.begin();
        probe.report(BEGIN);
        let first = probe.journal.suspend();
        probe.report(BEGIN);
        probe.journal.begin();
        probe.journal.end(8);
        probe.journal.resume(first);
        let zone = |by| Event::CompactZone { zone: 1, by, outcome: ZoneOutcome::Made };
        probe.report(zone(Compactor::Kcompactd));
        probe.report(zone(Compactor::Direct));
        probe.journal.end(7);
        assert_eq!(probe.journal.take(7), [BEGIN, zone(Compactor::Direct)]);
        assert_eq!([probe.journal.take(7), probe.journal.take(8)], [[]; 2], "taken, and without events");
    }
}
