//! Watermarks: how far each kind of request may deplete a zone. linux: mm/page_alloc.c:__zone_watermark_ok

use core::cell::Cell;

use freehold::base::{Gfp, NodeId, Order, ZoneKind};
use freehold::machine::pc_ranges;
use freehold::page::{Config, MinFree, ZoneFlag};
use freehold::platform::{Context, Task};
use freehold::policy::flags::AllocFlags;
use freehold::policy::watermark::Watermarks;

use crate::common::{Hooks, range, with_machine};
use crate::rules::{Engine, bare, exhaust, linux, zone};

#[test]
fn watermarks_follow_from_the_zone_size() {
    let gib = [range(ZoneKind::Normal, 0, 0, 1 << 18)];
    with_machine(&bare(), &gib, MinFree::BySize, |engine| {
        let marks = zone(engine, ZoneKind::Normal).watermarks();
        assert_eq!(marks, Watermarks { min: 1024, low: 1286, high: 1548, promo: 1810 });
    });
    with_machine(&bare(), &gib, MinFree::ForHugePages, |engine| {
        // 512 x 11 pages, which is less than a twentieth of the memory above the high watermark.
        let marks = zone(engine, ZoneKind::Normal).watermarks();
        assert_eq!((marks.min, marks.low, marks.high), (5632, 7040, 8448));
    });
}

/// Returns the min watermark of a zone.
fn min_mark(engine: &Engine<'_, '_>, kind: ZoneKind) -> u64 {
    zone(engine, kind).watermarks().min
}

/// Huge pages are kept available in the zones up to Normal that have memory; other zones do not count.
#[test]
fn huge_page_min_free_covers_zones_up_to_normal() {
    let config = Config { nodes: 2, ..bare() };
    let memory = [
        range(ZoneKind::Dma32, 0, 0, 1 << 15),
        range(ZoneKind::Normal, 0, 1 << 15, 1 << 18),
        range(ZoneKind::Movable, 0, 1 << 18, (1 << 18) + (1 << 15)),
    ];
    with_machine(&config, &memory, MinFree::ForHugePages, |engine| {
        // 512 x 11 pages for each of two zones, divided in proportion to their sizes.
        assert_eq!(
            (min_mark(engine, ZoneKind::Dma32), min_mark(engine, ZoneKind::Normal)),
            (11_264 / 8, 11_264 / 8 * 7)
        );
        assert_eq!(min_mark(engine, ZoneKind::Movable), 32);
    });
}

/// A boost of the watermarks applies to all requests except those for a single page that may use the min reserve: these
/// are checked against the watermark without the boost.
#[test]
fn boost_spares_single_pages_from_the_min_reserve() {
    for (gfp, order, left) in
        [(Gfp::NOWAIT, 0, 1512), (Gfp::KERNEL | Gfp::HIGH, 0, 500), (Gfp::KERNEL | Gfp::HIGH, 1, 756)]
    {
        let memory = [range(ZoneKind::Normal, 0, 0, 1 << 14)];
        with_machine(&bare(), &memory, MinFree::Pages(1000), |engine| {
            engine.damage().set_boost(NodeId(0), ZoneKind::Normal, 512);
            exhaust(engine, gfp, order);
            assert_eq!(zone(engine, ZoneKind::Normal).free_pages(), left, "{gfp:?}, order {order}");
        });
    }
}

#[test]
fn zones_share_min_free_by_size() {
    with_machine(&bare(), &pc_ranges(1 << 21), MinFree::Pages(2048), |engine| {
        assert_eq!(
            (min_mark(engine, ZoneKind::Dma), min_mark(engine, ZoneKind::Dma32), min_mark(engine, ZoneKind::Normal)),
            (4, 1020, 1024)
        );
    });
}

#[test]
fn lowmem_reserve_follows_from_higher_zones() {
    with_machine(&bare(), &pc_ranges(1 << 21), MinFree::BySize, |engine| {
        let (dma32, normal) = ((1 << 20) - (1 << 12), 1 << 20);
        assert_eq!(zone(engine, ZoneKind::Dma).lowmem_reserve(ZoneKind::Dma), 0);
        assert_eq!(zone(engine, ZoneKind::Dma).lowmem_reserve(ZoneKind::Dma32), dma32 / 256);
        assert_eq!(zone(engine, ZoneKind::Dma).lowmem_reserve(ZoneKind::Normal), (dma32 + normal) / 256);
        assert_eq!(zone(engine, ZoneKind::Dma32).lowmem_reserve(ZoneKind::Normal), normal / 256);
        assert_eq!(zone(engine, ZoneKind::Normal).lowmem_reserve(ZoneKind::Movable), 0);
    });
}

/// A request that may not wait stops in each zone at the min watermark plus the lowmem reserve.
#[test]
fn request_leaves_the_lowmem_reserve_of_each_zone() {
    with_machine(&bare(), &pc_ranges(1 << 19), MinFree::BySize, |engine| {
        exhaust(engine, Gfp::NOWAIT, 0);
        for kind in [ZoneKind::Dma, ZoneKind::Dma32] {
            let zone = zone(engine, kind);
            assert_eq!(zone.free_pages(), zone.watermarks().min + zone.lowmem_reserve(ZoneKind::Normal), "{kind:?}");
        }
        exhaust(engine, Gfp::NOWAIT | Gfp::DMA, 0);
        let dma = zone(engine, ZoneKind::Dma);
        assert_eq!(dma.free_pages(), dma.watermarks().min, "a DMA request may use the lowmem reserve of its zone");
    });
}

/// Returns [`level_of`] in every context.
fn levels_in_each_context(gfp: Gfp, task: Task) -> [u64; 4] {
    Context::ALL.map(|context| level_of(gfp, Task { context, ..task }))
}

/// Returns the number of free pages at which a request with these flags by such a task fails, in a zone with a min
/// watermark of 1000.
fn level_of(gfp: Gfp, task: Task) -> u64 {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 14)];
    with_machine(&bare(), &memory, MinFree::Pages(1000), |engine| {
        engine.platform().run_as(task);
        exhaust(engine, gfp, 0);
        zone(engine, ZoneKind::Normal).free_pages()
    })
}

#[test]
fn reserve_depth_follows_flags_and_task() {
    let nobody = Task::default();
    assert_eq!(level_of(Gfp::KERNEL, nobody), 1000);
    assert_eq!(level_of(Gfp::NOWAIT, nobody), 1000, "NOWAIT without HIGH must not use a reserve");
    assert_eq!(level_of(Gfp::KERNEL | Gfp::HIGH, nobody), 500);
    assert_eq!(level_of(Gfp::ATOMIC, nobody), 375);
    assert_eq!(level_of(Gfp::ATOMIC | Gfp::NOMEMALLOC, nobody), 500);
    assert_eq!(level_of(Gfp::KERNEL | Gfp::MEMALLOC, nobody), 0);
    assert_eq!(level_of(Gfp::KERNEL, Task { realtime: true, ..nobody }), 500);
    assert_eq!(level_of(Gfp::KERNEL, Task { memalloc: true, ..nobody }), 0);
    assert_eq!(level_of(Gfp::KERNEL | Gfp::NOMEMALLOC, Task { memalloc: true, ..nobody }), 1000);
    assert_eq!(level_of(Gfp::KERNEL, Task { oom_victim: true, ..nobody }), 500);
}

#[test]
fn interrupt_rights_follow_linux() {
    let nobody = Task::default();
    // In order: a task, a task with soft interrupts off, a soft interrupt, a hard interrupt.
    assert_eq!(levels_in_each_context(Gfp::KERNEL, Task { realtime: true, ..nobody }), [500, 500, 1000, 1000]);
    assert_eq!(levels_in_each_context(Gfp::KERNEL, Task { memalloc: true, ..nobody }), [0, 1000, 0, 1000]);
    assert_eq!(levels_in_each_context(Gfp::KERNEL, Task { oom_victim: true, ..nobody }), [500, 1000, 1000, 1000]);
    // The effects of flags do not depend on the context.
    assert_eq!(levels_in_each_context(Gfp::KERNEL | Gfp::MEMALLOC, nobody), [0; 4]);
    assert_eq!(levels_in_each_context(Gfp::ATOMIC, nobody), [375; 4]);
    assert_eq!(levels_in_each_context(Gfp::KERNEL | Gfp::NOMEMALLOC, Task { memalloc: true, ..nobody }), [1000; 4]);
}

#[test]
fn large_block_counts_as_wholly_allocated() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 12)];
    with_machine(&bare(), &memory, MinFree::Pages(64), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        while zone.free_pages() > 64 + 512 {
            engine.alloc_pages(Gfp::NOWAIT, Order::ZERO).expect("enough memory must be free");
        }
        for (mark, has_room) in [(64, true), (65, false)] {
            let is_ok = zone.watermark_ok(Order::new(9), mark, ZoneKind::Normal, AllocFlags::empty());
            assert_eq!(is_ok, has_room, "576 - 511 = 65 pages are above 64");
        }
    });
}

#[test]
fn below_high_flag_follows_the_free_pages() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 14)];
    with_machine(&linux(), &memory, MinFree::Pages(400), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        let held = exhaust(engine, Gfp::NOWAIT, 0);
        assert!(zone.has(ZoneFlag::BelowHigh));
        for pfn in held {
            engine.free_pages(pfn, Order::ZERO).expect("the page is allocated");
        }
        assert!(!zone.has(ZoneFlag::BelowHigh), "the drains must clear the flag when the zone is above the watermark");
    });
}

/// Counts wakeups of kswapd.
#[derive(Default)]
struct Waker(Cell<u32>);

impl Hooks for Waker {
    fn wake_kswapd(&self, node: NodeId) {
        assert_eq!(node, NodeId(0));
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn mixing_types_boosts_watermarks_and_wakes_kswapd_once() {
    let waker = Waker::default();
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 13)];
    with_machine(&bare(), &memory, MinFree::Pages(64), |engine| {
        engine.platform().answer_with(&waker);
        let zone = zone(engine, ZoneKind::Normal);
        // Fills the zone with movable pages until no whole pageblock is free, so that an unmovable request has to mix
        // types.
        while zone.free_pages() > 700 {
            engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("enough memory must be free");
        }
        while zone.inspect(|areas| areas.area(Order::new(9)).nr_free()) > 0 {
            engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("enough memory must be free");
        }
        assert_eq!((zone.boost(), waker.0.get()), (0, 0));
        engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
        assert_eq!(zone.boost(), 512, "one pageblock, the least that the boost may be capped at");
        assert_eq!(waker.0.get(), 1);
        assert!(!zone.has(ZoneFlag::BoostedWatermark));
    });
}
