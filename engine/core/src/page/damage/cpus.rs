//! Damage to per-CPU state of a zone: lists, stack and fragments.

use super::Damage;
use crate::base::{CpuId, MigrateType, Pfn};
use crate::page::zone::Zone;
use crate::platform::Platform;

impl<P: Platform> Damage<'_, '_, P> {
    /// Stores the number of pages that a CPU's lists count.
    pub fn set_count(&self, cpu: CpuId, zone: &Zone<P::Lock>, pages: u32) {
        self.0.pcp_at(cpu, zone).lock().plant().count = pages;
    }

    /// Stores the limit of a CPU's lists of a zone, in pages.
    pub fn set_limit(&self, cpu: CpuId, zone: &Zone<P::Lock>, pages: u32) {
        self.0.pcp_at(cpu, zone).lock().plant().high = pages;
    }

    /// Stores the first and the last block of one list of a CPU.
    pub fn set_pcp_list(&self, cpu: CpuId, zone: &Zone<P::Lock>, index: usize, first: Option<Pfn>, last: Option<Pfn>) {
        self.0.pcp_at(cpu, zone).lock().plant_list(index).plant_ends(first, last);
    }

    /// Returns the first block on a CPU's stack.
    pub fn stack(&self, cpu: CpuId, zone: &Zone<P::Lock>) -> Option<Pfn> {
        self.0.pcp_at(cpu, zone).stack().first()
    }

    /// Stores the first block of a CPU's stack and its count of pages, and opens the stack.
    pub fn set_stack(&self, cpu: CpuId, zone: &Zone<P::Lock>, first: Option<Pfn>, pages: u32) {
        self.0.pcp_at(cpu, zone).stack().plant(first, pages);
    }

    /// Stores the maximum number of pages on a CPU's stack.
    pub fn set_remote_frees_limit(&self, cpu: CpuId, zone: &Zone<P::Lock>, pages: u32) {
        self.0.pcp_at(cpu, zone).plant_limit(pages);
    }

    /// Stores the ends of the list of a CPU's fragments of one type.
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
