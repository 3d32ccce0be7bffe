//! Bulk allocation: many pages under one hold of a list's lock, from one zone of the nearest node that can spare all of
//! them, or else one page as in any other request. linux: mm/page_alloc.c:alloc_pages_bulk_noprof

use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::policy::HighAtomicPolicy;
use freehold::policy::watermark::Watermarks;

use crate::common::{range, with_machine};
use crate::rules::{Engine, OneZone, bare, linux, zone};

const MOVABLE: Gfp = Gfp::HIGHUSER_MOVABLE;

/// Requests `wanted` pages in bulk, and checks and frees them. Returns the number of pages.
fn ask(engine: &Engine<'_, '_>, gfp: Gfp, wanted: usize) -> usize {
    let mut pages = [Pfn::new(u32::MAX); 64];
    let came = engine.alloc_pages_bulk(gfp, &mut pages[..wanted]);
    for &page in &pages[..came] {
        let is_single = matches!(engine.state(page), Some(State::Allocated { order: Order::ZERO, refs: 1, movable, .. }) if
            movable == gfp.contains(Gfp::MOVABLE));
        assert!(is_single, "{:?}", engine.state(page));
        engine.free_pages(page, Order::ZERO).expect("the pages must be allocated");
    }
    assert!(pages[came..].iter().all(|&page| page == Pfn::new(u32::MAX)), "slots without a page must not be written");
    came
}

/// Runs `scene` on a zone with `spare` pages above its low watermark.
fn with_spare(config: &Config<'_>, spare: u64, scene: impl FnOnce(&Engine<'_, '_>)) {
    with_machine(config, &[range(ZoneKind::Normal, 0, 0, 1 << 13)], MinFree::Pages(64), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        let free = zone.free_pages();
        engine.set_watermarks(zone, Watermarks::given(0, free - spare, free));
        scene(engine);
        engine.check().expect("the check must find no error");
    });
}

#[test]
fn bulk_returns_all_pages_or_one() {
    for (spare, came) in [(65, 64), (64, 1), (63, 1), (0, 1)] {
        with_spare(&linux(), spare, |engine| assert_eq!(ask(engine, MOVABLE, 64), came, "{spare} pages to spare"));
    }
}

#[test]
fn bulk_returns_the_requested_number_of_pages() {
    with_spare(&linux(), 4000, |engine| {
        engine.platform().events.take();
        assert_eq!([0, 1, 2, 64].map(|wanted| ask(engine, MOVABLE, wanted)), [0, 1, 2, 64]);
        assert_eq!(ask(engine, MOVABLE | Gfp::RECLAIMABLE, 8), 0, "flags that contradict each other");
    });
}

/// Without per-CPU lists a bulk request returns one page. A policy in which some atomic requests pass by the lists
/// still serves a bulk of single pages.
#[test]
fn bulk_without_lists_returns_one_page() {
    with_spare(&bare(), 4000, |engine| assert_eq!(ask(engine, MOVABLE, 8), 1));
    let policy = Policy { highatomic: HighAtomicPolicy::ReuseFirst, ..Policy::LINUX_6_12 };
    with_spare(&Config { policy, ..linux() }, 4000, |engine| assert_eq!(ask(engine, Gfp::ATOMIC, 8), 8));
}

/// Sets the watermarks of a zone to its free pages, so that requests pass it over.
fn shut(engine: &Engine<'_, '_>, zone: &OneZone<'_>) {
    let free = zone.free_pages();
    engine.set_watermarks(zone, Watermarks::given(free, free, free));
}

/// A bulk request takes at most one page from another node.
#[test]
fn bulk_from_another_node_returns_one_page() {
    let config = Config { cpu_nodes: &[NodeId(0), NodeId(1)], nodes: 2, ..linux() };
    let ranges = [
        range(ZoneKind::Dma32, 0, 0, 1 << 12),
        range(ZoneKind::Normal, 0, 1 << 12, 2 << 12),
        range(ZoneKind::Normal, 1, 2 << 12, 3 << 12),
    ];
    with_machine(&config, &ranges, MinFree::Pages(64), |engine| {
        let [dma32, normal] = [ZoneKind::Dma32, ZoneKind::Normal].map(|kind| engine.zone(NodeId(0), kind));
        engine.set_lowmem_reserve(dma32, ZoneKind::Normal, 0);
        shut(engine, normal);
        assert_eq!(ask(engine, Gfp::KERNEL, 8), 8, "the node's lower zone");
        engine.drain_all_pages();
        shut(engine, dma32);
        assert_eq!(ask(engine, Gfp::KERNEL, 8), 1, "a page from elsewhere");
        engine.platform().run_on(1);
        assert_eq!(ask(engine, Gfp::KERNEL, 8), 8);
        assert!(engine.pcp(CpuId(1), engine.zone(NodeId(1), ZoneKind::Normal)).inspect(|lists| lists.count()) > 0);
    });
}
