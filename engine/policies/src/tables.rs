//! Tables of all sets, fields, switches and numbers, with the description of each.

use freehold::Policy;
use freehold::policy::compaction::Deferral;
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabOrder, SlabPolicy, SlabSizes};
use freehold::policy::{
    ContigPolicy, DefragMode, FlagsPolicy, HighAtomicPolicy, PcpPolicy, ReserveIndex, ReserveLeaving, ReserveList,
    ReserveWatermark,
};

use crate::choice::{Choice, Field, Number, Set};

/// Complete policies with which a policy text begins.
pub const SETS: &[Set] = &[
    Set {
        name: BASELINE,
        about: "page allocator and slab of the pinned kernel, Linux 6.12",
        policy: Policy::LINUX_6_12,
        why: "linux-6.12 has the rules of the pinned kernel; LINUX.md lists the exceptions.",
    },
    Set {
        name: "linux-6.18",
        about: "Linux 6.18: 6.12 and the rules that changed up to 6.18, as far as the engine has them",
        policy: Policy::LINUX_6_18,
        why: "linux-6.18 is derived from the sources of 6.12 and 7.2 and the dates of changes; LINUX.md lists the \
              source of each rule.",
    },
    Set {
        name: "linux-7.2",
        about: "Linux 7.2: 6.18 and the rules that changed up to 7.2",
        policy: Policy::LINUX_7_2,
        why: "linux-7.2 has the changes in that kernel's sources; LINUX.md lists the missing ones.",
    },
    Set {
        name: "linux-7.3",
        about: "Linux 7.3: 7.2 and the rules that changed up to 7.3",
        policy: Policy::LINUX_7_3,
        why: "linux-7.3 has the changes in that kernel's sources; LINUX.md lists the missing ones.",
    },
    Set {
        name: BEST,
        about: "this project's choices so far; default of the library",
        policy: Policy::FREEHOLD,
        why: "freehold saves zone locks where memory is plentiful, most where many CPUs free pages that other CPUs \
              allocated. Where memory is short, gains and losses depend on the workload: see \
              docs/findings/owned-pageblocks.md.",
    },
];

/// Name of the set of Linux 6.12, the pinned kernel.
pub const BASELINE: &str = "linux-6.12";
/// Name of the set with Freehold's own choices.
pub const BEST: &str = "freehold";

/// Decisions of a policy.
pub const FIELDS: &[Field] = &[
    Field {
        name: "flags",
        about: "conversion of GFP flags to allocation flags; both choices give the same flags",
        choices: &[
            Choice {
                name: "coupled",
                about: "copies two bits by mask, so their values must coincide (Linux until 7.2)",
                apply: |policy| policy.flags = FlagsPolicy::Coupled,
            },
            Choice {
                name: "plain",
                about: "tests the two bits, so their values may differ (Linux since 7.3)",
                apply: |policy| policy.flags = FlagsPolicy::Plain,
            },
        ],
    },
    Field {
        name: "pcp",
        about: "filling, draining and ownership of the per-CPU lists",
        choices: &[
            Choice {
                name: "off",
                about: "no lists: every request takes the zone lock (a negative control, not a proposal)",
                apply: |policy| policy.pcp = PcpPolicy::Off,
            },
            Choice {
                name: "linux",
                about: "pages return to the zone unmerged (Linux)",
                apply: |policy| policy.pcp = PcpPolicy::Linux,
            },
            Choice {
                name: "merge",
                about: "merges buddies on a list before it takes the zone lock",
                apply: |policy| policy.pcp = PcpPolicy::Merge,
            },
            Choice {
                name: "owned",
                about: "a list takes whole pageblocks and owns them; frees go to the owner's list if its lock is free",
                apply: |policy| policy.pcp = PcpPolicy::Owned,
            },
            Choice {
                name: "owned-remote",
                about: "as owned, but frees on other CPUs are pushed onto the owner's stack, without a lock",
                apply: |policy| policy.pcp = PcpPolicy::OwnedRemote,
            },
        ],
    },
    Field {
        name: "highatomic",
        about: "growth and shrinking of the reserve for atomic requests",
        choices: &[
            Choice {
                name: "linux",
                about: "an atomic request above order 0 may reserve its pageblock (Linux 6.12 and 6.18)",
                apply: |policy| policy.highatomic = HighAtomicPolicy::Linux,
            },
            Choice {
                name: "skip-costly",
                about: "as linux, but only requests above order 3 reserve",
                apply: |policy| policy.highatomic = HighAtomicPolicy::SkipCostly,
            },
            Choice {
                name: "past-lists",
                about: "atomic requests do not refill lists and try the reserve first; a request that a list served \
                        reserves nothing (Linux 7.2)",
                apply: |policy| policy.highatomic = HighAtomicPolicy::PastLists,
            },
            Choice {
                name: "reuse-first",
                about: "as past-lists, but requests may use the reserve also above the low watermark, and reserve \
                        nothing there (Linux since 7.3)",
                apply: |policy| policy.highatomic = HighAtomicPolicy::ReuseFirst,
            },
            Choice {
                name: "give-back",
                about: "as linux; twice a second, half of the reserved memory that was idle since the last check \
                        becomes movable again",
                apply: |policy| policy.highatomic = HighAtomicPolicy::GiveBack,
            },
        ],
    },
    Field {
        name: "contig",
        about: "freeing of a range of pages, or of a batch of single pages",
        choices: &[
            Choice {
                name: "one-by-one",
                about: "each page separately, through the CPU's list (Linux 6.12 and 6.18)",
                apply: |policy| policy.contig = ContigPolicy::OneByOne,
            },
            Choice {
                name: "batched",
                about: "neighbouring pages together, as the largest blocks that fit (Linux since 7.2)",
                apply: |policy| policy.contig = ContigPolicy::Batched,
            },
        ],
    },
    Field {
        name: "slab",
        about: "structure in which a CPU keeps free objects",
        choices: &[
            Choice {
                name: "page-field",
                about: "a list and its slab, in two words (Linux 6.12 and 6.18)",
                apply: |policy| policy.slab.objects = SlabPolicy::PageField,
            },
            Choice {
                name: "tagged",
                about: "a list that ends in a pointer into its slab, in one word",
                apply: |policy| policy.slab.objects = SlabPolicy::Tagged,
            },
            Choice {
                name: "sheaves",
                about: "arrays of objects of any slabs, which CPU and node exchange whole (Linux since 7.0; in 6.18 \
                        for caches that request them)",
                apply: |policy| policy.slab.objects = SlabPolicy::Sheaves,
            },
            Choice {
                name: "bitmap",
                about: "a word beside each slab of larger objects, whose bits are the free ones, so that they are not \
                        touched; small objects as tagged",
                apply: |policy| policy.slab.objects = SlabPolicy::Bitmap,
            },
            Choice {
                name: "sheaves-bitmap",
                about: "as sheaves, with such a word beside slabs of larger objects, so that their free objects are \
                        never touched",
                apply: |policy| policy.slab.objects = SlabPolicy::SheavesBitmap,
            },
        ],
    },
    Field {
        name: "slab.sizes",
        about: "sizes of objects for requests by size; larger requests get pages",
        choices: &[
            Choice {
                name: "linux",
                about: "thirteen sizes: powers of two from 8 bytes to 8 KiB, and 96 and 192 (Linux)",
                apply: |policy| policy.slab.sizes = SlabSizes::Linux,
            },
            Choice {
                name: "fine",
                about: "8 bytes, multiples of 16 up to 128, and above four sizes per doubling up to 32 KiB, but eight from 4 to 8 KiB; no slab \
                        wastes more than an eighth",
                apply: |policy| policy.slab.sizes = SlabSizes::Fine,
            },
        ],
    },
];

/// Switches, which have Linux's value in every set. One is a mode of later kernels. Some disable a single mechanism to
/// measure its effect, and are not proposals. Others enable hardening.
pub const SWITCHES: &[Field] = &[
    Field {
        name: "defrag_mode",
        about: "waiting of a request for reclaim and compaction before types are mixed in a pageblock (vm.defrag_mode)",
        choices: &[
            Choice {
                name: "off",
                about: "no waiting: types are mixed as soon as its zones have no other memory (Linux 6.12)",
                apply: |policy| policy.defrag_mode = DefragMode::Off,
            },
            Choice {
                name: "on",
                about: "waits, and wakes kswapd for whole pageblocks (Linux since 6.15, if the setting is on)",
                apply: |policy| policy.defrag_mode = DefragMode::On,
            },
        ],
    },
    Field {
        name: "reserve.watermark",
        about: "free pages of the reserve for atomic requests, in the watermark check of other requests",
        choices: &[
            Choice {
                name: "apart",
                about: "they do not count: other requests see fewer free pages (Linux 6.12)",
                apply: |policy| policy.reserve.watermark = ReserveWatermark::Apart,
            },
            Choice {
                name: "counted",
                about: "they count, although other requests cannot use them",
                apply: |policy| policy.reserve.watermark = ReserveWatermark::Counted,
            },
        ],
    },
    Field {
        name: "reserve.index",
        about: "free blocks of the reserve, in the fragmentation index by which compaction decides",
        choices: &[
            Choice {
                name: "counted",
                about: "they count: one whole reserved block makes compaction appear unnecessary (Linux 6.12)",
                apply: |policy| policy.reserve.index = ReserveIndex::Counted,
            },
            Choice {
                name: "apart",
                about: "they do not count",
                apply: |policy| policy.reserve.index = ReserveIndex::Apart,
            },
        ],
    },
    Field {
        name: "reserve.list",
        about: "use of free blocks of the reserve by movable requests for whole pageblocks",
        choices: &[
            Choice {
                name: "closed",
                about: "not allowed (Linux 6.12)",
                apply: |policy| policy.reserve.list = ReserveList::Closed,
            },
            Choice {
                name: "open",
                about: "allowed when no other block is left; the block returns to the reserve when it is freed",
                apply: |policy| policy.reserve.list = ReserveList::Open,
            },
        ],
    },
    Field {
        name: "reserve.leaving",
        about: "new type of a pageblock that leaves the reserve so that a request does not fail",
        choices: &[
            Choice {
                name: "for-request",
                about: "the request's type, regardless of the other pages in it (Linux 6.12)",
                apply: |policy| policy.reserve.leaving = ReserveLeaving::ForRequest,
            },
            Choice {
                name: "unmovable",
                about: "unmovable, like the requests that the reserve served; other requests must claim it",
                apply: |policy| policy.reserve.leaving = ReserveLeaving::Unmovable,
            },
        ],
    },
    Field {
        name: "compaction.deferral",
        about: "compaction of a zone after it failed there",
        choices: &[
            Choice {
                name: "growing",
                about: "skipped for a number of attempts, which doubles after each failure, up to 64 (Linux)",
                apply: |policy| policy.compaction.deferral = Deferral::Growing,
            },
            Choice {
                name: "none",
                about: "never skipped; no kernel does this: it shows the effect of skipping",
                apply: |policy| policy.compaction.deferral = Deferral::None,
            },
        ],
    },
    Field {
        name: "slab.guard",
        about: "cost of protecting `page-field` against migration between its two words",
        choices: &[
            Choice {
                name: "preempt",
                about: "the cost of a kernel with CONFIG_PREEMPT",
                apply: |policy| policy.slab.guard = SlabGuard::Preempt,
            },
            Choice {
                name: "none",
                about: "no cost, as in a kernel without CONFIG_PREEMPT",
                apply: |policy| policy.slab.guard = SlabGuard::None,
            },
        ],
    },
    Field {
        name: "slab.links",
        about: "encoding of the links between free objects",
        choices: &[
            Choice { name: "plain", about: "the address", apply: |policy| policy.slab.links = SlabLinks::Plain },
            Choice {
                name: "mangled",
                about: "the address, mixed with a secret (CONFIG_SLAB_FREELIST_HARDENED)",
                apply: |policy| policy.slab.links = SlabLinks::Mangled,
            },
        ],
    },
    Field {
        name: "slab.order",
        about: "order in which a new slab's objects are allocated",
        choices: &[
            Choice {
                name: "address",
                about: "ascending addresses",
                apply: |policy| policy.slab.order = SlabOrder::Address,
            },
            Choice {
                name: "random",
                about: "random, drawn for each slab (CONFIG_SLAB_FREELIST_RANDOM)",
                apply: |policy| policy.slab.order = SlabOrder::Random,
            },
        ],
    },
];

/// Numbers that replace a rule of Linux.
pub const NUMBERS: &[Number] = &[
    Number {
        name: "pcp.batch",
        about: "pages that a per-CPU list moves at once; default: about 1/4000 of the zone, at most 63",
        unit: "pages",
        min: 1,
        max: 4096,
        place: |policy| &mut policy.numbers.pcp_batch,
    },
    Number {
        name: "pcp.high_fraction",
        about: "the lists of all CPUs together hold at most 1/N of their zone; default: tuned by Linux's rules",
        unit: "parts",
        min: 8,
        max: 1_000_000,
        place: |policy| &mut policy.numbers.pcp_high_fraction,
    },
    Number {
        name: "pcp.free_high",
        about: "recent frees, beyond a batch, after which all blocks of order 1 to 3 return to the zone, as a share of \
                the list's lowest limit; default: 0, as in 6.12; Linux since 6.16 has 50",
        unit: "percent",
        min: 0,
        max: 1000,
        place: |policy| &mut policy.numbers.pcp_free_high,
    },
    Number {
        name: "watermark.scale_factor",
        about: "distance between watermarks in 1/10000 of the zone; default: 10",
        unit: "ten-thousandths",
        min: 1,
        max: 3000,
        place: |policy| &mut policy.numbers.watermark_scale_factor,
    },
    Number {
        name: "watermark.boost_factor",
        about: "largest boost after a fallback in 1/10000 of the high watermark, 0 for none; default: 15000",
        unit: "ten-thousandths",
        min: 0,
        max: 100_000,
        place: |policy| &mut policy.numbers.watermark_boost_factor,
    },
    Number {
        name: "compaction.extfrag_threshold",
        about: "fragmentation index above which a zone is compacted for a request above order 3; default: 500",
        unit: "thousandths",
        min: 0,
        max: 1000,
        place: |policy| &mut policy.numbers.compaction_extfrag_threshold,
    },
    Number {
        name: "compaction.proactiveness",
        about: "proactiveness of compaction without a request, 0 for never; default: 20",
        unit: "percent",
        min: 0,
        max: 100,
        place: |policy| &mut policy.numbers.compaction_proactiveness,
    },
    Number {
        name: "slab.min_objects",
        about: "minimum number of objects that a slab should have (slabs with bitmaps have at most 63); default: by \
                the number of CPUs, as in Linux",
        unit: "objects",
        min: 1,
        max: 4096,
        place: |policy| &mut policy.numbers.slab_min_objects,
    },
    Number {
        name: "slab.max_order",
        about: "largest order of slabs, unless one object needs a larger one; default: 3, as in Linux",
        unit: "orders",
        min: 0,
        max: 10,
        place: |policy| &mut policy.numbers.slab_max_order,
    },
    Number {
        name: "slab.cpu_free",
        about: "wholly free slabs of a cache that a CPU keeps, in KiB; with sheaves, slabs that a node keeps, and the \
                maximum that is created at once; default: by the size of objects, and one at a time, as in Linux",
        unit: "KiB",
        min: 0,
        max: 1 << 20,
        place: |policy| &mut policy.numbers.slab_cpu_free,
    },
    Number {
        name: "slab.sheaf",
        about: "capacity of a sheaf in KiB of objects, at 4 to 124 objects, or 0 for no sheaves; default: by the size \
                of objects, as in Linux",
        unit: "KiB",
        min: 0,
        max: 1 << 20,
        place: |policy| &mut policy.numbers.slab_sheaf,
    },
    Number {
        name: "slab.pinned",
        about: "slabs of objects above 2 KiB that the objects of a sheaf may pin, in KiB, and the same again for all \
                full sheaves of a barn; slabs have at most 1/32 of this size; default: no limit, as in Linux",
        unit: "KiB",
        min: 1,
        max: 1 << 22,
        place: |policy| &mut policy.numbers.slab_pinned,
    },
];
