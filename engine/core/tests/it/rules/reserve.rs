//! The high-atomic reserve under the rivals of the pinned kernel's rule: each in the scene in which that rule drives
//! the reserve to its cap, the type of a block that leaves the reserve, and the effects of switching off single side
//! effects.

use fastrand::Rng;
use freehold::Policy;
use freehold::base::{Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::policy::flags::AllocFlags;
use freehold::policy::watermark::Watermarks;
use freehold::policy::{HighAtomicPolicy, ReserveLeaving, ReserveList, ReservePolicy, ReserveWatermark};
use freehold::stats::Counts;

use crate::common::{range, with_machine};
use crate::rules::highatomic::{CAP, requests, short_under, take_all_but_the_reserve};
use crate::rules::{Engine, exhaust, free, type_at, zone};

const RIVALS: [HighAtomicPolicy; 5] = [
    HighAtomicPolicy::Linux,
    HighAtomicPolicy::SkipCostly,
    HighAtomicPolicy::PastLists,
    HighAtomicPolicy::ReuseFirst,
    HighAtomicPolicy::GiveBack,
];

fn with(highatomic: HighAtomicPolicy) -> Policy {
    Policy { highatomic, ..Policy::LINUX_6_12 }
}

fn reserved(engine: &Engine<'_, '_>) -> u64 {
    zone(engine, ZoneKind::Normal).reserved_highatomic()
}

fn counts_of(engine: &Engine<'_, '_>, run: impl FnOnce()) -> Counts {
    let before = engine.platform().events.counts();
    run();
    engine.platform().events.counts().since(&before)
}

fn atomic(engine: &Engine<'_, '_>, order: u8) -> Pfn {
    engine.alloc_pages(Gfp::ATOMIC | Gfp::COMP, Order::new(order)).expect("the reserve must serve this request")
}

/// Makes 3000 requests of an order in the scene. Returns the number of reserved pages at the end, and the counts.
fn of_3000(highatomic: HighAtomicPolicy, order: u8) -> (u64, Counts) {
    let mut found = None;
    short_under(with(highatomic), |engine| {
        let counts = counts_of(engine, || requests(engine, order, 3000));
        found = Some((reserved(engine), counts));
    });
    found.expect("the scene must have run")
}

#[test]
fn linux_policy_serves_small_orders_from_lists() {
    for order in 1..=3 {
        let (pages, counts) = of_3000(HighAtomicPolicy::Linux, order);
        assert_eq!((pages, counts.reserves), (CAP, CAP / 512));
        assert_eq!((counts.highatomic_from_reserve, counts.highatomic_from_ordinary), (0, 0), "order {order}");
        assert_eq!(counts.highatomic_from_list, 3000);
    }
}

#[test]
fn skip_costly_reserves_nothing_for_small_orders() {
    for order in 1..=3 {
        let (pages, counts) = of_3000(HighAtomicPolicy::SkipCostly, order);
        assert_eq!((pages, counts.failures), (0, 0));
        assert_eq!(counts.highatomic_from_list, 3000);
    }
}

/// Requests of orders without lists use the reserve under every rule, so one reserved pageblock is enough.
#[test]
fn order_4_reserves_one_pageblock_under_every_policy() {
    for rival in RIVALS {
        let (pages, counts) = of_3000(rival, 4);
        assert_eq!(pages, 512, "{rival:?}");
        assert_eq!((counts.highatomic_from_reserve, counts.highatomic_from_ordinary), (2999, 1), "{rival:?}");
    }
}

/// A freed page of a reserved block goes to a movable list, where atomic requests do not search. The reserve runs out
/// although all of it is free, and grows.
#[test]
fn reuse_first_reserve_grows_by_pages_on_movable_lists() {
    let (pages, counts) = of_3000(HighAtomicPolicy::ReuseFirst, 1);
    assert_eq!(pages, CAP);
    assert!(counts.highatomic_from_reserve > 1000, "{counts:?}");
    assert!(counts.reserves <= counts.highatomic_from_ordinary, "a request that a list serves must not reserve");
}

#[test]
fn drained_lists_limit_reuse_first_to_one_block() {
    for (rival, pages) in [(HighAtomicPolicy::ReuseFirst, 512), (HighAtomicPolicy::Linux, CAP)] {
        short_under(with(rival), |engine| {
            for _ in 0..3000 {
                let pfn = atomic(engine, 2);
                free(engine, pfn.raw(), 2);
                engine.drain_all_pages();
            }
            assert_eq!(reserved(engine), pages, "{rival:?}");
        });
    }
}

/// Runs `scene` on a machine with one reserved block and more free pages than its low watermark.
fn with_a_block_to_spare(rival: HighAtomicPolicy, scene: impl FnOnce(&Engine<'_, '_>)) {
    short_under(with(rival), |engine| {
        requests(engine, 4, 1);
        engine.set_watermarks(zone(engine, ZoneKind::Normal), Watermarks::given(100, 200, 300));
        assert_eq!(reserved(engine), 512);
        scene(engine);
    });
}

#[test]
fn only_reuse_first_uses_the_reserve_above_low() {
    for rival in RIVALS {
        with_a_block_to_spare(rival, |engine| {
            let counts = counts_of(engine, || assert!(engine.alloc_pages(Gfp::ATOMIC, Order::new(1)).is_ok()));
            let expected = u64::from(rival == HighAtomicPolicy::ReuseFirst);
            assert_eq!(counts.highatomic_from_reserve, expected, "{rival:?}");
            assert_eq!(counts.reserves, 0, "{rival:?}: no block may be reserved above the low watermark");
        });
    }
}

#[test]
fn reuse_first_uses_a_filled_list_without_a_refill() {
    with_a_block_to_spare(HighAtomicPolicy::ReuseFirst, |engine| {
        let order = Order::new(1);
        let counts = counts_of(engine, || _ = atomic(engine, 1));
        assert_eq!((counts.pcp_refills, counts.highatomic_from_reserve), (0, 1));
        // A request that can wait refills the list.
        let counts =
            counts_of(engine, || _ = engine.alloc_pages(Gfp::KERNEL, order).expect("enough memory must be free"));
        assert_eq!(counts.pcp_refills, 1);
        let counts = counts_of(engine, || _ = atomic(engine, 1));
        assert_eq!((counts.pcp_refills, counts.highatomic_from_list), (0, 1));
    });
}

/// Returns the number of reserved pages after each of `ticks` runs of kcompactd's timer.
fn after_ticks(engine: &Engine<'_, '_>, ticks: usize) -> Vec<u64> {
    let mut counts = Vec::new();
    for _ in 0..ticks {
        engine.tick_kcompactd(NodeId(0));
        counts.push(reserved(engine));
    }
    counts
}

/// Returns the rival policy without proactive compaction.
fn without_proactive_compaction(rival: HighAtomicPolicy) -> Policy {
    let mut policy = with(rival);
    policy.numbers.compaction_proactiveness = Some(0);
    policy
}

#[test]
fn give_back_halves_the_idle_reserve_down_to_a_block() {
    for rival in RIVALS {
        short_under(without_proactive_compaction(rival), |engine| {
            requests(engine, 3, 3000);
            engine.drain_all_pages();
            let grown = reserved(engine);
            let left = after_ticks(engine, 5);
            match rival {
                // The first tick finds that fewer pages were free before. The next ticks return half of five
                // pageblocks, half of two, and none.
                HighAtomicPolicy::GiveBack => assert_eq!(left, [2560, 1024, 512, 512, 512]),
                _ => assert_eq!(left, [grown; 5], "{rival:?}"),
            }
        });
    }
}

#[test]
fn give_back_keeps_recently_used_blocks() {
    short_under(without_proactive_compaction(HighAtomicPolicy::GiveBack), |engine| {
        requests(engine, 3, 3000);
        engine.drain_all_pages();
        after_ticks(engine, 1);
        // A burst allocates the whole reserve and frees it before the next tick.
        let burst: Vec<_> = (0..CAP >> 4).map(|_| atomic(engine, 4)).collect();
        assert_eq!(zone(engine, ZoneKind::Normal).free_highatomic(), 0);
        burst.into_iter().for_each(|pfn| free(engine, pfn.raw(), 4));
        assert_eq!(after_ticks(engine, 2), [2560, 1024], "a block counts as idle from the next tick on");
    });
}

/// Returns the number of free movable pageblocks in the Normal zone.
fn count_movable_pageblocks(engine: &Engine<'_, '_>) -> u32 {
    zone(engine, ZoneKind::Normal).inspect(|areas| {
        let [single, double] = [9, 10].map(|order| areas.area(Order::new(order)).len(MigrateType::Movable));
        single + 2 * double
    })
}

#[test]
fn returned_reserve_is_movable_and_free() {
    short_under(without_proactive_compaction(HighAtomicPolicy::GiveBack), |engine| {
        requests(engine, 3, 3000);
        engine.drain_all_pages();
        let zone = zone(engine, ZoneKind::Normal);
        let before = (zone.free_pages(), count_movable_pageblocks(engine));
        let counts = counts_of(engine, || _ = after_ticks(engine, 2));
        assert_eq!((zone.free_pages(), count_movable_pageblocks(engine)), (before.0, before.1 + 3));
        assert_eq!(counts.unreserves, 3);
    });
}

/// The pinned kernel does not record the type that a pageblock had before it was reserved.
#[test]
fn unreserved_block_takes_the_requested_type() {
    let askers = [
        (Gfp::KERNEL, MigrateType::Unmovable),
        (Gfp::HIGHUSER_MOVABLE, MigrateType::Movable),
        (Gfp::KERNEL | Gfp::RECLAIMABLE, MigrateType::Reclaimable),
    ];
    for (gfp, migratetype) in askers {
        short_under(Policy::LINUX_6_12, |engine| {
            // An unmovable page makes the pageblock Unmovable before it is reserved.
            let page = engine.alloc_pages(Gfp::KERNEL, Order::new(4)).expect("enough memory must be free");
            assert_eq!(type_at(engine, page.raw()), MigrateType::Unmovable);
            let burst = atomic(engine, 4);
            assert_eq!(type_at(engine, burst.raw()), MigrateType::HighAtomic);
            assert_eq!(
                burst.align_down(Order::new(9)),
                page.align_down(Order::new(9)),
                "both pages must be in the same pageblock"
            );
            take_all_but_the_reserve(engine);
            let served = engine.alloc_pages(gfp, Order::ZERO).expect("the reserve must serve this request");
            assert_eq!(
                type_at(engine, served.raw()),
                migratetype,
                "the pageblock must get the requester's type, not its previous type"
            );
            assert_eq!(served.align_down(Order::new(9)), page.align_down(Order::new(9)));
            assert_eq!(reserved(engine), 0);
        });
    }
}

#[test]
fn unreserved_block_stays_unmovable_by_policy() {
    let unmovable = ReservePolicy { leaving: ReserveLeaving::Unmovable, ..ReservePolicy::LINUX };
    for (reserve, migratetype) in [(ReservePolicy::LINUX, MigrateType::Movable), (unmovable, MigrateType::Unmovable)] {
        short_under(Policy { reserve, ..Policy::LINUX_6_12 }, |engine| {
            // More than half of the block is allocated, so no other request can claim it.
            engine.alloc_pages(Gfp::KERNEL, Order::new(8)).expect("enough memory must be free");
            atomic(engine, 4);
            take_all_but_the_reserve(engine);
            let served =
                engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("the reserve must serve this request");
            assert_eq!((type_at(engine, served.raw()), reserved(engine)), (migratetype, 0));
        });
    }
}

/// Runs `scene` on a zone whose free memory is a reserve of whole blocks, and single pages.
fn whole_blocks_in_reserve_only(reserve: ReservePolicy, scene: impl FnOnce(&Engine<'_, '_>)) {
    short_under(Policy { reserve, ..Policy::LINUX_6_12 }, |engine| {
        requests(engine, 3, 3000);
        let zone = zone(engine, ZoneKind::Normal);
        engine.set_watermarks(zone, Watermarks::given(0, 0, 0));
        engine.drain_all_pages();
        let pages = exhaust(engine, Gfp::HIGHUSER_MOVABLE | Gfp::NORETRY, 0);
        pages.iter().step_by(2).for_each(|pfn| free(engine, pfn.raw(), 0));
        engine.drain_all_pages();
        assert!(zone.free_pages() - zone.free_highatomic() > 1024, "single pages");
        assert_eq!(zone.free_highatomic(), CAP);
        scene(engine);
    });
}

#[test]
fn open_list_lends_whole_blocks_to_movable_requests() {
    let open = ReservePolicy { list: ReserveList::Open, ..ReservePolicy::LINUX };
    let order = Order::new(9);
    whole_blocks_in_reserve_only(ReservePolicy::LINUX, |engine| {
        assert!(engine.alloc_pages(Gfp::TRANSHUGE_LIGHT, order).is_err(), "closed");
    });
    whole_blocks_in_reserve_only(open, |engine| {
        let part = engine.alloc_pages(Gfp::TRANSHUGE_LIGHT, Order::new(8));
        assert!(part.is_err(), "parts of pageblocks must not be lent");
        let unmovable = engine.alloc_pages(Gfp::TRANSHUGE_LIGHT.difference(Gfp::MOVABLE), order);
        assert!(unmovable.is_err(), "only movable requests may borrow");
        let pfn = engine.alloc_pages(Gfp::TRANSHUGE_LIGHT, order).expect("a reserved block is free");
        assert_eq!((type_at(engine, pfn.raw()), reserved(engine)), (MigrateType::HighAtomic, CAP), "still reserved");
        free(engine, pfn.raw(), 9);
        engine.drain_all_pages();
        assert_eq!(zone(engine, ZoneKind::Normal).free_highatomic(), CAP);
    });
}

#[test]
fn counted_reserve_pages_raise_the_watermark_check() {
    let counted = ReservePolicy { watermark: ReserveWatermark::Counted, ..ReservePolicy::LINUX };
    for (reserve, passes) in [(ReservePolicy::LINUX, false), (counted, true)] {
        short_under(Policy { reserve, ..Policy::LINUX_6_12 }, |engine| {
            requests(engine, 3, 3000);
            let zone = zone(engine, ZoneKind::Normal);
            let mark = zone.free_pages() - zone.free_highatomic() / 2;
            let is_above = zone.watermark_ok(Order::ZERO, mark, ZoneKind::Normal, AllocFlags::empty());
            assert_eq!(is_above, passes, "{reserve:?}");
        });
    }
}

/// Random transitions into and out of the reserve, with a check after every hundredth step and at the end.
#[test]
fn reserve_counters_stay_exact_under_every_policy() {
    let open = ReservePolicy { list: ReserveList::Open, ..ReservePolicy::LINUX };
    for (seed, rival) in (0..).zip(RIVALS) {
        for reserve in [ReservePolicy::LINUX, open] {
            let policy = Policy { reserve, ..with(rival) };
            let config = Config { policy, cpu_nodes: &[NodeId(0); 2], ..Config::default() };
            let memory = [range(ZoneKind::Normal, 0, 0, 64 * 1024)];
            with_machine(&config, &memory, MinFree::Pages(4096), |engine| {
                // Permanent allocations leave few pages above the low watermark.
                while zone(engine, ZoneKind::Normal).free_pages() > 5000 {
                    engine.alloc_pages(Gfp::HIGHUSER_MOVABLE, Order::ZERO).expect("enough memory must be free");
                }
                wander(engine, Rng::with_seed(seed));
            });
        }
    }
}

fn wander(engine: &Engine<'_, '_>, mut rng: Rng) {
    let kinds = [Gfp::ATOMIC, Gfp::ATOMIC, Gfp::KERNEL, Gfp::HIGHUSER_MOVABLE | Gfp::NORETRY];
    let mut held: Vec<(Pfn, Order)> = Vec::new();
    let mut grown = 0;
    for step in 0..4000 {
        engine.platform().run_on(rng.u16(0..engine.cpus()));
        match rng.u32(0..40) {
            0 => engine.drain_all_pages(),
            1 => engine.tick_kcompactd(NodeId(0)),
            2..=20 => {
                let (gfp, order) = (kinds[rng.usize(0..kinds.len())], Order::new(rng.u8(0..=9)));
                held.extend(engine.alloc_pages(gfp | Gfp::COMP, order).ok().map(|pfn| (pfn, order)));
            }
            _ if held.is_empty() => {}
            _ => {
                let (pfn, order) = held.swap_remove(rng.usize(0..held.len()));
                free(engine, pfn.raw(), order.get());
            }
        }
        grown = grown.max(reserved(engine));
        if step % 100 == 0 {
            engine.check().expect("the reserve is counted");
        }
    }
    engine.check().expect("the reserve is counted");
    assert!(grown > 0, "the random walk never used the reserve");
}
