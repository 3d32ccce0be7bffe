//! High-atomic reserve: the conditions of its use, its growth and its shrinking.
//!
//! There are five alternatives.
//!
//! - *linux*: the reserve is used only by requests that fail at the low watermark and find their per-CPU list empty
//!   even after a refill. Requests of order 1 to 3 therefore hardly use it, yet each of them reserves the pageblock
//!   that served it.
//! - *skip-costly*: as linux, but requests up to order 3 reserve nothing. (JP Kobryn, May 2026)
//! - *past-lists*: an empty list is not refilled for such a request; it is served by the zone, where the reserve is
//!   tried first. A request that a list served reserves nothing. (Frank van der Linden, March 2026; Linux 7.2)
//! - *reuse-first*: as past-lists, and the request may use the reserve already at the low watermark; nothing is
//!   reserved while the zone is above it. (JP Kobryn, June 2026; Linux 7.3)
//! - *give-back*: as linux, and twice a second half of the reserved memory that was idle since the last check becomes
//!   ordinary memory again. This alternative is this project's own; see [`idle_to_give`].
//!
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock
//!
//! # Design
//!
//! The policy of the reserve and the side effects of the reserve are separate. `highatomic` decides when the reserve
//! grows, is used and shrinks. Its effects on other requests are four switches, `reserve.*`: free pages of the reserve
//! do not count for the watermark, they count for the fragmentation index, other requests cannot use them, and a block
//! that leaves the reserve gets the type of the requester. The switches determine by which of these effects the reserve
//! costs huge pages. On machines with little free contiguous memory it is mostly the last one
//! (docs/findings/highatomic.md). They are for experiments and not for use.

use super::HighAtomicPolicy;
use super::flags::{self, AllocFlags};
use crate::base::{Gfp, Order};

/// Returns the maximum number of reserved pages in a zone of `managed` pages: 1/100, rounded up to pageblocks; 0 if
/// 1/100 is less than a pageblock.
pub const fn cap(managed: u64, pageblock_pages: u64) -> u64 {
    let hundredth = managed / 100;
    if hundredth < pageblock_pages { 0 } else { hundredth.next_multiple_of(pageblock_pages) }
}

/// A request that may use the reserve, and was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct ServedRequest {
    /// Order of the block, above 0.
    pub order: Order,
    /// Allocation flags of the attempt that succeeded, including its watermark.
    pub flags: AllocFlags,
    /// Whether a per-CPU list served it, and not the zone.
    pub by_list: bool,
}

/// Returns whether such a request adds its pageblock to the reserve, if the pageblock is not in the reserve yet and the
/// cap allows it.
pub const fn grows(policy: HighAtomicPolicy, served: ServedRequest) -> bool {
    match policy {
        HighAtomicPolicy::Linux | HighAtomicPolicy::GiveBack => true,
        HighAtomicPolicy::SkipCostly => served.order.get() > Order::COSTLY.get(),
        HighAtomicPolicy::PastLists => !served.by_list,
        HighAtomicPolicy::ReuseFirst => !served.by_list && served.flags.is_at_min(),
    }
}

/// Returns the flags of the slow path that the first attempt, at the low watermark, already has.
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

/// Returns whether an empty per-CPU list is refilled for a request with these flags. Two policies refill none for a
/// request with HIGHATOMIC.
pub const fn refills(policy: HighAtomicPolicy, flags: AllocFlags) -> bool {
    match policy {
        HighAtomicPolicy::Linux | HighAtomicPolicy::SkipCostly | HighAtomicPolicy::GiveBack => true,
        HighAtomicPolicy::PastLists | HighAtomicPolicy::ReuseFirst => !flags.contains(AllocFlags::HIGHATOMIC),
    }
}

/// Urgency of unreserving a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreserve {
    /// The last pageblock of a zone stays in the reserve.
    KeepLast,
    /// Any pageblock may be unreserved, because the request would fail otherwise.
    Force,
}

impl Unreserve {
    /// Returns whether a zone with this number of reserved pages is searched for a pageblock to unreserve.
    pub const fn applies(self, reserved: u64, pageblock_pages: u64) -> bool {
        match self {
            Unreserve::KeepLast => reserved > pageblock_pages,
            Unreserve::Force => true,
        }
    }
}

/// Returns whether idle reserved pageblocks are unreserved in the background.
pub fn gives_back(policy: HighAtomicPolicy) -> bool {
    policy == HighAtomicPolicy::GiveBack
}

/// Returns the pages that a zone unreserves in the background, if at least `idle` pages of its `reserved` pages were
/// free at any time since the last check. The result is half of the idle pages, in whole pageblocks and at least one,
/// but never the last pageblock of the reserve. It is 0 if fewer pages than a pageblock has were idle.
///
/// This does not thrash, for three reasons. An unreserved pageblock served no request between two checks, and
/// unreserving it only changes its list; no page is moved. Pageblocks that were reserved since the last check are not
/// idle yet, so a pageblock joins and leaves the reserve at most once in two checks. And at least half of the
/// pageblocks that a burst of requests used are still reserved if the next burst comes within two checks.
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
    fn half_of_the_idle_reserve_is_returned_in_pageblocks() {
        assert_eq!(idle_to_give(511, 5120, 512), 0, "no block was idle");
        assert_eq!(idle_to_give(512, 5120, 512), 512);
        assert_eq!(idle_to_give(5 * 512, 5 * 512, 512), 3 * 512);
        assert_eq!(idle_to_give(2 * 512, 2 * 512, 512), 512);
        assert_eq!(idle_to_give(512, 512, 512), 0, "the last");
    }

    #[test]
    fn reserve_cap_below_a_pageblock_is_zero() {
        assert_eq!(cap(51_199, 512), 0);
        assert_eq!(cap(51_200, 512), 512);
        assert_eq!(cap(249_856, 512), 2560);
    }

    #[test]
    fn reserve_grows_by_policy_source_and_watermark() {
        use HighAtomicPolicy::{GiveBack, Linux, PastLists, ReuseFirst, SkipCostly};
        let at_min = AllocFlags::HIGHATOMIC;
        let at_low = at_min | AllocFlags::WMARK_LOW;
        let cases = [
            (Linux, 1, at_low, true, true),
            (GiveBack, 1, at_low, true, true),
            (SkipCostly, 3, at_low, false, false),
            (SkipCostly, 4, at_low, true, true),
            (PastLists, 1, at_low, false, true),
            (PastLists, 1, at_low, true, false),
            (ReuseFirst, 1, at_min, false, true),
            (ReuseFirst, 1, at_min, true, false),
            (ReuseFirst, 1, at_low, false, false),
        ];
        for (policy, order, flags, by_list, expected) in cases {
            let served = ServedRequest { order: Order::new(order), flags, by_list };
            assert_eq!(grows(policy, served), expected, "{policy:?}: {served:?}");
        }
    }

    #[test]
    fn reuse_first_reserve_needs_atomic_above_order_0() {
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
