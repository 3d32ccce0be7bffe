//! A recorded machine restored: state that may be written only while the allocator is not shared.
//!
//! A kernel at boot, and a replay at its start, know things that no request tells: which blocks lay on which CPU's
//! list, how far that list had grown, by how much watermarks were boosted. They say so before anybody else has a
//! reference to the allocator, which the exclusive borrow proves, so no path that requests take has to expect it.

use core::ops::Deref;

use super::allocator::PageAllocator;
use super::error::FreeError;
use crate::base::frame::Lost;
use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::page::percpu::list_index;
use crate::platform::Platform;
use crate::policy::PcpPolicy;

/// An allocator that nobody else can reach. It derefs to the allocator.
pub struct Restoring<'a, 'm, P: Platform>(&'a mut PageAllocator<'m, P>);

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Begins to restore a recorded state.
    pub fn restore(&mut self) -> Restoring<'_, 'm, P> {
        Restoring(self)
    }
}

impl<'m, P: Platform> Deref for Restoring<'_, 'm, P> {
    type Target = PageAllocator<'m, P>;

    fn deref(&self) -> &PageAllocator<'m, P> {
        self.0
    }
}

impl<P: Platform> Restoring<'_, '_, P> {
    /// Puts an allocated block on a CPU's list of a type, whatever the list's limit: the next free drains what is too
    /// much. Under a policy without lists, or for an order or a type that has none, the block goes to its zone; so does
    /// what is healthy of a broken one.
    ///
    /// # Errors
    /// If the frame is not the head of an allocated block of this order.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn put_on_pcp(
        &mut self,
        cpu: CpuId,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) -> Result<(), FreeError> {
        let allocator = &*self.0;
        allocator.expect_cpu(cpu);
        let (frame, _, seen) = allocator.allocated_head(pfn, order)?;
        frame.claim(seen, seen.claimed()).map_err(|Lost| allocator.not_allocated_error(pfn))?;
        if seen.is_poisoned() {
            allocator.free_around_poison(pfn, order);
            return Ok(());
        }
        let zone = allocator.zone_of(pfn);
        match list_index(order, migratetype, allocator.map.pageblock_order()) {
            Some(index) if allocator.rules().pcp != PcpPolicy::Off && migratetype.is_mergeable() => {
                allocator.pcp_at(cpu, zone).lock().push_head(&allocator.map, pfn, order, index, cpu);
            }
            _ => allocator.free_to_zone(zone, pfn, order),
        }
        Ok(())
    }

    /// Puts the limit of a CPU's lists where a recorded one was, within the limits by which they are tuned, and forgets
    /// what happened lately; without a recorded one, where it starts.
    ///
    /// # Panics
    /// If there is no such CPU, node or kind of zone.
    pub fn set_pcp_high(&mut self, cpu: CpuId, node: NodeId, kind: ZoneKind, high: Option<u32>) {
        let mut lists = self.0.pcp_at(cpu, self.0.zone(node, kind)).lock();
        let high = high.unwrap_or(lists.limits().high_min);
        lists.resume_at(high);
    }

    /// Puts the boost of a zone's watermarks where a recorded zone had it.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn set_boost(&mut self, node: NodeId, kind: ZoneKind, pages: u64) {
        self.0.zone(node, kind).set_boost(pages);
    }

    /// Says that compaction has met the huge pages that there are, and passes their pageblocks over for as long as they
    /// live: it meets all of them but the newest, sooner or later. Cost: a look at each pageblock.
    pub fn pass_over_huge_pages(&mut self) {
        self.0.skip_huge_pages();
    }
}
