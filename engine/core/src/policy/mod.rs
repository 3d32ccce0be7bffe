//! Policy: plain facts in, a choice out. One decision a file, its rivals side by side; no lists, no locks.
//!
//! A [`Policy`] is a value, chosen when an allocator is made. Slow paths ask it; what a fast path needs is
//! resolved into the structures at construction.

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

/// Every choice the engine leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How GFP flags become allocation flags.
    pub flags: FlagsPolicy,
    /// Whether requests wait for reclaim and compaction rather than mix types.
    pub defrag_mode: DefragMode,
    /// How per-CPU lists are filled, drained and owned.
    pub pcp: PcpPolicy,
    /// How long the zone's lock is held when a full list gives back.
    pub drain: DrainPolicy,
    /// How the reserve for atomic requests grows and shrinks.
    pub highatomic: HighAtomicPolicy,
    /// What the reserve means to everybody else.
    pub reserve: ReservePolicy,
    /// What follows from a request's first compaction.
    pub retry: slowpath::RetryPolicy,
    /// When kswapd hopes, and who spares the node that it works on.
    pub kswapd: kswapd::KswapdPolicy,
    /// Where compaction has room, and which pageblocks it empties.
    pub compaction: compaction::CompactionPolicy,
    /// How many neighbouring pages are given back at once.
    pub contig: ContigPolicy,
    /// How CPUs and slabs hold free objects.
    pub slab: slab::SlabChoices,
    /// Numbers, where the caller does not want Linux's own computation.
    pub numbers: Numbers,
}

/// How GFP flags become allocation flags: [`flags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagsPolicy {
    /// Two bits are copied by mask: their values must coincide.
    Coupled,
    /// Two tests: the values may differ.
    Plain,
}

/// Whether a request would rather make its caller wait than mix types in a pageblock. linux: vm.defrag_mode, since 6.15
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefragMode {
    /// It mixes types as soon as its zones have nothing else; only a preferred zone with another below it is spared at
    /// first.
    Off,
    /// Reclaim and compaction come first, in every zone; types are mixed only before the request would fail.
    On,
}

/// What per-CPU lists do: [`pcp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcpPolicy {
    /// No lists: every request takes the zone lock.
    Off,
    /// Lists as in the pinned kernel.
    Linux,
    /// Linux's lists, whose pages are merged under the list's lock before they go back to the zone.
    Merge,
    /// A list takes pageblocks, whole or in large parts, which its CPU owns from then on: frees of their pages go to
    /// the owner's list, if its lock is free, and merge there.
    Owned,
    /// The same, but a free on another CPU is pushed onto the owner's stack, and takes no lock.
    OwnedRemote,
}

impl PcpPolicy {
    /// Whether CPUs own pageblocks.
    #[inline]
    pub const fn owns(self) -> bool {
        matches!(self, PcpPolicy::Owned | PcpPolicy::OwnedRemote)
    }
}

/// How a full per-CPU list gives back what is too much. linux: mm/page_alloc.c:free_frozen_page_commit
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainPolicy {
    /// All of it under one hold of the zone lock.
    Whole,
    /// A batch under each hold, and both locks are open in between; if the list's own cannot be had again at once, the
    /// rest stays. Each batch begins with the list that was freed to. linux: since 6.19
    Batched,
}

/// How the high-atomic reserve grows, is used and shrinks: [`highatomic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighAtomicPolicy {
    /// Every atomic request above order 0 that finds its zone below the low watermark reserves its pageblock.
    Linux,
    /// The same, but only requests above order 3 do.
    SkipCostly,
    /// Such a request refills no list: where its list is empty, it looks into the reserve, and reserves the pageblock
    /// that the zone serves it from. What a list served reserves nothing. linux: 7.2
    PastLists,
    /// The same, and it may look into the reserve at the low watermark already; only what the zone's ordinary free
    /// lists had to serve, below that mark, reserves its pageblock. linux: since 7.3
    ReuseFirst,
    /// As Linux, but what nobody used for a while is given back in the background.
    GiveBack,
}

/// What the high-atomic reserve means to requests that it is not for. Linux chose the first value of each; the second
/// takes that one mechanism away, so that what it does can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservePolicy {
    /// Whether free reserved pages count for a zone's watermarks.
    pub watermark: ReserveWatermark,
    /// Whether free reserved pages count for the fragmentation index.
    pub index: ReserveIndex,
    /// Whether huge pages may be taken from free reserved blocks.
    pub list: ReserveList,
    /// What a pageblock becomes that a request takes out of the reserve.
    pub leaving: ReserveLeaving,
}

impl ReservePolicy {
    /// All four effects, as in the pinned kernel.
    pub const LINUX: ReservePolicy = ReservePolicy {
        watermark: ReserveWatermark::Apart,
        index: ReserveIndex::Counted,
        list: ReserveList::Closed,
        leaving: ReserveLeaving::ForRequest,
    };
}

/// Whether free pages of the reserve lift a zone above its watermark for others.
/// linux: mm/page_alloc.c:__zone_watermark_unusable_free
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveWatermark {
    /// They do not: others see fewer free pages.
    Apart,
    /// They do, although others cannot have them.
    Counted,
}

/// Whether free blocks of the reserve count in the fragmentation index, by which compaction decides whether it is
/// worth a try. linux: mm/vmstat.c:fill_contig_page_info
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveIndex {
    /// They do: one whole reserved block says that there is no need to compact.
    Counted,
    /// They do not count.
    Apart,
}

/// Whether movable requests for whole pageblocks may take them from the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveList {
    /// They may not, as in Linux.
    Closed,
    /// They may, when nothing else is left. The block stays reserved, and comes back to the reserve.
    Open,
}

/// What a pageblock becomes that leaves the reserve, so that a request need not fail.
/// linux: mm/page_alloc.c:unreserve_highatomic_pageblock
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveLeaving {
    /// One of the request's type, whatever else lies in it.
    ForRequest,
    /// Unmovable, as what it served is: others must claim it as they do any such block.
    Unmovable,
}

/// How a range of pages, or a batch of single ones, goes back. Both ways free the same pages and refuse the same
/// mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContigPolicy {
    /// Each page by itself, through the CPU's list.
    OneByOne,
    /// All pages are prepared first; neighbours go back together, as the largest blocks that fit.
    Batched,
}

/// Numbers that replace Linux's own; `None` leaves it to Linux's rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Pages a per-CPU list moves at once.
    pub pcp_batch: Option<u32>,
    /// A per-CPU list holds at most this fraction (1/n) of its zone, split between CPUs; at least 8.
    /// linux: vm.percpu_pagelist_high_fraction
    pub pcp_high_fraction: Option<u32>,
    /// Share of a list's lowest limit, in percent, that must have been freed lately, beyond a batch, before blocks of
    /// order 1 to 3 are all given back: 0 in 6.12, 50 since 6.16. linux: mm/page_alloc.c:free_unref_page_commit
    pub pcp_free_high: Option<u32>,
    /// Distance between watermarks in 1/10000 of a zone. linux: vm.watermark_scale_factor
    pub watermark_scale_factor: Option<u32>,
    /// Largest boost in 1/10000 of the high watermark; 0 switches boosting off. linux: vm.watermark_boost_factor
    pub watermark_boost_factor: Option<u32>,
    /// A costly request is compacted for if the zone's fragmentation index is above this, in thousandths.
    /// linux: vm.extfrag_threshold
    pub compaction_extfrag_threshold: Option<u32>,
    /// How eagerly memory is compacted before anybody asks, in percent; 0 switches that off.
    /// linux: vm.compaction_proactiveness
    pub compaction_proactiveness: Option<u32>,
    /// Objects that a slab should have at least, unless they are bits of a word: that has 63 at most. linux:
    /// slab_min_objects
    pub slab_min_objects: Option<u32>,
    /// The largest order of slabs, unless a single object needs a larger one. linux: slab_max_order
    pub slab_max_order: Option<u32>,
    /// KiB of wholly free slabs that a CPU keeps of a cache, or its node where CPUs have sheaves and own no slab; Linux
    /// counts objects. linux: mm/slub.c:set_cpu_partial
    pub slab_cpu_free: Option<u32>,
    /// KiB of objects that a sheaf has room for, 4 to 124 objects. linux: mm/slub.c:calculate_sheaf_capacity
    pub slab_sheaf: Option<u32>,
    /// KiB of slabs of objects above 2 KiB that a sheaf may keep from going back, and so may all full ones of a barn;
    /// there, a slab is a 32nd of it at most.
    pub slab_pinned: Option<u32>,
}

impl Policy {
    /// The pinned kernel. See `LINUX.md` for every known deviation.
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

    /// What this project chose so far: the candidate that comparisons put against the pinned kernel.
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
            slab_max_order: Some(6),
            slab_cpu_free: Some(1024),
            slab_sheaf: Some(1024),
            slab_pinned: Some(4096),
            ..Policy::LINUX_6_12.numbers
        },
        ..Policy::LINUX_6_12
    };
}

impl Policy {
    /// Whether it is this policy, numbers aside.
    pub fn has_rules_of(&self, other: &Policy) -> bool {
        Policy { numbers: other.numbers, ..*self } == *other
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::FREEHOLD
    }
}
