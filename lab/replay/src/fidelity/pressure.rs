//! What the engine did because memory was short, held against the recorded `/proc/vmstat`.
//!
//! The kernel's counters go up by what it did between the recording's first sample and its last; the samples are taken
//! a little before the first event and after the last one. Counters that the recording lacks make no row.

use freehold::stats::Counts;
use freehold_trace::facts::Facts;

use super::super::counts::{STALLS, stalls, vmstat_delta};
use super::row;
use crate::report::model::FidelityRow;

/// One of the engine's counters.
type Counter = fn(&Counts) -> u64;

/// The kernel's counters by name, and the engine's.
const COUNTERS: [(&str, Counter); 16] = [
    ("pageoutrun", |counts| counts.pageoutrun),
    ("pgscan_kswapd", |counts| counts.pgscan_kswapd),
    ("pgscan_direct", |counts| counts.pgscan_direct),
    ("pgsteal_kswapd", |counts| counts.pgsteal_kswapd),
    ("pgsteal_direct", |counts| counts.pgsteal_direct),
    ("compact_stall", |counts| counts.compact_stall),
    ("compact_success", |counts| counts.compact_success),
    ("compact_fail", |counts| counts.compact_fail),
    ("compact_migrate_scanned", |counts| counts.compact_migrate_scanned),
    ("compact_free_scanned", |counts| counts.compact_free_scanned),
    ("compact_isolated", |counts| counts.compact_isolated),
    ("compact_daemon_wake", |counts| counts.compact_daemon_wake),
    ("compact_daemon_migrate_scanned", |counts| counts.compact_daemon_migrate_scanned),
    ("compact_daemon_free_scanned", |counts| counts.compact_daemon_free_scanned),
    ("pgmigrate_success", |counts| counts.migrations),
    ("pgmigrate_fail", |counts| counts.migrations_refused),
];

/// The rows, as far as the recording has the counters.
pub fn rows(facts: &Facts, counts: &Counts) -> Vec<FidelityRow> {
    let recorded_stalls: Vec<_> = STALLS.iter().filter_map(|name| vmstat_delta(facts, name)).collect();
    let stalls =
        (!recorded_stalls.is_empty()).then(|| row("allocstall", recorded_stalls.iter().sum(), stalls(counts), None));
    let others = COUNTERS.iter().filter_map(|&(name, replayed)| {
        vmstat_delta(facts, name).map(|recorded| row(name, recorded, replayed(counts), None))
    });
    stalls.into_iter().chain(others).collect()
}
