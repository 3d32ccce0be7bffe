//! Fallback: the types from which a request takes pages when its own type has none. linux: mm/page_alloc.c:__rmqueue

use freehold::base::{Gfp, MigrateType, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::platform::Event;
use freehold::policy::watermark::Watermarks;
use freehold::policy::{Numbers, Policy};

use crate::common::{range, with_machine};
use crate::rules::reclaim::QUIET;
use crate::rules::{Engine, alloc, bare, exhaust, free, free_list, type_at, zone};

use MigrateType::{Movable, Reclaimable, Unmovable};

const RECLAIMABLE: Gfp = Gfp::KERNEL.union(Gfp::RECLAIMABLE);
const MOVABLE: Gfp = Gfp::HIGHUSER_MOVABLE;

/// Fills a machine of 16 pageblocks with single pages of the type in `gfp`, frees the given pages, and runs `scene`.
fn filled(gfp: Gfp, freed: &[u32], scene: impl FnOnce(&Engine<'_, '_>)) {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 13)];
    with_machine(&bare(), &memory, MinFree::Pages(0), |engine| {
        let all = Gfp::MEMALLOC | gfp;
        while engine.alloc_pages(all, Order::ZERO).is_ok() {}
        assert_eq!(zone(engine, ZoneKind::Normal).free_pages(), 0);
        // There are no boosts and watermarks, because the scene is only about types.
        freed.iter().for_each(|&pfn| free(engine, pfn, 0));
        engine.platform().events.take();
        scene(engine);
        engine.check().expect("the check must find no error");
    });
}

fn mixes(engine: &Engine<'_, '_>) -> Vec<Event> {
    let mut events = engine.platform().events.take();
    events.retain(|event| matches!(event, Event::Claim { .. } | Event::Steal { .. }));
    events
}

#[test]
fn fallback_claims_the_largest_block() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 13)];
    with_machine(&bare(), &memory, MinFree::Pages(8), |engine| {
        engine.platform().events.take();
        let page = alloc(engine, Gfp::KERNEL, 0);
        assert_eq!(page, 0);
        assert_eq!(mixes(engine), [Event::Claim { found: Order::MAX, wanted: Unmovable, from: Movable }]);
        assert_eq!([0, 512, 1024].map(|pfn| type_at(engine, pfn)), [Unmovable, Unmovable, Movable]);
        assert_eq!(free_list(engine, zone(engine, ZoneKind::Normal), 9, Unmovable), [512]);
    });
}

#[test]
fn half_free_pageblock_is_claimed() {
    let half: Vec<u32> = (512..768).collect();
    filled(MOVABLE, &half, |engine| {
        let page = alloc(engine, Gfp::KERNEL | Gfp::MEMALLOC, 0);
        assert_eq!((page, type_at(engine, 512)), (512, Unmovable));
        assert_eq!(mixes(engine), [Event::Claim { found: Order::new(8), wanted: Unmovable, from: Movable }]);
        let zone = zone(engine, ZoneKind::Normal);
        assert!((0..8).all(|order| free_list(engine, zone, order, Unmovable) == [512 + (1 << order)]));
    });
}

#[test]
fn less_than_half_free_pageblock_is_stolen_from() {
    // A block of order 7, and 127 more pages: one page less than half the pageblock.
    let less: Vec<u32> = (512..767).collect();
    filled(MOVABLE, &less, |engine| {
        let page = alloc(engine, Gfp::KERNEL | Gfp::MEMALLOC, 0);
        assert_eq!((page, type_at(engine, 512)), (766, Movable), "the smallest block is stolen");
        assert_eq!(mixes(engine), [Event::Steal { found: Order::ZERO, wanted: Unmovable, from: Movable }]);
    });
}

#[test]
fn pages_of_the_requested_type_count_as_compatible() {
    // The pageblock is Movable, but its allocated pages are unmovable. For an unmovable request, all of them count as
    // compatible.
    filled(Gfp::KERNEL, &[700], |engine| {
        engine.damage().set_migratetype(Pfn::new(512), Movable);
        free(engine, 600, 0);
        assert_eq!(
            alloc(engine, Gfp::KERNEL | Gfp::MEMALLOC, 0),
            700,
            "a page of the requested type must be used first"
        );
        assert_eq!(alloc(engine, Gfp::KERNEL | Gfp::MEMALLOC, 0), 600);
        assert_eq!(type_at(engine, 512), Unmovable);
    });
}

#[test]
fn movable_requests_claim_only_from_order_4() {
    // A block of order 3 is free in a pageblock whose other pages are all movable. A movable request takes pages but
    // does not claim the pageblock.
    let small: Vec<u32> = (512..520).collect();
    filled(MOVABLE, &[], |engine| {
        engine.damage().set_migratetype(Pfn::new(512), Unmovable);
        small.iter().for_each(|&pfn| free(engine, pfn, 0));
        assert_eq!(alloc(engine, MOVABLE | Gfp::MEMALLOC, 0), 512);
        assert_eq!(type_at(engine, 512), Unmovable);
        free(engine, 512, 0);
        // A block of order 4, half a pageblock's order, suffices for a claim.
        (520..528).for_each(|pfn| free(engine, pfn, 0));
        assert_eq!(alloc(engine, MOVABLE | Gfp::MEMALLOC, 0), 512);
        assert_eq!(type_at(engine, 512), Movable);
    });
}

#[test]
fn fallback_order_follows_the_type() {
    for (gfp, expected) in [(Gfp::KERNEL, Reclaimable), (RECLAIMABLE, Unmovable), (MOVABLE, Reclaimable)] {
        filled(MOVABLE, &[], |engine| {
            for (pfn, migratetype) in [(512, Unmovable), (1024, Movable), (1536, Reclaimable)] {
                engine.damage().set_migratetype(Pfn::new(pfn), migratetype);
                if gfp.migratetype() != Some(migratetype) {
                    free(engine, pfn, 0);
                }
            }
            alloc(engine, gfp | Gfp::MEMALLOC, 0);
            let [Event::Claim { from, .. } | Event::Steal { from, .. }] = mixes(engine)[..] else {
                panic!("no fallback")
            };
            assert_eq!(from, expected, "{gfp:?}");
        });
    }
}

/// Instead of mixing types in Normal, a request goes to DMA32. Only when DMA32 has no whole pageblock either does the
/// request mix types in Normal.
#[test]
fn another_zone_is_used_before_mixing_types() {
    let memory = [range(ZoneKind::Dma32, 0, 0, 1 << 11), range(ZoneKind::Normal, 0, 1 << 11, 1 << 13)];
    with_machine(&bare(), &memory, MinFree::Pages(0), |engine| {
        let normal = zone(engine, ZoneKind::Normal);
        for zone in engine.zones() {
            engine.set_lowmem_reserve(zone, ZoneKind::Normal, 0);
            engine.set_watermarks(zone, Watermarks::given(0, 0, 0));
        }
        // The Normal zone has movable pages, and one hole of two pages in each pageblock.
        let normal_start = 1 << 11;
        let mut pages: Vec<u32> = Vec::new();
        while normal.free_pages() > 0 {
            pages.push(alloc(engine, MOVABLE | Gfp::MEMALLOC, 0));
        }
        assert!(pages.iter().all(|&pfn| pfn >= normal_start));
        for block in (1 << 11..1 << 13).step_by(512) {
            free(engine, block + 100, 0);
            free(engine, block + 101, 0);
        }
        engine.platform().events.take();
        let page = alloc(engine, Gfp::KERNEL | Gfp::MEMALLOC, 0);
        assert!(page < normal_start, "DMA32 has whole pageblocks");
        assert_eq!(mixes(engine).len(), 1, "exactly one pageblock must be claimed");
        while alloc(engine, Gfp::KERNEL | Gfp::MEMALLOC, 0) < 1 << 11 {}
        let [.., Event::Steal { found, .. }] = mixes(engine)[..] else { panic!("the page was not stolen") };
        assert_eq!(found, Order::new(1));
    });
}

/// A refill that had to steal continues to steal until it is done. It tries no further claims, because each would boost
/// the watermarks.
#[test]
fn stealing_refill_tries_one_claim() {
    let numbers = Numbers { pcp_batch: Some(8), ..Numbers::default() };
    let config = Config { policy: Policy { numbers, ..Policy::LINUX_6_12 }, ..Config::default() };
    with_machine(&config, &[range(ZoneKind::Normal, 0, 0, 1 << 13)], MinFree::Pages(64), |engine| {
        for page in exhaust(engine, QUIET | Gfp::MEMALLOC, 0) {
            if page.raw().is_multiple_of(64) {
                engine.free_pages(page, Order::ZERO).expect("the pages must be allocated");
            }
        }
        engine.drain_all_pages();
        let before = engine.platform().events.counts();
        alloc(engine, Gfp::NOWAIT | Gfp::MEMALLOC, 0);
        let counts = engine.platform().events.counts().since(&before);
        // The first refill avoids mixing types, which leads it to another zone, and gets nothing.
        assert_eq!((counts.pcp_refills, counts.fallback_claims, counts.boosts), (2, 0, 1));
        assert_eq!(counts.fallback_steals, counts.pcp_refill_blocks);
        assert!(counts.pcp_refill_blocks >= 8, "the refills must take at least a batch");
    });
}
