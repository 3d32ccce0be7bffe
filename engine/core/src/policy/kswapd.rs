//! kswapd: when its runs count as in vain, when it hopes again, and who spares the node that it works on.
//!
//! After so many runs in vain, kswapd leaves a node to requests. What ends that, and what does not count, changed
//! twice.
//!
//! linux: mm/vmscan.c:balance_pgdat, shrink_node, kswapd_try_clear_hopeless;
//! mm/page_alloc.c:get_page_from_freelist, free_frozen_page_commit

/// Every choice about kswapd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KswapdPolicy {
    /// Whether requests look for another node while kswapd works on one.
    pub nodes: BusyNodes,
    /// What makes a kswapd that has given up try again.
    pub hope: Hope,
    /// Whether a run for a boost that brought nothing is a run in vain.
    pub boosts: BoostRuns,
}

impl KswapdPolicy {
    /// As in the pinned kernel.
    pub const LINUX_6_12: KswapdPolicy =
        KswapdPolicy { nodes: BusyNodes::Used, hope: Hope::Reclaim, boosts: BoostRuns::Counted };
}

/// What a node is to a request while its kswapd is awake, on a machine with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyNodes {
    /// A node like any other.
    Used,
    /// One to be passed over, unless no other will do. linux: since 6.18
    Spared,
}

/// What makes a kswapd that has given up try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// Any page of the node that somebody reclaims.
    Reclaim,
    /// That, and a drain of a CPU's lists that lifts a zone above its high watermark, where a further node has memory:
    /// there requests may never come to reclaim anything here. linux: 6.18
    Drains,
    /// Such a drain, and reclaim only once it has left the node balanced. linux: since 7.0
    Balance,
}

/// Whether a run that found a boost, and brought nothing, is one in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoostRuns {
    /// It is: sixteen of them, and kswapd gives up.
    Counted,
    /// It is not: such a run never was urgent. linux: since 6.19
    Excused,
}

/// What a run of kswapd came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFacts {
    /// Pages that it freed.
    pub freed: u64,
    /// Boosted pages that it found when it began.
    pub boosted: u64,
}

/// Whether a run that ended without a balanced node was in vain.
pub const fn is_in_vain(boosts: BoostRuns, run: RunFacts) -> bool {
    run.freed == 0 && (run.boosted == 0 || matches!(boosts, BoostRuns::Counted))
}

/// Whether pages that were reclaimed are hope by themselves, and not only in a node that is balanced.
pub const fn hopes_for_any_page(hope: Hope) -> bool {
    matches!(hope, Hope::Reclaim | Hope::Drains)
}

/// Whether a drain that lifts a zone above its high watermark is hope.
pub const fn hopes_for_drains(hope: Hope) -> bool {
    matches!(hope, Hope::Drains | Hope::Balance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_for_a_boost_that_brings_nothing_may_be_excused() {
        let [plain, boosted, fruitful] = [(0, 0), (0, 512), (1, 0)].map(|(freed, boosted)| RunFacts { freed, boosted });
        let runs = [plain, boosted, fruitful];
        assert_eq!(runs.map(|run| is_in_vain(BoostRuns::Counted, run)), [true, true, false]);
        assert_eq!(runs.map(|run| is_in_vain(BoostRuns::Excused, run)), [true, false, false]);
    }
}
