//! What a kernel says of its memory: for a line at boot, a shell's `free`, an allocator's trait that asks for it.

use super::{Cpu, Kernel};

/// Pages at a moment, while others may be changing them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages that the allocator has: memory without what is reserved, and without metadata.
    pub managed: u64,
    /// Of these, free in their zones.
    pub free: u64,
    /// Of these, free on CPUs' lists, which any request may have that would fail without.
    pub cached: u64,
}

impl Stats {
    /// Pages that somebody has, the slab too.
    pub fn used(&self) -> u64 {
        self.managed.saturating_sub(self.free + self.cached)
    }
}

impl<H: Cpu> Kernel<H> {
    /// What there is of pages now; nothing before [`init`](Self::init). Takes the lock of each CPU's lists.
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
