//! Damage to frames and pageblocks: their states, and whether these match their surroundings.

use freehold::base::{CpuId, MigrateType, Order, Pfn, State, ZoneKind};
use freehold::page::Violation;
use freehold::page::damage::Field;

use super::Row;
use crate::damage::stage::{AREA, FRAMES, PAGEBLOCK, RESERVED, Stage};

fn set_state(stage: &Stage, pfn: u32, state: State) {
    stage.spoil(|damage| damage.set_state(Pfn::new(pfn), state));
}

fn set_word(stage: &Stage, pfn: u32, bits: u32) {
    stage.spoil(|damage| damage.set_word(Pfn::new(pfn), bits));
}

fn set_block(stage: &Stage, pfn: u32, field: Field, value: u32) {
    stage.spoil(|damage| damage.set_pageblock(Pfn::new(pfn), field, value));
}

fn claimed(order: u8) -> State {
    State::Claimed { order: Order::new(order) }
}

fn free(order: u8, migratetype: MigrateType) -> State {
    State::ZoneFree { order: Order::new(order), migratetype }
}

/// Takes the last pageblock offline, which leaves a hole in the metadata.
fn leave_hole(stage: &'static Stage) {
    let range = Pfn::new(FRAMES - PAGEBLOCK)..Pfn::new(FRAMES);
    stage.engine.offline(range).expect("the frames must be Reserved");
}

/// Splits the first block of the largest order down to pages, and makes two buddies free without merging them.
fn two_free_buddies(stage: &'static Stage) {
    let block = stage.take(1);
    stage.spoil(|damage| {
        let single = State::Allocated {
            order: Order::ZERO,
            refs: 1,
            movable: true,
            compound: false,
            poisoned: false,
            slab: false,
        };
        damage.set_state(block, single);
        damage.set_state(block.offset(1), single);
        stage.free(block, 0);
        damage.set_state(block, claimed(0));
        stage.free(block.offset(1), 0);
        damage.set_state(block, free(0, MigrateType::Movable));
    });
}

pub(super) const ROWS: &[Row] = &[
    Row::bare(
        "a head inside a block",
        |found| matches!(found, Violation::Inside { pfn, .. } if pfn.raw() == 5),
        |stage| {
            set_state(stage, 5, claimed(0));
        },
    ),
    Row::bare(
        "a frame out of use inside a block",
        |found| matches!(found, Violation::Inside { pfn, .. } if pfn.raw() == 5),
        |stage| {
            set_state(stage, 5, State::Withheld);
        },
    ),
    Row::bare(
        "an absent frame inside a block",
        |found| matches!(found, Violation::Inside { pfn, .. } if pfn.raw() == 5),
        |stage| {
            set_state(stage, 5, State::Absent);
        },
    ),
    Row::bare(
        "a head that is not aligned",
        |found| matches!(found, Violation::Inside { pfn, .. } if pfn.raw() == RESERVED + 1),
        |stage| {
            set_state(stage, RESERVED + 1, claimed(1));
        },
    ),
    Row::bare(
        "a frame in use in a hole",
        |found| matches!(found, Violation::Inside { pfn, .. } if pfn.raw() == FRAMES - 1),
        |stage| {
            leave_hole(stage);
            set_state(stage, FRAMES - 1, State::Reserved);
        },
    ),
    Row::bare(
        "a head that is gone",
        |found| matches!(found, Violation::Orphan { pfn } if pfn.raw() == 0),
        |stage| {
            set_state(stage, 0, State::Interior);
        },
    ),
    Row::bare("two buddies that are free", |found| matches!(found, Violation::Unmerged { .. }), two_free_buddies),
    Row::bare(
        "a type that no list has",
        |found| matches!(found, Violation::WrongType { listed: MigrateType::Movable, .. }),
        |stage| {
            set_block(stage, 0, Field::MigrateType, MigrateType::Unmovable as u32);
        },
    ),
    Row::bare(
        "a word of no state",
        |found| matches!(found, Violation::Word { bits: 9, .. }),
        |stage| {
            set_word(stage, RESERVED, 9);
        },
    ),
    Row::bare(
        "a word of no state in a hole",
        |found| matches!(found, Violation::Word { bits: 15, .. }),
        |stage| {
            leave_hole(stage);
            set_word(stage, FRAMES - 1, 15);
        },
    ),
    Row::bare(
        "a claimed block with references",
        |found| matches!(found, Violation::Word { pfn, .. } if pfn.raw() == RESERVED),
        |stage| {
            set_word(stage, RESERVED, 3 << 15 | 8);
        },
    ),
    Row::bare(
        "a block of an order that there is not",
        |found| matches!(found, Violation::Word { bits: 0xf3, .. }),
        |stage| {
            set_word(stage, RESERVED, 0xf3);
        },
    ),
    Row::bare(
        "a block in two zones",
        |found| matches!(found, Violation::Across { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, PAGEBLOCK, Field::Zone, ZoneKind::Dma32 as u32);
        },
    ),
    Row::bare(
        "a block partly in a hole",
        |found| matches!(found, Violation::Across { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, PAGEBLOCK, Field::Zone, u32::from(u8::MAX));
        },
    ),
    Row::bare(
        "free pages before the span",
        |found| matches!(found, Violation::Span { pfn, .. } if pfn.raw() == 0),
        |stage| {
            stage.spoil(|damage| damage.set_span(stage.zone(), Some(Pfn::new(1)..Pfn::new(FRAMES))));
        },
    ),
    Row::bare(
        "Reserved pages outside the span",
        |found| matches!(found, Violation::Span { pfn, .. } if pfn.raw() == FRAMES - 1),
        |stage| {
            stage.spoil(|damage| damage.set_span(stage.zone(), Some(Pfn::new(0)..Pfn::new(FRAMES - 1))));
        },
    ),
    Row::bare(
        "a zone that there is not",
        |found| matches!(found, Violation::Zone { zone: 4, .. }),
        |stage| {
            set_block(stage, 0, Field::Zone, 4);
        },
    ),
    Row::bare(
        "a type that there is not",
        |found| matches!(found, Violation::Type { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::MigrateType, 6);
        },
    ),
    Row::bare(
        "a kept type that there is not",
        |found| matches!(found, Violation::Type { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::MigrateType, MigrateType::Isolate as u32);
            set_block(stage, 0, Field::Isolations, 1);
            set_block(stage, 0, Field::Kept, 6);
        },
    ),
    Row::bare(
        "a kept type that is none to go back to",
        |found| matches!(found, Violation::Type { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::MigrateType, MigrateType::Isolate as u32);
            set_block(stage, 0, Field::Isolations, 1);
            set_block(stage, 0, Field::Kept, MigrateType::Isolate as u32);
        },
    ),
    Row::bare(
        "isolated by nobody",
        |found| matches!(found, Violation::Isolation { isolations: 0, .. }),
        |stage| {
            set_block(stage, 0, Field::MigrateType, MigrateType::Isolate as u32);
        },
    ),
    Row::bare(
        "an isolation that was not undone",
        |found| matches!(found, Violation::Isolation { isolations: 2, .. }),
        |stage| {
            set_block(stage, 0, Field::Isolations, 2);
        },
    ),
    Row::bare(
        "an owner that there is not",
        |found| matches!(found, Violation::Owner { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::Owner, 3);
        },
    ),
    Row::bare(
        "an owner of a whole pageblock",
        |found| matches!(found, Violation::Owner { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::Owner, 1);
        },
    ),
    Row::bare(
        "a pageblock that its owner opened early",
        |found| matches!(found, Violation::OpenedEarly { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::OpenedEarly, 1);
        },
    ),
    Row::bare(
        "an owner of an area's pageblock",
        |found| matches!(found, Violation::Owner { .. }),
        |stage| {
            stage.spoil(|damage| damage.set_owner(Pfn::new(AREA.0), Some(CpuId(0))));
        },
    ),
    Row::bare(
        "an owner of a pageblock in part, which it will not find",
        |found| matches!(found, Violation::Owner { .. }),
        |stage| {
            stage.take(0);
            set_block(stage, 0, Field::Owner, 1);
        },
    ),
    Row::bare(
        "a pageblock that is nobody's, and on a list",
        |found| matches!(found, Violation::Owner { pfn } if pfn.raw() == 0),
        |stage| {
            set_block(stage, 0, Field::Next, PAGEBLOCK);
        },
    ),
];
