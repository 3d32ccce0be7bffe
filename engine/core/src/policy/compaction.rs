//! Compaction: whether moving pages would help, which pageblocks are emptied, and when a failed attempt is repeated.

use super::flags::AllocFlags;
use crate::base::{MigrateType, Order};

/// Fragmentation index up to which a failure is attributed to lack of memory. linux: vm.extfrag_threshold
pub const EXTFRAG_THRESHOLD: u32 = 500;
/// Proactiveness of kcompactd in percent. linux: vm.compaction_proactiveness
pub const PROACTIVENESS: u32 = 20;
/// Pages that compaction moves between two checks whether the run is finished. linux: COMPACT_CLUSTER_MAX
pub const CLUSTER: u32 = 32;
/// Binary logarithm of the longest deferral: only the last of 64 attempts is made in the zone.
/// linux: COMPACT_MAX_DEFER_SHIFT
pub const DEFER_SHIFT_MAX: u8 = 6;
/// Distance in percent between the scores at which proactive compaction begins and ends.
const SCORE_GAP: u32 = 10;
/// Lowest target score of proactive compaction in percent.
const SCORE_LEAST: u32 = 5;

/// All choices about compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// Free pages that reclaim requires before it leaves a zone to compaction.
    pub spared: SparedZones,
    /// Whether free pages of CMA areas count as room when a zone is checked for compaction. Applies to direct
    /// compaction with async effort, for a costly request that may not use pages of CMA areas.
    pub cma: CmaRoom,
    /// Pageblocks that are emptied for a request.
    pub sources: Sources,
    /// Skipping of a zone in which compaction failed.
    pub deferral: Deferral,
    /// Reaction of a request to deferred compaction.
    pub deferred: AfterDeferral,
    /// Scores at which proactive compaction begins and ends.
    pub marks: ProactiveMarks,
}

impl CompactionPolicy {
    /// Choices of Linux 6.12.
    pub const LINUX_6_12: CompactionPolicy = CompactionPolicy {
        spared: SparedZones::WithRoom,
        cma: CmaRoom::Counted,
        sources: Sources::ByEffort,
        deferral: Deferral::Growing,
        deferred: AfterDeferral::Try,
        marks: ProactiveMarks::Floored,
    };
}

/// Free pages that a zone needs so that reclaim for a large block leaves it to compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparedZones {
    /// Room to compact above the low watermark, and the same room above the high one without pages of CMA areas.
    WithRoom,
    /// Room above the high watermark plus the distance between min and low; pages of CMA areas count. linux: since 6.15
    AtHighMark,
}

/// Use of free pages of CMA areas as room for compaction. Applies to direct compaction with async effort, for a costly
/// request that may not use pages of CMA areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmaRoom {
    /// They count, because pages can be moved there.
    Counted,
    /// They do not count, because the block might be created where the request cannot use it. linux: since 6.14
    Apart,
}

/// Pageblocks that are emptied for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// In direct compaction with async effort, pageblocks of the request's own type, and also CMA for movable requests;
    /// otherwise all pageblocks.
    ByEffort,
    /// In direct compaction, no pageblocks of CMA areas that the request may not use. With async effort, a request for
    /// a whole pageblock empties movable pageblocks, which it can then claim, and other requests empty those of their
    /// own type. kcompactd empties all pageblocks. linux: 7.2
    ByUse,
}

/// Retry of compaction in a zone in which it failed, in a run of kcompactd or with more than async effort.
/// linux: mm/compaction.c:defer_compaction
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// The next attempts are skipped: one after the first failure, then 3, 7 and so on, at most 63.
    Growing,
    /// Compaction is tried again at once. No kernel does this; the value switches the mechanism off, so that its effect
    /// can be measured.
    None,
}

/// Reaction of a request to compaction that is deferred in all its zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDeferral {
    /// The request tries once more to get a block, and counts as a stall.
    Try,
    /// The request does neither. linux: 7.2
    Leave,
}

/// Scores at which proactive compaction begins and ends, if the proactiveness is high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProactiveMarks {
    /// The target score is at least 5, and compaction begins 10 above it.
    Floored,
    /// The target score has no lower limit. Compaction begins 10 above it, or half as high again if that is less.
    /// linux: since 6.16
    Scaled,
}

/// Purpose and effort of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// For a request, without waiting for pages.
    Hasty,
    /// For a request, waiting for pages.
    Thorough,
    /// By kcompactd, for all later requests.
    Background,
}

/// Properties of a compaction that decide which pageblocks it empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct SourceFacts {
    /// Purpose and effort.
    pub trial: Trial,
    /// Migratetype of the request.
    pub migratetype: MigrateType,
    /// Whether the request may use pages of CMA areas.
    pub uses_cma: bool,
    /// Whether the request is for a whole pageblock or more.
    pub wants_pageblock: bool,
}

/// Returns whether a compaction with the properties `wanted` moves pages out of pageblocks of type `block`.
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

/// Returns whether a run may search the free lists for the pageblock that is easiest to empty. Direct compaction for an
/// unmovable or reclaimable request may not, because the request would fill a pageblock of movable pages. Under
/// [`Sources::ByUse`] a request for a whole pageblock may, because it claims the pageblock.
pub fn searches_quickly(sources: Sources, wanted: SourceFacts) -> bool {
    let claims = sources == Sources::ByUse && wanted.wants_pageblock;
    wanted.trial == Trial::Background || wanted.migratetype == MigrateType::Movable || claims
}

/// Returns whether compaction needs room outside of CMA areas: under [`CmaRoom::Apart`], direct compaction with async
/// effort does, for a costly request that may not use pages of CMA areas.
pub fn needs_own_room(cma: CmaRoom, order: Order, trial: Trial, flags: AllocFlags) -> bool {
    let is_half_hearted = order > Order::COSTLY && trial == Trial::Hasty;
    cma == CmaRoom::Apart && is_half_hearted && !flags.contains(AllocFlags::CMA)
}

/// Distribution of a zone's free pages, with respect to one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct FreeShape {
    /// Free pages of the zone.
    pub pages: u64,
    /// Free blocks of the zone, of all orders.
    pub blocks: u64,
    /// Number of blocks of the order that can be cut from the free blocks.
    pub suitable: u64,
}

impl FreeShape {
    /// Adds free blocks of one order; `wanted` is the order of interest.
    pub fn add(&mut self, order: Order, blocks: u64, wanted: Order) {
        self.pages += blocks << order.get();
        self.blocks += blocks;
        if order >= wanted {
            self.suitable += blocks << (order.get() - wanted.get());
        }
    }

    /// Returns the fragmentation index for this order in thousandths: towards 0 if a failure is due to lack of memory,
    /// towards 1000 if it is due to fragmentation. `None` if a sufficient block is free.
    pub fn fragmentation_index(&self, order: Order) -> Option<u32> {
        if self.suitable > 0 {
            return None;
        }
        let per_block = (1000 + self.pages * 1000 / u64::from(order.pages())).checked_div(self.blocks);
        Some(per_block.map_or(0, |share| 1000_u64.saturating_sub(share) as u32))
    }

    /// Returns the share of free pages, in percent, that are in blocks too small for this order.
    pub fn unusable_percent(&self, order: Order) -> u32 {
        let unusable = self.pages - (self.suitable << order.get());
        (unusable * 100).checked_div(self.pages).unwrap_or(0) as u32
    }
}

/// Returns the pages that must be free above a watermark to create a block of this order: the targets of the moves, and
/// pages that are allocated meanwhile.
pub const fn gap(order: Order) -> u64 {
    2 << order.get()
}

/// Returns the contribution of a zone's score to that of its node, by the zone's share of the node's pages. As in
/// Linux, the node counts one page more than it has. linux: fragmentation_score_zone_weighted
pub const fn weighted_score(score: u32, zone_pages: u64, node_pages: u64) -> u32 {
    (zone_pages * score as u64 / (node_pages + 1)) as u32
}

/// Scores between which proactive compaction works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct ScoreMarks {
    /// Score above which proactive compaction begins.
    pub high: u32,
    /// Score at or below which a zone needs no more compaction.
    pub low: u32,
}

impl ScoreMarks {
    /// Returns the marks for a proactiveness; `None` if it is 0, which disables proactive compaction.
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
    fn fragmentation_index_separates_shortage_from_fragments() {
        let order = Order::new(9);
        assert_eq!(shape(&[(0, 10_000)], 9).fragmentation_index(order), Some(998), "10,000 single pages");
        assert_eq!(shape(&[(0, 3)], 9).fragmentation_index(order), Some(665), "three pages");
        assert_eq!(shape(&[(8, 1)], 9).fragmentation_index(order), Some(0), "one block of half the requested size");
        assert_eq!(shape(&[], 9).fragmentation_index(order), Some(0), "nothing");
        assert_eq!(
            shape(&[(0, 10_000), (10, 1)], 9).fragmentation_index(order),
            None,
            "one free block is large enough"
        );
    }

    #[test]
    fn unusable_percent_counts_blocks_below_the_order() {
        assert_eq!(shape(&[(0, 512), (10, 1)], 9).unusable_percent(Order::new(9)), 33);
        assert_eq!(shape(&[], 9).unusable_percent(Order::new(9)), 0);
    }

    #[test]
    fn floored_marks_follow_proactiveness() {
        assert_eq!(floored(PROACTIVENESS), Some(ScoreMarks { high: 90, low: 80 }));
        assert_eq!(floored(100), Some(ScoreMarks { high: 15, low: 5 }));
        assert_eq!(floored(0), None);
    }

    #[test]
    fn weighted_score_divides_by_one_page_more() {
        assert_eq!(weighted_score(100, 1000, 1000), 99, "the kernel divides by one more page");
        assert_eq!(weighted_score(100, 99, 99), 99);
        assert_eq!(weighted_score(80, 250, 999), 20);
    }

    #[test]
    fn score_marks_stay_within_0_and_100() {
        assert_eq!(floored(5), Some(ScoreMarks { high: 100, low: 95 }));
        assert_eq!(floored(96), Some(ScoreMarks { high: 15, low: 5 }));
        assert_eq!(floored(1), Some(ScoreMarks { high: 100, low: 99 }));
    }

    #[test]
    fn larger_blocks_count_as_several_suitable_blocks() {
        let free = shape(&[(3, 2), (5, 1), (10, 3)], 4);
        assert_eq!(free, FreeShape { pages: 16 + 32 + 3072, blocks: 6, suitable: 2 + 3 * 64 });
        assert_eq!((gap(Order::ZERO), gap(Order::new(9))), (2, 1024));
    }

    #[test]
    fn scaled_marks_reach_zero() {
        assert_eq!(scaled(PROACTIVENESS), floored(PROACTIVENESS), "both are equal at the default");
        assert_eq!(scaled(90), Some(ScoreMarks { high: 15, low: 10 }));
        assert_eq!(scaled(100), Some(ScoreMarks { high: 0, low: 0 }));
        assert_eq!(scaled(0), None);
    }

    fn scaled(proactiveness: u32) -> Option<ScoreMarks> {
        ScoreMarks::for_proactiveness(proactiveness, ProactiveMarks::Scaled)
    }

    #[test]
    fn accepted_sources_follow_policy_and_effort() {
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
        assert_eq!(
            accepted(Sources::ByUse, whole),
            [false, true, false, false],
            "the request claims the pageblock that it empties"
        );
        assert!(!searches_quickly(Sources::ByEffort, whole) && searches_quickly(Sources::ByUse, whole));
        let hard = SourceFacts { trial: Trial::Thorough, ..facts };
        assert_eq!(accepted(Sources::ByEffort, hard), [true; 4]);
        assert_eq!(accepted(Sources::ByUse, hard), [true, true, true, false]);
    }

    /// Returns whether pages are moved out of unmovable, movable, reclaimable and CMA pageblocks.
    fn accepted(sources: Sources, facts: SourceFacts) -> [bool; 4] {
        use MigrateType::{Cma, Movable, Reclaimable, Unmovable};
        [Unmovable, Movable, Reclaimable, Cma].map(|migratetype| accepts_source(sources, facts, migratetype))
    }
}
