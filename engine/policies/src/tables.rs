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
        why: "linux-6.12 is the pinned kernel, rule by rule; LINUX.md lists where it is not.",
    },
    Set {
        name: "linux-6.18",
        about: "Linux 6.18: 6.12 and the rules that changed until then, as far as the engine has them",
        policy: Policy::LINUX_6_18,
        why: "linux-6.18 rests on the sources of 6.12 and 7.2 and on the dates of changes; LINUX.md says which is which.",
    },
    Set {
        name: "linux-7.2",
        about: "Linux 7.2: 6.18 and the rules that changed until then",
        policy: Policy::LINUX_7_2,
        why: "linux-7.2 has what changed in that kernel's sources; LINUX.md lists what is not there yet.",
    },
    Set {
        name: "linux-7.3",
        about: "Linux 7.3: 7.2 and the rules that changed until then",
        policy: Policy::LINUX_7_3,
        why: "linux-7.3 has what changed in that kernel's sources; LINUX.md lists what is not there yet.",
    },
    Set {
        name: BEST,
        about: "what this project chose so far; default of the library",
        policy: Policy::FREEHOLD,
        why: "freehold saves zone locks where memory is plentiful, most where many CPUs free what others allocate. Where \
              memory is short, gains and losses depend on the workload: see docs/findings/owned-pageblocks.md.",
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
        about: "how GFP flags become allocation flags; both ways give the same flags",
        choices: &[
            Choice {
                name: "coupled",
                about: "two bits are copied by mask, so their values must coincide (Linux until 7.2)",
                apply: |policy| policy.flags = FlagsPolicy::Coupled,
            },
            Choice {
                name: "plain",
                about: "two tests, so their values may differ (Linux since 7.3)",
                apply: |policy| policy.flags = FlagsPolicy::Plain,
            },
        ],
    },
    Field {
        name: "pcp",
        about: "what the per-CPU lists do",
        choices: &[
            Choice {
                name: "off",
                about: "there are none: every request takes the zone lock (a yardstick, not a proposal)",
                apply: |policy| policy.pcp = PcpPolicy::Off,
            },
            Choice {
                name: "linux",
                about: "pages go back to the zone as they came (Linux)",
                apply: |policy| policy.pcp = PcpPolicy::Linux,
            },
            Choice {
                name: "merge",
                about: "buddies on a list are merged before the zone lock is taken",
                apply: |policy| policy.pcp = PcpPolicy::Merge,
            },
            Choice {
                name: "owned",
                about: "a list takes whole pageblocks and owns them; frees go to the owner's list if its lock is free",
                apply: |policy| policy.pcp = PcpPolicy::Owned,
            },
            Choice {
                name: "owned-remote",
                about: "the same, but frees on other CPUs go onto the owner's stack, without a lock",
                apply: |policy| policy.pcp = PcpPolicy::OwnedRemote,
            },
        ],
    },
    Field {
        name: "highatomic",
        about: "when the reserve for atomic requests grows and shrinks",
        choices: &[
            Choice {
                name: "linux",
                about: "any atomic request above order 0 may reserve its pageblock (Linux 6.12 and 6.18)",
                apply: |policy| policy.highatomic = HighAtomicPolicy::Linux,
            },
            Choice {
                name: "skip-costly",
                about: "the same, but none up to order 3 does",
                apply: |policy| policy.highatomic = HighAtomicPolicy::SkipCostly,
            },
            Choice {
                name: "past-lists",
                about: "no list is refilled for atomic requests, which look into the reserve first; what a list served reserves nothing (Linux 7.2)",
                apply: |policy| policy.highatomic = HighAtomicPolicy::PastLists,
            },
            Choice {
                name: "reuse-first",
                about: "the same, and they may look into the reserve above the low watermark too, where nothing is reserved (Linux since 7.3)",
                apply: |policy| policy.highatomic = HighAtomicPolicy::ReuseFirst,
            },
            Choice {
                name: "give-back",
                about: "as linux, and twice a second half of what lay idle since the last look becomes movable memory again",
                apply: |policy| policy.highatomic = HighAtomicPolicy::GiveBack,
            },
        ],
    },
    Field {
        name: "contig",
        about: "how a range of pages, or a batch of single ones, is freed",
        choices: &[
            Choice {
                name: "one-by-one",
                about: "each page by itself, through the CPU's list (Linux 6.12 and 6.18)",
                apply: |policy| policy.contig = ContigPolicy::OneByOne,
            },
            Choice {
                name: "batched",
                about: "neighbouring pages together, as the largest blocks that fit (Linux 7.2)",
                apply: |policy| policy.contig = ContigPolicy::Batched,
            },
        ],
    },
    Field {
        name: "slab",
        about: "what a CPU has free objects in",
        choices: &[
            Choice {
                name: "page-field",
                about: "a list and the slab it is of, in two words (Linux 6.12 and 6.18)",
                apply: |policy| policy.slab.objects = SlabPolicy::PageField,
            },
            Choice {
                name: "tagged",
                about: "a list that ends in a pointer into its slab: one word",
                apply: |policy| policy.slab.objects = SlabPolicy::Tagged,
            },
            Choice {
                name: "sheaves",
                about: "arrays of objects of any slab, exchanged whole with the node's (Linux since 7.0; in 6.18 for caches that ask)",
                apply: |policy| policy.slab.objects = SlabPolicy::Sheaves,
            },
            Choice {
                name: "bitmap",
                about: "a word of free objects beside a slab of larger objects, which are not touched; small ones as tagged",
                apply: |policy| policy.slab.objects = SlabPolicy::Bitmap,
            },
            Choice {
                name: "sheaves-bitmap",
                about: "sheaves, and such a word beside slabs of larger objects: no free one is touched anywhere",
                apply: |policy| policy.slab.objects = SlabPolicy::SheavesBitmap,
            },
        ],
    },
    Field {
        name: "slab.sizes",
        about: "the sizes of objects that requests by size get; larger ones get pages",
        choices: &[
            Choice {
                name: "linux",
                about: "thirteen, from 8 bytes to 8 KiB: powers of two, 96 and 192 (Linux)",
                apply: |policy| policy.slab.sizes = SlabSizes::Linux,
            },
            Choice {
                name: "fine",
                about: "multiples of 16 up to 128 bytes, and four to a doubling above, up to 32 KiB; no slab wastes more than an eighth",
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
        about: "whether a request waits for reclaim and compaction before types are mixed in a pageblock (vm.defrag_mode)",
        choices: &[
            Choice {
                name: "off",
                about: "it does not: types are mixed as soon as its zones have nothing else (Linux 6.12)",
                apply: |policy| policy.defrag_mode = DefragMode::Off,
            },
            Choice {
                name: "on",
                about: "it does, and kswapd is sent for whole pageblocks (Linux since 6.15, where that is switched on)",
                apply: |policy| policy.defrag_mode = DefragMode::On,
            },
        ],
    },
    Field {
        name: "reserve.watermark",
        about: "whether free pages of the reserve for atomic requests lift a zone above its watermark for others",
        choices: &[
            Choice {
                name: "apart",
                about: "they do not: others see fewer free pages (Linux 6.12)",
                apply: |policy| policy.reserve.watermark = ReserveWatermark::Apart,
            },
            Choice {
                name: "counted",
                about: "they do, although others cannot have them",
                apply: |policy| policy.reserve.watermark = ReserveWatermark::Counted,
            },
        ],
    },
    Field {
        name: "reserve.index",
        about: "whether free blocks of that reserve count in the fragmentation index, by which compaction decides",
        choices: &[
            Choice {
                name: "counted",
                about: "they do: one whole reserved block says that there is no need to compact (Linux 6.12)",
                apply: |policy| policy.reserve.index = ReserveIndex::Counted,
            },
            Choice { name: "apart", about: "they do not", apply: |policy| policy.reserve.index = ReserveIndex::Apart },
        ],
    },
    Field {
        name: "reserve.list",
        about: "whether movable requests for whole pageblocks may take its free blocks",
        choices: &[
            Choice {
                name: "closed",
                about: "they may not (Linux 6.12)",
                apply: |policy| policy.reserve.list = ReserveList::Closed,
            },
            Choice {
                name: "open",
                about: "they may, when nothing else is left; the block comes back to the reserve",
                apply: |policy| policy.reserve.list = ReserveList::Open,
            },
        ],
    },
    Field {
        name: "reserve.leaving",
        about: "what a pageblock becomes that leaves that reserve, so that a request need not fail",
        choices: &[
            Choice {
                name: "for-request",
                about: "one of the request's type, whatever else lies in it (Linux 6.12)",
                apply: |policy| policy.reserve.leaving = ReserveLeaving::ForRequest,
            },
            Choice {
                name: "unmovable",
                about: "unmovable, as what joined it: others must claim it as any such block",
                apply: |policy| policy.reserve.leaving = ReserveLeaving::Unmovable,
            },
        ],
    },
    Field {
        name: "compaction.deferral",
        about: "whether a zone in which compaction failed is left alone for a while",
        choices: &[
            Choice {
                name: "growing",
                about: "for twice as many attempts after each failure, up to 64 (Linux)",
                apply: |policy| policy.compaction.deferral = Deferral::Growing,
            },
            Choice {
                name: "none",
                about: "it is not; no kernel does so, it shows what leaving alone does",
                apply: |policy| policy.compaction.deferral = Deferral::None,
            },
        ],
    },
    Field {
        name: "slab.guard",
        about: "whether `page-field` pays for not being moved between its two words",
        choices: &[
            Choice {
                name: "preempt",
                about: "it does, as a kernel with CONFIG_PREEMPT",
                apply: |policy| policy.slab.guard = SlabGuard::Preempt,
            },
            Choice {
                name: "none",
                about: "it does not, as a kernel without",
                apply: |policy| policy.slab.guard = SlabGuard::None,
            },
        ],
    },
    Field {
        name: "slab.links",
        about: "how free objects are linked",
        choices: &[
            Choice { name: "plain", about: "by address", apply: |policy| policy.slab.links = SlabLinks::Plain },
            Choice {
                name: "mangled",
                about: "by address mixed with a secret (CONFIG_SLAB_FREELIST_HARDENED)",
                apply: |policy| policy.slab.links = SlabLinks::Mangled,
            },
        ],
    },
    Field {
        name: "slab.order",
        about: "in which order a new slab's objects are handed out",
        choices: &[
            Choice { name: "address", about: "by address", apply: |policy| policy.slab.order = SlabOrder::Address },
            Choice {
                name: "random",
                about: "by chance (CONFIG_SLAB_FREELIST_RANDOM)",
                apply: |policy| policy.slab.order = SlabOrder::Random,
            },
        ],
    },
];

/// Numbers that replace a rule of Linux.
pub const NUMBERS: &[Number] = &[
    Number {
        name: "pcp.batch",
        about: "pages a per-CPU list moves at once; without it about a quarter of a thousandth of the zone, at most 63",
        unit: "pages",
        min: 1,
        max: 4096,
        place: |policy| &mut policy.numbers.pcp_batch,
    },
    Number {
        name: "pcp.high_fraction",
        about: "the lists of all CPUs together hold 1/n of their zone; without it Linux tunes their size itself",
        unit: "parts",
        min: 8,
        max: 1_000_000,
        place: |policy| &mut policy.numbers.pcp_high_fraction,
    },
    Number {
        name: "pcp.free_high",
        about: "share of a list's lowest limit that must have been freed lately, beyond a batch, before its blocks of order 1 to 3 all go back; without it 0 as in 6.12; 50 is Linux since 6.16",
        unit: "percent",
        min: 0,
        max: 1000,
        place: |policy| &mut policy.numbers.pcp_free_high,
    },
    Number {
        name: "watermark.scale_factor",
        about: "distance between watermarks in 1/10000 of the zone; without it 10",
        unit: "ten-thousandths",
        min: 1,
        max: 3000,
        place: |policy| &mut policy.numbers.watermark_scale_factor,
    },
    Number {
        name: "watermark.boost_factor",
        about: "largest boost after a fallback in 1/10000 of the high watermark, 0 for none; without it 15000",
        unit: "ten-thousandths",
        min: 0,
        max: 100_000,
        place: |policy| &mut policy.numbers.watermark_boost_factor,
    },
    Number {
        name: "compaction.extfrag_threshold",
        about: "fragmentation index above which a request beyond order 3 is compacted for; without it 500",
        unit: "thousandths",
        min: 0,
        max: 1000,
        place: |policy| &mut policy.numbers.compaction_extfrag_threshold,
    },
    Number {
        name: "compaction.proactiveness",
        about: "how eagerly memory is compacted before anybody asks, 0 for never; without it 20",
        unit: "percent",
        min: 0,
        max: 100,
        place: |policy| &mut policy.numbers.compaction_proactiveness,
    },
    Number {
        name: "slab.min_objects",
        about: "objects that a slab should have at least (one whose free objects are bits has at most 63); without it by the number of CPUs, as in Linux",
        unit: "objects",
        min: 1,
        max: 4096,
        place: |policy| &mut policy.numbers.slab_min_objects,
    },
    Number {
        name: "slab.max_order",
        about: "largest order of slabs, unless one object needs a larger one; without it 3, as in Linux",
        unit: "orders",
        min: 0,
        max: 10,
        place: |policy| &mut policy.numbers.slab_max_order,
    },
    Number {
        name: "slab.cpu_free",
        about: "wholly free slabs that a CPU keeps of a cache, in KiB; where CPUs have sheaves, those that a node keeps, \
                and the most that are made at once; without it by the size of objects, and one at a time, as in Linux",
        unit: "KiB",
        min: 0,
        max: 1 << 20,
        place: |policy| &mut policy.numbers.slab_cpu_free,
    },
    Number {
        name: "slab.sheaf",
        about: "objects that a sheaf has room for, 4 to 124 of them, in KiB, or 0 for none; without it by the size of \
                objects, as in Linux",
        unit: "KiB",
        min: 0,
        max: 1 << 20,
        place: |policy| &mut policy.numbers.slab_sheaf,
    },
    Number {
        name: "slab.pinned",
        about: "slabs of objects above 2 KiB that a sheaf may keep from going back, and the full ones of a barn as many, \
                in KiB; slabs are a 32nd of it at most; without it as many as there are objects in sheaves, as in Linux",
        unit: "KiB",
        min: 1,
        max: 1 << 22,
        place: |policy| &mut policy.numbers.slab_pinned,
    },
];
