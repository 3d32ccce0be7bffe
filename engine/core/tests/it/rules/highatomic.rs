//! The high-atomic reserve, as observed on the pinned kernel: requests of orders 1 to 3 drive it to its cap although
//! they are freed soon, requests of order 4 settle at one block.
//! linux: mm/page_alloc.c:reserve_highatomic_pageblock, unreserve_highatomic_pageblock

use core::cell::Cell;
use std::collections::VecDeque;

use freehold::Policy;
use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::platform::{Event, FreePages, Reclaim, Reclaimed};
use freehold::policy::PcpPolicy;
use freehold::policy::watermark::Watermarks;

use crate::common::{Hooks, range, with_machine};
use crate::rules::{Engine, free_list, linux, type_at, zone};

/// Pages of the zone. A hundredth, rounded up to pageblocks, is 2560 pages: five pageblocks.
pub(super) const PAGES: u32 = 250_000 / 512 * 512;
pub(super) const CAP: u64 = 2560;

fn short_of_memory<'h>(scene: impl FnOnce(&Engine<'_, 'h>)) {
    short_under(Policy::LINUX_6_12, scene);
}

/// Runs `scene` on a machine of four CPUs that is below its low watermark and whose free memory is in whole blocks.
pub(super) fn short_under<'h>(policy: Policy, scene: impl FnOnce(&Engine<'_, 'h>)) {
    let config = Config { cpu_nodes: &[NodeId(0); 4], policy, ..Config::default() };
    let memory = [range(ZoneKind::Normal, 0, 0, PAGES)];
    with_machine(&config, &memory, MinFree::Pages(8000), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        // Orders without per-CPU lists, so no page is on such a list.
        for order in [Order::MAX, Order::new(4)] {
            while zone.free_pages() + 500 > zone.watermarks().low + u64::from(order.pages()) {
                engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, order).expect("enough memory must be free");
            }
        }
        engine.platform().events.take();
        scene(engine);
        engine.check().expect("the check must find no error");
    });
}

/// Makes atomic requests, and frees each after sixteen more.
pub(super) fn requests(engine: &Engine<'_, '_>, order: u8, count: usize) {
    let order = Order::new(order);
    let mut held: VecDeque<Pfn> = VecDeque::new();
    for number in 0..count {
        engine.platform().run_on(number as u16 % engine.cpus());
        held.push_back(
            engine.alloc_pages(Gfp::ATOMIC | Gfp::COMP, order).expect("the reserve must serve this request"),
        );
        if held.len() > 16 {
            engine
                .free_pages(held.pop_front().expect("the test must hold another block"), order)
                .expect("the test holds this block");
        }
    }
    held.into_iter().for_each(|pfn| engine.free_pages(pfn, order).expect("the test holds this block"));
}

#[test]
fn atomic_requests_of_orders_1_to_3_fill_the_reserve() {
    for order in 1..=3 {
        short_of_memory(|engine| {
            requests(engine, order, 3000);
            assert_eq!(zone(engine, ZoneKind::Normal).reserved_highatomic(), CAP, "order {order}");
        });
    }
}

#[test]
fn order_4_requests_reserve_one_pageblock() {
    short_of_memory(|engine| {
        for _ in 0..3000 {
            let order = Order::new(4);
            let pfn = engine.alloc_pages(Gfp::ATOMIC | Gfp::COMP, order).expect("enough memory must be free");
            engine.free_pages(pfn, order).expect("the test holds this block");
        }
        assert_eq!(zone(engine, ZoneKind::Normal).reserved_highatomic(), 512);
        let mut served = Vec::new();
        for event in engine.platform().events.take() {
            if let Event::ZoneLocked { migratetype, .. } = event {
                served.push(migratetype);
            }
        }
        let reserve = served.iter().filter(|&&migratetype| migratetype == MigrateType::HighAtomic).count();
        assert_eq!(reserve, 2999, "all requests but the first are served from the reserve");
    });
}

#[test]
fn no_reserve_above_the_low_watermark() {
    let memory = [range(ZoneKind::Normal, 0, 0, PAGES)];
    with_machine(&linux(), &memory, MinFree::BySize, |engine| {
        requests(engine, 3, 1000);
        assert_eq!(zone(engine, ZoneKind::Normal).reserved_highatomic(), 0);
    });
}

#[test]
fn small_zone_has_no_reserve() {
    let memory = [range(ZoneKind::Normal, 0, 0, 51_200 - 512)];
    with_machine(&linux(), &memory, MinFree::Pages(1000), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        while zone.free_pages() > zone.watermarks().min + 100 {
            engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("enough memory must be free");
        }
        requests(engine, 1, 100);
        assert_eq!(zone.reserved_highatomic(), 0);
    });
}

/// Platform whose reclaim frees one given page.
struct Reclaimer(Cell<Option<Pfn>>);

impl Hooks for Reclaimer {
    fn reclaim(&self, pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let Some(pfn) = self.0.take() else { return Reclaimed::default() };
        pages.free_pages(pfn, Order::ZERO);
        Reclaimed { pages: 1, scanned: 1 }
    }
}

/// Sets the watermarks to zero, and allocates every page that is not in the reserve.
pub(super) fn take_all_but_the_reserve(engine: &Engine<'_, '_>) {
    let zone = zone(engine, ZoneKind::Normal);
    engine.set_watermarks(zone, Watermarks::given(0, 0, 0));
    take_what_is_free(engine);
    while pcp_count(engine) > 0 {
        engine.drain_all_pages();
        take_what_is_free(engine);
    }
}

/// Allocates the free pages of the zone. Pages on per-CPU lists do not count as free, and cannot be allocated once the
/// zone has no other pages.
fn take_what_is_free(engine: &Engine<'_, '_>) {
    let zone = zone(engine, ZoneKind::Normal);
    while zone.free_pages() > zone.free_highatomic() {
        engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
    }
}

#[test]
fn unreserve_takes_one_block_before_a_request_fails() {
    short_of_memory(|engine| {
        requests(engine, 2, 3000);
        take_all_but_the_reserve(engine);
        let zone = zone(engine, ZoneKind::Normal);
        assert_eq!(zone.reserved_highatomic(), CAP);
        while zone.reserved_highatomic() > 0 {
            let largest = if free_list(engine, zone, 9, MigrateType::HighAtomic).is_empty() { 1024 } else { 512 };
            let before = zone.reserved_highatomic();
            // Reclaim makes no progress. A block is unreserved when the retries are exhausted, even the last block.
            let page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("the reserve must serve this request");
            let given = before - zone.reserved_highatomic();
            assert!(given == 512 || given == largest, "one free block, not {given} pages");
            assert_eq!(type_at(engine, page.raw()), MigrateType::Unmovable, "the requester's type");
            let left = zone.reserved_highatomic();
            take_all_but_the_reserve(engine);
            assert_eq!(zone.reserved_highatomic(), left, "no more than the needed pageblock may be unreserved");
        }
        assert!(engine.alloc_pages(Gfp::KERNEL, Order::ZERO).is_err(), "no page may be left");
    });
}

fn pcp_count(engine: &Engine<'_, '_>) -> u32 {
    engine.cpu_ids().map(|cpu| engine.pcp(cpu, zone(engine, ZoneKind::Normal)).inspect(|lists| lists.count())).sum()
}

#[test]
fn reclaim_progress_keeps_the_last_reserved_block() {
    let reclaimer = Reclaimer(Cell::new(None));
    short_of_memory(|engine| {
        engine.platform().answer_with(&reclaimer);
        let page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
        requests(engine, 4, 1);
        take_all_but_the_reserve(engine);
        let zone = zone(engine, ZoneKind::Normal);
        assert_eq!(zone.reserved_highatomic(), 512);
        reclaimer.0.set(Some(page));
        let request = Gfp::KERNEL | Gfp::NORETRY;
        assert!(
            engine.alloc_pages(request, Order::new(1)).is_err(),
            "a request that does not retry must not take from the reserve"
        );
        assert_eq!(reclaimer.0.get(), None, "reclaim must be called and must free its page");
        assert_eq!(zone.reserved_highatomic(), 512);
        assert!(zone.free_highatomic() > 0, "the reserve must keep its free pages");
    });
}

/// A request for a single page that cannot wait is the only ordinary request that the reserve serves, and only when no
/// other page is free.
#[test]
fn atomic_single_pages_use_the_reserve_last() {
    short_of_memory(|engine| {
        requests(engine, 4, 1);
        take_all_but_the_reserve(engine);
        let zone = zone(engine, ZoneKind::Normal);
        let reserve = zone.free_highatomic();
        engine.alloc_pages(Gfp::ATOMIC, Order::ZERO).expect("the reserve must serve this request");
        assert_eq!(zone.free_highatomic(), reserve - 1);
    });
}

/// If the first zones of a request have nothing free in their reserve, or no reserve, the next zone's reserve is used.
#[test]
fn unreserve_reaches_every_zone_of_a_request() {
    let config = Config { policy: Policy { pcp: PcpPolicy::Off, ..Policy::LINUX_6_12 }, ..Config::default() };
    let end = 120 * 512;
    let memory = [range(ZoneKind::Dma32, 0, 0, end), range(ZoneKind::Normal, 0, end, end + (1 << 13))];
    with_machine(&config, &memory, MinFree::Pages(4000), |engine| {
        let low = zone(engine, ZoneKind::Dma32);
        while low.free_pages() > low.watermarks().low {
            engine.alloc_pages(Gfp::NOWAIT | Gfp::DMA32, Order::new(4)).expect("enough memory must be free");
        }
        engine
            .alloc_pages(Gfp::ATOMIC | Gfp::DMA32, Order::new(4))
            .expect("the zone must be far above the min watermark");
        assert_eq!(low.reserved_highatomic(), 512);
        for kind in [ZoneKind::Dma32, ZoneKind::Normal] {
            engine.set_watermarks(zone(engine, kind), Watermarks::given(0, 0, 0));
        }
        engine.set_lowmem_reserve(low, ZoneKind::Normal, 0);
        while engine.alloc_pages(Gfp::KERNEL | Gfp::NORETRY, Order::ZERO).is_ok() {}
        assert_eq!(low.reserved_highatomic(), 512, "a request that does not retry must not take from the reserve");
        let page = engine
            .alloc_pages(Gfp::KERNEL, Order::ZERO)
            .expect("the reserve of the lower zone must serve this request");
        assert!(page.raw() < end);
        assert_eq!((type_at(engine, page.raw()), low.reserved_highatomic()), (MigrateType::Unmovable, 0));
        engine.check().expect("the check must find no error");
    });
}
