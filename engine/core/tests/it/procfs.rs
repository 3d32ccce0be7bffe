//! Texts of `/proc` in Linux's format: equal words and columns, so that existing scripts work.

use std::collections::BTreeSet;

use freehold::Policy;
use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::machine::objects::with_locked_slab;
use freehold::machine::pc_ranges;
use freehold::page::{Config, MinFree, Range};
use freehold::platform::NoProbe;
use freehold::platform::host::Threads;
use freehold::{PageAllocator, procfs};

use crate::common::{Host, range, with_machine};

fn config() -> Config<'static> {
    Config { policy: Policy::LINUX_6_12, ..Config::default() }
}

/// Runs `run` on a PC with slightly more than 4 GiB, after some allocations.
fn scene(run: impl FnOnce(&PageAllocator<'_, Host<'_>>)) {
    with_machine(&config(), &pc_ranges((1 << 20) + (1 << 15)), MinFree::BySize, |engine| {
        (0..10).for_each(|_| _ = engine.alloc_pages(Gfp::KERNEL, Order::ZERO));
        engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::new(4)).expect("enough memory must be free");
        run(engine);
    });
}

#[test]
fn buddyinfo_has_linux_columns() {
    scene(|engine| {
        // Per-CPU lists took 7 and 14 pages of one block. A block of order 4 was split off another.
        let mut text = String::new();
        procfs::buddyinfo(engine, &mut text).expect("writing into a string cannot fail");
        let expected = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      0      4 \n\
Node 0, zone    DMA32      0      0      0      0      0      0      0      0      0      0   1020 \n\
Node 0, zone   Normal      1      1      0      1      1      2      2      2      2      2     30 \n";
        assert_eq!(text, expected);
    });
}

#[test]
fn pagetypeinfo_has_linux_columns() {
    let memory = [range(ZoneKind::Normal, 0, 0, 4096), range(ZoneKind::Normal, 1, 8192, 14336)];
    let config = Config { nodes: 2, ..config() };
    with_machine(&config, &memory, MinFree::Pages(16), |engine| {
        let zone = engine.zone(NodeId(0), ZoneKind::Normal);
        assert_eq!(procfs::pageblock_counts(engine, zone)[MigrateType::Movable.index()], 8);
        let mut text = String::new();
        procfs::pagetypeinfo(engine, &mut text).expect("writing into a string cannot fail");
        assert_eq!(text, format!("{}{}", expected_pagetypeinfo(0, 4, 8), expected_pagetypeinfo(1, 6, 12)));
    });
}

#[test]
fn pagetypeinfo_omits_a_node_without_memory() {
    let config = Config { nodes: 2, ..config() };
    with_machine(&config, &[range(ZoneKind::Normal, 0, 0, 4096)], MinFree::Pages(16), |engine| {
        let mut text = String::new();
        procfs::pagetypeinfo(engine, &mut text).expect("writing into a string cannot fail");
        assert_eq!(text, expected_pagetypeinfo(0, 4, 8));
    });
}

/// Returns the text about a node whose free memory is `largest` movable blocks of order 10, in `pageblocks` pageblocks.
fn expected_pagetypeinfo(node: u8, largest: u32, pageblocks: u32) -> String {
    let mut free_pages = String::new();
    for migratetype in ["Unmovable", "Movable", "Reclaimable", "HighAtomic", "CMA", "Isolate"] {
        let count = if migratetype == "Movable" { largest } else { 0 };
        let zeros = "     0 ".repeat(10);
        free_pages += &format!("Node {node:4}, zone   Normal, type {migratetype:>12} {zeros}{count:6} \n");
    }
    format!(
        "Page block order: 9\nPages per block:  512\n\n\
Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10 \n\
{free_pages}\n\
Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic          CMA      Isolate \n\
Node {node}, zone   Normal            0 {pageblocks:12}            0            0            0            0 \n",
    )
}

/// Returns the last number of the first line that begins with `name`.
fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(name));
    let mut words = line.unwrap_or_else(|| panic!("{name} is missing")).split_whitespace();
    words.next_back().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{name} is no number"))
}

#[test]
fn zoneinfo_shows_the_zone_counters() {
    scene(|engine| {
        let mut text = String::new();
        procfs::zoneinfo(engine, &mut text).expect("writing into a string cannot fail");
        let normal = text.split("Node 0, zone   Normal\n").nth(1).expect("the zone is shown");
        let zone = engine.zone(NodeId(0), ZoneKind::Normal);
        assert_eq!(number_after(normal, "pages free"), zone.free_pages());
        assert_eq!(number_after(normal, "nr_free_pages"), zone.free_pages());
        assert_eq!(
            (number_after(normal, "min"), number_after(normal, "high")),
            (zone.watermarks().min, zone.watermarks().high)
        );
        assert_eq!(
            (number_after(normal, "spanned"), number_after(normal, "present"), number_after(normal, "managed")),
            (1 << 15, 1 << 15, 1 << 15)
        );
        assert_eq!(number_after(normal, "start_pfn:"), 1 << 20);
        let listed = number_after(normal, "count:");
        assert_eq!(zone.free_pages() + listed + 10 + 16, zone.managed());
        assert!(normal.contains("        protection: (0, 0, 0, 0)\n"));
    });
}

/// Returns a line without its numbers and their padding: the part that a script matches.
fn shape(line: &str) -> String {
    let line = line.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let words = line.split(' ').filter(|word| !word.is_empty() && !word.chars().all(|c| c.is_ascii_digit()));
    words.map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

fn shapes(text: &str) -> BTreeSet<String> {
    text.lines().map(shape).collect()
}

/// Every line that the engine writes about a zone has a counterpart in the output of this machine's kernel.
#[test]
fn zoneinfo_lines_match_the_running_kernel() {
    let Ok(theirs) = std::fs::read_to_string("/proc/zoneinfo") else {
        eprintln!("skipped: this system has no /proc/zoneinfo");
        return;
    };
    let theirs = shapes(&theirs);
    // Lines that only later kernels have, and zones that this machine may not have.
    let optional = ["high_min:", "high_max:", "promo", "boost", "cma", "reserved_highatomic:", "Node"];
    scene(|engine| {
        let mut text = String::new();
        procfs::zoneinfo(engine, &mut text).expect("writing into a string cannot fail");
        for line in shapes(&text).iter().filter(|line| !optional.iter().any(|&name| line.starts_with(name))) {
            let line = line.split('(').next().unwrap_or(line);
            assert!(theirs.iter().any(|other| other.starts_with(line)), "Linux has no line like {line:?}: {theirs:?}");
        }
    });
}

/// Returns whether each number of a line of buddyinfo fits its column. A wider number widens the line.
fn fits_columns(line: &str) -> bool {
    line.split_whitespace().skip(4).all(|number| number.len() <= 6)
}

/// Returns length and last character of the lines whose numbers fit their columns.
fn line_shapes(text: &str) -> BTreeSet<(usize, bool)> {
    text.lines().filter(|line| fits_columns(line)).map(|line| (line.len(), line.ends_with(' '))).collect()
}

#[test]
fn buddyinfo_shape_matches_the_running_kernel() {
    let Ok(theirs) = std::fs::read_to_string("/proc/buddyinfo") else {
        eprintln!("skipped: this system has no /proc/buddyinfo");
        return;
    };
    scene(|engine| {
        let mut text = String::new();
        procfs::buddyinfo(engine, &mut text).expect("writing into a string cannot fail");
        assert_eq!(line_shapes(&text).len(), 1);
        assert!(line_shapes(&theirs).is_subset(&line_shapes(&text)), "theirs:\n{theirs}ours:\n{text}");
    });
}

#[test]
fn buddyinfo_omits_zones_without_memory() {
    let memory: [Range; 1] = [range(ZoneKind::Dma32, 0, 0, 4096)];
    with_machine(&config(), &memory, MinFree::Pages(16), |engine| {
        let mut text = String::new();
        procfs::buddyinfo(engine, &mut text).expect("writing into a string cannot fail");
        assert_eq!(text.lines().count(), 1);
        assert_eq!(engine.state(Pfn::new(5000)), None);
    });
}

#[test]
fn slabinfo_counts_objects_and_slabs() {
    with_locked_slab(Threads::<NoProbe>::default(), &config(), 1 << 13, 7, |slab| {
        let objects: Vec<_> =
            (0..70).map(|_| slab.kmalloc(64, Gfp::KERNEL).expect("enough memory must be free")).collect();
        // SAFETY: each object was allocated above, is not used any more, and is freed once.
        objects[..60].iter().for_each(|&object| unsafe { slab.kfree(object).expect("the test holds this object") });
        let mut text = String::new();
        procfs::slabinfo(slab, &mut text).expect("writing into a string cannot fail");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 13);
        // The first 64 objects fill a slab, of which 60 objects were freed. The CPU holds the other slab.
        let row = "kmalloc-64            68    128     64   64    1 : tunables    0    0    0 : slabdata      2      2      0";
        assert_eq!(lines[5], row);
        let none = "kmalloc-8k             0      0   8192    4    8 : tunables    0    0    0 : slabdata      0      0      0";
        assert_eq!(lines[14], none);
    })
    .expect("the configuration of the machine must be valid");
}

/// Returns length and number of columns of the line that begins with `name`.
fn row_shape(text: &str, name: &str) -> Option<(usize, usize)> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some((line.len(), line.split_whitespace().count()))
}

#[test]
fn slabinfo_shape_matches_the_running_kernel() {
    let Ok(theirs) = std::fs::read_to_string("/proc/slabinfo") else {
        eprintln!("skipped: this system has no /proc/slabinfo, or does not show it");
        return;
    };
    with_locked_slab(Threads::<NoProbe>::default(), &config(), 1 << 13, 7, |slab| {
        let mut text = String::new();
        procfs::slabinfo(slab, &mut text).expect("writing into a string cannot fail");
        assert!(text.lines().take(2).eq(theirs.lines().take(2)), "theirs:\n{theirs}ours:\n{text}");
        // Kernels with more objects than six digits can show write wider rows.
        let narrow = row_shape(&theirs, "kmalloc-8k ").filter(|&(len, _)| len <= 109);
        if let Some(theirs) = narrow {
            assert_eq!(row_shape(&text, "kmalloc-8k "), Some(theirs));
        }
    })
    .expect("the configuration of the machine must be valid");
}
