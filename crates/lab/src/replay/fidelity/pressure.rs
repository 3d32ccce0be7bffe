//! What the engine did because memory was short, held against the recorded `/proc/vmstat`.
//!
//! The kernel's counters go up by what it did between the recording's first sample and its last; the samples are taken a little
//! before the first event and after the last one. Counters that the recording lacks make no row.

use freehold::stats::Counts;
use freehold_trace::facts::Facts;

use super::super::survey::vmstat_delta;
use super::row;
use crate::report::model::FidelityRow;

/// What one row compares.
struct Compared {
    name: &'static str,
    /// The kernel's counters that are added up.
    recorded: &'static [&'static str],
    replayed: fn(&Counts) -> u64,
}

const ROWS: [Compared; 17] = [
    Compared {
        name: "allocstall",
        recorded: &["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"],
        replayed: stalls,
    },
    Compared { name: "pageoutrun", recorded: &["pageoutrun"], replayed: |counts| counts.pageoutrun },
    Compared { name: "pgscan_kswapd", recorded: &["pgscan_kswapd"], replayed: |counts| counts.pgscan_kswapd },
    Compared { name: "pgscan_direct", recorded: &["pgscan_direct"], replayed: |counts| counts.pgscan_direct },
    Compared { name: "pgsteal_kswapd", recorded: &["pgsteal_kswapd"], replayed: |counts| counts.pgsteal_kswapd },
    Compared { name: "pgsteal_direct", recorded: &["pgsteal_direct"], replayed: |counts| counts.pgsteal_direct },
    Compared { name: "compact_stall", recorded: &["compact_stall"], replayed: |counts| counts.compact_stall },
    Compared { name: "compact_success", recorded: &["compact_success"], replayed: |counts| counts.compact_success },
    Compared { name: "compact_fail", recorded: &["compact_fail"], replayed: |counts| counts.compact_fail },
    Compared {
        name: "compact_migrate_scanned",
        recorded: &["compact_migrate_scanned"],
        replayed: |counts| counts.compact_migrate_scanned,
    },
    Compared {
        name: "compact_free_scanned",
        recorded: &["compact_free_scanned"],
        replayed: |counts| counts.compact_free_scanned,
    },
    Compared { name: "compact_isolated", recorded: &["compact_isolated"], replayed: |counts| counts.compact_isolated },
    Compared {
        name: "compact_daemon_wake",
        recorded: &["compact_daemon_wake"],
        replayed: |counts| counts.compact_daemon_wake,
    },
    Compared {
        name: "compact_daemon_migrate_scanned",
        recorded: &["compact_daemon_migrate_scanned"],
        replayed: |counts| counts.compact_daemon_migrate_scanned,
    },
    Compared {
        name: "compact_daemon_free_scanned",
        recorded: &["compact_daemon_free_scanned"],
        replayed: |counts| counts.compact_daemon_free_scanned,
    },
    Compared { name: "pgmigrate_success", recorded: &["pgmigrate_success"], replayed: |counts| counts.migrations },
    Compared { name: "pgmigrate_fail", recorded: &["pgmigrate_fail"], replayed: |counts| counts.migrations_refused },
];

/// Requests that reclaimed for themselves, whatever zones they could use.
pub fn stalls(counts: &Counts) -> u64 {
    counts.allocstall_dma + counts.allocstall_dma32 + counts.allocstall_normal + counts.allocstall_movable
}

/// The rows, as far as the recording has the counters.
pub fn rows(facts: &Facts, counts: &Counts) -> impl Iterator<Item = FidelityRow> {
    ROWS.iter().filter_map(|compared| {
        let recorded: Vec<_> = compared.recorded.iter().filter_map(|name| vmstat_delta(facts, name)).collect();
        let sum = recorded.iter().sum();
        (!recorded.is_empty()).then(|| row(compared.name, sum, (compared.replayed)(counts), None))
    })
}
