//! Buddies: the part of a block that is allocated, the end of the list that a freed block joins, and the blocks that
//! merge.
//! linux: mm/page_alloc.c:__free_one_page, expand

use freehold::base::{Gfp, MigrateType, Order, Pfn, ZoneKind};
use freehold::page::{Config, FreeError, MinFree, Mobility};

use crate::common::{Memory, build, range, with_machine};
use crate::rules::{Engine, alloc, bare, free, free_list, type_at, zone};

use MigrateType::{Cma, HighAtomic, Movable, Reclaimable, Unmovable};

#[test]
fn split_uses_the_lowest_part_and_lists_the_halves() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 13)];
    with_machine(&bare(), &memory, MinFree::Pages(8), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        assert_eq!(
            free_list(engine, zone, 10, Movable),
            [0, 1024, 2048, 3072, 4096, 5120, 6144, 7168],
            "the free list must be as at boot"
        );
        assert_eq!(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0), 0);
        for order in 0..10 {
            assert_eq!(free_list(engine, zone, order, Movable), [1 << order]);
        }
        // The next page is the buddy. The allocation after it splits the block of order 1.
        assert_eq!(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0), 1);
        assert_eq!(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0), 2);
        assert_eq!(free_list(engine, zone, 1, Movable), [0_u32; 0]);
    });
}

#[test]
fn block_with_a_free_neighbour_joins_the_tail() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 12)];
    with_machine(&bare(), &memory, MinFree::Pages(8), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        let pages: Vec<u32> = (0..32).map(|_| alloc(engine, Gfp::HIGHUSER_MOVABLE, 0)).collect();
        assert_eq!(pages, (0..32).collect::<Vec<_>>());
        // Pages 8 and 16 have no free neighbour of order 1, so each goes to the head.
        free(engine, 8, 0);
        free(engine, 16, 0);
        assert_eq!(free_list(engine, zone, 0, Movable), [16, 8]);
        // Pages 0 and 1 merge to a block of order 1. Page 2 goes to the tail, because a free of page 3 would merge all
        // four.
        free(engine, 0, 0);
        free(engine, 1, 0);
        free(engine, 2, 0);
        assert_eq!(free_list(engine, zone, 0, Movable), [16, 8, 2]);
        free(engine, 3, 0);
        assert_eq!(free_list(engine, zone, 2, Movable), [0]);
    });
}

/// Allocates two neighbouring pageblocks as one block, sets their types, and frees the block. Returns the orders and
/// types of the resulting free blocks.
fn two_blocks(types: [MigrateType; 2]) -> Vec<(u8, MigrateType)> {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 13)];
    with_machine(&bare(), &memory, MinFree::Pages(8), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        let block = alloc(engine, Gfp::HIGHUSER_MOVABLE, 10);
        engine.damage().retype(Pfn::new(block), types[0]);
        engine.damage().retype(Pfn::new(block + 512), types[1]);
        free(engine, block, 10);
        let found = (9..=10).flat_map(|order| MigrateType::ALL.map(|migratetype| (order, migratetype)));
        let found: Vec<_> = found
            .filter(|&(order, t)| free_list(engine, zone, order, t).iter().any(|&pfn| pfn & !512 == block))
            .collect();
        if let [(10, whole)] = found[..] {
            assert_eq!((type_at(engine, block), type_at(engine, block + 512)), (whole, whole));
        }
        engine.check().expect("the check must find no error");
        found
    })
}

#[test]
fn ordinary_pageblocks_merge_across_types() {
    assert_eq!(two_blocks([Movable, Movable]), [(10, Movable)]);
    assert_eq!(two_blocks([Movable, Unmovable]), [(10, Unmovable)]);
    assert_eq!(two_blocks([Unmovable, Reclaimable]), [(10, Reclaimable)]);
}

#[test]
fn special_pageblocks_do_not_merge_with_other_types() {
    assert_eq!(two_blocks([Movable, HighAtomic]), [(9, Movable), (9, HighAtomic)]);
    assert_eq!(two_blocks([Cma, Movable]), [(9, Movable), (9, Cma)]);
    assert_eq!(two_blocks([HighAtomic, HighAtomic]), [(10, HighAtomic)]);
}

/// Released memory keeps the types that its pageblocks were given before.
#[test]
fn released_memory_keeps_pageblock_types() {
    let config = Config { end: Pfn::new(1 << 15), ..bare() };
    let memory = [range(ZoneKind::Normal, 0, 0, 4096)];
    let mut metadata = Memory::new(&config, &memory);
    let engine = build(&config, &memory, &mut metadata);
    engine.set_pageblock_type(Pfn::new(512), HighAtomic).expect("the pageblock must be online");
    engine.set_pageblock_type(Pfn::new(1024), Unmovable).expect("the pageblock must be online");
    engine.release(Pfn::new(0), Pfn::new(4096)).expect("the range is online");
    let zone = zone(&engine, ZoneKind::Normal);
    assert_eq!(free_list(&engine, zone, 9, Movable), [0]);
    assert_eq!(free_list(&engine, zone, 9, HighAtomic), [512]);
    assert_eq!(free_list(&engine, zone, 10, Movable), [1024, 2048, 3072], "Unmovable and Movable merge");
    assert_eq!((zone.free_pages(), zone.free_highatomic(), zone.reserved_highatomic()), (4096, 512, 512));
    engine.check().expect("the check must find no error");
}

/// A free of a block that is not compound and whose first frame has an additional reference frees the other frames.
#[test]
fn tails_of_a_shared_block_are_freed_by_order() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 12)];
    with_machine(&bare(), &memory, MinFree::Pages(8), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        let block = alloc(engine, Gfp::HIGHUSER_MOVABLE, 3);
        let before = zone.free_pages();
        engine.get_page(Pfn::new(block)).expect("the test holds this block");
        free(engine, block, 3);
        assert_eq!(zone.free_pages(), before + 7);
        for order in 0..3 {
            assert_eq!(free_list(engine, zone, order, Movable), [block + (1 << order)]);
        }
        engine.put_page(Pfn::new(block)).expect("one reference must be left");
        assert_eq!(zone.free_pages(), before + 8);
        assert_eq!(zone.inspect(|areas| areas.area(Order::MAX).nr_free()), 4, "the tails must merge again");
    });
}

#[test]
fn last_put_frees_a_block_of_any_order() {
    with_machine(&bare(), &[range(ZoneKind::Normal, 0, 0, 1 << 12)], MinFree::Pages(16), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        for (order, gfp) in [(0, Gfp::KERNEL), (3, Gfp::KERNEL), (5, Gfp::KERNEL | Gfp::COMP)] {
            let before = zone.free_pages();
            let block = Pfn::new(alloc(engine, gfp, order));
            engine.get_page(block).expect("the pages must be allocated");
            engine.put_page(block).expect("two references must be left");
            assert_eq!(before - zone.free_pages(), u64::from(Order::new(order).pages()));
            engine.put_page(block).expect("one reference must be left");
            assert_eq!(before, zone.free_pages());
            engine.put_page(block).expect_err("no reference is left, so the put must fail");
        }
    });
}

/// A block larger than a pageblock is freed in one step, unless its pageblocks are of several types.
#[test]
fn mixed_type_block_is_freed_by_pageblock() {
    for (migratetype, links) in [(Movable, 1), (HighAtomic, 2)] {
        let memory = [range(ZoneKind::Normal, 0, 0, 4096)];
        let mut metadata = Memory::new(&bare(), &memory);
        let engine = build(&bare(), &memory, &mut metadata);
        engine.adopt(Pfn::new(1024), Order::MAX, Mobility::Movable).expect("the frames must be Reserved");
        engine.damage().retype(Pfn::new(1024), migratetype);
        let before = engine.platform().events.counts();
        free(&engine, 1024, 10);
        let counts = engine.platform().events.counts().since(&before);
        assert_eq!((counts.zone_lock_links, counts.zone_lock_pages), (links, 1024), "{migratetype:?}");
        engine.check().expect("the check must find no error");
    }
}

fn take(engine: &Engine<'_, '_>, pfn: u32, order: u8) -> Result<bool, FreeError> {
    engine.isolate_free_page(Pfn::new(pfn), Order::new(order), Gfp::KERNEL)
}

fn take_near(engine: &Engine<'_, '_>, pfn: u32, gfp: Gfp) -> Option<u32> {
    engine.isolate_free_page_near(Pfn::new(pfn), Order::ZERO, gfp).map(Pfn::raw)
}

/// A page can be taken by its number out of any free block. Only whole, aligned blocks can be requested.
#[test]
fn isolate_free_page_takes_only_the_given_block() {
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 12)];
    with_machine(&bare(), &memory, MinFree::Pages(16), |engine| {
        let zone = zone(engine, ZoneKind::Normal);
        assert_eq!(take(engine, 1029, 0), Ok(true));
        assert_eq!(zone.free_pages(), 4095);
        let left = [(0, 1028), (1, 1030), (2, 1024), (3, 1032), (4, 1040), (9, 1536)];
        assert!(left.iter().all(|&(order, pfn)| free_list(engine, zone, order, Movable) == [pfn]));
        assert_eq!(
            [take(engine, 1029, 0), take(engine, 1028, 1), take(engine, 1024, 3)],
            [Ok(false); 3],
            "a block that is not entirely free cannot be taken"
        );
        assert_eq!(take(engine, 1024, 2), Ok(true), "a whole free block");
        assert!(
            take(engine, 1030, 2).is_err() && take(engine, 1 << 12, 0).is_err(),
            "a missing block and a missing frame are errors"
        );
        assert_eq!(
            take_near(engine, 5, Gfp::HIGHUSER_MOVABLE),
            Some(1028),
            "the smallest block of its type, wherever it is"
        );
        assert_eq!(
            (take_near(engine, 5, Gfp::KERNEL), take_near(engine, 1 << 12, Gfp::HIGHUSER_MOVABLE)),
            (None, None)
        );
    });
}
