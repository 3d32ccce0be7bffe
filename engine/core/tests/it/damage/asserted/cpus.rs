//! Damage to a CPU's lists and its stack.

use freehold::base::{CpuId, Order, State};

use super::Row;
use crate::damage::stage::Stage;

const CPU: CpuId = CpuId(0);

/// Damages the page count of a CPU's lists while pages are on them, and calls `then`.
fn count(stage: &'static Stage, pages: u32, then: fn(&'static Stage)) {
    let page = stage.take(0);
    stage.spoil(|damage| damage.set_count(CPU, stage.zone(), pages));
    then(stage);
    stage.free(page, 0);
}

/// Damages the state of a page on a CPU's list, and allocates the page.
fn listed_as(stage: &'static Stage, state: State) {
    stage.take(0);
    let first = stage.first_listed();
    stage.spoil(|damage| damage.set_state(first, state));
    stage.take(0);
}

/// Damages the state of a page on a CPU's stack, and drains the stack.
fn stacked_as(stage: &'static Stage, state: State) {
    let page = stage.stacked();
    stage.spoil(|damage| damage.set_state(page, state));
    stage.engine.drain_pages_zone(CPU, stage.zone());
}

/// Damages the page count of a CPU's stack, and drains the stack.
fn stack_counts(stage: &'static Stage, pages: u32) {
    let page = stage.stacked();
    stage.spoil(|damage| damage.set_stack(CPU, stage.zone(), Some(page), pages));
    stage.engine.drain_pages_zone(CPU, stage.zone());
}

pub(super) const ROWS: &[Row] = &[
    Row::listed("pages on lists, none", "per-CPU lists: 1 pages cannot be removed from 0", |stage| {
        count(stage, 0, |stage| _ = stage.take(0));
    }),
    Row::listed("pages on lists, too many", "per-CPU lists: the lists have fewer pages than the count", |stage| {
        count(stage, 1000, |stage| stage.engine.drain_pages_zone(CPU, stage.zone()));
    }),
    Row::listed("pages on lists, far too many", "per-CPU lists: 1 pages cannot be added to", |stage| {
        count(stage, u32::MAX, |_| {});
    }),
    Row::listed("limit of lists", "per-CPU lists: the limit 0 is outside of", |stage| {
        stage.take(0);
        stage.spoil(|damage| damage.set_limit(CPU, stage.zone(), 0));
        stage.engine.drain_pages_zone(CPU, stage.zone());
    }),
    Row::listed("list of a listed page", "list: 4, cpu: CpuId(0) }, but on list 1", |stage| {
        listed_as(stage, State::PcpCached { order: Order::ZERO, list: 4, cpu: CPU });
    }),
    Row::listed("order of a listed page", "per-CPU lists: frame", |stage| {
        listed_as(stage, State::PcpCached { order: Order::new(2), list: 1, cpu: CPU });
    }),
    Row::listed("a listed page that looks free in the zone", "per-CPU lists: frame", |stage| {
        let migratetype = freehold::base::MigrateType::Movable;
        listed_as(stage, State::ZoneFree { order: Order::ZERO, migratetype });
    }),
    Row::owned("pages on a stack, too many", "stack: the count is 5 pages too high", |stage| {
        stack_counts(stage, 6);
    }),
    Row::owned("pages on a stack, none", "is on the stack, but not counted", |stage| stack_counts(stage, 0)),
    Row::owned("a stacked page that looks allocated", "not a pending remote free", |stage| {
        let (order, refs) = (Order::ZERO, 1);
        stacked_as(
            stage,
            State::Allocated { order, refs, movable: true, compound: false, poisoned: false, slab: false },
        );
    }),
    Row::owned("order of a stacked page", "is not aligned to order 3", |stage| {
        let pages = [stage.take(0), stage.take(0)];
        let odd = if pages[0].raw() % 2 == 1 { pages[0] } else { pages[1] };
        stage.run_on(1);
        stage.free(odd, 0);
        stage.run_on(0);
        stage.spoil(|damage| {
            damage.set_state(odd, State::RemotePending { order: Order::new(3) });
            damage.set_stack(CPU, stage.zone(), Some(odd), 8);
        });
        stage.engine.drain_pages_zone(CPU, stage.zone());
    }),
    Row::owned("references of a stacked page", "(no valid state), not a pending remote free", |stage| {
        let page = stage.stacked();
        stage.spoil(|damage| damage.set_word(page, damage.word(page) | 1 << 15));
        stage.engine.drain_pages_zone(CPU, stage.zone());
    }),
    Row::owned("link of a stacked page", "stack: frame", |stage| {
        let page = stage.stacked();
        stage.spoil(|damage| damage.set_links(page, Some(page), None));
        stage.engine.drain_pages_zone(CPU, stage.zone());
    }),
    Row::owned("limit of a stack", "per-CPU lists: the limit of 0 pages on the stack of CPU 0", |stage| {
        stage.stacked();
        stage.spoil(|damage| damage.set_remote_frees_limit(CPU, stage.zone(), 0));
        stage.engine.drain_pages_zone(CPU, stage.zone());
    }),
    Row::owned(
        "order of a page that is returned to its owner",
        "stack: no block of order 1 begins at frame",
        |stage| {
            let pages = [stage.take(0), stage.take(0)];
            let odd = if pages[0].raw() % 2 == 1 { pages[0] } else { pages[1] };
            let (order, refs) = (Order::new(1), 1);
            let pair = State::Allocated { order, refs, movable: true, compound: false, poisoned: false, slab: false };
            stage.run_on(1);
            stage.spoil(|damage| {
                damage.set_state(odd, pair);
                stage.free(odd, 1);
            });
        },
    ),
];
