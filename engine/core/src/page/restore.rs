//! Restoring the state of a recorded machine, which is possible only while the allocator is not shared.
//!
//! A kernel at boot and a replay at its start have state that no request can create: which blocks were on which CPU's
//! lists, how far the limits of these lists had grown, how much watermarks were boosted, and how long compaction is
//! deferred. They set this state before any other code has a reference to the allocator. The exclusive borrow proves
//! that, so the paths of requests do not have to handle such changes.
//!
//! # Design
//!
//! Metadata cannot be freed before the allocator: the type is invariant in the lifetime of the metadata. A slab
//! therefore has two lifetimes.

use core::ops::Deref;

use super::allocator::PageAllocator;
use super::error::FreeError;
use crate::base::frame::Lost;
use crate::base::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneKind};
use crate::page::percpu::list_index;
use crate::platform::Platform;
use crate::policy::PcpPolicy;
use crate::policy::compaction::Deferral;

/// An allocator that is exclusively borrowed. It derefs to the allocator.
pub struct Restoring<'a, 'm, P: Platform>(&'a mut PageAllocator<'m, P>);

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Starts restoring a recorded state.
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
    /// Puts an allocated block on a CPU's list of a type, even if that exceeds the list's limit; later frees drain the
    /// excess. If the policy has no lists, or the order or the type has none, the block is freed to its zone. Of a
    /// poisoned block, the healthy frames are freed to the zone.
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

    /// Sets the limit of a CPU's lists to a recorded value, clamped to the bounds within which it is tuned, and resets
    /// the history of recent frees. Without a recorded value, the limit is set to its lower bound.
    ///
    /// # Panics
    /// If there is no such CPU, node or kind of zone.
    pub fn set_pcp_high(&mut self, cpu: CpuId, node: NodeId, kind: ZoneKind, high: Option<u32>) {
        let mut lists = self.0.pcp_at(cpu, self.0.zone(node, kind)).lock();
        let high = high.unwrap_or(lists.limits().high_min);
        lists.resume_at(high);
    }

    /// Sets the boost of a zone's watermarks to a recorded value, in pages.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn set_boost(&mut self, node: NodeId, kind: ZoneKind, pages: u64) {
        self.0.zone(node, kind).set_boost(pages);
    }

    /// Defers compaction of a zone for attempts at `order` and above. The next `left` attempts are skipped, and the one
    /// after them resets the zone's hints. Does nothing if the policy switches deferral off.
    /// linux: mm/compaction.c:compaction_deferred, compaction_restarting
    ///
    /// # Panics
    /// If there is no such node.
    pub fn resume_deferral(&mut self, node: NodeId, kind: ZoneKind, order: Order, left: u32) {
        if self.0.rules().compaction.deferral == Deferral::Growing {
            self.0.zone(node, kind).compaction.resume_deferral(order, left);
        }
    }

    /// Marks the pageblocks of all present huge pages as scanned by compaction, which then skips them while these huge
    /// pages exist. On a running machine, compaction scans all huge pages but the newest sooner or later. Cost: one
    /// step per pageblock.
    pub fn pass_over_huge_pages(&mut self) {
        self.0.skip_huge_pages();
    }
}
