//! Lists that merge drained blocks: each block that leaves is merged with its buddies, wherever they are on this CPU's
//! lists, before the zone lock is taken.

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::policy::{PcpPolicy, Policy};
use freehold::stats::Counts;

use crate::common::{range, with_machine};
use crate::rules::{Engine, free, zone};

const FIRST: u32 = 1024;

/// Runs `run` on a machine with two CPUs. 64 movable pages from `FIRST` on are allocated, and all other pages are free.
fn scene(run: impl FnOnce(&Engine<'_, '_>)) {
    let policy = Policy { pcp: PcpPolicy::Merge, ..Policy::LINUX_6_12 };
    let config = Config { cpu_nodes: &[NodeId(0); 2], policy, ..Config::default() };
    with_machine(&config, &[range(ZoneKind::Normal, 0, 0, 1 << 13)], MinFree::Pages(64), |engine| {
        for pfn in FIRST..FIRST + 64 {
            let taken = engine.isolate_free_page(Pfn::new(pfn), Order::ZERO, Gfp::HIGHUSER_MOVABLE);
            assert_eq!(taken, Ok(true));
        }
        run(engine);
        engine.check().expect("the check must find no error");
    });
}

/// Drains one CPU and returns the counts of this drain.
fn drained(engine: &Engine<'_, '_>, cpu: u16) -> Counts {
    let before = engine.platform().events.counts();
    engine.drain_pages_zone(CpuId(cpu), zone(engine, ZoneKind::Normal));
    engine.platform().events.counts().since(&before)
}

fn freed_to_zone(engine: &Engine<'_, '_>, pfn: u32) -> Option<u8> {
    match engine.state(Pfn::new(pfn)) {
        Some(State::ZoneFree { order, .. }) => Some(order.get()),
        _ => None,
    }
}

#[test]
fn adjacent_pages_drain_as_one_block_in_any_free_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2]] {
        scene(|engine| {
            order.iter().for_each(|at| free(engine, FIRST + at, 0));
            let counts = drained(engine, 0);
            assert_eq!((counts.pcp_drain_blocks, counts.pcp_drain_pages), (1, 4), "{order:?}");
            assert_eq!((counts.zone_lock_acquisitions, counts.zone_lock_links), (1, 1));
            assert_eq!(freed_to_zone(engine, FIRST), Some(2));
        });
    }
}

#[test]
fn drain_merges_blocks_of_several_orders() {
    scene(|engine| {
        // A pair, a single page after it, and a page whose buddy is allocated.
        [2, 3, 4, 7].iter().for_each(|at| free(engine, FIRST + at, 0));
        let counts = drained(engine, 0);
        assert_eq!((counts.pcp_drain_blocks, counts.pcp_drain_pages), (3, 4));
        assert_eq!([2, 4, 7].map(|at| freed_to_zone(engine, FIRST + at)), [Some(1), Some(0), Some(0)]);
    });
}

#[test]
fn buddy_on_another_cpu_is_not_merged() {
    scene(|engine| {
        free(engine, FIRST, 0);
        engine.platform().run_on(1);
        free(engine, FIRST + 1, 0);
        let counts = drained(engine, 0);
        assert_eq!((counts.pcp_drain_blocks, freed_to_zone(engine, FIRST)), (1, Some(0)));
        drained(engine, 1);
        assert_eq!(freed_to_zone(engine, FIRST), Some(1), "the buddies must merge in the zone");
    });
}

/// Buddies leave before their turn: a drain takes them along beyond its page count.
#[test]
fn drained_page_takes_its_buddies_along() {
    scene(|engine| {
        // The limit of the lists is 40 pages. The first page is at the tail; its buddy is freed among the last pages
        // and is near the head.
        let pages: Vec<u32> = (0..64).step_by(2).chain([1, 3, 5, 7, 9, 11, 13, 15]).collect();
        let (last, first) = pages.split_last().expect("the test must hold forty pages");
        first.iter().for_each(|at| free(engine, FIRST + at, 0));
        let lists = engine.pcp(CpuId(0), zone(engine, ZoneKind::Normal));
        assert_eq!(lists.inspect(|lists| (lists.count(), lists.high())), (39, 40));
        let before = engine.platform().events.counts();
        free(engine, FIRST + last, 0);
        let counts = engine.platform().events.counts().since(&before);
        let left = lists.inspect(|lists| lists.count());
        assert_eq!((counts.pcp_drains, counts.pcp_drain_pages), (1, u64::from(40 - left)));
        assert_eq!(freed_to_zone(engine, FIRST), Some(4), "the first sixteen pages must merge");
        assert_eq!(counts.pcp_merge_blocks, u64::from(40 - left), "each merged block must be a single page");
        assert_eq!(counts.pcp_drain_blocks, u64::from(40 - left) - 15);
    });
}
