//! The engine's counterparts of the `/proc/vmstat` counters of reclaim and compaction.
//!
//! The recorded value is the increase of the kernel's counter between the recording's first sample and its last. These
//! samples are taken slightly before the first event and slightly after the last. Counters that the recording lacks
//! have no row.

use freehold::stats::Counts;

use crate::report::fidelity::VmstatCounter;

/// Returns the engine's value of a counter.
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
