//! Table of the rules that changed in Linux since 6.12: one row per rule, with the choice of 6.12 first.
//!
//! `linux-6.12` and `freehold` have the first choice of each rule. The sets of later kernels have their kernel's
//! choices.

use freehold::policy::DrainPolicy;
use freehold::policy::compaction::{AfterDeferral, CmaRoom, ProactiveMarks, Sources, SparedZones};
use freehold::policy::kswapd::{BoostRuns, BusyNodes, Hope};
use freehold::policy::slowpath::RetryPolicy;

use crate::choice::{Choice, Field};

/// Rules of Linux that changed since 6.12. The sets of later kernels combine their choices; each rule can also be set
/// alone.
pub const RULES: &[Field] = &[
    Field {
        name: "pcp.drain",
        about: "how long the zone lock is held when a full list gives back",
        choices: &[
            Choice {
                name: "whole",
                about: "for all that goes back (Linux 6.12 and 6.18)",
                apply: |policy| policy.drain = DrainPolicy::Whole,
            },
            Choice {
                name: "batched",
                about: "for a batch; then both locks are let go and tried for again (Linux since 6.19)",
                apply: |policy| policy.drain = DrainPolicy::Batched,
            },
        ],
    },
    Field {
        name: "retry",
        about: "what follows when a request was compacted for in vain, before anything was reclaimed",
        choices: &[
            Choice {
                name: "by-outcome",
                about: "a large request that gives up easily fails where compaction was passed over (Linux 6.12 and 6.18)",
                apply: |policy| policy.retry = RetryPolicy::ByOutcome,
            },
            Choice {
                name: "one-round",
                about: "it is reclaimed for once, unless it wants one node; who gives up easily is never compacted for harder (Linux since 7.0)",
                apply: |policy| policy.retry = RetryPolicy::OneRound,
            },
        ],
    },
    Field {
        name: "kswapd.nodes",
        about: "whether requests pass a node over while its kswapd is awake, on machines with several",
        choices: &[
            Choice {
                name: "used",
                about: "they do not (Linux 6.12)",
                apply: |policy| policy.kswapd.nodes = BusyNodes::Used,
            },
            Choice {
                name: "spared",
                about: "they do, unless no other node will do (Linux since 6.18)",
                apply: |policy| policy.kswapd.nodes = BusyNodes::Spared,
            },
        ],
    },
    Field {
        name: "kswapd.hope",
        about: "what makes a kswapd that has given up try again",
        choices: &[
            Choice {
                name: "reclaim",
                about: "any page of the node that is reclaimed (Linux 6.12)",
                apply: |policy| policy.kswapd.hope = Hope::Reclaim,
            },
            Choice {
                name: "drains",
                about: "that, and a drain that lifts a zone above its high watermark, if a further node has memory (Linux 6.18)",
                apply: |policy| policy.kswapd.hope = Hope::Drains,
            },
            Choice {
                name: "balance",
                about: "such a drain, and reclaim that leaves the node balanced (Linux since 7.0)",
                apply: |policy| policy.kswapd.hope = Hope::Balance,
            },
        ],
    },
    Field {
        name: "kswapd.boosts",
        about: "whether a run of kswapd for a boost that brought nothing is one in vain",
        choices: &[
            Choice {
                name: "counted",
                about: "it is (Linux 6.12 and 6.18)",
                apply: |policy| policy.kswapd.boosts = BoostRuns::Counted,
            },
            Choice {
                name: "excused",
                about: "it is not (Linux since 6.19)",
                apply: |policy| policy.kswapd.boosts = BoostRuns::Excused,
            },
        ],
    },
    Field {
        name: "compaction.spared",
        about: "how much must be free for reclaim to leave a zone to compaction",
        choices: &[
            Choice {
                name: "with-room",
                about: "room to compact above the high watermark, without pages of CMA areas (Linux 6.12)",
                apply: |policy| policy.compaction.spared = SparedZones::WithRoom,
            },
            Choice {
                name: "at-high-mark",
                about: "that and the distance from min to low besides; pages of CMA areas count (Linux since 6.15)",
                apply: |policy| policy.compaction.spared = SparedZones::AtHighMark,
            },
        ],
    },
    Field {
        name: "compaction.cma",
        about: "whether free pages of CMA areas are room to compact for a large request that may not use them",
        choices: &[
            Choice {
                name: "counted",
                about: "they are (Linux 6.12)",
                apply: |policy| policy.compaction.cma = CmaRoom::Counted,
            },
            Choice {
                name: "apart",
                about: "they are not, for one that waits for nothing (Linux since 6.14)",
                apply: |policy| policy.compaction.cma = CmaRoom::Apart,
            },
        ],
    },
    Field {
        name: "compaction.sources",
        about: "which pageblocks are emptied for a request",
        choices: &[
            Choice {
                name: "by-effort",
                about: "with little effort those of its type, else all (Linux 6.12 and 6.18)",
                apply: |policy| policy.compaction.sources = Sources::ByEffort,
            },
            Choice {
                name: "by-use",
                about: "none of CMA that it may not use; movable ones at once, if it wants a whole pageblock (Linux 7.2)",
                apply: |policy| policy.compaction.sources = Sources::ByUse,
            },
        ],
    },
    Field {
        name: "compaction.deferred",
        about: "what a request does whose zones compaction leaves alone for a while",
        choices: &[
            Choice {
                name: "try",
                about: "it looks for a block once more, and counts as a stall (Linux 6.12 and 6.18)",
                apply: |policy| policy.compaction.deferred = AfterDeferral::Try,
            },
            Choice {
                name: "leave",
                about: "neither (Linux 7.2)",
                apply: |policy| policy.compaction.deferred = AfterDeferral::Leave,
            },
        ],
    },
    Field {
        name: "compaction.marks",
        about: "where proactive compaction begins and ends, with a proactiveness above 80",
        choices: &[
            Choice {
                name: "floored",
                about: "it ends at a score of 5 at the earliest, and begins 10 above its end (Linux 6.12)",
                apply: |policy| policy.compaction.marks = ProactiveMarks::Floored,
            },
            Choice {
                name: "scaled",
                about: "at any score, and begins half as high again (Linux since 6.16)",
                apply: |policy| policy.compaction.marks = ProactiveMarks::Scaled,
            },
        ],
    },
];
