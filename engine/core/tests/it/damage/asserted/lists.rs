//! Damage to links and ends of lists: the free lists of a zone, and a CPU's lists.

use freehold::base::{CpuId, MigrateType, Order, Pfn, State};

use super::Row;

/// The free list of the largest movable blocks.
const LARGEST: (Order, MigrateType) = (Order::MAX, MigrateType::Movable);
/// A frame to which no list links.
const NOWHERE: Pfn = Pfn::new(5);

pub(super) const ROWS: &[Row] = &[
    Row::bare("link to the next frame", "list: frames 0x400 and 0x5 do not link to each other", |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[1], Some(NOWHERE), Some(list[0])));
        (0..2).for_each(|_| _ = stage.take(10));
    }),
    Row::bare("link to what comes before", "list: frames 0x400 and 0x800 do not link to each other", |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[2], Some(list[3]), Some(NOWHERE)));
        (0..2).for_each(|_| _ = stage.take(10));
    }),
    Row::bare("links of a block in the middle", "list: frame 0x800 is an end of another list", |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[2], None, Some(list[1])));
        stage.cut_out(list[2]);
    }),
    Row::bare("links out of the machine", "list: frames 0x800 and 0xfffffff0 do not link", |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[2], Some(Pfn::new(0xffff_fff0)), Some(list[1])));
        stage.cut_out(list[2]);
    }),
    Row::bare("first of a list", "list: the head, frame 0x800, has a predecessor", |stage| {
        let (block, list) = (stage.take(10), stage.free_list(10));
        stage.spoil(|damage| damage.set_free_list(stage.zone(), LARGEST, Some(list[1]), list.last().copied()));
        stage.free(block, 10);
    }),
    Row::bare("last of a list", "list: the tail, frame 0x400, has a successor", |stage| {
        let (block, list) = (stage.take(10), stage.free_list(10));
        stage.spoil(|damage| damage.set_free_list(stage.zone(), LARGEST, Some(list[0]), Some(list[0])));
        stage.free(block, 10);
    }),
    Row::bare("a list with one end", "list: only one end of the list is set, at frame 0x0", |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_free_list(stage.zone(), LARGEST, Some(list[0]), None));
        stage.take(10);
    }),
    Row::listed("a CPU's list with one end", "list: only one end of the list is set", |stage| {
        let page = stage.take(0);
        let first = stage.first_listed();
        stage.spoil(|damage| damage.set_pcp_list(CpuId(0), stage.zone(), 1, Some(first), None));
        stage.take(0);
        stage.free(page, 0);
    }),
    Row::listed("state of a listed page", "on no list", |stage| {
        stage.take(0);
        let first = stage.first_listed();
        stage.spoil(|damage| damage.set_state(first, State::Interior));
        stage.take(0);
    }),
    Row::listed("a listed page that looks allocated", "is already an end of the list", |stage| {
        let page = stage.take(0);
        let first = stage.first_listed();
        stage.spoil(|damage| {
            damage.set_state(first, stage.engine.state(page).expect("the frames must be online"));
            stage.free(first, 0);
        });
    }),
    Row::owned("a page of a block that is cut, which looks listed", "list: frame 0x5 is already on a list", |stage| {
        let listed = State::ZoneFree { order: Order::ZERO, migratetype: MigrateType::Movable };
        stage.spoil(|damage| damage.set_state(Pfn::new(5), listed));
        stage.take(0);
    }),
];
