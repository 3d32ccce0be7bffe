//! Policies: pure functions from numbers and flags to decisions. Each file contains one decision with its alternatives,
//! and no lists or locks.
//!
//! A [`Policy`] is a value that is chosen when an allocator is created. It is read where a decision is made. Zones and
//! per-CPU lists have copies of the parts that their checks need.
//!
//! # Design
//!
//! A policy is a `Copy` value. A platform that needs one set of rules fixes it in its type (`Platform::POLICY`). Code
//! for other rules is then removed at compile time, and a configuration with other rules is refused.
//!
//! `pcp=off` is a negative control. Fidelity must be worse with it, and a test checks that.

pub mod compaction;
pub mod fallback;
pub mod flags;
pub mod highatomic;
pub mod kswapd;
mod linux;
pub mod pcp;
pub mod slab;
pub mod slowpath;
pub mod watermark;

/// All choices that the engine leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Conversion of GFP flags to allocation flags.
    pub flags: FlagsPolicy,
    /// Waiting of requests for reclaim and compaction before they mix types.
    pub defrag_mode: DefragMode,
    /// Filling, draining and ownership of per-CPU lists.
    pub pcp: PcpPolicy,
    /// Hold time of the zone lock when a full list is drained.
    pub drain: DrainPolicy,
    /// Growth and shrinking of the high-atomic reserve.
    pub highatomic: HighAtomicPolicy,
    /// Effects of the high-atomic reserve on other requests.
    pub reserve: ReservePolicy,
    /// Reaction to the failure of a request's first compaction.
    pub retry: slowpath::RetryPolicy,
    /// Retries of kswapd, and avoidance of nodes on which it works.
    pub kswapd: kswapd::KswapdPolicy,
    /// Room that compaction needs, pageblocks that it empties, its deferral, and the scores of proactive compaction.
    pub compaction: compaction::CompactionPolicy,
    /// Number of neighbouring pages that are freed together.
    pub contig: ContigPolicy,
    /// Free objects of CPUs and slabs.
    pub slab: slab::SlabChoices,
    /// Numbers that replace those that Linux computes.
    pub numbers: Numbers,
}

/// Conversion of GFP flags to allocation flags; see [`flags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagsPolicy {
    /// Copies two bits by mask, so their values must coincide.
    Coupled,
    /// Tests the two bits, so their values may differ.
    Plain,
}

/// Preference of a request between waiting and mixing types in a pageblock. linux: vm.defrag_mode, since 6.15
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefragMode {
    /// A request mixes types as soon as its zones have no other memory. Only if its preferred zone is Normal and has
    /// lower zones beside it, the request tries these zones first.
    Off,
    /// Reclaim and compaction come first, in every zone; types are mixed only before the request would fail.
    On,
}

/// Policy of the per-CPU page lists; see [`pcp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcpPolicy {
    /// No lists: every request takes the zone lock.
    Off,
    /// Lists as in Linux 6.12.
    Linux,
    /// Linux's lists, with pages merged under the list's lock before they return to the zone.
    Merge,
    /// A list takes whole pageblocks or large parts, which its CPU then owns. While memory is plentiful, frees of their
    /// pages go to the owner's list, if its lock is free, and merge there.
    Owned,
    /// As `Owned`, but a free on another CPU is pushed onto the owner's stack without a lock.
    OwnedRemote,
}

impl PcpPolicy {
    /// Returns whether CPUs own pageblocks.
    #[inline]
    pub const fn owns(self) -> bool {
        matches!(self, PcpPolicy::Owned | PcpPolicy::OwnedRemote)
    }
}

/// Locking of a drain of a full per-CPU list. linux: mm/page_alloc.c:free_frozen_page_commit
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPolicy {
    /// All pages are returned under one hold of the zone lock.
    Whole,
    /// One batch is returned per hold, and both locks are released in between. If the list's lock cannot be taken again
    /// at once, the remaining pages stay. Each batch begins with the list of the freed page. linux: since 6.19
    Batched,
}

/// Growth, use and shrinking of the high-atomic reserve; see [`highatomic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighAtomicPolicy {
    /// Every atomic request above order 0 that finds its zone below the low watermark reserves its pageblock, up to the
    /// cap.
    Linux,
    /// As `Linux`, but only requests above order 3 reserve.
    SkipCostly,
    /// An atomic request above order 0 does not refill a list: if its list is empty, it uses the reserve, and reserves
    /// the pageblock from which the zone serves it. A request that a list served reserves nothing. linux: 7.2
    PastLists,
    /// As `PastLists`, and the request may use the reserve already at the low watermark. It reserves its pageblock only
    /// if the zone's ordinary free lists had to serve it below that mark. linux: since 7.3
    ReuseFirst,
    /// As `Linux`, but reserved blocks that were idle for a while are unreserved in the background.
    GiveBack,
}

/// Effects of the high-atomic reserve on requests that may not use it. The first value of each choice is Linux's. The
/// second switches that mechanism off, so that its effect can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservePolicy {
    /// Counting of free reserved pages for a zone's watermarks.
    pub watermark: ReserveWatermark,
    /// Counting of free reserved pages for the fragmentation index.
    pub index: ReserveIndex,
    /// Access of huge page requests to free reserved blocks.
    pub list: ReserveList,
    /// New type of a pageblock that a request takes out of the reserve.
    pub leaving: ReserveLeaving,
}

impl ReservePolicy {
    /// All four effects, as in Linux 6.12.
    pub const LINUX: ReservePolicy = ReservePolicy {
        watermark: ReserveWatermark::Apart,
        index: ReserveIndex::Counted,
        list: ReserveList::Closed,
        leaving: ReserveLeaving::ForRequest,
    };
}

/// Counting of free pages of the reserve in the watermark check of other requests.
/// linux: mm/page_alloc.c:__zone_watermark_unusable_free
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveWatermark {
    /// They do not count, so other requests see fewer free pages.
    Apart,
    /// They count, although other requests cannot use them.
    Counted,
}

/// Counting of free blocks of the reserve in the fragmentation index, by which compaction decides whether it is
/// worthwhile. linux: mm/vmstat.c:fill_contig_page_info
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveIndex {
    /// They count. One whole reserved block then makes compaction appear unnecessary.
    Counted,
    /// They do not count.
    Apart,
}

/// Access of movable requests for whole pageblocks to the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveList {
    /// Not allowed, as in Linux.
    Closed,
    /// Allowed when no other block is left. The block stays reserved and returns to the reserve when it is freed.
    Open,
}

/// New type of a pageblock that leaves the reserve to prevent a failed request.
/// linux: mm/page_alloc.c:unreserve_highatomic_pageblock
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveLeaving {
    /// Type of the request, regardless of the other pages in the block.
    ForRequest,
    /// Unmovable, like the requests that it served. Other requests must claim it, as any unmovable block.
    Unmovable,
}

/// Freeing of a range of pages, or of a batch of single ones. Both ways free the same pages and reject the same errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContigPolicy {
    /// Each page is freed separately, through the CPU's list.
    OneByOne,
    /// All pages are prepared first; neighbours are then freed together, as the largest blocks that fit.
    Batched,
}

/// Numbers that replace Linux's own; with `None` Linux's rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Pages that a per-CPU list moves in one batch.
    pub pcp_batch: Option<u32>,
    /// Divisor n of the maximum share 1/n of a zone on its per-CPU lists, which the CPUs divide; at least 8.
    /// linux: vm.percpu_pagelist_high_fraction
    pub pcp_high_fraction: Option<u32>,
    /// Recent frees, beyond a batch, at which all blocks of order 1 to 3 are returned; in percent of the list's lowest
    /// limit. 0 in 6.12, 50 since 6.16. linux: mm/page_alloc.c:free_unref_page_commit
    pub pcp_free_high: Option<u32>,
    /// Distance between watermarks in 1/10000 of a zone. linux: vm.watermark_scale_factor
    pub watermark_scale_factor: Option<u32>,
    /// Largest boost in 1/10000 of the high watermark; 0 disables boosting. linux: vm.watermark_boost_factor
    pub watermark_boost_factor: Option<u32>,
    /// Fragmentation index, in thousandths, above which a zone is compacted for a costly request.
    /// linux: vm.extfrag_threshold
    pub compaction_extfrag_threshold: Option<u32>,
    /// Proactiveness of compaction in percent; 0 disables proactive compaction. linux: vm.compaction_proactiveness
    pub compaction_proactiveness: Option<u32>,
    /// Minimum number of objects that a slab should have. Slabs with bitmaps have at most 63. linux: slab_min_objects
    pub slab_min_objects: Option<u32>,
    /// Largest order of slabs, unless a single object needs a larger one. linux: slab_max_order
    pub slab_max_order: Option<u32>,
    /// KiB of wholly free slabs that a CPU keeps of a cache; with sheaves, which own no slabs, the node keeps them.
    /// Linux counts objects. linux: mm/slub.c:set_cpu_partial
    pub slab_cpu_free: Option<u32>,
    /// KiB of objects for which a sheaf has room, between 4 and 124 objects. linux: mm/slub.c:calculate_sheaf_capacity
    pub slab_sheaf: Option<u32>,
    /// KiB of slabs that the objects of a sheaf may pin, for objects above 2 KiB; the same limit applies to all full
    /// sheaves of a barn together. Slabs of such objects have at most 1/32 of this size.
    pub slab_pinned: Option<u32>,
}

impl Policy {
    /// Policy of Linux 6.12. See `LINUX.md` for all known deviations.
    pub const LINUX_6_12: Policy = Policy {
        flags: FlagsPolicy::Coupled,
        defrag_mode: DefragMode::Off,
        pcp: PcpPolicy::Linux,
        drain: DrainPolicy::Whole,
        highatomic: HighAtomicPolicy::Linux,
        reserve: ReservePolicy::LINUX,
        retry: slowpath::RetryPolicy::ByOutcome,
        kswapd: kswapd::KswapdPolicy::LINUX_6_12,
        compaction: compaction::CompactionPolicy::LINUX_6_12,
        contig: ContigPolicy::OneByOne,
        slab: slab::SlabChoices::LINUX,
        numbers: Numbers {
            pcp_batch: None,
            pcp_high_fraction: None,
            pcp_free_high: None,
            watermark_scale_factor: None,
            watermark_boost_factor: None,
            compaction_extfrag_threshold: None,
            compaction_proactiveness: None,
            slab_min_objects: None,
            slab_max_order: None,
            slab_cpu_free: None,
            slab_sheaf: None,
            slab_pinned: None,
        },
    };

    /// This project's policy, which comparisons evaluate against Linux's.
    pub const FREEHOLD: Policy = Policy {
        flags: FlagsPolicy::Plain,
        pcp: PcpPolicy::OwnedRemote,
        highatomic: HighAtomicPolicy::GiveBack,
        contig: ContigPolicy::Batched,
        slab: slab::SlabChoices {
            objects: slab::SlabPolicy::SheavesBitmap,
            sizes: slab::SlabSizes::Fine,
            ..slab::SlabChoices::LINUX
        },
        numbers: Numbers {
            slab_min_objects: Some(256),
            slab_cpu_free: Some(1024),
            slab_sheaf: Some(1024),
            slab_pinned: Some(1024),
            ..Policy::LINUX_6_12.numbers
        },
        ..Policy::LINUX_6_12
    };
}

impl Policy {
    /// Returns whether the two policies are equal except for their numbers.
    pub fn has_rules_of(&self, other: &Policy) -> bool {
        self.rules() == other.rules()
    }

    /// Returns all choices but the numbers.
    fn rules(&self) -> impl PartialEq + use<> {
        let Policy {
            flags,
            defrag_mode,
            pcp,
            drain,
            highatomic,
            reserve,
            retry,
            kswapd,
            compaction,
            contig,
            slab,
            numbers: _,
        } = *self;
        (flags, defrag_mode, pcp, drain, highatomic, reserve, retry, kswapd, compaction, contig, slab)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::FREEHOLD
    }
}
