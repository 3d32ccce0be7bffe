//! Damage to background tasks, and to the record of a run that waits for a block.

use freehold::base::{Gfp, NodeId, Order};
use freehold::page::{Background, ZoneFlag};

use super::Row;
use crate::damage::stage::{MOVABLE, Stage};

const NODE: NodeId = NodeId(0);

/// Wakes kswapd, to remove a boost.
fn wake(stage: &'static Stage) {
    let zone = stage.zone();
    stage.engine.damage().set_boost(zone.node(), zone.kind(), 64);
    stage.engine.damage().set_flag(zone.node(), zone.kind(), ZoneFlag::BoostedWatermark);
    stage.take(0);
}

fn run_to_sleep(stage: &'static Stage) {
    while stage.engine.run_kswapd(NODE) == Background::Working {}
}

pub(super) const ROWS: &[Row] = &[
    Row::bare("phase of a task that is driven", "background task: the driver ended, but the phase is 0", |stage| {
        wake(stage);
        stage.spoil_when_asked(|stage| stage.spoil(|damage| damage.set_kswapd_phase(NODE, 0)));
        run_to_sleep(stage);
    }),
    Row::bare("number of a phase", "background task: 3 is not a phase", |stage| {
        wake(stage);
        stage.spoil(|damage| damage.set_kswapd_phase(NODE, 3));
        run_to_sleep(stage);
    }),
    Row::bare("order of an errand", "errand: 0x0c03 is invalid: order 12, zone 3", |stage| {
        wake(stage);
        stage.spoil(|damage| damage.set_kswapd_errand(NODE, 0x0c03));
        run_to_sleep(stage);
    }),
    Row::bare("zone of an errand", "errand: 0x0009 is invalid: order 0, zone 9", |stage| {
        wake(stage);
        stage.spoil(|damage| damage.set_kswapd_errand(NODE, 0x0009));
        run_to_sleep(stage);
    }),
    Row::bare("whether somebody waits for a block", "free areas: no run waits for a block", |stage| {
        let last_page = MOVABLE | Gfp::MEMALLOC;
        let pages: Vec<_> = core::iter::from_fn(|| stage.engine.alloc_pages(last_page, Order::ZERO).ok()).collect();
        let (odd, even): (Vec<_>, Vec<_>) = pages.into_iter().partition(|page| page.raw() % 2 == 1);
        even.into_iter().for_each(|page| stage.free(page, 0));
        // A run waits for a block while it drains its CPU's lists, after the pages that it could not move.
        stage.spoil_when_asked(|stage| {
            stage.spoil_when_located(|stage| stage.spoil(|damage| damage.set_waiting(stage.zone(), None)));
        });
        stage.engine.alloc_pages(MOVABLE, Order::new(9)).expect_err("no page can be moved, so the request must fail");
        odd.into_iter().for_each(|page| stage.free(page, 0));
    }),
];
