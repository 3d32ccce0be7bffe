//! Damage to the counters of a zone and of its free lists, and to the hints that are read without a lock.

use freehold::base::{MigrateType, Order, Pfn};
use freehold::page::ContigError;
use freehold::page::damage::ZoneCounter;

use super::Row;
use crate::damage::stage::{AREA, FRAMES, MOVABLE, PAGEBLOCK, RESERVED, Stage};

fn movable(order: u8) -> (Order, MigrateType) {
    (Order::new(order), MigrateType::Movable)
}

/// Damages a counter, and takes a page out of a free block.
fn take_with(stage: &'static Stage, counter: ZoneCounter, pages: i64) {
    stage.spoil(|damage| damage.set_counter(stage.zone(), counter, pages));
    stage.cut_out(Pfn::new(2048));
}

/// Damages a counter, and takes a page out of the CMA area.
fn take_from_area_with(stage: &'static Stage, counter: ZoneCounter, pages: i64) {
    stage.spoil(|damage| damage.set_counter(stage.zone(), counter, pages));
    stage.cut_out(Pfn::new(AREA.0));
}

/// Takes an unused pageblock offline.
fn offline(stage: &'static Stage) -> Result<(), ContigError> {
    stage.engine.offline(Pfn::new(2048)..Pfn::new(2048 + PAGEBLOCK))
}

/// Releases a pageblock of the given type.
fn release_as(stage: &'static Stage, migratetype: MigrateType) -> Pfn {
    let block = Pfn::new(RESERVED);
    stage.engine.set_pageblock_type(block, migratetype).expect("the frames must be Reserved");
    stage.engine.release(block, block.offset(PAGEBLOCK)).expect("the frames must be Reserved");
    block
}

pub(super) const ROWS: &[Row] = &[
    Row::bare("free pages, too few", "zone: -1 pages are free", |stage| take_with(stage, ZoneCounter::Free, 0)),
    Row::bare("free pages, too many", "zone: 99999 pages are free, but only 15360 are managed", |stage| {
        take_with(stage, ZoneCounter::Free, 100_000);
    }),
    Row::bare("free pages of CMA areas, too few", "-1 of CMA", |stage| {
        take_from_area_with(stage, ZoneCounter::FreeCma, 0);
    }),
    Row::bare("free pages of CMA areas, too many", "zone: 4999 pages of CMA are free, but only 1024 exist", |stage| {
        take_from_area_with(stage, ZoneCounter::FreeCma, 5000);
    }),
    Row::bare("pages of CMA areas", "zone: 1023 pages of CMA are free, but only 0 exist", |stage| {
        take_from_area_with(stage, ZoneCounter::Cma, 0);
    }),
    Row::bare("free pages of the reserve", "-1 of the reserve", |stage| {
        let block = release_as(stage, MigrateType::HighAtomic);
        stage.spoil(|damage| damage.set_counter(stage.zone(), ZoneCounter::FreeReserved, 0));
        stage.cut_out(block);
    }),
    Row::bare("pages of the reserve", "zone: 0 HighAtomic pages cannot change by -512", |stage| {
        let block = Pfn::new(RESERVED);
        stage.engine.set_pageblock_type(block, MigrateType::HighAtomic).expect("the frames must be Reserved");
        stage.spoil(|damage| damage.set_counter(stage.zone(), ZoneCounter::Reserved, 0));
        stage.engine.set_pageblock_type(block, MigrateType::Movable).expect("the frames must be Reserved");
    }),
    Row::bare("managed pages", "zone: 15359 pages are free, but only 100 are managed", |stage| {
        take_with(stage, ZoneCounter::Managed, 100);
    }),
    Row::bare(
        "present pages, when some are released",
        "zone: 15872 pages are managed, but only 100 are present",
        |stage| {
            stage.spoil(|damage| damage.set_counter(stage.zone(), ZoneCounter::Present, 100));
            release_as(stage, MigrateType::Movable);
        },
    ),
    Row::bare("present pages, when some go", "zone: 512 pages cannot be removed from 100 present pages", |stage| {
        stage.spoil(|damage| damage.set_counter(stage.zone(), ZoneCounter::Present, 100));
        offline(stage).expect("the range must be free to be taken offline");
    }),
    Row::bare("span", "offline: frames 0x800..0xa00 are outside of their zone", |stage| {
        stage.spoil(|damage| damage.set_span(stage.zone(), Some(Pfn::new(4096)..Pfn::new(FRAMES))));
        offline(stage).expect("the range must be free to be taken offline");
    }),
    Row::bare("what is said of a list that has blocks", "is false, but their presence is true", |stage| {
        stage.spoil(|damage| damage.set_occupied(stage.zone(), Order::MAX, 0));
        stage.cut_out(Pfn::new(2048));
    }),
    Row::bare("what is said of a list that is empty", "is true, but their presence is false", |stage| {
        stage.spoil(|damage| damage.set_occupied(stage.zone(), Order::new(4), u8::MAX));
        stage.take(2);
    }),
    Row::bare("a list that was emptied", "zone: the hint for blocks of order 10 and type Movable is true", |stage| {
        stage.spoil(|damage| damage.set_free_list(stage.zone(), movable(10), None, None));
        stage.take(10);
    }),
    Row::bare("blocks of a list, none", "free areas: 0 blocks of order 10 and type Movable are counted", |stage| {
        stage.spoil(|damage| damage.set_blocks(stage.zone(), movable(10), 0));
        stage.take(10);
    }),
    Row::bare("blocks of a list, too few", "free areas: 0 blocks of order 10 and type Movable are counted", |stage| {
        stage.spoil(|damage| damage.set_blocks(stage.zone(), movable(10), 1));
        stage.take(10);
    }),
    Row::bare("blocks of an empty list", "free areas: 5 blocks of order 3 and type Movable are counted", |stage| {
        stage.spoil(|damage| damage.set_blocks(stage.zone(), movable(3), 5));
        stage.take(2);
    }),
    Row::bare("units of an area, while one is wanted", "CMA area: unit 0 is freed, but not allocated", |stage| {
        stage.cut_out(Pfn::new(AREA.0));
        stage.spoil_when_asked(|stage| stage.spoil(|damage| damage.unclaim_unit(&stage.area, 0)));
        let wanted = stage.engine.cma_alloc(&stage.area, 1, 1, MOVABLE).expect("the second unit is free");
        stage.engine.cma_release(&stage.area, wanted, 1).expect("the test holds these pages");
        stage.free(Pfn::new(AREA.0), 0);
    }),
];
