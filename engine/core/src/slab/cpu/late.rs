//! Sections for single-threaded tests in which a section has begun on a CPU and ends only when another CPU fences that
//! CPU.

use core::fmt;

use super::FenceOutcome;
use super::section::Sections;
use crate::base::CpuId;
use crate::platform::host::current_cpu;

/// Number of CPUs that the sections run on.
pub(in crate::slab) const CPUS: u16 = 2;

/// Sections whose pending part is completed by a fence, unless the CPU does not answer it.
#[derive(Clone, Copy)]
pub(in crate::slab) struct LateSections<'a> {
    /// Completes the section that has begun on a CPU, and returns the result of the fence.
    pub end: &'a dyn Fn(CpuId) -> FenceOutcome,
}

impl fmt::Debug for LateSections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateSections")
    }
}

// SAFETY: each test uses the value on one thread only, so it is never shared.
unsafe impl Sync for LateSections<'_> {}

// SAFETY: the tests have one thread, so sections cannot overlap, except for the pending one, which `fence` completes.
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
        (self.end)(cpu)
    }
}
