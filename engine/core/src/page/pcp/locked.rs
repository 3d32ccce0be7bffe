//! A CPU's lists of a zone under their lock: [`LockedPcp`] is one value for all that travels together while it is held.

use crate::base::CpuId;
use crate::base::lock::Guard;
use crate::page::allocator::PageAllocator;
use crate::page::percpu::{Home, PcpLists};
use crate::page::zone::Zone;
use crate::platform::Platform;

/// The lists of one CPU for one zone, whose lock is held until this is dropped.
pub(in crate::page) struct LockedPcp<'a, 'm, P: Platform> {
    pub(super) allocator: &'a PageAllocator<'m, P>,
    pub(super) zone: &'a Zone<P::Lock>,
    pub(super) cpu: CpuId,
    pub(super) home: &'m Home,
    pub(in crate::page) lists: Guard<'a, P::Lock, PcpLists>,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// A CPU's lists for a zone, if their lock is free.
    #[inline]
    pub(super) fn try_lock_pcp<'a>(&'a self, zone: &'a Zone<P::Lock>, cpu: CpuId) -> Option<LockedPcp<'a, 'm, P>> {
        let pcp = self.pcp_at(cpu, zone);
        Some(LockedPcp { allocator: self, zone, cpu, home: &pcp.home, lists: pcp.try_lock()? })
    }

    /// The same, when it is.
    pub(super) fn lock_pcp<'a>(&'a self, zone: &'a Zone<P::Lock>, cpu: CpuId) -> LockedPcp<'a, 'm, P> {
        let pcp = self.pcp_at(cpu, zone);
        LockedPcp { allocator: self, zone, cpu, home: &pcp.home, lists: pcp.lock() }
    }
}
