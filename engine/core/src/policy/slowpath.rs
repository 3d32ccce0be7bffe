//! The slow path: what a request does after it was compacted for in vain, before anything was reclaimed.
//!
//! Two rivals. *By outcome*: a large request that gives up easily fails at once where compaction was passed over, and
//! others go on with more effort. *One round*: the first compaction is a round without reclaim; only a request for one
//! node that gives up easily fails after it, and who gives up easily never compacts with more effort.
//!
//! linux: mm/page_alloc.c:__alloc_pages_slowpath

/// What follows from a request's first compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Its outcome decides whether a large request that gives up easily goes on.
    ByOutcome,
    /// It is a round like others, but for reclaim. linux: since 7.0
    OneRound,
}

/// A request whose first compaction did not serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Its order is above 3.
    pub costly: bool,
    /// It gives up easily: NORETRY.
    pub easily_content: bool,
    /// It wants memory of one node: THISNODE.
    pub this_node: bool,
    /// Compaction was passed over everywhere: no zone was suitable, or all are left alone for a while.
    pub passed_over: bool,
}

/// What such a request does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It fails.
    GiveUp,
    /// It reclaims, and compacts as before: without waiting for any page.
    GoOn,
    /// It reclaims, and compacts with more effort.
    TryHarder,
}

/// What a request does that was compacted for in vain, before anything was reclaimed for it.
pub const fn after_first_compaction(policy: RetryPolicy, request: FailedRequest) -> Next {
    let FailedRequest { costly, easily_content, this_node, passed_over } = request;
    let (gives_up, stays_async) = match policy {
        RetryPolicy::ByOutcome => {
            let is_large_and_content = costly && easily_content;
            (is_large_and_content && (passed_over || this_node), is_large_and_content)
        }
        RetryPolicy::OneRound => (easily_content && this_node, easily_content),
    };
    match (gives_up, stays_async) {
        (true, _) => Next::GiveUp,
        (false, true) => Next::GoOn,
        (false, false) => Next::TryHarder,
    }
}

/// Whether a request that may use reserves is compacted for before anything is reclaimed, as others are.
pub const fn compacts_first_with_reserves(policy: RetryPolicy) -> bool {
    matches!(policy, RetryPolicy::OneRound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Next::{GiveUp, GoOn, TryHarder};

    const HUGE: FailedRequest =
        FailedRequest { costly: true, easily_content: true, this_node: false, passed_over: false };

    #[test]
    fn a_huge_page_where_compaction_was_passed_over_is_reclaimed_for_in_one_round() {
        let passed_over = FailedRequest { passed_over: true, ..HUGE };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcome, passed_over), GiveUp);
        assert_eq!(after_first_compaction(RetryPolicy::OneRound, passed_over), GoOn);
        for policy in [RetryPolicy::ByOutcome, RetryPolicy::OneRound] {
            assert_eq!(after_first_compaction(policy, HUGE), GoOn);
            assert_eq!(after_first_compaction(policy, FailedRequest { this_node: true, ..HUGE }), GiveUp);
            let insists = FailedRequest { easily_content: false, ..passed_over };
            assert_eq!(after_first_compaction(policy, insists), TryHarder);
        }
    }

    #[test]
    fn a_small_block_that_gives_up_easily_is_never_compacted_for_harder_in_one_round() {
        let small = FailedRequest { costly: false, ..HUGE };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcome, small), TryHarder);
        assert_eq!(after_first_compaction(RetryPolicy::OneRound, small), GoOn);
        let here = FailedRequest { this_node: true, ..small };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcome, here), TryHarder);
        assert_eq!(after_first_compaction(RetryPolicy::OneRound, here), GiveUp);
    }
}
