//! Conversion of an event's printed values to a row. The names are those of the print formats, which differ from those
//! of the records. If a tool prints the records' own names, they follow after a `|`. linux:
//! include/trace/events/kmem.h, compaction.h, vmscan.h, migrate.h, vmalloc.h
//!
//! A required value that is missing, or a value that cannot be parsed, makes the event unusable. Two values of
//! compaction are exceptions: an unknown mode counts as async, and an unknown result is left out.

use freehold_trace::decode;
use freehold_trace::event::{Kind, NO_MIGRATETYPE, NO_PFN, Row};

use super::line::{Line, integer};
use crate::gfp;
use crate::records::MIGRATETYPES;

/// Column of a row that receives a value.
#[derive(Clone, Copy)]
enum Target {
    Pfn,
    Order,
    Gfp,
    Migratetype,
    Arg(usize),
    ArgMigratetype(usize),
    /// `sync` or `async`, as an order of 1 or 0.
    Sync,
    /// A result of compaction.
    Status,
}

use Target::{Arg, ArgMigratetype, Gfp, Migratetype, Order, Pfn, Status, Sync};

/// Names of a value, and its column.
type Step = (&'static str, Target);

/// Recipe of an event: its name, the kind of its rows, the values that all kernels print, and the values that some
/// kernels print.
struct Recipe(&'static str, Kind, &'static [Step], &'static [Step]);

const SCANNERS: &[Step] =
    &[("migrate_pfn", Pfn), ("zone_start", Arg(0)), ("free_pfn", Arg(1)), ("zone_end", Arg(2)), ("mode|sync", Sync)];

const RECIPES: [Recipe; 24] = [
    Recipe(
        "mm_page_alloc",
        Kind::Alloc,
        &[("pfn", Pfn), ("order", Order), ("migratetype", Migratetype), ("gfp_flags", Gfp)],
        &[],
    ),
    Recipe("mm_page_free", Kind::Free, &[("pfn", Pfn), ("order", Order)], &[]),
    Recipe(
        "mm_page_alloc_zone_locked",
        Kind::ZoneLocked,
        &[("pfn", Pfn), ("order", Order), ("migratetype", Migratetype)],
        &[("percpu_refill", Arg(0))],
    ),
    Recipe("mm_page_pcpu_drain", Kind::PcpuDrain, &[("pfn", Pfn), ("order", Order), ("migratetype", Migratetype)], &[]),
    Recipe(
        "mm_page_alloc_extfrag",
        Kind::ExtFrag,
        &[
            ("pfn", Pfn),
            ("alloc_order", Order),
            ("alloc_migratetype", Migratetype),
            ("fallback_order", Arg(0)),
            ("fallback_migratetype", ArgMigratetype(1)),
            ("change_ownership", Arg(2)),
        ],
        &[],
    ),
    Recipe("mm_compaction_begin", Kind::CompactionBegin, SCANNERS, &[]),
    Recipe("mm_compaction_end", Kind::CompactionEnd, SCANNERS, &[("status", Status)]),
    Recipe(
        "mm_compaction_migratepages",
        Kind::CompactionMigrate,
        &[("nr_migrated", Arg(0)), ("nr_failed", Arg(1))],
        &[],
    ),
    Recipe("mm_vmscan_kswapd_wake", Kind::KswapdWake, &[("order", Order), ("nid", Arg(0))], &[]),
    Recipe("mm_vmscan_kswapd_sleep", Kind::KswapdSleep, &[("nid", Arg(0))], &[]),
    Recipe("mm_vmscan_direct_reclaim_begin", Kind::DirectReclaimBegin, &[("order", Order), ("gfp_flags", Gfp)], &[]),
    Recipe("mm_vmscan_direct_reclaim_end", Kind::DirectReclaimEnd, &[("nr_reclaimed", Arg(0))], &[]),
    Recipe("mm_vmscan_memcg_reclaim_begin", Kind::MemcgReclaimBegin, &[("order", Order), ("gfp_flags", Gfp)], &[]),
    Recipe("mm_vmscan_memcg_reclaim_end", Kind::MemcgReclaimEnd, &[("nr_reclaimed", Arg(0))], &[]),
    Recipe(
        "mm_vmscan_lru_shrink_inactive",
        Kind::LruShrinkInactive,
        &[("nr_scanned", Arg(0)), ("nr_reclaimed", Arg(1)), ("nid", Arg(2))],
        &[],
    ),
    Recipe(
        "mm_vmscan_lru_shrink_active",
        Kind::LruShrinkActive,
        &[("nr_taken", Arg(0)), ("nr_deactivated", Arg(1)), ("nid", Arg(2))],
        &[],
    ),
    Recipe("mm_collapse_huge_page", Kind::CollapseHugePage, &[("isolated", Arg(0))], &[]),
    Recipe("alloc_vmap_area", Kind::AllocVmapArea, &[("size", Arg(0)), ("failed", Arg(1))], &[]),
    Recipe(
        "mm_migrate_pages",
        Kind::MigratePages,
        &[("nr_succeeded|succeeded", Arg(0)), ("nr_failed|failed", Arg(1))],
        &[],
    ),
    Recipe("mm_vmscan_wakeup_kswapd", Kind::WakeupKswapd, &[("order", Order)], &[("gfp_flags", Gfp), ("nid", Arg(0))]),
    Recipe("mm_compaction_wakeup_kcompactd", Kind::WakeupKcompactd, &[("order", Order), ("nid", Arg(0))], &[]),
    Recipe("mm_compaction_kcompactd_wake", Kind::KcompactdWake, &[("order", Order), ("nid", Arg(0))], &[]),
    Recipe("mm_compaction_kcompactd_sleep", Kind::KcompactdSleep, &[("nid", Arg(0))], &[]),
    Recipe(
        "mm_compaction_try_to_compact_pages",
        Kind::TryToCompact,
        &[("order", Order), ("gfp_mask", Gfp), ("priority|prio", Arg(0))],
        &[],
    ),
];

/// Names of compaction's results by number. linux: include/linux/compaction.h:compact_result
const RESULTS: [&[u8]; 9] = [
    b"not_suitable_zone",
    b"skipped",
    b"deferred",
    b"no_suitable_page",
    b"continue",
    b"complete",
    b"partial_skipped",
    b"contended",
    b"success",
];

/// Names that events of frees had before Linux 3.3.
pub(super) const OLD_FREES: [&[u8]; 2] = [b"mm_page_free_direct", b"mm_pagevec_free"];

/// Result of converting a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Row(Row),
    /// An event of which no row is made.
    Other,
    /// An event of which rows are made but that cannot be used, and the reason.
    Unusable(Kind, String),
}

/// Returns the kind of rows that are made of an event.
pub(super) fn kind(event: &[u8]) -> Option<Kind> {
    RECIPES.iter().find(|Recipe(name, ..)| name.as_bytes() == event).map(|Recipe(_, kind, ..)| *kind)
}

/// Returns the position and the name of an event in a line, if rows are made of the event and the name is a whole word.
pub(super) fn named_in(line: &[u8]) -> Option<(usize, &'static str)> {
    memchr::memmem::find_iter(line, b"mm_").chain(memchr::memmem::find(line, b"alloc_vmap_area")).find_map(|at| {
        let is_inside = at > 0 && (line[at - 1].is_ascii_alphanumeric() || line[at - 1] == b'_');
        let end = line[at..].iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        let name = &line[at..end.map_or(line.len(), |end| at + end)];
        let found = RECIPES.iter().find(|Recipe(known, ..)| known.as_bytes() == name).filter(|_| !is_inside);
        found.map(|Recipe(known, ..)| (at, *known))
    })
}

/// Returns whether a word is the beginning of such an event's name.
pub(super) fn begins_a_name(word: &[u8]) -> bool {
    word.len() > 3 && RECIPES.iter().any(|Recipe(name, ..)| name.as_bytes().starts_with(word))
}

/// Converts a line with this time in nanoseconds to a row.
pub(super) fn row(line: &Line<'_>, time: u64) -> Outcome {
    let recipe = RECIPES.iter().find(|Recipe(name, ..)| name.as_bytes() == line.event);
    let Some(Recipe(_, kind, required, optional)) = recipe else { return Outcome::Other };
    let mut row = Row { time, cpu: line.cpu, ..Row::new(*kind) };
    for (keys, target) in *required {
        let Some(value) = line.value(keys) else {
            return Outcome::Unusable(*kind, format!("no value `{}`", first_of(keys)));
        };
        if fill(&mut row, value, *target).is_none() {
            return Outcome::Unusable(*kind, format!("the value of `{}` is invalid", first_of(keys)));
        }
    }
    for (keys, target) in *optional {
        if line.value(keys).is_some_and(|value| fill(&mut row, value, *target).is_none()) {
            return Outcome::Unusable(*kind, format!("the value of `{}` is invalid", first_of(keys)));
        }
    }
    if line.has_another_event() {
        return Outcome::Unusable(*kind, "there are two events in one line".to_owned());
    }
    Outcome::Row(row)
}

fn first_of(keys: &'static str) -> &'static str {
    keys.split('|').next().unwrap_or(keys)
}

fn fill(row: &mut Row, value: &[u8], target: Target) -> Option<()> {
    match target {
        Pfn => row.pfn = pfn(integer(value)?, row.kind),
        Order => row.order = decode::order(row.kind, integer(value)?),
        Gfp => row.gfp = gfp::flags(value)?,
        Migratetype => row.migratetype = migratetype(value)?,
        Arg(index) => row.args[index] = integer(value)?,
        ArgMigratetype(index) => row.args[index] = migratetype(value)?.into(),
        Sync => row.order = u8::from(matches!(value, b"sync" | b"1" | b"true")),
        Status => row.migratetype = status(value),
    }
    Some(())
}

/// Returns the frame of an event. A failed request is printed with the frame 0, which is never allocated, or with all
/// bits set.
fn pfn(number: i64, kind: Kind) -> u64 {
    let failed = number == -1 || number == 0 && matches!(kind, Kind::Alloc | Kind::ZoneLocked);
    if failed { NO_PFN } else { number.cast_unsigned() }
}

fn migratetype(value: &[u8]) -> Option<i8> {
    MIGRATETYPES.get(usize::try_from(integer(value)?).ok()?).copied()
}

/// Returns the number of a result of compaction; [`NO_MIGRATETYPE`] if it is not known.
fn status(value: &[u8]) -> i8 {
    let place = RESULTS.iter().position(|name| *name == value).and_then(|place| i8::try_from(place).ok());
    place.or_else(|| i8::try_from(integer(value)?).ok()).unwrap_or(NO_MIGRATETYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        row(&Line::parse(format!("x-1 [2] 1.0: {text}").as_bytes()).unwrap(), 1)
    }

    fn parse_row(text: &str) -> Row {
        match outcome(text) {
            Outcome::Row(row) => row,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn event_values_fill_the_row_fields() {
        let alloc = parse_row("mm_page_alloc: page=0x1 pfn=0x2a order=3 migratetype=1 gfp_flags=GFP_NOWAIT|__GFP_ZERO");
        assert_eq!(
            (alloc.pfn, alloc.order, alloc.migratetype, alloc.gfp, alloc.cpu),
            (42, 3, 1, 1 << 11 | 1 << 13 | 1 << 8, 2)
        );
        let fallback = "mm_page_alloc_extfrag: page=1 pfn=99 alloc_order=0 fallback_order=4 pageblock_order=9 \
                        alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=1";
        let fallback = parse_row(fallback);
        assert_eq!((fallback.pfn, fallback.migratetype, fallback.args), (99, 0, [4, 1, 1]));
        let area = parse_row("alloc_vmap_area: va_start: 99 size=8192 align=4096 vstart=0x0 vend=0x1 failed: 1");
        assert_eq!(area.args, [8192, 1, 0]);
        let end = parse_row(
            "mm_compaction_end: zone_start=0x1 migrate_pfn=0x2 free_pfn=0x3 zone_end=0x4, mode=sync status=complete",
        );
        assert_eq!((end.pfn, end.args, end.order, end.migratetype), (2, [1, 3, 4], 1, 5));
        let raw = parse_row("mm_compaction_end: zone_start=1 migrate_pfn=2 free_pfn=3 zone_end=4 sync=0 status=8");
        assert_eq!((raw.order, raw.migratetype), (0, 8));
        assert_eq!(parse_row("mm_migrate_pages: succeeded=5 failed=2 mode=1").args, [5, 2, 0]);
        assert_eq!(parse_row("mm_compaction_try_to_compact_pages: order=-1 gfp_mask=0xcc0 priority=1").order, 0);
    }

    #[test]
    fn failed_request_has_no_page() {
        for pfn in ["0x0", "0", "0xffffffffffffffff", "18446744073709551615", "-1"] {
            let text = format!("mm_page_alloc: page=(nil) pfn={pfn} order=9 migratetype=1 gfp_flags=none");
            assert_eq!(parse_row(&text).pfn, NO_PFN, "{pfn}");
        }
        assert_eq!(parse_row("mm_page_free: page=1 pfn=0x0 order=0").pfn, 0);
    }

    #[test]
    fn unparsable_values_are_errors_instead_of_zero() {
        let alloc = |pfn: &str, order: &str, kind: &str, flags: &str| {
            format!("mm_page_alloc: page=1 pfn={pfn} order={order} migratetype={kind} gfp_flags={flags}")
        };
        for (text, reason) in [
            ("mm_page_free: page=1 order=0".to_owned(), "no value `pfn`"),
            ("mm_page_free: page=1 pfn=x order=0".to_owned(), "value of `pfn`"),
            ("mm_page_free: page=1 pfn=0x1ffffffffffffffff order=0".to_owned(), "value of `pfn`"),
            ("mm_page_free: page=1 pfn=0x1".to_owned(), "no value `order`"),
            (alloc("1", "x", "1", "GFP_USER"), "value of `order`"),
            (alloc("1", "0", "17", "GFP_USER"), "value of `migratetype`"),
            (alloc("1", "0", "1", "GFP_USE"), "value of `gfp_flags`"),
            (alloc("1", "0", "1", ""), "value of `gfp_flags`"),
            (alloc("1", "0", "1", "none") + "  x-1 [0] 1.0: mm_page_free: pfn=1 order=0", "two events"),
        ] {
            let Outcome::Unusable(_, found) = outcome(&text) else { panic!("{text}") };
            assert!(found.contains(reason), "{text}: {found}");
        }
        assert_eq!(parse_row("mm_page_free: page=1 pfn=1 order=4294967295").order, u8::MAX, "which no machine admits");
        assert_eq!(outcome("mm_page_free_batched: page=1 pfn=0x1 order=0"), Outcome::Other, "it repeats mm_page_free");
    }

    #[test]
    fn event_names_are_matched_whole() {
        assert_eq!(named_in(b"x: kmem:mm_page_free: y"), Some((8, "mm_page_free")));
        for line in ["mm_page_free_batched: x", "_mm_page_free: x", "xmm_page_free", ""] {
            assert_eq!(named_in(line.as_bytes()), None, "{line}");
        }
        assert!(begins_a_name(b"mm_page_fr") && !begins_a_name(b"mm_") && !begins_a_name(b"vfs_read"));
    }
}
