//! Damage to counters that the check verifies: pages of every kind, by zone and by list, and the watermarks.

use freehold::base::{CpuId, MigrateType, Order, Pfn, State};
use freehold::page::Violation;
use freehold::page::damage::ZoneCounter;
use freehold::policy::watermark::Watermarks;

use super::{Row, is_counter};
use crate::damage::stage::{RESERVED, Stage};

const CPU: CpuId = CpuId(0);

/// Damages a counter of the zone by adding one.
fn one_more(stage: &'static Stage, counter: ZoneCounter) {
    let zone = stage.zone();
    let pages = match counter {
        ZoneCounter::Present => zone.present(),
        ZoneCounter::Managed => zone.managed(),
        ZoneCounter::Cma => zone.cma(),
        ZoneCounter::Reserved => zone.reserved_highatomic(),
        ZoneCounter::Free => zone.free_pages(),
        ZoneCounter::FreeCma => zone.free_cma(),
        ZoneCounter::FreeReserved => zone.free_highatomic(),
    };
    stage.spoil(|damage| damage.set_counter(zone, counter, pages as i64 + 1));
}

fn set_state(stage: &'static Stage, pfn: u32, state: State) {
    stage.spoil(|damage| damage.set_state(Pfn::new(pfn), state));
}

fn set_marks(stage: &'static Stage, min: u64, low: u64, high: u64) {
    stage.spoil(|damage| damage.set_marks(stage.zone(), Watermarks::given(min, low, high)));
}

fn are_marks(found: &Violation) -> bool {
    matches!(found, Violation::Marks { .. })
}

pub(super) const ROWS: &[Row] = &[
    Row::bare("free pages", |found| is_counter(found, "free"), |stage| one_more(stage, ZoneCounter::Free)),
    Row::bare(
        "free pages of areas",
        |found| is_counter(found, "free_cma"),
        |stage| {
            one_more(stage, ZoneCounter::FreeCma);
        },
    ),
    Row::bare(
        "free pages of the reserve",
        |found| is_counter(found, "free_highatomic"),
        |stage| {
            one_more(stage, ZoneCounter::FreeReserved);
        },
    ),
    Row::bare(
        "pages of the reserve",
        |found| is_counter(found, "reserved_highatomic"),
        |stage| {
            one_more(stage, ZoneCounter::Reserved);
        },
    ),
    Row::bare("pages of areas", |found| is_counter(found, "cma"), |stage| one_more(stage, ZoneCounter::Cma)),
    Row::bare("managed pages", |found| is_counter(found, "managed"), |stage| one_more(stage, ZoneCounter::Managed)),
    Row::bare("present pages", |found| is_counter(found, "present"), |stage| one_more(stage, ZoneCounter::Present)),
    Row::bare(
        "an absent frame among Reserved ones",
        |found| is_counter(found, "present"),
        |stage| {
            set_state(stage, RESERVED, State::Absent);
        },
    ),
    Row::bare(
        "a claimed frame among Reserved ones",
        |found| is_counter(found, "managed"),
        |stage| {
            set_state(stage, RESERVED, State::Claimed { order: Order::ZERO });
        },
    ),
    Row::bare(
        "an allocated frame that is Reserved",
        |found| is_counter(found, "managed"),
        |stage| {
            let page = stage.take(0);
            stage.spoil(|damage| damage.set_state(page, State::Reserved));
        },
    ),
    Row::bare(
        "a free block on no list",
        |found| is_counter(found, "pages on free lists"),
        |stage| {
            let page = stage.take(0);
            let free = State::ZoneFree { order: Order::ZERO, migratetype: MigrateType::Movable };
            stage.spoil(|damage| {
                stage.cut_out(page.offset(1));
                damage.set_state(page, free);
            });
        },
    ),
    Row::bare(
        "a cached block on no list",
        |found| is_counter(found, "pages on per-CPU lists"),
        |stage| {
            let page = stage.take(0);
            stage.spoil(|damage| damage.set_state(page, State::PcpCached { order: Order::ZERO, list: 1, cpu: CPU }));
        },
    ),
    Row::owned(
        "pages on a CPU's lists",
        |found| is_counter(found, "count"),
        |stage| {
            let page = stage.take(0);
            let count = stage.engine.pcp(CPU, stage.zone()).inspect(|lists| lists.count());
            stage.spoil(|damage| damage.set_count(CPU, stage.zone(), count + 1));
            stage.spoil(|_| assert!(stage.engine.state(page).is_some()));
        },
    ),
    Row::owned(
        "pages on a stack",
        |found| is_counter(found, "pages on the stack"),
        |stage| {
            let page = stage.stacked();
            stage.spoil(|damage| damage.set_stack(CPU, stage.zone(), Some(page), 2));
        },
    ),
    Row::owned(
        "a stack whose links run in a circle",
        |found| is_counter(found, "pages on the stack"),
        |stage| {
            let page = stage.stacked();
            stage.spoil(|damage| damage.set_links(page, Some(page), None));
        },
    ),
    Row::owned(
        "pageblocks owned in part, on no list",
        |found| is_counter(found, "listed pageblocks"),
        |stage| {
            stage.two_fragments();
            stage.spoil(|damage| damage.set_fragments(CPU, stage.zone(), MigrateType::Movable, None, None));
        },
    ),
    Row::bare("the low watermark", are_marks, |stage| set_marks(stage, 100, 50, 200)),
    Row::bare("the high watermark", are_marks, |stage| set_marks(stage, 100, 200, 150)),
];
