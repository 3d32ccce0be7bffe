//! Page counts of a kernel: for a boot message, for a shell's `free`, or for an allocator trait that reports usage.

use super::{Cpu, Kernel};

/// Page counts at one moment; they may be changing meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages that the allocator manages: all memory without reserved pages and metadata.
    pub managed: u64,
    /// Managed pages that are free in their zones.
    pub free: u64,
    /// Managed pages on the per-CPU lists. They are free: a request that would fail otherwise may take any of them.
    pub cached: u64,
}

impl Stats {
    /// Returns the pages in use, including the slab's.
    pub fn used(&self) -> u64 {
        self.managed.saturating_sub(self.free + self.cached)
    }
}

impl<H: Cpu> Kernel<H> {
    /// Returns the current page counts; all 0 before [`init`](Self::init). Takes the lock of each CPU's page lists.
    pub fn stats(&'static self) -> Stats {
        let mut stats = Stats::default();
        let Some(engine) = self.engine() else { return stats };
        for zone in engine.pages.zones().iter().filter(|zone| zone.is_populated()) {
            stats.managed += zone.managed();
            stats.free += zone.free_pages();
            for cpu in engine.pages.cpu_ids() {
                let pcp = engine.pages.pcp(cpu, zone);
                stats.cached += u64::from(pcp.inspect(|lists| lists.count()) + pcp.waiting());
            }
        }
        stats
    }
}
