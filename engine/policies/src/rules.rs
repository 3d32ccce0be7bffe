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
        about: "pages that a drain of a full per-CPU list returns under one hold of the zone lock",
        choices: &[
            Choice {
                name: "whole",
                about: "all pages of the drain (Linux 6.12 and 6.18)",
                apply: |policy| policy.drain = DrainPolicy::Whole,
            },
            Choice {
                name: "batched",
                about: "one batch; both locks are released after each batch, then tried again (Linux since 6.19)",
                apply: |policy| policy.drain = DrainPolicy::Batched,
            },
        ],
    },
    Field {
        name: "retry",
        about: "next step of a request whose first compaction failed, before reclaim",
        choices: &[
            Choice {
                name: "by-outcome",
                about: "a request above order 3 with NORETRY fails if compaction was skipped or deferred, or if it is for \
                        one node (Linux 6.12)",
                apply: |policy| policy.retry = RetryPolicy::ByOutcome,
            },
            Choice {
                name: "by-outcome-on-any-node",
                about: "a request above order 3 with NORETRY fails if compaction was skipped or deferred (Linux 6.18)",
                apply: |policy| policy.retry = RetryPolicy::ByOutcomeOnAnyNode,
            },
            Choice {
                name: "one-round",
                about: "one reclaim, unless the request is restricted to one node; with NORETRY, compaction never gets \
                        more effort (Linux since 7.0)",
                apply: |policy| policy.retry = RetryPolicy::OneRound,
            },
        ],
    },
    Field {
        name: "kswapd.nodes",
        about: "use of a node whose kswapd is awake, on machines with several nodes",
        choices: &[
            Choice {
                name: "used",
                about: "used like any other node (Linux 6.12)",
                apply: |policy| policy.kswapd.nodes = BusyNodes::Used,
            },
            Choice {
                name: "spared",
                about: "skipped, unless no other node can serve the request (Linux since 6.18)",
                apply: |policy| policy.kswapd.nodes = BusyNodes::Spared,
            },
        ],
    },
    Field {
        name: "kswapd.hope",
        about: "events after which a kswapd that has given up tries again",
        choices: &[
            Choice {
                name: "reclaim",
                about: "reclaim of any page of the node (Linux 6.12)",
                apply: |policy| policy.kswapd.hope = Hope::Reclaim,
            },
            Choice {
                name: "drains",
                about: "reclaim of any page, or a drain that lifts a zone above its high watermark if another node has \
                        memory (Linux 6.18)",
                apply: |policy| policy.kswapd.hope = Hope::Drains,
            },
            Choice {
                name: "balance",
                about: "such a drain, or reclaim that leaves the node balanced (Linux since 7.0)",
                apply: |policy| policy.kswapd.hope = Hope::Balance,
            },
        ],
    },
    Field {
        name: "kswapd.boosts",
        about: "counting of a run of kswapd that found a boost and freed nothing",
        choices: &[
            Choice {
                name: "counted",
                about: "counts as a failed run (Linux 6.12 and 6.18)",
                apply: |policy| policy.kswapd.boosts = BoostRuns::Counted,
            },
            Choice {
                name: "excused",
                about: "does not count as a failed run (Linux since 6.19)",
                apply: |policy| policy.kswapd.boosts = BoostRuns::Excused,
            },
        ],
    },
    Field {
        name: "compaction.spared",
        about: "free pages that a zone needs so that reclaim leaves it to compaction",
        choices: &[
            Choice {
                name: "with-room",
                about: "room to compact above the high watermark, without pages of CMA areas (Linux 6.12)",
                apply: |policy| policy.compaction.spared = SparedZones::WithRoom,
            },
            Choice {
                name: "at-high-mark",
                about: "the same plus the distance from min to low, with pages of CMA areas (Linux since 6.15)",
                apply: |policy| policy.compaction.spared = SparedZones::AtHighMark,
            },
        ],
    },
    Field {
        name: "compaction.cma",
        about: "free pages of CMA areas as room to compact for a large request that may not use them",
        choices: &[
            Choice {
                name: "counted",
                about: "they count (Linux 6.12)",
                apply: |policy| policy.compaction.cma = CmaRoom::Counted,
            },
            Choice {
                name: "apart",
                about: "they do not count for a request that does not wait (Linux since 6.14)",
                apply: |policy| policy.compaction.cma = CmaRoom::Apart,
            },
        ],
    },
    Field {
        name: "compaction.sources",
        about: "pageblocks that compaction empties for a request",
        choices: &[
            Choice {
                name: "by-effort",
                about: "with low effort those of the request's type, otherwise all (Linux 6.12 and 6.18)",
                apply: |policy| policy.compaction.sources = Sources::ByEffort,
            },
            Choice {
                name: "by-use",
                about: "none of a CMA area that the request may not use; movable ones at once for a request for a \
                        whole pageblock (Linux since 7.2)",
                apply: |policy| policy.compaction.sources = Sources::ByUse,
            },
        ],
    },
    Field {
        name: "compaction.deferred",
        about: "reaction of a request to compaction that is deferred in all its zones",
        choices: &[
            Choice {
                name: "try",
                about: "the request tries once more to get a block, and counts as a stall (Linux 6.12 and 6.18)",
                apply: |policy| policy.compaction.deferred = AfterDeferral::Try,
            },
            Choice {
                name: "leave",
                about: "the request does not try again, and is not a stall (Linux since 7.2)",
                apply: |policy| policy.compaction.deferred = AfterDeferral::Leave,
            },
        ],
    },
    Field {
        name: "compaction.marks",
        about: "scores at which proactive compaction begins and ends, if the proactiveness is above 80",
        choices: &[
            Choice {
                name: "floored",
                about: "it ends at a score of 5 or more, and begins 10 above its end (Linux 6.12)",
                apply: |policy| policy.compaction.marks = ProactiveMarks::Floored,
            },
            Choice {
                name: "scaled",
                about: "it may end at any score, and begins at 1.5 times that score (Linux since 6.16)",
                apply: |policy| policy.compaction.marks = ProactiveMarks::Scaled,
            },
        ],
    },
];
