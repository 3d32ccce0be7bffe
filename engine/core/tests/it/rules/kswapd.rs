//! kswapd and kcompactd: when they are woken, their work in each call, and when they sleep again.
//! linux: mm/vmscan.c:wakeup_kswapd, balance_pgdat; mm/compaction.c:wakeup_kcompactd, kcompactd

use core::cell::{Cell, RefCell};

use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Background, Config, MinFree, Range, ZoneFlag};
use freehold::platform::{FreePages, Reclaim, Reclaimed};

use crate::common::{Hooks, Memory, build, range};
use crate::rules::reclaim::{Cache, QUIET, with_cache};
use crate::rules::{Engine, alloc, bare, zone};

const NODE: NodeId = NodeId(0);
/// Flags of a request for a movable page that wakes kswapd but makes no other effort.
const WAKING: Gfp = QUIET.union(Gfp::KSWAPD_RECLAIM);

fn small() -> [Range; 1] {
    [range(ZoneKind::Normal, 0, 0, 1 << 13)]
}

/// Runs kswapd until it sleeps. Returns the number of passes, including the last one.
fn run_to_sleep(engine: &Engine<'_, '_>) -> u32 {
    let passes = (1..=10_000).find(|_| engine.run_kswapd(NODE) == Background::Asleep);
    passes.expect("kswapd must go to sleep")
}

/// Allocates single pages until the zone is below its low watermark.
fn fall_below_low(engine: &Engine<'_, '_>, cache: &Cache) {
    let zone = zone(engine, ZoneKind::Normal);
    cache.drop_where(engine, |page| page.raw() < 200);
    while zone.free_pages() >= zone.watermarks().low {
        cache.pages.borrow_mut().push(Pfn::new(alloc(engine, QUIET, 0)));
    }
}

#[test]
fn kswapd_wakes_once_and_refills_to_the_high_mark() {
    with_cache(&bare(), &small(), 8, |engine, cache| {
        let zone = zone(engine, ZoneKind::Normal);
        fall_below_low(engine, cache);
        assert_eq!(
            (cache.kswapd.get(), engine.run_kswapd(NODE)),
            (0, Background::Asleep),
            "no request may have woken kswapd yet"
        );
        (0..3).for_each(|_| cache.pages.borrow_mut().push(Pfn::new(alloc(engine, WAKING, 0))));
        assert_eq!(cache.kswapd.get(), 1, "the second and the third request must find kswapd awake");
        assert_eq!(engine.run_kswapd(NODE), Background::Working);
        assert!(zone.has(ZoneFlag::ReclaimActive));
        run_to_sleep(engine);
        assert!(!zone.has(ZoneFlag::ReclaimActive));
        assert!(zone.free_pages() > zone.watermarks().high);
        assert!(zone.free_pages() <= zone.watermarks().high + 8, "kswapd must stop just above the high watermark");
        assert_eq!(engine.platform().events.counts().pageoutrun, 1);
        assert_eq!(engine.run_kswapd(NODE), Background::Asleep);
    });
}

#[test]
fn insufficient_pass_raises_the_urgency() {
    // Twice as many pages are scanned as are freed, so half of the goal is enough.
    for (at_once, expected) in [(1, vec![12, 11, 10, 9, 8]), (48, vec![12])] {
        with_cache(&bare(), &small(), at_once, |engine, cache| {
            fall_below_low(engine, cache);
            cache.pages.borrow_mut().push(Pfn::new(alloc(engine, WAKING, 0)));
            (0..5).for_each(|_| _ = engine.run_kswapd(NODE));
            assert_eq!(cache.priorities(), expected, "{at_once} pages at once");
        });
    }
}

/// Allocates a page in a way that wakes kswapd, and gives the page to the cache.
fn wake_kswapd(engine: &Engine<'_, '_>, cache: &Cache) {
    cache.pages.borrow_mut().extend(engine.alloc_pages(WAKING, Order::ZERO));
}

#[test]
fn kswapd_stops_after_sixteen_failures_until_a_success() {
    with_cache(&bare(), &small(), 0, |engine, cache| {
        fall_below_low(engine, cache);
        wake_kswapd(engine, cache);
        assert_eq!(run_to_sleep(engine), 16 * 12, "sixteen runs of twelve passes");
        wake_kswapd(engine, cache);
        assert_eq!(
            (cache.kswapd.get(), engine.run_kswapd(NODE)),
            (1, Background::Asleep),
            "kswapd has given up on the node"
        );
        // A request that reclaims one page directly resets the failures.
        cache.at_once.set(1);
        while engine.platform().events.counts().pgsteal_direct == 0 {
            let page = Pfn::new(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0));
            cache.pages.borrow_mut().push(page);
        }
        wake_kswapd(engine, cache);
        assert_eq!(cache.kswapd.get(), 2);
    });
}

/// A run without a request is for the zones of the previous run.
#[test]
fn repeated_run_keeps_the_zones_of_the_previous_run() {
    let memory = [range(ZoneKind::Dma, 0, 0, 1 << 12), range(ZoneKind::Normal, 0, 1 << 12, 1 << 13)];
    with_cache(&bare(), &memory, 0, |engine, cache| {
        engine.alloc_pages(Gfp::NOWAIT | Gfp::DMA, Order::ZERO).expect_err("no page is free, so the request must fail");
        assert_eq!(run_to_sleep(engine), 16 * 12);
        let asked = cache.asked.take();
        assert!(
            asked.iter().all(|wanted| wanted.highest == ZoneKind::Dma),
            "kswapd must not reclaim in higher zones, which no request wanted"
        );
    });
}

#[test]
fn kswapd_drops_to_order_0_after_twice_the_block() {
    with_cache(&bare(), &small(), 10, |engine, cache| {
        // The pages are dropped in an order that leaves no two of them adjacent.
        cache.pages.borrow_mut().sort_by_key(|page| page.raw() % 2);
        engine
            .alloc_pages(Gfp::NOWAIT, Order::new(3))
            .expect_err("no block of this order is free, so the request must fail");
        run_to_sleep(engine);
        let orders: Vec<u8> = cache.asked.take().iter().map(|wanted| wanted.order.get()).collect();
        assert_eq!(orders[..3], [3, 3, 0], "twenty reclaimed pages must end the reclaim at order 3");
        assert!(orders[2..].iter().all(|&order| order == 0));
        assert_eq!(cache.kcompactd.get(), 1, "kcompactd must be woken for the rest");
        assert_eq!(engine.run_kcompactd(NODE), Background::Asleep);
        assert_eq!(engine.platform().events.counts().compact_daemon_wake, 1);
    });
}

#[test]
fn exactly_twice_the_block_ends_high_order_reclaim() {
    with_cache(&bare(), &small(), 8, |engine, cache| {
        cache.pages.borrow_mut().sort_by_key(|page| page.raw() % 2);
        engine
            .alloc_pages(Gfp::NOWAIT, Order::new(3))
            .expect_err("no block of this order is free, so the request must fail");
        (0..3).for_each(|_| _ = engine.run_kswapd(NODE));
        let orders: Vec<u8> = cache.asked.take().iter().map(|wanted| wanted.order.get()).collect();
        assert_eq!(orders, [3, 3, 0], "sixteen reclaimed pages must end the reclaim at order 3");
    });
}

/// Runs `scene` on a zone that is well above its watermarks, except for a boost.
fn boosted(at_once: usize, scene: impl FnOnce(&Engine<'_, '_>, &Cache)) {
    with_cache(&bare(), &small(), at_once, |engine, cache| {
        let zone = zone(engine, ZoneKind::Normal);
        cache.drop_where(engine, |page| page.raw() < 2048);
        engine.damage().set_boost(zone.node(), zone.kind(), 512);
        engine.damage().set_flag(zone.node(), zone.kind(), ZoneFlag::BoostedWatermark);
        let page = alloc(engine, WAKING, 0);
        engine.free_pages(Pfn::new(page), Order::ZERO).expect("the block was just allocated");
        assert_eq!(cache.kswapd.get(), 1, "a boost must wake kswapd");
        scene(engine, cache);
        assert_eq!(zone.boost(), 0, "the boost must be zero at the end");
    });
}

#[test]
fn boost_reclaim_stays_at_low_urgency() {
    boosted(20, |engine, cache| {
        assert_eq!(run_to_sleep(engine), 27, "26 times 20 pages are more than 512");
        let priorities = cache.priorities();
        assert_eq!(priorities[..4], [12, 11, 10, 10]);
        assert!(priorities.iter().all(|&priority| priority >= 10), "the priority must not go below 10");
    });
    boosted(0, |engine, cache| {
        assert_eq!(run_to_sleep(engine), 1, "a pass that reclaims no page must be the last");
        assert_eq!(cache.priorities(), [12]);
    });
}

#[test]
fn non_reclaiming_request_wakes_kcompactd_after_failures() {
    with_cache(&bare(), &small(), 0, |engine, cache| {
        // Compaction has room, but there is no block. kswapd tries to reclaim one without success, and gives up.
        cache.drop_where(engine, |page| page.raw() < 400 && page.raw().is_multiple_of(2));
        for _ in 0..16 {
            engine
                .alloc_pages(WAKING, Order::new(3))
                .expect_err("no block of this order is free, so the request must fail");
            assert_eq!(
                run_to_sleep(engine),
                12,
                "there are enough single pages, so kswapd must stop after twelve passes"
            );
        }
        engine
            .alloc_pages(Gfp::HIGHUSER_MOVABLE | Gfp::NORETRY, Order::new(3))
            .expect_err("no block of this order is free, so the request must fail");
        assert_eq!(
            (cache.kswapd.get(), cache.kcompactd.get()),
            (16, 0),
            "a request that can reclaim must not wake kcompactd"
        );
        engine
            .alloc_pages(WAKING, Order::new(3))
            .expect_err("no block of this order is free, so the request must fail");
        assert_eq!((cache.kswapd.get(), cache.kcompactd.get()), (16, 1));
    });
}

/// A platform that runs kswapd from inside its own reclaim.
struct Impatient<'a, 'h> {
    engine: &'a Engine<'a, 'h>,
    told: RefCell<Vec<Background>>,
    woken: Cell<u32>,
}

impl Hooks for Impatient<'_, '_> {
    fn reclaim(&self, _pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        self.told.borrow_mut().push(self.engine.run_kswapd(NODE));
        Reclaimed::default()
    }

    fn wake_kswapd(&self, _node: NodeId) {
        self.woken.set(self.woken.get() + 1);
    }
}

#[test]
fn reentrant_run_kswapd_returns_asleep() {
    let config: Config<'_> = bare();
    let mut memory = Memory::new(&config, &small());
    let engine = &build(&config, &small(), &mut memory);
    engine.release(Pfn::new(0), Pfn::new(1 << 13)).expect("the range is online");
    engine.set_up_watermarks(MinFree::Pages(64));
    let impatient = Impatient { engine, told: RefCell::default(), woken: Cell::new(0) };
    engine.platform().answer_with(&impatient);
    while engine.alloc_pages(Gfp::NOWAIT, Order::ZERO).is_ok() {}
    assert_eq!(impatient.woken.get(), 1);
    assert_eq!(engine.run_kswapd(NODE), Background::Working);
    assert_eq!(*impatient.told.borrow(), [Background::Asleep]);
    engine.check().expect("the check must find no error");
}

/// Returns the number of frames that kcompactd has scanned.
fn kcompactd_scanned(engine: &Engine<'_, '_>) -> u64 {
    engine.platform().events.counts().compact_daemon_migrate_scanned
}

#[test]
fn kcompactd_pauses_after_a_useless_run() {
    with_cache(&bare(), &small(), 0, |engine, cache| {
        // All free memory is in single pages, and no page can be moved.
        cache.drop_where(engine, |page| page.raw().is_multiple_of(2));
        engine.tick_kcompactd(NODE);
        let once = kcompactd_scanned(engine);
        assert!(once > 0, "kcompactd must scan the fragmented node");
        (0..63).for_each(|_| engine.tick_kcompactd(NODE));
        assert_eq!(kcompactd_scanned(engine), once);
        engine.tick_kcompactd(NODE);
        assert!(kcompactd_scanned(engine) > once);
    });
}
