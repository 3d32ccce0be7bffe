//! Assembly of the outcome of a replay from its counts.

use freehold::base::{MigrateType, Order};
use freehold::stats::Counts;
use freehold_trace::facts::Facts;
use freehold_trace::mechanism::RequestClass;

use super::counts::{free_blocks, pages_from, stalls};
use super::fidelity::{Ending, pageblocks};
use super::player::Tally;
use super::survey::Survey;
use super::{Engine, HUGE, Options, ReclaimMode};
use crate::report::course::{Course, Stalls};
use crate::report::metrics::{Metric, Metrics};
use crate::report::outcome::ReplayOutcome;

/// Counts of a replay at its end.
pub(crate) struct Totals {
    pub(crate) counts: Counts,
    pub(crate) tally: Tally,
    pub(crate) course: Course,
}

/// Assembles the outcome of a replay under the policy called `name`.
pub(crate) fn assemble(
    name: &str,
    engine: &Engine<'_>,
    facts: &Facts,
    survey: &Survey,
    totals: Totals,
    options: Options,
) -> ReplayOutcome {
    let Totals { counts, tally, course } = totals;
    let stalls = course.stalls.as_ref();
    let ending = Ending { engine, facts, survey, counts, tally, stalls, reclaim: options.reclaim };
    let (fidelity, uncompared) = (ending.fidelity(), ending.uncompared());
    ReplayOutcome {
        policy: name.to_owned(),
        metrics: metrics(engine, counts, tally, stalls, options.reclaim),
        nudged: Vec::new(),
        fidelity,
        unreplayed: unreplayed(survey, tally, options.reclaim),
        assumptions: assumptions(engine.nodes(), options, &counts),
        course: Course { uncompared, ..course },
    }
}

fn metrics(
    engine: &Engine<'_>,
    counts: Counts,
    tally: Tally,
    stalls: Option<&Stalls>,
    reclaim: ReclaimMode,
) -> Metrics {
    let block = engine.map().pageblock_order();
    let [free, suitable, whole] =
        [Order::ZERO, Order::new(HUGE), block].map(|from| pages_from(from, |order| free_blocks(engine, order)));
    let metrics = Metrics::new()
        .with_count(Metric::ZoneLockAcquisitions, counts.zone_lock_acquisitions)
        .with_ratio(Metric::PagesPerZoneLock, counts.zone_lock_pages, counts.zone_lock_acquisitions)
        .with_count(Metric::PcpRefills, counts.pcp_refills)
        .with_count(Metric::PcpDrains, counts.pcp_drains)
        .with_count(Metric::FailedAllocations, tally.failed)
        .with_ratio(Metric::UnusableFreeIndexOrder9, free - suitable, free)
        .with_count(Metric::FreePageblocks, whole >> block.get())
        .with_count(Metric::HighatomicPageblocks, pageblocks(engine, MigrateType::HighAtomic))
        .with_count(Metric::FallbackClaims, counts.fallback_claims)
        .with_count(Metric::FallbackSteals, counts.fallback_steals)
        .with_count(Metric::CrossCpuFrees, tally.cross_cpu_frees);
    match reclaim {
        ReclaimMode::Model => with_pressure(metrics, counts, tally, stalls),
        ReclaimMode::Recorded => metrics,
    }
}

/// Adds the metrics of reclaim, compaction and huge pages.
fn with_pressure(metrics: Metrics, counts: Counts, tally: Tally, times: Option<&Stalls>) -> Metrics {
    let metrics = metrics
        .with_count(Metric::HugePagesServed, tally.huge_served)
        .with_count(Metric::AllocStalls, stalls(&counts))
        .with_count(Metric::PagesScanned, counts.pgscan_kswapd + counts.pgscan_direct)
        .with_count(Metric::PagesReclaimed, counts.pgsteal_kswapd + counts.pgsteal_direct)
        .with_count(Metric::CompactStalls, counts.compact_stall)
        .with_ratio(Metric::CompactSuccess, counts.compact_success, counts.compact_stall)
        .with_count(Metric::CompactScanned, counts.compact_migrate_scanned + counts.compact_free_scanned)
        .with_count(Metric::PagesMigrated, counts.migrations);
    let metrics = with_mechanisms(metrics, counts, tally);
    match times {
        Some(times) => metrics.with_count(Metric::StallTime, times.replayed.total / 1000),
        None => metrics,
    }
}

/// Adds the metrics by mechanism.
fn with_mechanisms(metrics: Metrics, counts: Counts, tally: Tally) -> Metrics {
    let [no_reclaim, first, second] = [RequestClass::NoReclaim, RequestClass::HugeFirst, RequestClass::HugeSecond]
        .map(|class| tally.mechanisms.requests(class).failures);
    metrics
        .with_count(Metric::AllocStallsReady, counts.reclaims_costly_ready)
        .with_count(Metric::AllocStallsCostly, counts.reclaims_costly)
        .with_count(Metric::AllocStallsSmall, counts.reclaims_small)
        .with_count(Metric::PagesScannedCostly, counts.pgscan_costly)
        .with_count(Metric::PagesScannedSmall, counts.pgscan_small)
        .with_count(Metric::FailedNoReclaim, no_reclaim)
        .with_count(Metric::FailedHugeFirst, first)
        .with_count(Metric::FailedHugeSecond, second)
}

fn below_watermark(reclaim: ReclaimMode) -> &'static str {
    match reclaim {
        ReclaimMode::Model => "small requests that the engine refused at first, then served below the watermark",
        ReclaimMode::Recorded => "requests served below the watermark, since reclaim is as recorded",
    }
}

fn unreplayed(survey: &Survey, tally: Tally, reclaim: ReclaimMode) -> Vec<(String, u64)> {
    [
        ("allocations without event, placed by rule", tally.silent_allocs),
        ("of these, pages still allocated at the end", survey.appeared),
        ("frees without event, shown by the next allocation", tally.silent_frees),
        ("blocks freed in parts", tally.splits),
        (below_watermark(reclaim), tally.below_watermark),
        ("drains requested by reclaim or compaction, as recorded", tally.drains_asked_for),
        ("pages reclaimed too early: the workload freed them later", tally.freed_after_reclaim),
        ("pages reclaimed only by the engine, not by the recorded kernel", tally.taken_early),
        ("pages on no LRU list, reclaimed as recorded", tally.reclaimed_as_recorded),
        ("moved blocks without a recorded target", tally.lost_moves),
        ("recorded failures that the engine served", tally.failures_served),
        ("of these, single pages taken from a huge page", tally.found_in_huge),
        ("second requests for a huge page left out, since the first was served", tally.not_repeated),
        ("second requests for a huge page that only the replay makes", tally.asked_again),
        ("requests left out, since the engine served a larger request that failed in the recording", tally.not_retried),
        ("recorded successes replaced by single pages", tally.made_up),
        ("blocks taken from the free lists for these", tally.made_up_blocks),
        ("pages that could not be allocated at all", tally.unbacked),
        ("frees of memory that came online during the recording", tally.appeared),
        ("events on frames without an allocation", tally.outside),
        ("frees that the engine refused", tally.refused_frees),
        ("requests with impossible flags or orders", tally.impossible),
    ]
    .into_iter()
    .filter(|&(_, events)| events > 0)
    .map(|(what, events)| (what.to_owned(), events))
    .collect()
}

/// Caveat about differences between two policies where the engine reclaimed.
const SENSITIVE: &str = "Where memory is short, a few hundred pages can change the further course. A difference in one \
                         recording is evidence only if several recordings or `freehold sim` show it as well.";

/// Returns the assumptions about reclaim and compaction.
fn consequences(reclaim: ReclaimMode) -> &'static [&'static str] {
    match reclaim {
        ReclaimMode::Model => &[
            "Reclaim first takes the pages that the recorded kernel reclaimed, in its order and with as many scanned \
             pages that are not freed. Then it takes page cache, oldest first. The engine decides the time and the \
             amount.",
            "A scanned page and a moved page cost as much time as on the recorded machine. A task waits while its \
             request is in progress, and then catches up. Waits of tasks for each other are unknown.",
            "Every movable block can be moved.",
        ],
        ReclaimMode::Recorded => &["Reclaim and compaction are replayed as recorded. The policy does not change them."],
    }
}

fn assumptions(engine_nodes: u8, options: Options, counts: &Counts) -> Vec<String> {
    let mut lines: Vec<_> = consequences(options.reclaim).iter().map(|&line| line.to_owned()).collect();
    lines.extend([
        "A block is movable if it was on an LRU list at the start, or if its request was movable.".to_owned(),
        "The order of blocks on the free lists at the start is unknown. The lowest address is assumed first."
            .to_owned(),
        "Per-CPU lists decay once a second, on all CPUs at once, from the first recorded drain by a kernel worker on."
            .to_owned(),
    ]);
    if counts.pgscan_kswapd + counts.pgscan_direct > 0 {
        lines.push(SENSITIVE.to_owned());
    }
    if engine_nodes > 1 {
        lines.push("CPUs are assigned to nodes in turn, since the recording does not contain their nodes.".to_owned());
    }
    if let Some(cpus) = options.cpus {
        lines.push(format!("The recorded tasks are spread over {cpus} CPUs. Their interleaving stays as recorded."));
    }
    lines
}
