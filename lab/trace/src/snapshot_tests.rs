//! Tests on small states written by hand, on a random one against a naive count, and on this machine against its
//! buddyinfo.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::*;
use crate::procfs::{ZoneBlocks, parse_buddyinfo, parse_zoneinfo};

fn rows(first: u64, words: &[u32], borders: &[u64]) -> Vec<(Kind, u64, u8, i64, i64)> {
    let frames = Frames { first, words, borders, order_max: 10 };
    let rows = state_rows(frames, Moment::Start, 5);
    rows.map(|row| (row.kind, row.pfn, row.order, row.args[0], row.args[1])).collect()
}

#[test]
fn free_runs_become_the_largest_aligned_blocks() {
    let free = Kind::StartFree;
    assert_eq!(
        rows(6, &[flag::BUDDY; 13], &[]),
        [(free, 6, 1, 0, 0), (free, 8, 3, 0, 0), (free, 16, 1, 0, 0), (free, 18, 0, 0, 0)]
    );
    // A block of order 12 is divided into four of the highest order.
    let orders: Vec<u8> = rows(0, &[flag::BUDDY; 4096], &[]).iter().map(|row| row.2).collect();
    assert_eq!(orders, [10; 4]);
}

#[test]
fn blocks_do_not_cross_borders() {
    let free = Kind::StartFree;
    assert_eq!(rows(0, &[flag::BUDDY; 8], &[0, 4, 100]), [(free, 0, 2, 0, 0), (free, 4, 2, 0, 0)]);
    let zones =
        [(4096, 100), (1, 4095)].map(|(start_pfn, spanned)| ZoneFacts { start_pfn, spanned, ..ZoneFacts::default() });
    assert_eq!(zone_borders(&zones), [1, 4096, 4196]);
}

#[test]
fn equal_neighbours_form_a_run() {
    let (head, tail) = (flag::COMPOUND_HEAD | flag::ANON | flag::LRU, flag::COMPOUND_TAIL);
    let anon = class::ANON | class::LRU;
    let words = [head, tail, head, tail, flag::SLAB, 0, 0, flag::NOPAGE, 0, tail, flag::RESERVED];
    assert_eq!(
        rows(4, &words, &[]),
        [
            (Kind::StartAllocated, 4, 1, 2, anon),
            (Kind::StartAllocated, 8, 0, 1, class::SLAB),
            (Kind::StartUnknown, 9, 0, 2, 0),
            (Kind::StartUnknown, 12, 0, 2, 0),
            (Kind::StartAllocated, 14, 0, 1, class::RESERVED),
        ]
    );
}

#[test]
fn page_classes_follow_from_the_flags() {
    assert_eq!(class_of(flag::LRU | flag::MMAP | flag::DIRTY), class::LRU | class::FILE | class::MAPPED | class::DIRTY);
    let shared = class::LRU | class::FILE | class::MAPPED | class::SHARED;
    assert_eq!(class_of(flag::LRU | flag::MMAP | flag::SHARED), shared);
    assert_eq!(class_of(flag::ANON | flag::MMAP | flag::THP), class::ANON | class::THP);
    assert_eq!(class_of(flag::MLOCKED | flag::ANON), class::UNEVICTABLE | class::ANON);
    assert_eq!(class_of(flag::PGTABLE), class::PAGE_TABLE);
    assert_eq!(class_of(flag::OFFLINE | flag::MMAP | flag::LRU), class::OFFLINE);
    assert_eq!(class_of(1 << 3), 0);
}

#[test]
fn every_frame_is_in_exactly_one_row() {
    let kinds = [0, flag::BUDDY, flag::BUDDY, flag::COMPOUND_HEAD, flag::COMPOUND_TAIL, flag::SLAB, flag::NOPAGE];
    let mut state = 1u64;
    for _ in 0..500 {
        let words: Vec<u32> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                kinds[(state >> 33) as usize % kinds.len()]
            })
            .collect();
        let frames = Frames { first: 17, words: &words, borders: &[17, 60, 99], order_max: 4 };
        let mut next = 17;
        for row in state_rows(frames, Moment::End, 0) {
            assert!(row.pfn >= next, "rows are in order and do not overlap");
            let skipped = &words[(next - 17) as usize..(row.pfn - 17) as usize];
            assert!(skipped.iter().all(|&word| word == flag::NOPAGE), "only absent frames are left out");
            next = row.pfn + ((row.args[0].max(1) as u64) << row.order);
            if row.kind == Kind::EndFree {
                assert!(row.pfn % (1 << row.order) == 0 && row.order <= 4);
            }
        }
        assert!(words[(next - 17) as usize..].iter().all(|&word| word == flag::NOPAGE));
    }
}

/// Returns the free blocks by order in a zone of this machine, computed from its page flags.
fn count_blocks(zone: &ZoneFacts) -> Option<Vec<u64>> {
    let file = File::open("/proc/kpageflags").ok()?;
    let mut bytes = vec![0; 8 * zone.spanned as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], 8 * zone.start_pfn + filled as u64).ok()? {
            0 => break,
            read => filled += read,
        }
    }
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|&word| flag::from_kernel(u64::from_ne_bytes(word))).collect();
    let mut counts = vec![0; 11];
    let frames = Frames { first: zone.start_pfn, words: &words, borders: &[], order_max: 10 };
    for row in state_rows(frames, Moment::Start, 0).filter(|row| row.kind == Kind::StartFree) {
        counts[usize::from(row.order)] += 1;
    }
    Some(counts)
}

fn read_buddyinfo(zone: &ZoneFacts) -> Option<ZoneBlocks> {
    let zones = parse_buddyinfo(&std::fs::read_to_string("/proc/buddyinfo").ok()?).ok()?;
    zones.into_iter().find(|blocks| (blocks.node, &blocks.zone) == (zone.node, &zone.name))
}

/// Compares the free blocks in the page flags with `/proc/buddyinfo`, for each zone that spans at most `spanned_max`
/// frames. Uses only readings before and after which buddyinfo is the same; at least one of them has to agree.
fn compare_with_buddyinfo(spanned_max: u64) {
    let zoneinfo = std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default();
    let zones = parse_zoneinfo(&zoneinfo).unwrap_or_default();
    for zone in zones.iter().filter(|zone| zone.spanned <= spanned_max) {
        let attempts = (0..10).map(|_| {
            let before = read_buddyinfo(zone)?;
            let counted = count_blocks(zone)?;
            (read_buddyinfo(zone)? == before && before.free.len() == 11).then_some((counted, before.free))
        });
        let quiet: Vec<_> = attempts.flatten().collect();
        if quiet.is_empty() {
            println!("skipped: zone {} is never quiet, or /proc/kpageflags is not for us", zone.name);
            continue;
        }
        assert!(quiet.iter().any(|(counted, told)| counted == told), "zone {}: {quiet:?}", zone.name);
        println!("zone {}: as buddyinfo says in {} quiet moments", zone.name, quiet.len());
    }
}

#[test]
fn small_zones_of_this_machine_match_buddyinfo() {
    compare_with_buddyinfo(1 << 16);
}

#[test]
#[ignore = "reads all page flags of this machine ten times"]
fn all_zones_of_this_machine_match_buddyinfo() {
    compare_with_buddyinfo(u64::MAX);
}

#[test]
fn class_flags_round_trip() {
    let lru = class::LRU | class::FILE;
    let all = [
        0,
        class::SLAB,
        class::ANON | class::LRU | class::THP | class::MAPPED,
        lru | class::ACTIVE | class::DIRTY | class::SHARED,
        lru | class::UNEVICTABLE,
        class::FILE,
        class::RESERVED,
        class::OFFLINE,
        class::HUGETLB,
        class::PAGE_TABLE,
    ];
    for class in all {
        assert_eq!(class_of(flags_of(class)), class);
        assert_ne!(flags_of(class), 0, "a page without flags is unknown");
    }
}

#[test]
fn kernel_page_flags_are_reduced_to_used_bits() {
    for (kernel, flags) in [
        (0, 0),
        (1 << 10, flag::BUDDY),
        (1 << 20, flag::NOPAGE),
        (1 << 32, flag::RESERVED),
        (1 << 33 | 1 << 5, flag::MLOCKED | flag::LRU),
        (1 << 36, flag::OTHER),
        (1 << 47 | 1 << 32, flag::OTHER | flag::RESERVED),
        (flag::SHARED_IN_KERNEL_WORD | 1 << 5, flag::SHARED | flag::LRU),
    ] {
        assert_eq!(flag::from_kernel(kernel), flags, "{kernel:#x}");
    }
}
