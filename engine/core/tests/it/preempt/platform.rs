//! The platform of threads that are nowhere for long: any lock may preempt, any event may, and the CPU's number changes
//! between two looks.

use freehold::base::CpuId;
use freehold::platform::{Event, Platform, Probe};
use freehold::stats::{Counters, Counts};

use crate::common::locks::PreemptedLock;
use crate::common::luck;

/// Threads that float.
pub(super) struct Floating {
    cpus: u16,
    probe: Interrupting,
}

/// Counts, and preempts the CPU that reports an event: most are reported with locks held.
#[derive(Default)]
pub(super) struct Interrupting(Counters);

impl Floating {
    /// On so many CPUs.
    pub(super) fn new(cpus: u16) -> Floating {
        Floating { cpus, probe: Interrupting::default() }
    }

    /// What the engine did.
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
        luck::cpu(self.cpus)
    }
}

impl Probe for Interrupting {
    fn report(&self, event: Event) {
        self.0.report(event);
        luck::perhaps_preempt();
    }
}
