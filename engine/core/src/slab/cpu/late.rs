//! Sections for tests of one thread, in which something had begun on a CPU: it ends when somebody waits for that CPU.

use core::fmt;

use super::FenceOutcome;
use super::section::Sections;
use crate::base::CpuId;
use crate::platform::host::current_cpu;

/// CPUs that the sections run on.
pub(in crate::slab) const CPUS: u16 = 2;

/// The sections.
#[derive(Clone, Copy)]
pub(in crate::slab) struct LateSections<'a> {
    /// Ends what had begun on a CPU.
    pub end: &'a dyn Fn(CpuId),
}

impl fmt::Debug for LateSections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateSections")
    }
}

// SAFETY: used by one thread only.
unsafe impl Sync for LateSections<'_> {}

// SAFETY: one thread, so one section at a time but for what had begun, which ends in `fence`.
unsafe impl Sections for LateSections<'_> {
    type Section<'a>
        = ()
    where
        Self: 'a;

    fn cpus(&self) -> u16 {
        CPUS
    }

    fn cpu(&self) -> CpuId {
        current_cpu()
    }

    fn enter(&self) -> (CpuId, ()) {
        (current_cpu(), ())
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        (self.end)(cpu);
        FenceOutcome::Ended
    }
}
