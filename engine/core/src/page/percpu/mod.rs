//! Per-CPU lists of a zone with their lock, and the stack to which other CPUs free.
//!
//! ```text
//! index   index of the list for blocks of an order and type
//! lists   the lists, their count, and the tuning of their limit
//! ```
//!
//! This module depends on `base` and `policy` only. The paths of allocation and free that use the lists are in `pcp`.

mod index;
mod lists;

pub use index::{PCP_LISTS, has_pcp_list};
pub use lists::PcpLists;

pub(super) use index::{list_index, part_index};
pub(super) use lists::Victim;

use core::sync::atomic::Ordering::Relaxed;

use crate::base::atomic::AtomicU32;
use crate::base::lock::{Guard, Locked};
use crate::base::stack::Stack;
use crate::base::{CpuId, RawLock};
use crate::policy::pcp::Limits;
use crate::policy::{Numbers, PcpPolicy};

/// One CPU's lists for one zone, with their lock and the CPU's stack.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Pcp<L> {
    lists: Locked<L, PcpLists>,
    pub(super) remote_frees: RemoteFrees,
}

/// State that other CPUs access when they free.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct RemoteFrees {
    /// Blocks of this CPU's pageblocks that other CPUs freed.
    pub(super) stack: Stack,
    /// Maximum number of pages on the stack, which is a recent value of the lists' limit.
    pub(super) limit: AtomicU32,
}

impl<L: RawLock> Pcp<L> {
    /// Creates lists without blocks. Not inlined, because the compiler would repeat the code for each CPU and zone.
    #[inline(never)]
    pub(in crate::page) fn new(cache_slice: u32) -> Pcp<L> {
        Pcp {
            lists: Locked::new(PcpLists::new(cache_slice)),
            remote_frees: RemoteFrees { stack: Stack::new(), limit: AtomicU32::new(0) },
        }
    }

    #[inline]
    pub(in crate::page) fn try_lock(&self) -> Option<Guard<'_, L, PcpLists>> {
        self.lists.try_lock()
    }

    pub(in crate::page) fn lock(&self) -> Guard<'_, L, PcpLists> {
        self.lists.lock()
    }

    /// Sets the bounds of the lists' limit. The limit starts at the lower bound.
    /// linux: __zone_set_pageset_high_and_batch
    pub(in crate::page) fn set_limits(&self, limits: Limits, numbers: &Numbers, policy: PcpPolicy) {
        let mut lists = self.lists.lock();
        // Owned pageblocks are split for any request, so large blocks that the CPU frees are useful to it and are kept.
        lists.high_order_frees = if policy.owns() { u32::MAX } else { limits.high_order_frees(numbers) };
        debug_assert!(limits.batch > 0, "per-CPU lists: the new limits {limits:?} are invalid");
        lists.limits = limits;
        lists.tuning.high = limits.high_min;
        self.remote_frees.limit.store(limits.high_min, Relaxed);
    }

    /// Returns the stack of blocks that other CPUs freed for this CPU.
    pub(crate) fn stack(&self) -> &Stack {
        &self.remote_frees.stack
    }

    /// Returns the number of pages on the stack, which may be outdated.
    pub fn waiting(&self) -> u32 {
        self.remote_frees.stack.pages()
    }

    /// Stores the maximum number of pages on the stack.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_limit(&self, pages: u32) {
        self.remote_frees.limit.store(pages, Relaxed);
    }

    /// Returns the maximum number of pages on the stack.
    pub(in crate::page) fn remote_frees_limit(&self) -> u32 {
        self.remote_frees.limit.load(Relaxed)
    }

    /// Calls `look` with the lists, under their lock.
    pub fn inspect<R>(&self, look: impl FnOnce(&PcpLists) -> R) -> R {
        look(&self.lists.lock())
    }
}

/// Checks, in debug builds, that the CPU exists.
#[inline]
pub(in crate::page) fn expect_there(cpu: CpuId, cpus: usize) {
    debug_assert!(cpu.index() < cpus, "per-CPU lists: CPU {} does not exist; there are {cpus}", cpu.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_orders_stay_if_three_batches_fit_the_cache_share() {
        assert!(keeps_high_orders(190, 63) && !keeps_high_orders(189, 63));
    }

    fn keeps_high_orders(cache_slice: u32, batch: u32) -> bool {
        let pcp = Pcp::<crate::base::lock::SoloLock>::new(cache_slice);
        pcp.set_limits(Limits { batch, high_min: 0, high_max: 0 }, &Numbers::default(), PcpPolicy::Linux);
        pcp.inspect(PcpLists::keeps_high_orders)
    }
}
