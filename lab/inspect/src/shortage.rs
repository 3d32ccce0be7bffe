//! Sentences on shortages of memory: of the machine, of control groups, or none.

use freehold_report::number::{count, duration};
use freehold_trace::state::COSTLY_ORDER;

use super::FailureRow;
use super::pressure::ReclaimReport;

/// Sentence for a recording without failed allocations.
pub(crate) const NO_FAILURE: &str = "No allocation failed.";

/// Returns the lines above the tables of the first screen: the shortage in one line, then a line if no allocation
/// failed.
pub(crate) fn headline(reclaim: &ReclaimReport, failures: &[FailureRow], has_events: bool) -> Vec<String> {
    let failed: u64 = failures.iter().map(|row| row.failed).sum();
    let is_small = |row: &&FailureRow| row.order <= COSTLY_ORDER;
    let failed_small: u64 = failures.iter().filter(is_small).map(|row| row.failed).sum();
    let stalls = reclaim.allocstall.unwrap_or(0).max(reclaim.direct_reclaims);
    let mut lines = Vec::new();
    if stalls > 0 || failed_small > 0 {
        lines.push(format!(
            "Memory was short: failed allocations {}, direct reclaims {}.",
            count(failed),
            count(stalls)
        ));
    } else if failed > 0 {
        lines.push(format!("Memory was fragmented: failed allocations {}, all above order 3.", count(failed)));
    } else if reclaim.kswapd_wakes > 0 {
        lines.push("Memory was reclaimed in the background only.".to_owned());
    }
    if reclaim.memcg_reclaims > 0 {
        lines.push(format!("Control groups were short of memory: reclaims {}.", count(reclaim.memcg_reclaims)));
    }
    let kills = reclaim.oom_kills.filter(|kills| *kills > 0).map(|kills| format!("OOM kills: {}.", count(kills)));
    match (lines.last_mut(), kills) {
        (Some(last), Some(kills)) => last.push_str(&format!(" {kills}")),
        (None, Some(kills)) => lines.push(kills),
        (None, None) => lines = describe(reclaim, failed, has_events),
        (Some(_), None) => {}
    }
    lines.extend((failed == 0).then(|| NO_FAILURE.to_owned()));
    lines
}

/// Describes shortages of memory in sentences: of the machine, of control groups, or none. The sentence "not short"
/// requires that nothing at all was reclaimed and that the recording would show reclaim.
pub(crate) fn describe(reclaim: &ReclaimReport, failed: u64, has_events: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    let (stalls, passes) = (reclaim.allocstall.unwrap_or(0).max(reclaim.direct_reclaims), reclaim.kswapd_wakes);
    if stalls > 0 || failed > 0 {
        let missing = stalls - reclaim.direct_reclaims;
        let missing = if missing > 0 {
            format!("; the kernel's counters have {} more direct reclaims than there are events", count(missing))
        } else {
            String::new()
        };
        sentences.push(format!(
            "Memory was short: direct reclaims {} (in total {}), passes of kswapd {}, failed requests {}{missing}.",
            count(reclaim.direct_reclaims),
            duration(reclaim.direct_reclaim_ns),
            count(passes),
            count(failed)
        ));
    } else if passes > 0 {
        let passes = count(passes);
        sentences.push(format!("Passes of kswapd: {passes}. No direct reclaims and no failed requests."));
    }
    if reclaim.memcg_reclaims > 0 {
        sentences.push(format!(
            "Control groups were short of memory: reclaims {} (for their limits or requested by a process, in total \
             {}), reclaimed pages {}.",
            count(reclaim.memcg_reclaims),
            duration(reclaim.memcg_reclaim_ns),
            count(reclaim.memcg_reclaimed_pages)
        ));
    }
    if let Some(kills) = reclaim.oom_kills.filter(|kills| *kills > 0) {
        sentences.push(format!("OOM kills (machine and control groups): {}.", count(kills)));
    }
    let reclaimed = reclaim.inactive_reclaimed_pages.max(reclaim.node_reclaimed_pages);
    if sentences.is_empty() && reclaimed > 0 {
        sentences.push(format!(
            "{} pages were reclaimed without an event that shows the cause: control groups, a request of a process, or \
             a kswapd that was already awake.",
            count(reclaimed)
        ));
    }
    if sentences.is_empty() {
        sentences.push(match has_events {
            true => "Memory was not short: no page was reclaimed.".to_owned(),
            false => "Shortage of memory unknown: no event of reclaim was recorded.".to_owned(),
        });
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(reclaim: &ReclaimReport) -> String {
        describe(reclaim, 0, true).join(" ")
    }

    #[test]
    fn reclaimed_pages_are_reported_as_shortage() {
        let none = ReclaimReport::default();
        assert!(say(&none).contains("not short"));
        assert!(describe(&none, 0, false).concat().contains("unknown"));
        assert!(describe(&none, 1, true).concat().starts_with("Memory was short"));
        let memcg = ReclaimReport { memcg_reclaims: 3, memcg_reclaimed_pages: 96, oom_kills: Some(1), ..none.clone() };
        let said = say(&memcg);
        assert!(
            said.contains("Control groups were short of memory") && said.contains("pages 96") && said.contains("OOM"),
            "{said}"
        );
        for short in [
            ReclaimReport { inactive_reclaimed_pages: 1, ..none.clone() },
            ReclaimReport { node_reclaimed_pages: 1, ..none.clone() },
            ReclaimReport { oom_kills: Some(1), ..none.clone() },
            ReclaimReport { kswapd_wakes: 1, ..none },
        ] {
            assert!(!say(&short).contains("not short"), "{short:?}");
        }
    }

    #[test]
    fn headline_names_the_kind_of_shortage() {
        let huge = FailureRow {
            order: 9,
            gfp_class: "GFP_KERNEL".to_owned(),
            is_logged: true,
            task: "dd".to_owned(),
            failed: 7,
        };
        let small = FailureRow { order: 3, ..huge.clone() };
        let none = ReclaimReport::default();
        let lines = headline(&none, std::slice::from_ref(&huge), true);
        assert_eq!(lines, ["Memory was fragmented: failed allocations 7, all above order 3."]);
        let lines = headline(&none, &[huge, small], true);
        assert_eq!(lines, ["Memory was short: failed allocations 14, direct reclaims 0."]);
        let memcg = ReclaimReport { memcg_reclaims: 3, oom_kills: Some(1), ..none.clone() };
        let lines = headline(&memcg, &[], true);
        assert_eq!(lines, ["Control groups were short of memory: reclaims 3. OOM kills: 1.", NO_FAILURE]);
        assert_eq!(headline(&none, &[], true)[0], "Memory was not short: no page was reclaimed.");
        let killed = ReclaimReport { oom_kills: Some(2), ..none };
        assert_eq!(headline(&killed, &[], true), ["OOM kills: 2.", NO_FAILURE]);
    }

    #[test]
    fn direct_reclaims_without_an_event_are_reported() {
        let reclaim = ReclaimReport { direct_reclaims: 3, allocstall: Some(5), ..ReclaimReport::default() };
        let said = say(&reclaim);
        assert!(
            said.contains("direct reclaims 3") && said.contains("have 2 more direct reclaims than there are events"),
            "{said}"
        );
        assert!(!say(&ReclaimReport { allocstall: Some(3), ..reclaim }).contains("more"));
    }

    #[test]
    fn kswapd_alone_is_not_reported_as_direct_reclaim() {
        let reclaim = ReclaimReport { kswapd_wakes: 2, memcg_reclaims: 1, ..ReclaimReport::default() };
        let said = say(&reclaim);
        assert!(
            said.starts_with("Passes of kswapd: 2. No direct reclaims") && said.contains("Control groups"),
            "{said}"
        );
    }
}
