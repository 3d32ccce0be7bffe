//! Damage to what a CPU has for a zone: its lists, its stack, and the pageblocks that it owns in part.

use super::Damage;
use crate::base::{CpuId, MigrateType, Pfn};
use crate::page::zone::Zone;
use crate::platform::Platform;

impl<P: Platform> Damage<'_, '_, P> {
    /// Writes how many pages a CPU's lists count.
    pub fn set_count(&self, cpu: CpuId, zone: &Zone<P::Lock>, pages: u32) {
        self.0.pcp_at(cpu, zone).lock().plant().count = pages;
    }

    /// Writes the limit of a CPU's lists of a zone, in pages.
    pub fn set_limit(&self, cpu: CpuId, zone: &Zone<P::Lock>, pages: u32) {
        self.0.pcp_at(cpu, zone).lock().plant().high = pages;
    }

    /// Writes the ends of one of them.
    pub fn set_pcp_list(&self, cpu: CpuId, zone: &Zone<P::Lock>, index: usize, first: Option<Pfn>, last: Option<Pfn>) {
        self.0.pcp_at(cpu, zone).lock().plant_list(index).plant_ends(first, last);
    }

    /// The first block on a CPU's stack.
    pub fn stack(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> Option<Pfn> {
        self.0.pcp_at(cpu, zone).stack().first()
    }

    /// Writes the first block of a CPU's stack, and the pages that it counts; it is open then.
    pub fn set_stack(&self, cpu: CpuId, zone: &Zone<P::Lock>, first: Option<Pfn>, pages: u32) {
        self.0.pcp_at(cpu, zone).stack().plant(first, pages);
    }

    /// Writes how many pages may wait there.
    pub fn set_home_limit(&self, cpu: CpuId, zone: &Zone<P::Lock>, pages: u32) {
        self.0.pcp_at(cpu, zone).plant_limit(pages);
    }

    /// Writes the ends of the list of pageblocks that a CPU owns in part.
    pub fn set_fragments(
        &self,
        cpu: CpuId,
        zone: &Zone<P::Lock>,
        migratetype: MigrateType,
        first: Option<Pfn>,
        last: Option<Pfn>,
    ) {
        self.0.fragments(cpu, zone).list(migratetype).plant_ends(first, last);
    }
}
