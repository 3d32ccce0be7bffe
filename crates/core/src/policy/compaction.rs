//! Compaction: whether moving pages would help, how hard the work was lately, and when to try again.
//!
//! linux: mm/vmstat.c:fill_contig_page_info, __fragmentation_index, extfrag_for_order;
//! mm/compaction.c:fragmentation_score_wmark, compact_gap

use crate::base::Order;

/// Fragmentation index up to which a failure is put down to lack of memory. linux: vm.extfrag_threshold
pub const EXTFRAG_THRESHOLD: u32 = 500;
/// How eagerly kcompactd compacts unasked, in percent. linux: vm.compaction_proactiveness
pub const PROACTIVENESS: u32 = 20;
/// Pages that are moved before anybody looks whether that is enough. linux: COMPACT_CLUSTER_MAX
pub const CLUSTER: u32 = 32;
/// A zone in which compaction failed is left alone for at most two to this power attempts. linux: COMPACT_MAX_DEFER_SHIFT
pub const DEFER_SHIFT_MAX: u8 = 6;
/// Percent between the score at which proactive compaction begins and that at which it ends.
const SCORE_GAP: u32 = 10;
/// Percent below which no proactiveness pushes a zone.
const SCORE_LEAST: u32 = 5;

/// How the free pages of a zone lie, with an order in mind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeShape {
    /// Free pages of the zone.
    pub pages: u64,
    /// Free blocks of the zone, of all orders.
    pub blocks: u64,
    /// How many blocks of the order they would yield as they lie.
    pub suitable: u64,
}

impl FreeShape {
    /// Counts free blocks of one order, when blocks of order `wanted` are asked for.
    pub fn add(&mut self, order: Order, blocks: u64, wanted: Order) {
        self.pages += blocks << order.get();
        self.blocks += blocks;
        if order >= wanted {
            self.suitable += blocks << (order.get() - wanted.get());
        }
    }

    /// Why a request of this order fails, in thousandths: towards 0 for lack of memory, towards 1000 because what is
    /// free lies in pieces. `None` if there is a block that would do.
    pub fn fragmentation_index(&self, order: Order) -> Option<u32> {
        if self.suitable > 0 {
            return None;
        }
        let per_block = (1000 + self.pages * 1000 / u64::from(order.pages())).checked_div(self.blocks);
        Some(per_block.map_or(0, |share| 1000_u64.saturating_sub(share) as u32))
    }

    /// Free pages that no block of this order can be made of as they lie, in percent.
    pub fn unusable_percent(&self, order: Order) -> u32 {
        let unusable = self.pages - (self.suitable << order.get());
        (unusable * 100).checked_div(self.pages).unwrap_or(0) as u32
    }
}

/// Pages that must be free beyond a watermark, so that a block of this order can be made: the targets of the moves,
/// and what is taken meanwhile.
pub const fn gap(order: Order) -> u64 {
    2 << order.get()
}

/// What the score of a zone with so many pages counts for that of its node. linux: fragmentation_score_zone_weighted
pub const fn weighted_score(score: u32, zone_pages: u64, node_pages: u64) -> u32 {
    (zone_pages * score as u64 / (node_pages + 1)) as u32
}

/// Scores between which proactive compaction works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreMarks {
    /// Score above which proactive compaction begins.
    pub high: u32,
    /// A zone that is not above this is good enough.
    pub low: u32,
}

impl ScoreMarks {
    /// The marks for this proactiveness; `None` if it is 0, and nothing is compacted unasked.
    pub fn of(proactiveness: u32) -> Option<ScoreMarks> {
        let low = 100_u32.saturating_sub(proactiveness).max(SCORE_LEAST);
        (proactiveness > 0).then(|| ScoreMarks { high: (low + SCORE_GAP).min(100), low })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(blocks: &[(u8, u64)], wanted: u8) -> FreeShape {
        let mut shape = FreeShape::default();
        blocks.iter().for_each(|&(order, blocks)| shape.add(Order::new(order), blocks, Order::new(wanted)));
        shape
    }

    #[test]
    fn the_index_tells_lack_from_pieces() {
        let order = Order::new(9);
        assert_eq!(shape(&[(0, 10_000)], 9).fragmentation_index(order), Some(998), "plenty, in single pages");
        assert_eq!(shape(&[(0, 3)], 9).fragmentation_index(order), Some(665), "three pages");
        assert_eq!(shape(&[(8, 1)], 9).fragmentation_index(order), Some(0), "half of what is asked for, in one piece");
        assert_eq!(shape(&[], 9).fragmentation_index(order), Some(0), "nothing");
        assert_eq!(shape(&[(0, 10_000), (10, 1)], 9).fragmentation_index(order), None, "a block would do");
    }

    #[test]
    fn what_is_unusable_is_what_blocks_cannot_be_made_of() {
        assert_eq!(shape(&[(0, 512), (10, 1)], 9).unusable_percent(Order::new(9)), 33);
        assert_eq!(shape(&[], 9).unusable_percent(Order::new(9)), 0);
    }

    #[test]
    fn marks_follow_proactiveness() {
        assert_eq!(ScoreMarks::of(PROACTIVENESS), Some(ScoreMarks { high: 90, low: 80 }));
        assert_eq!(ScoreMarks::of(100), Some(ScoreMarks { high: 15, low: 5 }));
        assert_eq!(ScoreMarks::of(0), None);
    }

    #[test]
    fn zones_count_by_their_size_and_a_little_less() {
        assert_eq!(weighted_score(100, 1000, 1000), 99, "the kernel divides by one page more");
        assert_eq!(weighted_score(100, 99, 99), 99);
        assert_eq!(weighted_score(80, 250, 999), 20);
    }

    #[test]
    fn marks_stay_within_percent() {
        assert_eq!(ScoreMarks::of(5), Some(ScoreMarks { high: 100, low: 95 }));
        assert_eq!(ScoreMarks::of(96), Some(ScoreMarks { high: 15, low: 5 }));
        assert_eq!(ScoreMarks::of(1), Some(ScoreMarks { high: 100, low: 99 }));
    }

    #[test]
    fn larger_blocks_count_as_many_of_those_wanted() {
        let free = shape(&[(3, 2), (5, 1), (10, 3)], 4);
        assert_eq!(free, FreeShape { pages: 16 + 32 + 3072, blocks: 6, suitable: 2 + 3 * 64 });
        assert_eq!((gap(Order::ZERO), gap(Order::new(9))), (2, 1024));
    }
}
