//! kswapd: which runs count as failures, what makes it try again, and whether requests avoid the node on which it
//! works.
//!
//! After 16 failed runs, kswapd gives a node up and leaves it to direct reclaim. The conditions that end this state,
//! and the runs that do not count, have changed twice in Linux.
//!
//! linux: mm/vmscan.c:balance_pgdat, shrink_node, kswapd_try_clear_hopeless;
//! mm/page_alloc.c:get_page_from_freelist, free_frozen_page_commit

/// All choices about kswapd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KswapdPolicy {
    /// Preference of requests for another node while kswapd works on one.
    pub nodes: BusyNodes,
    /// Events after which a kswapd that has given up tries again.
    pub hope: Hope,
    /// Counting of runs for a boost that freed nothing.
    pub boosts: BoostRuns,
}

impl KswapdPolicy {
    /// Choices of Linux 6.12.
    pub const LINUX_6_12: KswapdPolicy =
        KswapdPolicy { nodes: BusyNodes::Used, hope: Hope::Reclaim, boosts: BoostRuns::Counted };
}

/// Treatment of a node whose kswapd is awake, on a machine with several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyNodes {
    /// The node is used like any other.
    Used,
    /// The node is skipped, unless no other node can serve the request. linux: since 6.18
    Spared,
}

/// Events after which a kswapd that has given up tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Any page of the node is reclaimed.
    Reclaim,
    /// Any page is reclaimed, or a drain of a CPU's lists lifts a zone above its high watermark. The latter counts only
    /// if a node with a higher number has memory, because requests may then never reclaim on this node. linux: 6.18
    Drains,
    /// Such a drain, or a reclaim that leaves the node balanced. linux: since 7.0
    Balance,
}

/// Counting of a run that found a boost and freed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoostRuns {
    /// It counts: after sixteen of them kswapd gives up.
    Counted,
    /// It does not count, because such a run was never urgent. linux: since 6.19
    Excused,
}

/// Results of a run of kswapd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct RunFacts {
    /// Pages that the run freed.
    pub freed: u64,
    /// Boosted pages at the start of the run.
    pub boosted: u64,
}

/// Returns whether a run that ended without a balanced node counts as a failure: it freed nothing, and the policy does
/// not excuse it because of a boost.
pub const fn is_in_vain(boosts: BoostRuns, run: RunFacts) -> bool {
    run.freed == 0 && (run.boosted == 0 || matches!(boosts, BoostRuns::Counted))
}

/// Returns whether reclaimed pages alone make kswapd try again, even in a node that is not balanced.
pub const fn hopes_for_any_page(hope: Hope) -> bool {
    matches!(hope, Hope::Reclaim | Hope::Drains)
}

/// Returns whether a drain that lifts a zone above its high watermark makes kswapd try again.
pub const fn hopes_for_drains(hope: Hope) -> bool {
    matches!(hope, Hope::Drains | Hope::Balance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fruitless_boost_runs_are_in_vain_unless_excused() {
        let [plain, boosted, fruitful] = [(0, 0), (0, 512), (1, 0)].map(|(freed, boosted)| RunFacts { freed, boosted });
        let runs = [plain, boosted, fruitful];
        assert_eq!(runs.map(|run| is_in_vain(BoostRuns::Counted, run)), [true, true, false]);
        assert_eq!(runs.map(|run| is_in_vain(BoostRuns::Excused, run)), [true, false, false]);
    }
}
