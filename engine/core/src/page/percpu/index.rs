//! Index of the per-CPU list for each order and type.

use crate::base::{MigrateType, Order};

/// Number of lists that Linux has as well. linux: NR_PCP_LISTS
const LINUX_LISTS: usize = 14;
/// Number of lists: those of Linux, and one for each type and each order from 4 to 9, for parts of owned pageblocks.
pub const PCP_LISTS: usize = LINUX_LISTS + MigrateType::PCP_COUNT * (Order::COUNT - 1 - Order::COSTLY.index() - 1);
/// Index of the first of the two lists for huge pages.
const HUGE: usize = 12;

/// Returns the list for blocks of this order and type, or `None` if there is none. linux: order_to_pindex,
/// pcp_allowed_order
#[inline]
pub(in crate::page) fn list_index(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<u8> {
    if order <= Order::COSTLY {
        return Some(order.get() * MigrateType::PCP_COUNT as u8 + migratetype as u8);
    }
    let huge = HUGE as u8 + u8::from(migratetype == MigrateType::Movable);
    (order == pageblock_order).then_some(huge)
}

/// Returns the list for a part of an owned pageblock. In addition to the lists of [`list_index`], every order below the
/// pageblock order has a list. Returns `None` from the pageblock order up, since a whole pageblock is not a part.
#[inline]
pub(in crate::page) fn part_index(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<u8> {
    if order <= Order::COSTLY || order >= pageblock_order {
        return list_index(order, migratetype, pageblock_order).filter(|_| order < pageblock_order);
    }
    let between = order.get() - Order::COSTLY.get() - 1;
    Some(LINUX_LISTS as u8 + between * MigrateType::PCP_COUNT as u8 + migratetype as u8)
}

/// Returns whether per-CPU lists hold blocks of this order on a machine with this pageblock order.
/// linux: pcp_allowed_order
pub fn has_pcp_list(order: Order, pageblock_order: Order) -> bool {
    list_index(order, MigrateType::Unmovable, pageblock_order).is_some()
}

/// Returns the order of the blocks on a list. linux: pindex_to_order
pub(in crate::page) fn list_order(index: u8, pageblock_order: Order) -> Order {
    let (index, types) = (usize::from(index), MigrateType::PCP_COUNT);
    let order = match index {
        0..HUGE => index / types,
        HUGE..LINUX_LISTS => return pageblock_order,
        _ => Order::COSTLY.index() + 1 + (index - LINUX_LISTS) / types,
    };
    Order::new(order as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigrateType::{Movable, Reclaimable, Unmovable};

    const HUGE_PAGE: Order = Order::new(9);

    fn index_of(order: u8, migratetype: MigrateType) -> Option<u8> {
        list_index(Order::new(order), migratetype, HUGE_PAGE)
    }

    fn part_index_of(order: u8, migratetype: MigrateType) -> Option<u8> {
        part_index(Order::new(order), migratetype, HUGE_PAGE)
    }

    #[test]
    fn lists_exist_for_cheap_orders_and_huge_pages() {
        assert_eq!(
            [0, 1, 2, 3, 4, 8].map(|order| index_of(order, Unmovable)),
            [Some(0), Some(3), Some(6), Some(9), None, None]
        );
        assert_eq!(
            [Unmovable, Movable, Reclaimable].map(|migratetype| index_of(3, migratetype)),
            [Some(9), Some(10), Some(11)]
        );
        assert_eq!(
            [Unmovable, Movable, Reclaimable].map(|migratetype| index_of(9, migratetype)),
            [Some(12), Some(13), Some(12)]
        );
        assert_eq!(index_of(10, Movable), None);
        assert!(has_pcp_list(HUGE_PAGE, HUGE_PAGE) && !has_pcp_list(Order::new(9), Order::MAX));
    }

    #[test]
    fn parts_of_owned_pageblocks_have_a_list_per_order() {
        let indices = [0, 3, 4, 5, 8].map(|order| part_index_of(order, Unmovable));
        assert_eq!(indices, [Some(0), Some(9), Some(14), Some(17), Some(26)]);
        assert_eq!(part_index_of(4, Reclaimable), Some(16));
        assert_eq!((part_index_of(9, Movable), part_index_of(10, Movable)), (None, None));
        assert_eq!(
            part_index(Order::new(3), Movable, Order::new(3)),
            None,
            "a small pageblock counts as one of its parts"
        );
        for order in Order::ZERO.to(Order::new(8)) {
            for migratetype in [Unmovable, Movable, Reclaimable] {
                let index = part_index_of(order.get(), migratetype).expect("there is one");
                assert!(usize::from(index) < PCP_LISTS);
                assert_eq!(list_order(index, HUGE_PAGE), order);
            }
        }
        assert_eq!([12, 13].map(|index| list_order(index, HUGE_PAGE)), [HUGE_PAGE; 2]);
    }
}
