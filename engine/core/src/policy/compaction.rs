//! Compaction: whether moving pages would help, how hard the work was lately, and when to try again.
//!
//! linux: mm/vmstat.c:fill_contig_page_info, __fragmentation_index, extfrag_for_order;
//! mm/compaction.c:fragmentation_score_wmark, compact_gap, suitable_migration_source, fast_find_migrateblock,
//! compaction_suit_allocation_order; mm/vmscan.c:compaction_ready

use super::flags::AllocFlags;
use crate::base::{MigrateType, Order};

/// Fragmentation index up to which a failure is put down to lack of memory. linux: vm.extfrag_threshold
pub const EXTFRAG_THRESHOLD: u32 = 500;
/// How eagerly kcompactd compacts unasked, in percent. linux: vm.compaction_proactiveness
pub const PROACTIVENESS: u32 = 20;
/// Pages that are moved before anybody looks whether that is enough. linux: COMPACT_CLUSTER_MAX
pub const CLUSTER: u32 = 32;
/// A zone in which compaction failed is left alone for at most two to this power attempts. linux:
/// COMPACT_MAX_DEFER_SHIFT
pub const DEFER_SHIFT_MAX: u8 = 6;
/// Percent between the score at which proactive compaction begins and that at which it ends.
const SCORE_GAP: u32 = 10;
/// Percent below which no proactiveness pushes a zone.
const SCORE_LEAST: u32 = 5;

/// Every choice about compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// How much must be free for reclaim to leave a zone to compaction.
    pub spared: SparedZones,
    /// Whether free pages of CMA areas are room for a request that may not use them.
    pub cma: CmaRoom,
    /// Which pageblocks are emptied for a request.
    pub sources: Sources,
    /// Whether a zone in which compaction failed is left alone for a while.
    pub deferral: Deferral,
    /// What follows where compaction is left alone for a while.
    pub deferred: AfterDeferral,
    /// Where proactive compaction begins and ends.
    pub marks: ProactiveMarks,
}

impl CompactionPolicy {
    /// As in the pinned kernel.
    pub const LINUX_6_12: CompactionPolicy = CompactionPolicy {
        spared: SparedZones::WithRoom,
        cma: CmaRoom::Counted,
        sources: Sources::ByEffort,
        deferral: Deferral::Growing,
        deferred: AfterDeferral::Try,
        marks: ProactiveMarks::Floored,
    };
}

/// How much must be free in a zone for reclaim on behalf of a large block to leave it to compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparedZones {
    /// Room to compact above the low watermark, and the same room above the high one without pages of CMA areas.
    WithRoom,
    /// Room above the high watermark, and the distance between min and low besides; pages of CMA areas count.
    /// linux: since 6.15
    AtHighMark,
}

/// Whether free pages of CMA areas are room to compact for a large request that may not use them, and does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmaRoom {
    /// They are: pages are moved there.
    Counted,
    /// They are not: the block might be made where the request cannot have it. linux: since 6.14
    Apart,
}

/// Which pageblocks are emptied for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// With little effort, those of its own type, and CMA for movable ones; else all.
    ByEffort,
    /// None of CMA areas that it may not use, with any effort; and movable ones with little effort too, where it wants
    /// a whole pageblock, which it can claim. linux: 7.2
    ByUse,
}

/// Whether compaction is tried in a zone in which it did all it could and failed. linux:
/// mm/compaction.c:defer_compaction
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// Not for the next attempts: twice as many after each failure, at most 64.
    Growing,
    /// At once. No kernel does so: it takes that one mechanism away, so that what it does can be measured.
    None,
}

/// What a request does whose zones compaction leaves alone for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDeferral {
    /// It tries once more for a block, and counts as a stall.
    Try,
    /// It does neither. linux: 7.2
    Leave,
}

/// Where proactive compaction begins and ends, for a high proactiveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProactiveMarks {
    /// It never asks for a score below 5, and begins 10 above that at which it ends.
    Floored,
    /// No score is too low, and it begins half as high again where that is less. linux: since 6.16
    Scaled,
}

/// For whom memory is compacted, and how hard that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// For a request, which waits for no page.
    Hasty,
    /// For a request, which waits for pages.
    Thorough,
    /// For everybody, by kcompactd.
    Background,
}

/// A compaction, and what decides about the pageblocks that it empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// For whom, and how hard.
    pub trial: Trial,
    /// Migratetype of the request.
    pub migratetype: MigrateType,
    /// Whether it may use pages of CMA areas.
    pub uses_cma: bool,
    /// Whether it wants a whole pageblock, or more.
    pub wants_pageblock: bool,
}

/// Whether pages of a pageblock of this type are moved away for it.
pub fn accepts_source(sources: Sources, wanted: SourceFacts, block: MigrateType) -> bool {
    let claims = sources == Sources::ByUse && wanted.wants_pageblock;
    let is_own = if wanted.migratetype == MigrateType::Movable || claims {
        matches!(block, MigrateType::Movable | MigrateType::Cma)
    } else {
        block == wanted.migratetype
    };
    let is_useless = sources == Sources::ByUse && block == MigrateType::Cma && !wanted.uses_cma;
    match wanted.trial {
        Trial::Background => true,
        Trial::Thorough => !is_useless,
        Trial::Hasty => !is_useless && is_own,
    }
}

/// Whether it empties whichever pageblock is the easiest: not one of movable pages for small requests of another type.
pub fn searches_quickly(sources: Sources, wanted: SourceFacts) -> bool {
    let claims = sources == Sources::ByUse && wanted.wants_pageblock;
    wanted.trial == Trial::Background || wanted.migratetype == MigrateType::Movable || claims
}

/// Whether a request that makes no great effort needs room outside of CMA areas.
pub fn needs_own_room(cma: CmaRoom, order: Order, trial: Trial, flags: AllocFlags) -> bool {
    let is_half_hearted = order > Order::COSTLY && trial == Trial::Hasty;
    cma == CmaRoom::Apart && is_half_hearted && !flags.contains(AllocFlags::CMA)
}

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
    pub fn for_proactiveness(proactiveness: u32, marks: ProactiveMarks) -> Option<ScoreMarks> {
        let wanted = 100_u32.saturating_sub(proactiveness);
        let (low, gap) = match marks {
            ProactiveMarks::Floored => (wanted.max(SCORE_LEAST), SCORE_GAP),
            ProactiveMarks::Scaled => (wanted, SCORE_GAP.min(wanted / 2)),
        };
        (proactiveness > 0).then(|| ScoreMarks { high: (low + gap).min(100), low })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floored(proactiveness: u32) -> Option<ScoreMarks> {
        ScoreMarks::for_proactiveness(proactiveness, ProactiveMarks::Floored)
    }

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
        assert_eq!(floored(PROACTIVENESS), Some(ScoreMarks { high: 90, low: 80 }));
        assert_eq!(floored(100), Some(ScoreMarks { high: 15, low: 5 }));
        assert_eq!(floored(0), None);
    }

    #[test]
    fn zones_count_by_their_size_and_a_little_less() {
        assert_eq!(weighted_score(100, 1000, 1000), 99, "the kernel divides by one page more");
        assert_eq!(weighted_score(100, 99, 99), 99);
        assert_eq!(weighted_score(80, 250, 999), 20);
    }

    #[test]
    fn marks_stay_within_percent() {
        assert_eq!(floored(5), Some(ScoreMarks { high: 100, low: 95 }));
        assert_eq!(floored(96), Some(ScoreMarks { high: 15, low: 5 }));
        assert_eq!(floored(1), Some(ScoreMarks { high: 100, low: 99 }));
    }

    #[test]
    fn larger_blocks_count_as_many_of_those_wanted() {
        let free = shape(&[(3, 2), (5, 1), (10, 3)], 4);
        assert_eq!(free, FreeShape { pages: 16 + 32 + 3072, blocks: 6, suitable: 2 + 3 * 64 });
        assert_eq!((gap(Order::ZERO), gap(Order::new(9))), (2, 1024));
    }

    #[test]
    fn no_score_is_too_low_where_marks_are_scaled() {
        assert_eq!(scaled(PROACTIVENESS), floored(PROACTIVENESS), "unless one asks for much, they are the same");
        assert_eq!(scaled(90), Some(ScoreMarks { high: 15, low: 10 }));
        assert_eq!(scaled(100), Some(ScoreMarks { high: 0, low: 0 }));
        assert_eq!(scaled(0), None);
    }

    fn scaled(proactiveness: u32) -> Option<ScoreMarks> {
        ScoreMarks::for_proactiveness(proactiveness, ProactiveMarks::Scaled)
    }

    #[test]
    fn what_is_emptied_is_of_use_to_the_request() {
        use MigrateType::{Movable, Unmovable};
        let facts =
            SourceFacts { trial: Trial::Hasty, migratetype: Unmovable, uses_cma: false, wants_pageblock: false };
        for sources in [Sources::ByEffort, Sources::ByUse] {
            assert_eq!(accepted(sources, facts), [true, false, false, false]);
            assert_eq!(accepted(sources, SourceFacts { trial: Trial::Background, ..facts }), [true; 4]);
            let movable = SourceFacts { migratetype: Movable, uses_cma: true, ..facts };
            assert_eq!(accepted(sources, movable), [false, true, false, true]);
        }
        let whole = SourceFacts { wants_pageblock: true, ..facts };
        assert_eq!(accepted(Sources::ByEffort, whole), [true, false, false, false]);
        assert_eq!(accepted(Sources::ByUse, whole), [false, true, false, false], "it claims what it empties");
        assert!(!searches_quickly(Sources::ByEffort, whole) && searches_quickly(Sources::ByUse, whole));
        let hard = SourceFacts { trial: Trial::Thorough, ..facts };
        assert_eq!(accepted(Sources::ByEffort, hard), [true; 4]);
        assert_eq!(accepted(Sources::ByUse, hard), [true, true, true, false]);
    }

    /// Whether pages move out of unmovable, movable, reclaimable and CMA pageblocks.
    fn accepted(sources: Sources, facts: SourceFacts) -> [bool; 4] {
        use MigrateType::{Cma, Movable, Reclaimable, Unmovable};
        [Unmovable, Movable, Reclaimable, Cma].map(|migratetype| accepts_source(sources, facts, migratetype))
    }
}
