//! Sentences on shortages of memory: of the machine, of control groups, or none.

use freehold_report::number::{count, duration};

use super::pressure::ReclaimReport;

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
            "Memory was short: {} direct reclaims took {}, kswapd ran {} passes, {} requests failed{missing}.",
            count(reclaim.direct_reclaims),
            duration(reclaim.direct_reclaim_ns),
            count(passes),
            count(failed)
        ));
    } else if passes > 0 {
        let passes = count(passes);
        sentences.push(format!("kswapd ran {passes} passes; no direct reclaims and no failed requests."));
    }
    if reclaim.memcg_reclaims > 0 {
        sentences.push(format!(
            "Control groups were short of memory: {} reclaims, for their limits or requested by a process, took {} and \
             reclaimed {} pages.",
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
            said.contains("Control groups were short of memory") && said.contains("96 pages") && said.contains("OOM"),
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
    fn direct_reclaims_without_an_event_are_reported() {
        let reclaim = ReclaimReport { direct_reclaims: 3, allocstall: Some(5), ..ReclaimReport::default() };
        let said = say(&reclaim);
        assert!(
            said.contains("3 direct reclaims") && said.contains("have 2 more direct reclaims than there are events"),
            "{said}"
        );
        assert!(!say(&ReclaimReport { allocstall: Some(3), ..reclaim }).contains("more"));
    }

    #[test]
    fn kswapd_alone_is_not_reported_as_direct_reclaim() {
        let reclaim = ReclaimReport { kswapd_wakes: 2, memcg_reclaims: 1, ..ReclaimReport::default() };
        let said = say(&reclaim);
        assert!(
            said.starts_with("kswapd ran 2 passes; no direct reclaims") && said.contains("Control groups"),
            "{said}"
        );
    }
}
