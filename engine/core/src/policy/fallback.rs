//! Fallback: the types that a request tries when the free lists of its own type are empty, and the decision whether it
//! claims the whole pageblock. linux: mm/page_alloc.c:fallbacks, find_suitable_fallback, try_to_steal_block

use crate::base::{MigrateType, Order};

/// Returns the types to try, in order, for a request of `migratetype`. Blocks of the high-atomic reserve, of CMA areas
/// and isolated blocks are never a fallback.
pub const fn order_of_attempts(migratetype: MigrateType) -> &'static [MigrateType] {
    match migratetype {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        MigrateType::HighAtomic | MigrateType::Cma | MigrateType::Isolate => &[],
    }
}

/// Returns whether a request of type `wanted` may try to claim the pageblock of a free block of order `found`.
///
/// Movable requests claim only blocks of at least half the pageblock order, because movable pages in a block of another
/// type do no lasting harm. Other requests claim any block that they find, so that their pages stay together. If pages
/// are not grouped by type, every request may.
pub const fn is_claimable(found: Order, wanted: MigrateType, pageblock_order: Order, grouping: Grouping) -> bool {
    found.get() >= pageblock_order.get() / 2
        || matches!(wanted, MigrateType::Unmovable | MigrateType::Reclaimable)
        || matches!(grouping, Grouping::Off)
}

/// Grouping of pages by type. It is off on machines with too few pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Every request is treated as Unmovable.
    Off,
    /// Each type has separate pageblocks.
    On,
}

/// Contents of a pageblock that a request tries to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Contents {
    /// Pages of the pageblock.
    pub pages: u32,
    /// Free pages, on the zone's lists.
    pub free: u32,
    /// Allocated pages that can be moved.
    pub movable: u32,
}

/// Returns whether a request of type `wanted` claims a pageblock of type `block` with these contents. It does if at
/// least half of the pages are free or compatible with the request, or if pages are not grouped by type.
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
    fn movable_requests_claim_from_half_pageblock_order() {
        assert!(!claimable(3, Movable, Grouping::On) && claimable(4, Movable, Grouping::On));
        assert!(claimable(0, Unmovable, Grouping::On) && claimable(0, Reclaimable, Grouping::On));
        assert!(claimable(0, Movable, Grouping::Off), "pages are not grouped by type");
    }

    fn claimable(order: u8, wanted: MigrateType, grouping: Grouping) -> bool {
        is_claimable(Order::new(order), wanted, BLOCK, grouping)
    }

    #[test]
    fn takeover_needs_half_a_pageblock_free_or_compatible() {
        assert!(takes(256, 0, Reclaimable, Unmovable) && !takes(255, 0, Reclaimable, Unmovable));
        assert!(takes(100, 156, Movable, Unmovable) && !takes(100, 155, Movable, Unmovable));
        // In a movable block, the unmovable pages count as compatible with an unmovable request.
        assert!(takes(1, 256, Unmovable, Movable) && takes(0, 256, Unmovable, Movable));
        assert!(!takes(0, 257, Unmovable, Movable));
        assert!(!takes(0, 0, Unmovable, Reclaimable), "other pages may be of either type");
        let none = Contents { pages: 512, free: 1, movable: 511 };
        assert!(takes_over(none, Unmovable, Movable, Grouping::Off));
    }

    fn takes(free: u32, movable: u32, wanted: MigrateType, block: MigrateType) -> bool {
        takes_over(Contents { pages: 512, free, movable }, wanted, block, Grouping::On)
    }
}
