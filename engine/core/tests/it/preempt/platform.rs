//! Platform of threads that migrate between CPUs: each lock and each event may preempt, and the CPU number may change
//! between two reads.

use freehold::base::CpuId;
use freehold::platform::{Event, Platform, Probe};
use freehold::stats::{Counters, Counts};

use crate::common::locks::PreemptedLock;
use crate::common::random_events;

/// Platform of threads without a fixed CPU.
pub(super) struct Floating {
    cpus: u16,
    probe: Interrupting,
}

/// Probe that counts events and may preempt the thread that reports one. Most events are reported while locks are held.
#[derive(Default)]
pub(super) struct Interrupting(Counters);

impl Floating {
    /// Creates the platform with `cpus` CPUs.
    pub(super) fn new(cpus: u16) -> Floating {
        Floating { cpus, probe: Interrupting::default() }
    }

    /// Returns the counts of the engine's events.
    pub(super) fn counts(&self) -> Counts {
        self.probe.0.counts()
    }
}

impl Platform for Floating {
    type Lock = PreemptedLock;
    type Probe = Interrupting;

    fn probe(&self) -> &Interrupting {
        &self.probe
    }

    fn cpu(&self) -> CpuId {
        random_events::cpu(self.cpus)
    }
}

impl Probe for Interrupting {
    fn report(&self, event: Event) {
        self.0.report(event);
        random_events::perhaps_preempt();
    }
}
