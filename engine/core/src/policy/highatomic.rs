//! High-atomic reserve: when it is used, how far it grows, and when it shrinks.
//!
//! Five rivals.
//!
//! - *linux*: the reserve is looked into only by what misses the low watermark and finds its per-CPU list empty even
//!   after a refill, so requests of order 1 to 3 hardly meet it; yet each of them reserves the pageblock that served
//!   it.
//! - *skip-costly*: as linux, but nothing up to order 3 reserves. (JP Kobryn, May 2026)
//! - *past-lists*: an empty list is not refilled for such a request; it goes to the zone, where the reserve comes
//!   first. What a list served reserves nothing. (Frank van der Linden, March 2026; Linux 7.2)
//! - *reuse-first*: the same, and the request may use the reserve at the low watermark already; nothing is reserved
//!   while the zone is above it. (JP Kobryn, June 2026; Linux 7.3)
//! - *give-back*: as linux, and twice a second half of what lay idle since the last look becomes ordinary memory again.
//!   This one is ours; see [`idle_to_give`].
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock

use super::HighAtomicPolicy;
use super::flags::{self, AllocFlags};
use crate::base::{Gfp, Order};

/// Most pages a zone of `managed` pages may hold in reserve: a hundredth, rounded up to pageblocks; none if a
/// hundredth is less than a pageblock.
pub const fn cap(managed: u64, pageblock_pages: u64) -> u64 {
    let hundredth = managed / 100;
    if hundredth < pageblock_pages { 0 } else { hundredth.next_multiple_of(pageblock_pages) }
}

/// A request that may use the reserve, and was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    /// Order of the block that was served, above 0.
    pub order: Order,
    /// What it was allowed to do, and above which watermark.
    pub flags: AllocFlags,
    /// By a per-CPU list; otherwise by the zone.
    pub by_list: bool,
}

/// Whether such a request makes its pageblock join the reserve, if that is not in it yet.
pub const fn grows(policy: HighAtomicPolicy, served: ServedRequest) -> bool {
    match policy {
        HighAtomicPolicy::Linux | HighAtomicPolicy::GiveBack => true,
        HighAtomicPolicy::SkipCostly => served.order.get() > Order::COSTLY.get(),
        HighAtomicPolicy::PastLists => !served.by_list,
        HighAtomicPolicy::ReuseFirst => !served.by_list && served.flags.is_at_min(),
    }
}

/// What the first attempt, at the low watermark, may do of what the slow path may.
#[inline]
pub fn at_first(policy: HighAtomicPolicy, gfp: Gfp, order: Order) -> AllocFlags {
    match policy {
        HighAtomicPolicy::Linux
        | HighAtomicPolicy::SkipCostly
        | HighAtomicPolicy::PastLists
        | HighAtomicPolicy::GiveBack => AllocFlags::empty(),
        HighAtomicPolicy::ReuseFirst => flags::highatomic(gfp, order),
    }
}

/// Whether an empty per-CPU list is refilled for a request.
pub const fn refills(policy: HighAtomicPolicy, flags: AllocFlags) -> bool {
    match policy {
        HighAtomicPolicy::Linux | HighAtomicPolicy::SkipCostly | HighAtomicPolicy::GiveBack => true,
        HighAtomicPolicy::PastLists | HighAtomicPolicy::ReuseFirst => !flags.contains(AllocFlags::HIGHATOMIC),
    }
}

/// How eagerly reserved blocks are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreserve {
    /// The last block stays in the reserve.
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

/// Whether what nobody uses is given back in the background.
pub fn gives_back(policy: HighAtomicPolicy) -> bool {
    policy == HighAtomicPolicy::GiveBack
}

/// Pages that a zone gives back in the background, when `idle` pages of its reserve were free ever since it was last
/// looked at: half of them, in whole pageblocks, one at least; but never the last block, and none before a whole
/// block was idle.
///
/// Why this does not thrash. What is given back served nobody from one look to the next, and goes as it is: a free
/// block changes lists, nothing is moved. What was reserved since the last look is not idle yet, so a block comes and
/// goes once in two looks at most. And of what a burst used, half at least is still there when the next one comes
/// within two looks.
pub fn idle_to_give(idle: u64, reserved: u64, pageblock_pages: u64) -> u64 {
    if idle < pageblock_pages {
        return 0;
    }
    let half = (idle / 2).next_multiple_of(pageblock_pages);
    half.min(reserved.saturating_sub(pageblock_pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_idle_goes_in_whole_pageblocks_but_not_the_last() {
        assert_eq!(idle_to_give(511, 5120, 512), 0, "no block was idle");
        assert_eq!(idle_to_give(512, 5120, 512), 512);
        assert_eq!(idle_to_give(5 * 512, 5 * 512, 512), 3 * 512);
        assert_eq!(idle_to_give(2 * 512, 2 * 512, 512), 512);
        assert_eq!(idle_to_give(512, 512, 512), 0, "the last");
    }

    #[test]
    fn a_hundredth_below_a_pageblock_is_no_reserve() {
        assert_eq!(cap(51_199, 512), 0);
        assert_eq!(cap(51_200, 512), 512);
        assert_eq!(cap(249_856, 512), 2560);
    }

    #[test]
    fn only_rushed_requests_above_order_0_use_the_reserve_at_first() {
        let order = Order::new(1);
        let cases = [
            (Gfp::ATOMIC, order, AllocFlags::HIGHATOMIC, "rushed"),
            (Gfp::ATOMIC, Order::ZERO, AllocFlags::empty(), "a single page"),
            (Gfp::NOWAIT, order, AllocFlags::empty(), "not HIGH"),
            (Gfp::ATOMIC | Gfp::NOMEMALLOC, order, AllocFlags::empty(), "no reserves"),
            (Gfp::KERNEL | Gfp::HIGH, order, AllocFlags::empty(), "it can wait"),
        ];
        for (gfp, order, flags, why) in cases {
            assert_eq!(at_first(HighAtomicPolicy::ReuseFirst, gfp, order), flags, "{why}");
        }
    }
}
