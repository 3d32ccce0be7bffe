//! Damage to the lists of a zone and of a CPU, and to the hints about them.

use freehold::base::{CpuId, MigrateType, Order, Pfn, State};
use freehold::page::damage::Field;
use freehold::page::{Violation, ZoneFlag};

use super::Row;
use crate::damage::stage::{PAGEBLOCK, Stage};

const CPU: CpuId = CpuId(0);
/// The free list of the largest movable blocks.
const LARGEST: (Order, MigrateType) = (Order::MAX, MigrateType::Movable);

fn is_broken(found: &Violation) -> bool {
    matches!(found, Violation::Links { .. })
}

fn is_wrong_list(found: &Violation) -> bool {
    matches!(found, Violation::WrongList { .. })
}

fn is_owner(found: &Violation) -> bool {
    matches!(found, Violation::Owner { .. })
}

/// Frees a page to its CPU's list. Returns the page and the number of the list.
fn listed(stage: &'static Stage) -> (Pfn, usize) {
    let page = stage.take(0);
    stage.free(page, 0);
    (page, MigrateType::Movable.index())
}

fn set_pages(stage: &'static Stage, list: usize, first: Option<Pfn>, last: Option<Pfn>) {
    stage.spoil(|damage| damage.set_pcp_list(CPU, stage.zone(), list, first, last));
}

pub(super) const ROWS: &[Row] = &[
    Row::bare("a link on", is_broken, |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[1], Some(list[3]), Some(list[0])));
    }),
    Row::bare("a link back", is_broken, |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[1], Some(list[2]), Some(list[3])));
    }),
    Row::bare("links in a circle", is_broken, |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[1], Some(list[1]), Some(list[1])));
    }),
    Row::bare("a link out of the machine", is_broken, |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_links(list[1], Some(Pfn::new(0xffff_fff0)), Some(list[0])));
    }),
    Row::bare("the last of a list", is_broken, |stage| {
        let list = stage.free_list(10);
        stage.spoil(|damage| damage.set_free_list(stage.zone(), LARGEST, Some(list[0]), Some(list[1])));
    }),
    Row::bare("blocks of a list, too few", is_broken, |stage| {
        stage.spoil(|damage| damage.set_blocks(stage.zone(), LARGEST, 1));
    }),
    Row::bare("blocks of a list, too many", is_broken, |stage| {
        stage.spoil(|damage| damage.set_blocks(stage.zone(), LARGEST, 100));
    }),
    Row::bare("a free block that looks claimed", is_wrong_list, |stage| {
        stage.spoil(|damage| damage.set_state(Pfn::new(0), State::Claimed { order: Order::MAX }));
    }),
    Row::bare("a block of another zone", is_wrong_list, |stage| {
        for block in [0, PAGEBLOCK] {
            stage.spoil(|damage| damage.set_pageblock(Pfn::new(block), Field::Zone, 3));
        }
        stage.spoil(|damage| {
            let movable = &stage.engine.zones()[3];
            damage.set_span(movable, Some(Pfn::new(0)..Pfn::new(2 * PAGEBLOCK)));
        });
    }),
    Row::bare(
        "what is said of an empty list",
        |found| matches!(found, Violation::Hint { order, .. } if order.get() == 3),
        |stage| {
            stage.spoil(|damage| damage.set_occupied(stage.zone(), Order::new(3), 1));
        },
    ),
    Row::bare(
        "what is said of a list with blocks",
        |found| matches!(found, Violation::Hint { order, .. } if order.get() == 10),
        |stage| {
            stage.spoil(|damage| damage.set_occupied(stage.zone(), Order::MAX, 0));
        },
    ),
    Row::bare(
        "whether whole pageblocks are few",
        |found| matches!(found, Violation::FewWhole { .. }),
        |stage| {
            let zone = stage.zone();
            stage.spoil(|damage| damage.set_flag(zone.node(), zone.kind(), ZoneFlag::FewWhole));
        },
    ),
    Row::owned("the list of a listed page", is_wrong_list, |stage| {
        let (page, _) = listed(stage);
        stage.spoil(|damage| damage.set_state(page, State::PcpCached { order: Order::ZERO, list: 0, cpu: CPU }));
    }),
    Row::owned("the CPU of a listed page", is_wrong_list, |stage| {
        let (page, list) = listed(stage);
        let cached = State::PcpCached { order: Order::ZERO, list: list as u8, cpu: CpuId(1) };
        stage.spoil(|damage| damage.set_state(page, cached));
    }),
    Row::owned("a listed page that looks claimed", is_wrong_list, |stage| {
        let (page, _) = listed(stage);
        stage.spoil(|damage| damage.set_state(page, State::Claimed { order: Order::ZERO }));
    }),
    Row::owned("the last of a CPU's list", is_broken, |stage| {
        let (page, list) = listed(stage);
        set_pages(stage, list, Some(page), Some(Pfn::new(5000)));
    }),
    Row::owned("a stacked page that looks claimed", is_wrong_list, |stage| {
        let page = stage.stacked();
        stage.spoil(|damage| damage.set_state(page, State::Claimed { order: Order::ZERO }));
    }),
    Row::owned("a pageblock on the list of a CPU that does not own it", is_owner, |stage| {
        stage.two_fragments();
        stage.spoil(|damage| damage.set_owner(Pfn::new(0), Some(CpuId(1))));
    }),
    Row::owned("a link between pageblocks, back", is_broken, |stage| {
        stage.two_fragments();
        stage.spoil(|damage| damage.set_pageblock(Pfn::new(0), Field::Prev, 0));
    }),
    Row::owned("a link between pageblocks, out of the machine", is_broken, |stage| {
        stage.two_fragments();
        stage.spoil(|damage| damage.set_pageblock(Pfn::new(0), Field::Next, 0xffff_fe00));
    }),
    Row::owned("links between pageblocks in a circle", is_broken, |stage| {
        stage.two_fragments();
        stage.spoil(|damage| damage.set_pageblock(Pfn::new(0), Field::Next, PAGEBLOCK));
    }),
    Row::owned(
        "the limit of lists",
        |found| matches!(found, Violation::Limit { cpu: CPU, .. }),
        |stage| {
            stage.spoil(|damage| damage.set_limit(CPU, stage.zone(), 1));
        },
    ),
    Row::owned(
        "the limit of a stack",
        |found| matches!(found, Violation::Limit { cpu: CPU, .. }),
        |stage| {
            stage.spoil(|damage| damage.set_remote_frees_limit(CPU, stage.zone(), 1));
        },
    ),
];
