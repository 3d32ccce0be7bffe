//! Tests of the parsers on short texts in the kernel's format, on mangled ones, and on this machine's own.

use super::*;

pub(super) const ZONEINFO: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 1543
  pages free     3840
        boost    3
        min      57
        low      71
        high     85
        promo    99
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3019, 4427)
      nr_free_pages 3840
      nr_free_cma  2
  pagesets
    cpu: 0
              count:    7
              high:     8
              batch:    1
              high_min: 35
              high_max: 240
  vm stats threshold: 4
    cpu: 1
              count:    9
  node_unreclaimable:  0
  start_pfn:           1
Node 0, zone  Movable
  pages free     0
        present  0
        protection: (0, 0, 0)
";

const PAGETYPEINFO_TEXT: &str = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1
Node    0, zone      DMA, type    Unmovable      0      4
Node    0, zone      DMA, type      Movable >100000      1
Node    0, zone      DMA, type      Isolate      0      0

Number of blocks type     Unmovable      Movable      Isolate
Node 0, zone      DMA            1            7            2
";

#[test]
fn zoneinfo_is_parsed_for_populated_zones() {
    let zones = parse_zoneinfo(ZONEINFO).unwrap();
    assert_eq!(zones.len(), 1);
    let zone = &zones[0];
    assert_eq!((zone.node, zone.name.as_str(), zone.start_pfn), (0, "DMA", 1));
    assert_eq!((zone.free, zone.boost, zone.min, zone.low, zone.high), (3840, 3, 54, 68, 82));
    assert_eq!((zone.spanned, zone.present, zone.managed, zone.free_cma), (4095, 3998, 3840, 2));
    assert_eq!(zone.protection, [0, 3019, 4427]);
    assert_eq!(zone.reserved_highatomic, None);
    assert_eq!(zone.pcp.len(), 2);
    assert_eq!(zone.pcp[0], PcpFacts { cpu: 0, count: 7, high: 8, batch: 1, high_min: 35, high_max: 240 });
    assert_eq!((zone.pcp[1].cpu, zone.pcp[1].count), (1, 9));
    assert!(parse_zoneinfo("").is_err());
    assert!(parse_zoneinfo(&ZONEINFO.replace("57", "many")).is_err());
}

#[test]
fn buddyinfo_is_parsed_by_order() {
    let zones = parse_buddyinfo("Node 1, zone   Normal   1141    340      0 \n").unwrap();
    assert_eq!(zones, [ZoneBlocks { node: 1, zone: "Normal".to_owned(), free: vec![1141, 340, 0] }]);
    assert!(parse_buddyinfo("Node 1, zone Normal 3 x").is_err());
    assert!(parse_buddyinfo("\n").is_err());
}

#[test]
fn pagetypeinfo_uses_recording_type_numbers() {
    let info = parse_pagetypeinfo(PAGETYPEINFO_TEXT).unwrap();
    assert_eq!((info.pageblock_order, &info.migratetypes[..]), (9, &[0, 1, 5][..]));
    let types: Vec<_> = info.types.iter().map(|facts| (facts.migratetype, facts.pageblocks, facts.free[1])).collect();
    assert_eq!(types, [(0, 1, 4), (1, 7, 1), (5, 2, 0)]);
    assert_eq!(info.types[1].free[0], 100_000);
    assert!(parse_pagetypeinfo("Page block order: 9").is_err());
    assert!(parse_pagetypeinfo(&PAGETYPEINFO_TEXT.replace("order: 9", "order: 99")).is_err());
}

#[test]
fn vmstat_keeps_the_kernels_order() {
    let (names, values) = parse_vmstat("nr_free_pages 12\npgfault 0\n").unwrap();
    assert_eq!((names, values), (vec!["nr_free_pages".to_owned(), "pgfault".to_owned()], vec![12, 0]));
    assert!(parse_vmstat("nr_free_pages twelve").is_err());
}

#[test]
fn iomem_is_parsed_to_whole_pages_of_ram() {
    let text = "00001000-0009fbff : System RAM\n000f0000-000fffff : System ROM\n\
        00100000-bfffffff : System RAM\n  01000000-0220bb07 : Kernel code\n";
    assert_eq!(parse_iomem(text, 4096).unwrap(), [(1, 0x9f), (0x100, 0xc0000)]);
    let hidden = parse_iomem("00000000-00000000 : System RAM\n", 4096).unwrap_err();
    assert_eq!(hidden.to_string(), "iomem hides its addresses; run as root, on a Linux kernel that shows its contents");
    assert!(parse_iomem("zz-1 : System RAM", 4096).is_err());
    assert!(parse_iomem("0-ffffffffffffffff : System RAM", 0).is_ok());
}

/// Draws a number below `bound` with a xorshift generator.
fn draw(state: &mut u64, bound: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize % bound.max(1)
}

/// Cuts, doubles, and overwrites pieces of `text`, at random positions from a fixed seed.
fn mangle(text: &str, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=draw(&mut state, 4) {
        let at = draw(&mut state, bytes.len());
        let end = (at + draw(&mut state, 40)).min(bytes.len());
        match draw(&mut state, 4) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => bytes.splice(at..at, "\n-9999999999999999999,(>:".bytes()).for_each(drop),
            _ => bytes[at..end].fill(b" 9:,\n"[draw(&mut state, 5)]),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn mangled_text_never_panics_a_parser() {
    let mut accepted = 0;
    for seed in 0..3000 {
        accepted += u32::from(parse_zoneinfo(&mangle(ZONEINFO, seed)).is_ok());
        accepted += u32::from(parse_pagetypeinfo(&mangle(PAGETYPEINFO_TEXT, seed)).is_ok());
        accepted += u32::from(parse_buddyinfo(&mangle("Node 0, zone   Normal   1141    340      0 \n", seed)).is_ok());
        accepted += u32::from(parse_vmstat(&mangle("nr_free_pages 12\npgfault 0\n", seed)).is_ok());
        accepted += u32::from(parse_iomem(&mangle("00100000-bfffffff : System RAM\n", seed), 4096).is_ok());
    }
    assert!((1000..14_000).contains(&accepted), "the mangling is neither idle nor total: {accepted}");
}

fn read(name: &str) -> std::io::Result<String> {
    std::fs::read_to_string(format!("/proc/{name}"))
}

#[test]
fn procfs_of_this_machine_is_parsed() {
    let (Ok(zoneinfo), Ok(buddyinfo), Ok(vmstat)) = (read("zoneinfo"), read("buddyinfo"), read("vmstat")) else {
        println!("skipped: no /proc/zoneinfo here");
        return;
    };
    let zones = parse_zoneinfo(&zoneinfo).unwrap();
    let blocks = parse_buddyinfo(&buddyinfo).unwrap();
    let expected: Vec<_> = zones.iter().map(|zone| (zone.node, zone.name.clone())).collect();
    assert_eq!(blocks.iter().map(|zone| (zone.node, zone.zone.clone())).collect::<Vec<_>>(), expected);
    assert!(zones.iter().all(|zone| !zone.pcp.is_empty() && zone.managed <= zone.present));
    assert!(parse_vmstat(&vmstat).unwrap().0.iter().any(|name| name == "nr_free_pages"));
    // The other files are readable only by root.
    let (Ok(types), Ok(iomem)) = (read("pagetypeinfo"), read("iomem")) else {
        println!("skipped in part: /proc/pagetypeinfo is for root");
        return;
    };
    let info = parse_pagetypeinfo(&types).unwrap();
    assert_eq!(info.types.len(), zones.len() * info.migratetypes.len());
    if let Ok(ram) = parse_iomem(&iomem, 4096) {
        assert!(ram.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
