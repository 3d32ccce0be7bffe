//! Fallback: where a request goes when the lists of its own type are empty, and whether it takes over the
//! whole pageblock it finds.
//!
//! linux: mm/page_alloc.c:fallbacks, can_steal_fallback, try_to_steal_block

use crate::base::{MigrateType, Order};

/// Types to try, in order, for a request of `migratetype`. Reserve, CMA and isolated blocks are never a fallback.
pub const fn order_of_attempts(migratetype: MigrateType) -> &'static [MigrateType] {
    match migratetype {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        MigrateType::HighAtomic | MigrateType::Cma | MigrateType::Isolate => &[],
    }
}

/// Whether a request of type `wanted` may try to take over the pageblock of a free block of order `found`.
///
/// Movable requests take over only large blocks: they do no lasting harm as guests. The others do, so they
/// take over whatever they find, and keep together.
pub const fn is_claimable(found: Order, wanted: MigrateType, pageblock_order: Order, grouping: Grouping) -> bool {
    found.get() >= pageblock_order.get() / 2
        || matches!(wanted, MigrateType::Unmovable | MigrateType::Reclaimable)
        || matches!(grouping, Grouping::Off)
}

/// Whether pages are kept apart by type at all: not on machines with too few pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Every request counts as Unmovable.
    Off,
    /// Types are kept apart in pageblocks of their own.
    On,
}

/// What a pageblock holds when a claim of it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Pages of the free block that was found.
    pub pages: u32,
    /// Free ones among them, on the zone's lists.
    pub free: u32,
    /// Allocated ones that can be moved.
    pub movable: u32,
}

/// Whether a request of type `wanted` takes over a pageblock of type `block` with these contents: it does when at
/// least half of it is free or holds pages like its own.
pub const fn takes_over(contents: Contents, wanted: MigrateType, block: MigrateType, grouping: Grouping) -> bool {
    let alike = match (wanted, block) {
        (MigrateType::Movable, _) => contents.movable,
        (_, MigrateType::Movable) => contents.pages - (contents.free + contents.movable),
        _ => 0,
    };
    contents.free + alike >= contents.pages / 2 || matches!(grouping, Grouping::Off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigrateType::{Movable, Reclaimable, Unmovable};

    const BLOCK: Order = Order::new(9);

    #[test]
    fn movable_requests_claim_from_half_the_order_of_a_pageblock_on() {
        assert!(!claimable(3, Movable, Grouping::On) && claimable(4, Movable, Grouping::On));
        assert!(claimable(0, Unmovable, Grouping::On) && claimable(0, Reclaimable, Grouping::On));
        assert!(claimable(0, Movable, Grouping::Off), "types are not kept apart");
    }

    fn claimable(order: u8, wanted: MigrateType, grouping: Grouping) -> bool {
        is_claimable(Order::new(order), wanted, BLOCK, grouping)
    }

    #[test]
    fn half_a_pageblock_that_is_free_or_alike_is_enough() {
        assert!(takes(256, 0, Reclaimable, Unmovable) && !takes(255, 0, Reclaimable, Unmovable));
        assert!(takes(100, 156, Movable, Unmovable) && !takes(100, 155, Movable, Unmovable));
        // In a movable block, what cannot move is like the request.
        assert!(takes(1, 256, Unmovable, Movable) && takes(0, 256, Unmovable, Movable));
        assert!(!takes(0, 257, Unmovable, Movable));
        assert!(!takes(0, 0, Unmovable, Reclaimable), "in others it may be of either type");
        let none = Contents { pages: 512, free: 1, movable: 511 };
        assert!(takes_over(none, Unmovable, Movable, Grouping::Off));
    }

    fn takes(free: u32, movable: u32, wanted: MigrateType, block: MigrateType) -> bool {
        takes_over(Contents { pages: 512, free, movable }, wanted, block, Grouping::On)
    }
}
