//! Damage to the state words of frames, and blocks that contradict their words.

use freehold::base::{MigrateType, Order, Pfn, State};
use freehold::page::ZoneFlag;

use super::Row;
use crate::damage::stage::{FRAMES, RESERVED, Stage};

/// One reference in a state word.
const ONE_REFERENCE: u32 = 1 << 15;
/// The bit of a pinned block, which must have references.
const PINNED: u32 = 1 << 12;

/// Splits a block of two pages after the state of the second one was damaged.
fn split_beside(stage: &'static Stage, second: State) {
    let block = stage.take(1);
    stage.spoil(|damage| damage.set_state(block.offset(1), second));
    stage.engine.split_page(block, Order::new(1)).expect("the block is allocated");
}

/// Frees a block of eight pages after the state of its middle frame was damaged.
fn free_around(stage: &'static Stage, middle: State) {
    let block = stage.take(3);
    stage.spoil(|damage| damage.set_state(block.offset(4), middle));
    stage.free(block, 3);
}

fn free_block(order: u8) -> State {
    State::ZoneFree { order: Order::new(order), migratetype: MigrateType::Movable }
}

fn allocated(order: u8) -> State {
    let order = Order::new(order);
    State::Allocated { order, refs: 1, movable: true, compound: false, poisoned: false, slab: false }
}

/// Adds a reference to the block that a request has claimed.
fn refer_to_claimed(stage: &Stage) {
    let claimed = (0..FRAMES)
        .map(Pfn::new)
        .find(|&pfn| matches!(stage.engine.state(pfn), Some(State::Claimed { .. })))
        .expect("a request has a block");
    stage.spoil(|damage| damage.set_word(claimed, damage.word(claimed) | ONE_REFERENCE));
}

pub(super) const ROWS: &[Row] = &[
    Row::bare("bits of an allocated block", "word: 0x1103 (no valid state) cannot be claimed", |stage| {
        let page = stage.take(0);
        stage.spoil(|damage| damage.set_word(page, (damage.word(page) % ONE_REFERENCE) | PINNED));
        _ = stage.engine.free_frozen_pages(page, Order::ZERO);
    }),
    Row::bare("references of a claimed block", "(no valid state) to Allocated", |stage| {
        let zone = stage.zone();
        stage.engine.damage().set_flag(zone.node(), zone.kind(), ZoneFlag::BoostedWatermark);
        stage.engine.damage().set_boost(zone.node(), zone.kind(), 1);
        stage.spoil_when_asked(refer_to_claimed);
        stage.take(0);
    }),
    Row::bare("an inside that is Reserved", "word: a store must not change Reserved to Allocated", |stage| {
        split_beside(stage, State::Reserved);
    }),
    Row::bare("an inside that is out of use", "word: a store must not change Withheld to Allocated", |stage| {
        split_beside(stage, State::Withheld);
    }),
    Row::bare("an inside that is not there", "word: a store must not change Absent to Allocated", |stage| {
        split_beside(stage, State::Absent);
    }),
    Row::bare("an inside that somebody owns", "word: a store must not change Allocated { order: Order(0)", |stage| {
        split_beside(stage, allocated(0));
    }),
    Row::bare("a free block inside an allocated one", "buddy: frame 0x4 is ZoneFree", |stage| {
        free_around(stage, free_block(2));
    }),
    Row::bare("a page of somebody's inside an allocated block", "buddy: frame 0x4 is Allocated", |stage| {
        free_around(stage, allocated(0));
    }),
    Row::bare("a frame out of use inside a free block", "buddy: frame 0x200 is Withheld", |stage| {
        stage.spoil(|damage| damage.set_state(Pfn::new(512), State::Withheld));
        stage.take(0);
    }),
    Row::bare("a head that is not aligned", "buddy: frame 0x1 is not aligned to order 3", |stage| {
        let block = stage.take(3);
        stage.spoil(|damage| {
            damage.set_state(block.offset(1), allocated(3));
            stage.free(block.offset(1), 3);
        });
    }),
    Row::bare("the head of a free buddy with a page of somebody's inside", "buddy: frame 0x6 is Allocated", |stage| {
        let block = stage.take(2);
        stage.spoil(|damage| damage.set_state(block.offset(6), allocated(0)));
        stage.free(block, 2);
    }),
    Row::bare("the type of a free block's list", "is removed from an empty list", |stage| {
        let block = stage.free_list(10)[2];
        let other = State::ZoneFree { order: Order::MAX, migratetype: MigrateType::Unmovable };
        stage.spoil(|damage| damage.set_state(block, other));
        stage.cut_out(block);
    }),
    Row::bare(
        "the order of a free block",
        "zone: the list of order 10 and type Movable begins with a block of another",
        |stage| {
            let block = stage.free_list(10)[0];
            stage.spoil(|damage| damage.set_state(block, free_block(9)));
            stage.take(10);
        },
    ),
    Row::bare("a free block that looks allocated", "pages are free", |stage| {
        let block = stage.free_list(10)[2];
        stage.spoil(|damage| {
            damage.set_counter(stage.zone(), freehold::page::damage::ZoneCounter::Free, i64::from(RESERVED));
            damage.set_state(block, allocated(10));
            stage.free(block, 10);
        });
    }),
];
