//! Recipes: the kind of row for each kernel event, and the column for each field of its record.
//!
//! A recipe uses the field names of the kernel's format files. An event whose format lacks a required field is not
//! used. A missing optional field leaves its column empty. No recipe contains fields that could name a device, a file
//! or a cgroup. `FORMAT.md` documents the meaning of the columns.

use crate::event::Kind;

/// Column of a row that receives a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Pfn,
    Order,
    Gfp,
    Migratetype,
    /// A kernel's own code, stored unchanged in the column `migratetype`.
    Status,
    Arg(u8),
    /// An argument that is a migratetype.
    ArgMigratetype(u8),
}

use Target::{Arg, ArgMigratetype, Gfp, Migratetype, Order, Pfn, Status};

/// Name of a field, and the column for its value.
type Step = (&'static str, Target);

/// Conversion of one kernel event to a row.
pub(crate) struct Recipe {
    /// Name of the event, without its subsystem.
    pub event: &'static str,
    pub kind: Kind,
    /// Fields without which the row would have no meaning.
    pub required: &'static [Step],
    /// Fields that some kernels lack. Their columns then keep their defaults.
    pub optional: &'static [Step],
}

const fn recipe(event: &'static str, kind: Kind, required: &'static [Step], optional: &'static [Step]) -> Recipe {
    Recipe { event, kind, required, optional }
}

impl Kind {
    /// Returns the kernel event of which rows of this kind are made; `None` for state rows.
    pub fn event(self) -> Option<&'static str> {
        RECIPES.iter().find(|recipe| recipe.kind == self).map(|recipe| recipe.event)
    }
}

/// All recipes, in the order of the kinds' codes.
pub(crate) const RECIPES: [Recipe; 49] = [
    recipe(
        "mm_page_alloc",
        Kind::Alloc,
        &[("pfn", Pfn), ("order", Order)],
        &[("gfp_flags", Gfp), ("migratetype", Migratetype)],
    ),
    recipe("mm_page_free", Kind::Free, &[("pfn", Pfn), ("order", Order)], &[]),
    recipe(
        "mm_page_alloc_zone_locked",
        Kind::ZoneLocked,
        &[("pfn", Pfn), ("order", Order)],
        &[("migratetype", Migratetype), ("percpu_refill", Arg(0))],
    ),
    recipe("mm_page_pcpu_drain", Kind::PcpuDrain, &[("pfn", Pfn), ("order", Order)], &[("migratetype", Migratetype)]),
    recipe(
        "mm_page_alloc_extfrag",
        Kind::ExtFrag,
        &[("pfn", Pfn), ("alloc_order", Order), ("fallback_order", Arg(0))],
        &[
            ("alloc_migratetype", Migratetype),
            ("fallback_migratetype", ArgMigratetype(1)),
            ("change_ownership", Arg(2)),
        ],
    ),
    recipe(
        "mm_compaction_begin",
        Kind::CompactionBegin,
        &[("migrate_pfn", Pfn)],
        &[("zone_start", Arg(0)), ("free_pfn", Arg(1)), ("zone_end", Arg(2)), ("sync", Order)],
    ),
    recipe(
        "mm_compaction_end",
        Kind::CompactionEnd,
        &[("migrate_pfn", Pfn), ("status", Status)],
        &[("zone_start", Arg(0)), ("free_pfn", Arg(1)), ("zone_end", Arg(2)), ("sync", Order)],
    ),
    recipe(
        "mm_compaction_migratepages",
        Kind::CompactionMigrate,
        &[("nr_migrated", Arg(0)), ("nr_failed", Arg(1))],
        &[],
    ),
    recipe("mm_vmscan_kswapd_wake", Kind::KswapdWake, &[("nid", Arg(0)), ("order", Order)], &[("zid", Arg(1))]),
    recipe("mm_vmscan_kswapd_sleep", Kind::KswapdSleep, &[("nid", Arg(0))], &[]),
    recipe("mm_vmscan_direct_reclaim_begin", Kind::DirectReclaimBegin, &[("order", Order)], &[("gfp_flags", Gfp)]),
    recipe("mm_vmscan_direct_reclaim_end", Kind::DirectReclaimEnd, &[("nr_reclaimed", Arg(0))], &[]),
    recipe(
        "mm_vmscan_lru_shrink_inactive",
        Kind::LruShrinkInactive,
        &[("nr_scanned", Arg(0)), ("nr_reclaimed", Arg(1))],
        &[("nid", Arg(2))],
    ),
    recipe(
        "mm_vmscan_lru_shrink_active",
        Kind::LruShrinkActive,
        &[("nr_taken", Arg(0)), ("nr_deactivated", Arg(1))],
        &[("nid", Arg(2))],
    ),
    recipe("mm_collapse_huge_page", Kind::CollapseHugePage, &[("isolated", Arg(0)), ("status", Arg(1))], &[]),
    recipe("alloc_vmap_area", Kind::AllocVmapArea, &[("size", Arg(0))], &[("failed", Arg(1))]),
    recipe("mm_migrate_pages", Kind::MigratePages, &[("succeeded", Arg(0)), ("failed", Arg(1))], &[("reason", Arg(2))]),
    recipe(
        "mm_vmscan_wakeup_kswapd",
        Kind::WakeupKswapd,
        &[("nid", Arg(0)), ("order", Order)],
        &[("zid", Arg(1)), ("gfp_flags", Gfp)],
    ),
    recipe("mm_vmscan_throttled", Kind::Throttled, &[("nid", Arg(0)), ("usec_delayed", Arg(1))], &[("reason", Arg(2))]),
    recipe(
        "mm_vmscan_balance_pgdat_begin",
        Kind::BalancePgdatBegin,
        &[("nid", Arg(0)), ("order", Order)],
        &[("highest_zoneidx", Arg(1))],
    ),
    recipe(
        "mm_vmscan_balance_pgdat_end",
        Kind::BalancePgdatEnd,
        &[("nid", Arg(0)), ("order", Order)],
        &[("highest_zoneidx", Arg(1)), ("nr_reclaimed", Arg(2))],
    ),
    recipe(
        "mm_compaction_try_to_compact_pages",
        Kind::TryToCompact,
        &[("order", Order)],
        &[("gfp_mask", Gfp), ("prio", Arg(0))],
    ),
    recipe(
        "mm_compaction_wakeup_kcompactd",
        Kind::WakeupKcompactd,
        &[("nid", Arg(0)), ("order", Order)],
        &[("highest_zoneidx", Arg(1))],
    ),
    recipe(
        "mm_compaction_kcompactd_wake",
        Kind::KcompactdWake,
        &[("nid", Arg(0)), ("order", Order)],
        &[("highest_zoneidx", Arg(1))],
    ),
    recipe("mm_compaction_kcompactd_sleep", Kind::KcompactdSleep, &[("nid", Arg(0))], &[]),
    recipe(
        "mm_compaction_defer_compaction",
        Kind::CompactionDefer,
        &[("nid", Arg(0)), ("order", Order)],
        &[("idx", Arg(1)), ("defer_shift", Arg(2))],
    ),
    recipe(
        "mm_compaction_defer_reset",
        Kind::CompactionDeferReset,
        &[("nid", Arg(0)), ("order", Order)],
        &[("idx", Arg(1)), ("defer_shift", Arg(2))],
    ),
    recipe(
        "mm_compaction_deferred",
        Kind::CompactionDeferred,
        &[("nid", Arg(0)), ("order", Order)],
        &[("idx", Arg(1)), ("defer_shift", Arg(2))],
    ),
    recipe(
        "mm_compaction_suitable",
        Kind::CompactionSuitable,
        &[("nid", Arg(0)), ("order", Order), ("ret", Arg(2))],
        &[("idx", Arg(1))],
    ),
    recipe(
        "mm_compaction_finished",
        Kind::CompactionFinished,
        &[("nid", Arg(0)), ("order", Order), ("ret", Arg(2))],
        &[("idx", Arg(1))],
    ),
    recipe(
        "mm_compaction_isolate_migratepages",
        Kind::IsolateMigratePages,
        &[("start_pfn", Pfn), ("nr_taken", Arg(2))],
        &[("end_pfn", Arg(0)), ("nr_scanned", Arg(1))],
    ),
    recipe(
        "mm_compaction_isolate_freepages",
        Kind::IsolateFreePages,
        &[("start_pfn", Pfn), ("nr_taken", Arg(2))],
        &[("end_pfn", Arg(0)), ("nr_scanned", Arg(1))],
    ),
    recipe(
        "mm_compaction_fast_isolate_freepages",
        Kind::FastIsolateFreePages,
        &[("start_pfn", Pfn), ("nr_taken", Arg(2))],
        &[("end_pfn", Arg(0)), ("nr_scanned", Arg(1))],
    ),
    recipe(
        "mm_vmscan_lru_isolate",
        Kind::LruIsolate,
        &[("nr_scanned", Arg(0)), ("nr_taken", Arg(1))],
        &[("order", Order), ("lru", Arg(2))],
    ),
    recipe("mm_shrink_slab_end", Kind::ShrinkSlab, &[("total_scan", Arg(0)), ("retval", Arg(1))], &[("nid", Arg(2))]),
    recipe("mm_vmscan_write_folio", Kind::WriteFolio, &[("pfn", Pfn)], &[("reclaim_flags", Arg(0))]),
    recipe(
        "mm_vmscan_reclaim_pages",
        Kind::ReclaimPages,
        &[("nr_scanned", Arg(0)), ("nr_reclaimed", Arg(1))],
        &[("nid", Arg(2))],
    ),
    recipe("mm_vmscan_memcg_reclaim_begin", Kind::MemcgReclaimBegin, &[("order", Order)], &[("gfp_flags", Gfp)]),
    recipe("mm_vmscan_memcg_reclaim_end", Kind::MemcgReclaimEnd, &[("nr_reclaimed", Arg(0))], &[]),
    recipe(
        "mm_vmscan_node_reclaim_begin",
        Kind::NodeReclaimBegin,
        &[("nid", Arg(0)), ("order", Order)],
        &[("gfp_flags", Gfp)],
    ),
    recipe("mm_vmscan_node_reclaim_end", Kind::NodeReclaimEnd, &[("nr_reclaimed", Arg(0))], &[]),
    recipe(
        "balance_dirty_pages",
        Kind::BalanceDirtyPages,
        &[("dirty", Arg(0)), ("pause", Arg(2))],
        &[("limit", Arg(1))],
    ),
    recipe("writeback_pages_written", Kind::WritebackPagesWritten, &[("pages", Arg(0))], &[]),
    recipe(
        "writeback_start",
        Kind::WritebackStart,
        &[("nr_pages", Arg(0))],
        &[("reason", Arg(1)), ("for_background", Arg(2))],
    ),
    recipe(
        "writeback_written",
        Kind::WritebackWritten,
        &[("nr_pages", Arg(0))],
        &[("reason", Arg(1)), ("for_background", Arg(2))],
    ),
    recipe("mm_migrate_pages_start", Kind::MigratePagesStart, &[("mode", Arg(0))], &[("reason", Arg(1))]),
    recipe(
        "mm_alloc_contig_migrate_range_info",
        Kind::ContigMigrateRange,
        &[("start", Pfn), ("end", Arg(0))],
        &[("nr_migrated", Arg(1)), ("nr_reclaimed", Arg(2)), ("migratetype", Migratetype)],
    ),
    recipe(
        "sched_switch",
        Kind::SchedSwitch,
        &[("next_pid", Arg(0))],
        &[("prev_state", Arg(1)), ("next_prio", Arg(2))],
    ),
    recipe("sched_waking", Kind::SchedWaking, &[("pid", Arg(0))], &[("target_cpu", Arg(1)), ("prio", Arg(2))]),
];
