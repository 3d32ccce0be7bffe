//! The engine's counterparts of the counters of `/proc/vmstat` that tell what was done because memory was short.
//!
//! The kernel's counters go up by what it did between the recording's first sample and its last; the samples are taken
//! a little before the first event and after the last one. Counters that the recording lacks make no row.

use freehold::stats::Counts;

use crate::report::fidelity::VmstatCounter;

/// Returns the engine's count.
pub(super) fn replayed(counter: VmstatCounter, counts: &Counts) -> u64 {
    match counter {
        VmstatCounter::Pageoutrun => counts.pageoutrun,
        VmstatCounter::PgscanKswapd => counts.pgscan_kswapd,
        VmstatCounter::PgscanDirect => counts.pgscan_direct,
        VmstatCounter::PgstealKswapd => counts.pgsteal_kswapd,
        VmstatCounter::PgstealDirect => counts.pgsteal_direct,
        VmstatCounter::CompactStall => counts.compact_stall,
        VmstatCounter::CompactSuccess => counts.compact_success,
        VmstatCounter::CompactFail => counts.compact_fail,
        VmstatCounter::CompactMigrateScanned => counts.compact_migrate_scanned,
        VmstatCounter::CompactFreeScanned => counts.compact_free_scanned,
        VmstatCounter::CompactIsolated => counts.compact_isolated,
        VmstatCounter::CompactDaemonWake => counts.compact_daemon_wake,
        VmstatCounter::CompactDaemonMigrateScanned => counts.compact_daemon_migrate_scanned,
        VmstatCounter::CompactDaemonFreeScanned => counts.compact_daemon_free_scanned,
        VmstatCounter::PgmigrateSuccess => counts.migrations,
        VmstatCounter::PgmigrateFail => counts.migrations_refused,
    }
}
