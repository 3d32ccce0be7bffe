//! Per-CPU lists: the number of pages that move at once, and the conditions. linux: mm/page_alloc.c:nr_pcp_alloc,
//! nr_pcp_free

use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PCP_LISTS};
use freehold::platform::Event;

use crate::common::{range, with_machine};
use crate::rules::{Engine, alloc, free, linux, zone};

/// Runs `run` on a machine with four CPUs and 1 GiB: batch 63, limits of the lists between 1286 / 4 and 262144 / 8 / 4
/// pages.
fn scene(run: impl FnOnce(&Engine<'_, '_>)) {
    let config = Config { cpu_nodes: &[NodeId(0); 4], ..linux() };
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 18)];
    with_machine(&config, &memory, MinFree::BySize, |engine| {
        engine.platform().events.take();
        run(engine);
        engine.check().expect("the check must find no error");
    });
}

fn refills(engine: &Engine<'_, '_>) -> Vec<u32> {
    let mut refills = Vec::new();
    for event in engine.platform().events.take() {
        if let Event::Refill { blocks, .. } = event {
            refills.push(blocks);
        }
    }
    refills
}

pub(super) fn drains(engine: &Engine<'_, '_>) -> Vec<u32> {
    let mut drains = Vec::new();
    for event in engine.platform().events.take() {
        if let Event::Drain { pages, .. } = event {
            drains.push(pages);
        }
    }
    drains
}

fn count(engine: &Engine<'_, '_>, cpu: u16) -> (u32, u32) {
    engine.pcp(CpuId(cpu), zone(engine, ZoneKind::Normal)).inspect(|lists| (lists.count(), lists.high()))
}

#[test]
fn list_limits_follow_from_zone_and_cpus() {
    scene(|engine| {
        let limits = engine.pcp(CpuId(0), zone(engine, ZoneKind::Normal)).inspect(|lists| lists.limits());
        assert_eq!((limits.batch, limits.high_min, limits.high_max), (63, 321, 8192));
    });
}

#[test]
fn refill_doubles_while_a_cpu_only_allocates() {
    scene(|engine| {
        (0..63 + 126 + 252 + 504 + 1008 + 2016 + 1).for_each(|_| _ = alloc(engine, Gfp::KERNEL, 0));
        assert_eq!(refills(engine), [63, 126, 252, 504, 1008, 2016, 2016]);
        assert_eq!(count(engine, 0), (2015, 321 + 63 + 126 + 252 + 504 + 1008 + 2016 + 2016));
    });
}

#[test]
fn free_halves_the_next_refill() {
    scene(|engine| {
        let pages: Vec<u32> = (0..63 + 126).map(|_| alloc(engine, Gfp::KERNEL, 0)).collect();
        free(engine, pages[0], 0);
        alloc(engine, Gfp::KERNEL, 0);
        assert_eq!(refills(engine), [63, 126]);
        alloc(engine, Gfp::KERNEL, 0);
        assert_eq!(refills(engine), [126], "the next refill must be 126 pages, not 252");
    });
}

#[test]
fn refill_block_count_shrinks_with_the_order() {
    scene(|engine| {
        for (order, blocks) in [(1, 31), (2, 15), (3, 7), (9, 2)] {
            alloc(engine, Gfp::KERNEL | Gfp::COMP, order);
            assert_eq!(refills(engine), [blocks], "order {order}");
        }
        alloc(engine, Gfp::KERNEL, 4);
        assert_eq!(refills(engine), [0_u32; 0], "order 4 has no list");
    });
}

#[test]
fn full_list_drains_recent_frees() {
    scene(|engine| {
        let pages: Vec<u32> = (0..2000).map(|_| alloc(engine, Gfp::KERNEL, 0)).collect();
        engine.platform().run_on(1);
        engine.platform().events.take();
        // CPU 1 frees pages that CPU 0 allocated. Its list starts with the lowest limit.
        pages[..320].iter().for_each(|&pfn| free(engine, pfn, 0));
        assert_eq!((count(engine, 1), drains(engine).len()), ((320, 321), 0));
        free(engine, pages[320], 0);
        // 321 pages were freed recently: the limit rises to 321 + 63, and 321 - 63 pages are drained.
        assert_eq!((count(engine, 1), drains(engine)), ((63, 384), vec![258]));
    });
}

#[test]
fn order_3_blocks_that_are_only_freed_all_drain() {
    scene(|engine| {
        let blocks: Vec<u32> = (0..20).map(|_| alloc(engine, Gfp::KERNEL | Gfp::COMP, 3)).collect();
        engine.platform().run_on(1);
        engine.platform().events.take();
        // 64 recently freed pages are at least a batch, and so are 72 pages on the list.
        blocks[..8].iter().for_each(|&pfn| free(engine, pfn, 3));
        assert_eq!((count(engine, 1).0, drains(engine).len()), (64, 0));
        free(engine, blocks[8], 3);
        assert_eq!((count(engine, 1).0, drains(engine)), (0, vec![72]));
        // A free of a single page in between shows that the CPU does not only free large blocks.
        engine.platform().run_on(0);
        let page = alloc(engine, Gfp::KERNEL, 0);
        engine.platform().run_on(1);
        free(engine, page, 0);
        engine.platform().events.take();
        free(engine, blocks[9], 3);
        assert_eq!((count(engine, 1).0, drains(engine).len()), (9, 0));
    });
}

#[test]
fn idle_list_decays_by_an_eighth_per_second() {
    scene(|engine| {
        (0..63 + 126 + 252 + 504 + 1008 + 1).for_each(|_| _ = alloc(engine, Gfp::KERNEL, 0));
        let (pages, high) = count(engine, 0);
        assert_eq!((pages, high), (2015, 321 + 63 + 126 + 252 + 504 + 1008 + 2016));
        engine.platform().events.take();
        let zone = zone(engine, ZoneKind::Normal);
        let mut limit = high;
        while limit > 2015 {
            engine.decay_pcp(CpuId(0), zone);
            limit -= limit / 8;
            assert_eq!(count(engine, 0), (pages.min(limit), limit));
        }
        let gone = drains(engine);
        assert_eq!(gone.iter().sum::<u32>(), 2015 - limit);
        assert!(gone.iter().all(|&pages| pages <= 63), "a batch at a time: {gone:?}");
    });
}

#[test]
fn remote_zone_list_drains_after_three_idle_ticks() {
    let config = Config { cpu_nodes: &[NodeId(0), NodeId(1)], nodes: 2, ..linux() };
    let ranges = [range(ZoneKind::Normal, 0, 0, 1 << 15), range(ZoneKind::Normal, 1, 1 << 15, 2 << 15)];
    with_machine(&config, &ranges, MinFree::BySize, |engine| {
        let far = engine.alloc_pages_node(NodeId(1), Gfp::KERNEL, Order::ZERO).expect("the node is empty");
        let zone = engine.zone(NodeId(1), ZoneKind::Normal);
        let counts: Vec<u32> = (0..7)
            .map(|_| {
                engine.decay_pcp(CpuId(0), zone);
                engine.pcp(CpuId(0), zone).inspect(|lists| lists.count())
            })
            .collect();
        let batch = engine.pcp(CpuId(0), zone).inspect(|lists| lists.limits().batch);
        let full = counts[0];
        assert!(full > 0 && full <= batch, "one refill");
        assert_eq!(counts, [full, full, 0, 0, 0, 0, 0]);
        engine.free_pages(far, Order::ZERO).expect("the test holds these pages");
    });
}

/// Returns the list of CPU 0 to which a page in a pageblock of this type is freed.
fn list_for(migratetype: MigrateType) -> Option<usize> {
    let mut found = None;
    scene(|engine| {
        let block = Pfn::new(alloc(engine, Gfp::KERNEL, 9));
        engine.split_page(block, Order::new(9)).expect("the test holds this block");
        engine.damage().retype(block, migratetype);
        engine.drain_all_pages();
        free(engine, block.raw(), 0);
        let zone = zone(engine, ZoneKind::Normal);
        found = engine.pcp(CpuId(0), zone).inspect(|lists| {
            let mut indices = 0..PCP_LISTS;
            indices.find(|&index| lists.list(index).first() == Some(block))
        });
        let in_zone = zone.inspect(|areas| areas.area(Order::ZERO).list(migratetype).first()) == Some(block);
        assert_eq!(in_zone, found.is_none());
    });
    found
}

#[test]
fn pages_of_special_pageblocks_use_movable_lists() {
    use MigrateType::{Cma, HighAtomic, Isolate, Movable, Reclaimable, Unmovable};
    assert_eq!([Unmovable, Movable, Reclaimable].map(list_for), [Some(0), Some(1), Some(2)]);
    assert_eq!([HighAtomic, Cma].map(list_for), [Some(1), Some(1)]);
    assert_eq!(list_for(Isolate), None, "a page of an isolated pageblock must be freed to the zone");
}
