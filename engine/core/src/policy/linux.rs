//! Policies of kernels after 6.12. Each is given as the changes since the one before, as far as the engine implements
//! them.
//!
//! `LINUX.md` lists which kernel has which rule, what is missing here, and which rules were verified by more than the
//! sources.
//!
//! linux: mm/page_alloc.c, mm/compaction.c, mm/vmscan.c, mm/slub.c of 6.12.107, 7.2.13 and 7.3.4
//!
//! # Design
//!
//! Each change between two kernels is a switch or a number of its own. A difference between the engine and a later
//! kernel can therefore be attributed to one change.

use super::compaction::{AfterDeferral, CmaRoom, CompactionPolicy, ProactiveMarks, Sources, SparedZones};
use super::kswapd::{BoostRuns, BusyNodes, Hope, KswapdPolicy};
use super::slab::{SlabChoices, SlabPolicy};
use super::slowpath::RetryPolicy;
use super::{ContigPolicy, DrainPolicy, FlagsPolicy, HighAtomicPolicy, Numbers, Policy};

impl Policy {
    /// Linux 6.18: blocks of order 1 to 3 stay longer on lists, requests avoid nodes on which kswapd works, kswapd
    /// tries again after a drain too, compaction requires different free space, proactive compaction has no lowest
    /// target, and requests for huge pages of one node reclaim.
    pub const LINUX_6_18: Policy = Policy {
        retry: RetryPolicy::ByOutcomeOnAnyNode,
        kswapd: KswapdPolicy { nodes: BusyNodes::Spared, hope: Hope::Drains, ..KswapdPolicy::LINUX_6_12 },
        compaction: CompactionPolicy {
            spared: SparedZones::AtHighMark,
            cma: CmaRoom::Apart,
            marks: ProactiveMarks::Scaled,
            ..CompactionPolicy::LINUX_6_12
        },
        numbers: Numbers { pcp_free_high: Some(50), ..Policy::LINUX_6_12.numbers },
        ..Policy::LINUX_6_12
    };

    /// Linux 7.2: drains by batches, atomic requests that bypass empty lists, ranges freed as blocks, one first round
    /// of the slow path for all requests, other rules for a kswapd that has given up, pageblocks emptied by use, no
    /// further attempt after deferred compaction, and sheaves.
    pub const LINUX_7_2: Policy = Policy {
        drain: DrainPolicy::Batched,
        highatomic: HighAtomicPolicy::PastLists,
        retry: RetryPolicy::OneRound,
        kswapd: KswapdPolicy { hope: Hope::Balance, boosts: BoostRuns::Excused, ..Policy::LINUX_6_18.kswapd },
        compaction: CompactionPolicy {
            sources: Sources::ByUse,
            deferred: AfterDeferral::Leave,
            ..Policy::LINUX_6_18.compaction
        },
        contig: ContigPolicy::Batched,
        slab: SlabChoices { objects: SlabPolicy::Sheaves, ..SlabChoices::LINUX },
        ..Policy::LINUX_6_18
    };

    /// Linux 7.3: GFP flags are tested instead of copied, and atomic requests use the reserve before they grow it.
    pub const LINUX_7_3: Policy =
        Policy { flags: FlagsPolicy::Plain, highatomic: HighAtomicPolicy::ReuseFirst, ..Policy::LINUX_7_2 };
}
