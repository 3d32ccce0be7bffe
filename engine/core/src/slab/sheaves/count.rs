//! Number of objects in sheaves, counted while other code uses them. Costs a read per CPU, a lock per spare sheaf and a
//! lock per barn.

use core::sync::atomic::Ordering::Acquire;

use super::super::SlabAllocator;
use super::super::cache::Cache;
use super::super::cpu::CpuLocal;
use super::super::cpu::sheaf::Top;
use super::OwnedSheaf;
use crate::base::CpuId;
use crate::platform::Platform;

impl<P: Platform, C: CpuLocal> SlabAllocator<'_, '_, P, C> {
    /// Returns the number of objects in sheaves of a cache: those of CPUs and those in barns. Other code may use the
    /// sheaves meanwhile, so the number need not belong to one moment. Returns 0 for a cache without sheaves.
    pub(in crate::slab) fn count_in_sheaves(&self, cache: &Cache) -> u64 {
        if cache.sheaf == 0 || !self.has_sheaves() {
            return 0;
        }
        let of_cpus: usize = self.pages.cpu_ids().map(|cpu| self.count_on_cpu(cpu, cache)).sum();
        let in_barns = self.node_ids().map(|node| self.barn(node, cache.id).iter().map(OwnedSheaf::len).sum::<usize>());
        (of_cpus + in_barns.sum::<usize>()) as u64
    }

    /// Returns the number of objects in a CPU's two sheaves. The length of the main sheaf follows from the slot's word,
    /// without a look at the sheaf. The spare is looked at under its lock, and only if there is one.
    fn count_on_cpu(&self, cpu: CpuId, cache: &Cache) -> usize {
        let slot = self.slot(cpu, cache.id);
        let top = Top::from_raw(slot.main.load(Acquire));
        let main = if top == self.no_sheaf() { 0 } else { top.len(cache.sheaf.into()) as usize };
        if slot.paired.load(Acquire) == 0 {
            return main;
        }
        let mut pcs = self.lock_pcs(cpu, cache);
        let Some(spare) = pcs.take_spare() else { return main };
        let len = spare.len();
        pcs.restore_spare(spare);
        main + len
    }
}
