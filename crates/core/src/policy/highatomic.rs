//! High-atomic reserve: how far it may grow.
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock

use super::HighAtomicPolicy;
use crate::base::Order;

/// Most pages a zone of `managed` pages may hold in reserve: a hundredth, rounded up to pageblocks; none if a
/// hundredth is less than a pageblock.
pub const fn cap(managed: u64, pageblock_pages: u64) -> u64 {
    let hundredth = managed / 100;
    if hundredth < pageblock_pages { 0 } else { hundredth.next_multiple_of(pageblock_pages) }
}

/// Whether an atomic request of `order` that was just served makes its pageblock join the reserve.
pub const fn grows(policy: HighAtomicPolicy, order: Order) -> bool {
    match policy {
        HighAtomicPolicy::Linux => order.get() > 0,
    }
}

/// How eagerly reserved blocks are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreserve {
    /// Keep the last block.
    KeepLast,
    /// Give back any block, before the request fails.
    Force,
}

impl Unreserve {
    /// Whether a zone with so many reserved pages has anything to give back.
    pub const fn applies(self, reserved: u64, pageblock_pages: u64) -> bool {
        match self {
            Unreserve::KeepLast => reserved > pageblock_pages,
            Unreserve::Force => true,
        }
    }
}
