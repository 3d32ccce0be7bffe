//! [`LockedPcp`]: a CPU's lists of a zone under their lock, together with the values that all their methods need.

use crate::base::CpuId;
use crate::base::lock::Guard;
use crate::page::allocator::PageAllocator;
use crate::page::percpu::{PcpLists, RemoteFrees};
use crate::page::zone::Zone;
use crate::platform::Platform;

/// The lists of one CPU for one zone. Their lock is held until this value is dropped.
pub(in crate::page) struct LockedPcp<'a, 'm, P: Platform> {
    pub(super) allocator: &'a PageAllocator<'m, P>,
    pub(super) zone: &'a Zone<P::Lock>,
    pub(super) cpu: CpuId,
    pub(super) remote_frees: &'m RemoteFrees,
    pub(in crate::page) lists: Guard<'a, P::Lock, PcpLists>,
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Returns a CPU's lists for a zone, locked, or `None` if the lock is taken.
    #[inline]
    pub(super) fn try_lock_pcp<'a>(&'a self, zone: &'a Zone<P::Lock>, cpu: CpuId) -> Option<LockedPcp<'a, 'm, P>> {
        let pcp = self.pcp_at(cpu, zone);
        Some(LockedPcp { allocator: self, zone, cpu, remote_frees: &pcp.remote_frees, lists: pcp.try_lock()? })
    }

    /// Waits for the lock of a CPU's lists for a zone, and returns the lists.
    pub(super) fn lock_pcp<'a>(&'a self, zone: &'a Zone<P::Lock>, cpu: CpuId) -> LockedPcp<'a, 'm, P> {
        let pcp = self.pcp_at(cpu, zone);
        LockedPcp { allocator: self, zone, cpu, remote_frees: &pcp.remote_frees, lists: pcp.lock() }
    }
}
