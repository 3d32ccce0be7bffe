//! Fidelity: the engine under the pinned kernel's policy, held against the recorded kernel.
//!
//! Compared are the free pages, the free blocks by order, whole pageblocks and the unusable index at the end, the
//! blocks that left the free lists and came back from per-CPU lists, the requests that failed, and the pageblocks in
//! reserve; pages of ranges that went to a per-CPU list, as far as a recording shows it by draining them or handing
//! them out again. Bounds are tighter where the recorded kernel is the pinned one. A row without a bound informs. Where
//! reclaim and compaction are decided anew, what they did is held against the recorded counters of `/proc/vmstat`
//! ([`pressure`]).

mod pressure;

use freehold::base::{MigrateType, Order};
use freehold::procfs;
use freehold::stats::Counts;
use freehold_trace::event::migratetype;
use freehold_trace::facts::Facts;

use super::counts::{free_blocks, pages_from};
use super::player::Tally;
use super::survey::Survey;
use super::{Engine, HUGE, ReclaimMode};
use crate::report::course::Stalls;
use crate::report::model::FidelityRow;

/// The kernel whose rules the engine follows.
const PINNED: &str = "6.12.";

/// Largest relative errors that count as faithful.
struct Bounds {
    moved_blocks: f64,
    large_blocks: f64,
}

/// The rows for one replay.
pub fn rows(
    engine: &Engine<'_>,
    facts: &Facts,
    survey: &Survey,
    counts: Counts,
    tally: Tally,
    reclaim: ReclaimMode,
) -> Vec<FidelityRow> {
    let pinned = facts.kernel_release.starts_with(PINNED);
    let bounds = if pinned {
        Bounds { moved_blocks: 0.05, large_blocks: 0.10 }
    } else {
        Bounds { moved_blocks: 0.15, large_blocks: 0.15 }
    };
    let mut rows = free_rows(engine, survey, &bounds);
    let moved = [
        ("blocks_taken", survey.zone_locked, counts.zone_locked_blocks),
        ("blocks_drained", survey.pcpu_drain, counts.pcp_drain_blocks),
    ];
    rows.extend(moved.map(|(name, recorded, replayed)| row(name, recorded, replayed, Some(bounds.moved_blocks))));
    rows.push(row("pages_on_percpu_lists", recorded_on_lists(facts), on_lists(engine), None));
    rows.push(row("failures", survey.failures, tally.failed, Some(0.05)));
    rows.push(row("failures_in_both", survey.failures, tally.failed_in_both, None));
    rows.push(row("fallback_claims", survey.claims, counts.fallback_claims, None));
    rows.push(row("fallback_steals", survey.steals, counts.fallback_steals, None));
    rows.extend(highatomic_row(engine, facts));
    rows.push(row("blocks_from_reserve", survey.from_reserve, counts.highatomic_from_reserve, None));
    rows.push(row("range_pages_listed", survey.together_listed, tally.together_listed, None));
    if reclaim == ReclaimMode::Model {
        rows.push(row("huge_pages_served", survey.huge_served, tally.huge_served, None));
        rows.extend(pressure::rows(facts, &counts));
    }
    rows
}

/// How long requests stalled, in microseconds.
pub fn stall_rows(stalls: &Stalls) -> [FidelityRow; 2] {
    let Stalls { recorded, replayed, .. } = stalls;
    let us = |name, recorded: u64, replayed: u64| row(name, recorded / 1000, replayed / 1000, None);
    [us("stall_time", recorded.total, replayed.total), us("stall_p99", recorded.p99, replayed.p99)]
}

fn free_rows(engine: &Engine<'_>, survey: &Survey, bounds: &Bounds) -> Vec<FidelityRow> {
    if survey.end_free.is_empty() {
        return Vec::new();
    }
    let recorded = |order: Order| survey.end_free.get(order.index()).copied().unwrap_or(0);
    let replayed = |order: Order| free_blocks(engine, order);
    let pages = |count: &dyn Fn(Order) -> u64, from: u8| pages_from(Order::new(from), count);
    let mut rows = vec![
        row("free_pages", pages(&recorded, 0), pages(&replayed, 0), Some(0.01)),
        row("free_pages_order_4_up", pages(&recorded, 4), pages(&replayed, 4), Some(bounds.large_blocks)),
        row("free_pageblocks", pages(&recorded, HUGE) >> HUGE, pages(&replayed, HUGE) >> HUGE, None),
    ];
    let unusable = |count: &dyn Fn(Order) -> u64| 1.0 - pages(count, HUGE) as f64 / pages(count, 0).max(1) as f64;
    rows.push(FidelityRow::new("unusable_free_index_order9", unusable(&recorded), unusable(&replayed), None));
    rows.extend(Order::all().map(|order| {
        let bound = (order.get() >= 4).then_some(bounds.large_blocks);
        row(&format!("free_blocks_order_{order}"), recorded(order), replayed(order), bound)
    }));
    rows
}

fn recorded_on_lists(facts: &Facts) -> u64 {
    facts.zones_end.iter().flat_map(|zone| &zone.pcp).map(|list| u64::from(list.count)).sum()
}

/// Pages on all per-CPU lists.
fn on_lists(engine: &Engine<'_>) -> u64 {
    let zones = engine.zones().iter();
    let lists = zones.flat_map(|zone| engine.cpu_ids().map(move |cpu| engine.pcp(cpu, zone)));
    lists.map(|list| u64::from(list.inspect(|lists| lists.count()))).sum()
}

/// Pageblocks of one type, over all zones.
pub fn pageblocks(engine: &Engine<'_>, migratetype: MigrateType) -> u64 {
    let zones = engine.zones().iter().filter(|zone| zone.is_populated());
    zones.map(|zone| procfs::pageblock_counts(engine, zone)[migratetype.index()]).sum()
}

fn highatomic_row(engine: &Engine<'_>, facts: &Facts) -> Option<FidelityRow> {
    let recorded = facts.pagetypeinfo_end.iter().filter(|row| row.migratetype == migratetype::HIGHATOMIC);
    let mut recorded = recorded.peekable();
    recorded.peek()?;
    let blocks = recorded.map(|row| row.pageblocks).sum();
    Some(row("highatomic_pageblocks", blocks, pageblocks(engine, MigrateType::HighAtomic), Some(0.0)))
}

fn row(name: &str, recorded: u64, replayed: u64, bound: Option<f64>) -> FidelityRow {
    FidelityRow::new(name, recorded as f64, replayed as f64, bound)
}
