//! The slow path: the next step of a request whose first compaction failed, before anything was reclaimed.
//!
//! There are three alternatives. *By outcome*: a costly request with NORETRY fails at once if compaction was skipped or
//! deferred or the request is for one node; otherwise it continues with the same effort. All other requests continue
//! with more effort. *By outcome on any node*: the same, but a request for one node is like any other. *One round*: the
//! first compaction is a round without reclaim. Only a NORETRY request for one node fails after it, and NORETRY
//! requests never compact with more effort.
//!
//! linux: mm/page_alloc.c:__alloc_pages_slowpath

/// Reaction to the failure of a request's first compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// A costly NORETRY request fails if its compaction was skipped or deferred, or if the request is for one node.
    /// linux: 6.12.118
    ByOutcome,
    /// A costly NORETRY request fails if its compaction was skipped or deferred. linux: 6.18.15
    ByOutcomeOnAnyNode,
    /// The first compaction is an ordinary round, except that it does not reclaim. linux: since 7.0
    OneRound,
}

/// A request whose first compaction produced no block for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct FailedRequest {
    /// Whether the order is above 3.
    pub costly: bool,
    /// Whether the request has NORETRY.
    pub easily_content: bool,
    /// Whether the request is restricted to one node by THISNODE.
    pub this_node: bool,
    /// Whether compaction was skipped everywhere: no zone was suitable, or it is deferred in all of them.
    pub passed_over: bool,
}

/// Next step of such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Next {
    /// Fail.
    GiveUp,
    /// Reclaim, and compact with the same effort: without waiting for pages.
    GoOn,
    /// Reclaim, and compact with more effort.
    TryHarder,
}

/// Returns the next step of a request whose first compaction failed, before anything was reclaimed for it.
pub const fn after_first_compaction(policy: RetryPolicy, request: FailedRequest) -> Next {
    let FailedRequest { costly, easily_content, this_node, passed_over } = request;
    let (gives_up, stays_async) = match policy {
        RetryPolicy::ByOutcome => (costly && easily_content && (passed_over || this_node), costly && easily_content),
        RetryPolicy::ByOutcomeOnAnyNode => (costly && easily_content && passed_over, costly && easily_content),
        RetryPolicy::OneRound => (easily_content && this_node, easily_content),
    };
    match (gives_up, stays_async) {
        (true, _) => Next::GiveUp,
        (false, true) => Next::GoOn,
        (false, false) => Next::TryHarder,
    }
}

/// Returns whether a request that may use reserves is compacted for before anything is reclaimed, like other requests.
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
    fn one_round_policy_reclaims_for_a_deferred_huge_page() {
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
    fn request_for_one_node_reclaims_on_any_node_only() {
        let here = FailedRequest { this_node: true, ..HUGE };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcome, here), GiveUp);
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcomeOnAnyNode, here), GoOn);
        let passed_over = FailedRequest { passed_over: true, ..here };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcomeOnAnyNode, passed_over), GiveUp);
    }

    #[test]
    fn one_round_policy_skips_harder_compaction_of_noretry() {
        let small = FailedRequest { costly: false, ..HUGE };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcome, small), TryHarder);
        assert_eq!(after_first_compaction(RetryPolicy::OneRound, small), GoOn);
        let here = FailedRequest { this_node: true, ..small };
        assert_eq!(after_first_compaction(RetryPolicy::ByOutcome, here), TryHarder);
        assert_eq!(after_first_compaction(RetryPolicy::OneRound, here), GiveUp);
    }
}
