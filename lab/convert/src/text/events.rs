//! What is made of the values that an event is printed with. Their names are those of the print formats, which differ
//! from those of the records. linux: include/trace/events/kmem.h, compaction.h, vmscan.h, migrate.h, vmalloc.h

use freehold_trace::event::{Kind, NO_MIGRATETYPE, NO_PFN, Row};

use super::line::Line;
use crate::gfp;
use crate::records::MIGRATETYPES;

/// Where a value goes.
#[derive(Clone, Copy)]
enum Target {
    /// Without it there is no row.
    Pfn,
    Order,
    Gfp,
    Migratetype,
    Arg(usize),
    ArgMigratetype(usize),
}

use Target::{Arg, ArgMigratetype, Gfp, Migratetype, Order, Pfn};

/// Of an event: its name, the kind of its rows, and where each value goes.
struct Recipe(&'static [u8], Kind, &'static [(&'static [u8], Target)]);

const RECIPES: [Recipe; 22] = [
    Recipe(
        b"mm_page_alloc",
        Kind::Alloc,
        &[(b"pfn", Pfn), (b"order", Order), (b"migratetype", Migratetype), (b"gfp_flags", Gfp)],
    ),
    Recipe(b"mm_page_free", Kind::Free, &[(b"pfn", Pfn), (b"order", Order)]),
    Recipe(
        b"mm_page_alloc_zone_locked",
        Kind::ZoneLocked,
        &[(b"pfn", Pfn), (b"order", Order), (b"migratetype", Migratetype), (b"percpu_refill", Arg(0))],
    ),
    Recipe(b"mm_page_pcpu_drain", Kind::PcpuDrain, &[(b"pfn", Pfn), (b"order", Order), (b"migratetype", Migratetype)]),
    Recipe(
        b"mm_page_alloc_extfrag",
        Kind::ExtFrag,
        &[
            (b"pfn", Pfn),
            (b"alloc_order", Order),
            (b"alloc_migratetype", Migratetype),
            (b"fallback_order", Arg(0)),
            (b"fallback_migratetype", ArgMigratetype(1)),
            (b"change_ownership", Arg(2)),
        ],
    ),
    Recipe(
        b"mm_compaction_begin",
        Kind::CompactionBegin,
        &[(b"migrate_pfn", Pfn), (b"zone_start", Arg(0)), (b"free_pfn", Arg(1)), (b"zone_end", Arg(2))],
    ),
    Recipe(
        b"mm_compaction_end",
        Kind::CompactionEnd,
        &[(b"migrate_pfn", Pfn), (b"zone_start", Arg(0)), (b"free_pfn", Arg(1)), (b"zone_end", Arg(2))],
    ),
    Recipe(b"mm_compaction_migratepages", Kind::CompactionMigrate, &[(b"nr_migrated", Arg(0)), (b"nr_failed", Arg(1))]),
    Recipe(b"mm_vmscan_kswapd_wake", Kind::KswapdWake, &[(b"order", Order), (b"nid", Arg(0))]),
    Recipe(b"mm_vmscan_kswapd_sleep", Kind::KswapdSleep, &[(b"nid", Arg(0))]),
    Recipe(b"mm_vmscan_direct_reclaim_begin", Kind::DirectReclaimBegin, &[(b"order", Order), (b"gfp_flags", Gfp)]),
    Recipe(b"mm_vmscan_direct_reclaim_end", Kind::DirectReclaimEnd, &[(b"nr_reclaimed", Arg(0))]),
    Recipe(
        b"mm_vmscan_lru_shrink_inactive",
        Kind::LruShrinkInactive,
        &[(b"nr_scanned", Arg(0)), (b"nr_reclaimed", Arg(1)), (b"nid", Arg(2))],
    ),
    Recipe(
        b"mm_vmscan_lru_shrink_active",
        Kind::LruShrinkActive,
        &[(b"nr_taken", Arg(0)), (b"nr_deactivated", Arg(1)), (b"nid", Arg(2))],
    ),
    Recipe(b"mm_collapse_huge_page", Kind::CollapseHugePage, &[(b"isolated", Arg(0))]),
    Recipe(b"alloc_vmap_area", Kind::AllocVmapArea, &[(b"size", Arg(0)), (b"failed", Arg(1))]),
    Recipe(b"mm_migrate_pages", Kind::MigratePages, &[(b"nr_succeeded", Arg(0)), (b"nr_failed", Arg(1))]),
    Recipe(b"mm_vmscan_wakeup_kswapd", Kind::WakeupKswapd, &[(b"order", Order), (b"gfp_flags", Gfp), (b"nid", Arg(0))]),
    Recipe(b"mm_compaction_wakeup_kcompactd", Kind::WakeupKcompactd, &[(b"order", Order), (b"nid", Arg(0))]),
    Recipe(b"mm_compaction_kcompactd_wake", Kind::KcompactdWake, &[(b"order", Order), (b"nid", Arg(0))]),
    Recipe(b"mm_compaction_kcompactd_sleep", Kind::KcompactdSleep, &[(b"nid", Arg(0))]),
    Recipe(
        b"mm_compaction_try_to_compact_pages",
        Kind::TryToCompact,
        &[(b"order", Order), (b"gfp_mask", Gfp), (b"priority", Arg(0))],
    ),
];

/// The row of a line; `None` if none is made of its event, or it lacks what the row is about.
pub(super) fn row(line: &Line<'_>) -> Option<Row> {
    let Recipe(_, kind, values) = RECIPES.iter().find(|Recipe(name, ..)| *name == line.event)?;
    let mut row = Row { time: line.time, cpu: line.cpu, ..Row::new(*kind) };
    for (key, target) in *values {
        fill(&mut row, line, key, *target)?;
    }
    Some(row)
}

fn fill(row: &mut Row, line: &Line<'_>, key: &[u8], target: Target) -> Option<()> {
    match target {
        Pfn => row.pfn = pfn(line.number(key)?, row.kind),
        // An order of -1 stands for "all of it" in requests from user space.
        Order => row.order = u8::try_from(line.number(key)?).unwrap_or(0),
        Gfp => row.gfp = line.value(key).map_or(0, gfp::flags),
        Migratetype => row.migratetype = line.number(key).map_or(NO_MIGRATETYPE, migratetype),
        Arg(index) => row.args[index] = line.number(key).unwrap_or(0),
        ArgMigratetype(index) => row.args[index] = migratetype(line.number(key)?).into(),
    }
    Some(())
}

/// A failed request is printed with the frame 0, which nobody can be given, or with all ones.
fn pfn(number: i64, kind: Kind) -> u64 {
    let failed = number == -1 || number == 0 && matches!(kind, Kind::Alloc | Kind::ZoneLocked);
    if failed { NO_PFN } else { number.cast_unsigned() }
}

fn migratetype(number: i64) -> i8 {
    usize::try_from(number).ok().and_then(|number| MIGRATETYPES.get(number)).copied().unwrap_or(NO_MIGRATETYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_row(text: &str) -> Option<Row> {
        row(&Line::parse(format!("x-1 [2] 1.0: {text}").as_bytes()).unwrap())
    }

    #[test]
    fn values_go_where_they_belong() {
        let alloc = parse_row("mm_page_alloc: page=0x1 pfn=0x2a order=3 migratetype=1 gfp_flags=GFP_NOWAIT|__GFP_ZERO")
            .unwrap();
        assert_eq!(
            (alloc.pfn, alloc.order, alloc.migratetype, alloc.gfp, alloc.cpu),
            (42, 3, 1, 1 << 11 | 1 << 13 | 1 << 8, 2)
        );
        let fallback = "mm_page_alloc_extfrag: page=1 pfn=99 alloc_order=0 fallback_order=4 pageblock_order=9 \
                        alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=1";
        let fallback = parse_row(fallback).unwrap();
        assert_eq!((fallback.pfn, fallback.migratetype, fallback.args), (99, 0, [4, 1, 1]));
        let area =
            parse_row("alloc_vmap_area: va_start: 99 size=8192 align=4096 vstart=0x0 vend=0x1 failed: 1").unwrap();
        assert_eq!(area.args, [8192, 1, 0]);
        let begin =
            parse_row("mm_compaction_begin: zone_start=0x1 migrate_pfn=0x2 free_pfn=0x3 zone_end=0x4, mode=sync")
                .unwrap();
        assert_eq!((begin.pfn, begin.args), (2, [1, 3, 4]));
    }

    #[test]
    fn a_request_that_failed_has_no_page() {
        for pfn in ["0x0", "0", "0xffffffffffffffff", "18446744073709551615", "-1"] {
            let text = format!("mm_page_alloc: page=(nil) pfn={pfn} order=9 migratetype=1 gfp_flags=0");
            assert_eq!(parse_row(&text).unwrap().pfn, NO_PFN, "{pfn}");
        }
        assert_eq!(parse_row("mm_page_free: page=1 pfn=0x0 order=0").unwrap().pfn, 0);
    }

    #[test]
    fn an_event_without_its_frame_is_none() {
        assert_eq!(parse_row("mm_page_free: page=1 order=0"), None);
        assert_eq!(parse_row("mm_page_free: page=1 pfn=x order=0"), None);
        assert_eq!(parse_row("mm_page_free_batched: page=1 pfn=0x1 order=0"), None, "it repeats mm_page_free");
    }
}
