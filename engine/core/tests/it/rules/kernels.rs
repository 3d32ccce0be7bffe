//! Rules that changed after the pinned kernel, each in a scene in which the old and the new rule differ.
//! linux: mm/page_alloc.c:free_frozen_page_commit, get_page_from_freelist, __alloc_pages_slowpath;
//! mm/vmscan.c:balance_pgdat, kswapd_try_clear_hopeless, compaction_ready;
//! mm/compaction.c:compaction_suit_allocation_order

use core::mem::MaybeUninit;

use freehold::Policy;
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Background, Config, MinFree, Range, ZoneFlag};
use freehold::policy::compaction::{CmaRoom, CompactionPolicy, SparedZones};
use freehold::policy::kswapd::{BoostRuns, BusyNodes, Hope, KswapdPolicy};
use freehold::policy::slowpath::RetryPolicy;
use freehold::policy::{DrainPolicy, HighAtomicPolicy};

use crate::common::{Hooks, Memory, build, range, with_machine};
use crate::rules::lists::drains;
use crate::rules::reclaim::{Cache, QUIET, with_cache};
use crate::rules::{Engine, alloc, bare, exhaust, free, linux, zone};

const NODE: NodeId = NodeId(0);
/// Flags of a request for a movable page that wakes kswapd but makes no other effort.
const WAKING: Gfp = QUIET.union(Gfp::KSWAPD_RECLAIM);

/// Returns a configuration with one rule changed.
fn with(config: Config<'static>, change: impl FnOnce(&mut Policy)) -> Config<'static> {
    let mut policy = config.policy;
    change(&mut policy);
    Config { policy, ..config }
}

fn small() -> [Range; 1] {
    [range(ZoneKind::Normal, 0, 0, 1 << 13)]
}

fn run_to_sleep(engine: &Engine<'_, '_>) {
    (0..10_000).find(|_| engine.run_kswapd(NODE) == Background::Asleep).expect("kswapd must go to sleep");
}

#[test]
fn drain_policy_selects_one_drain_or_batches() {
    let [whole, batched] = [DrainPolicy::Whole, DrainPolicy::Batched].map(|drain| {
        let memory = [range(ZoneKind::Normal, 0, 0, 1 << 18)];
        with_machine(&with(linux(), |policy| policy.drain = drain), &memory, MinFree::BySize, |engine| {
            let pages: Vec<u32> = (0..40_000).map(|_| alloc(engine, Gfp::KERNEL, 0)).collect();
            engine.platform().events.take();
            pages.into_iter().for_each(|page| free(engine, page, 0));
            drains(engine)
        })
    });
    assert!(whole.iter().any(|&pages| pages > 1000), "{whole:?}");
    assert!(batched.iter().all(|&pages| pages <= 63), "a batch is 63 pages");
    assert_eq!(
        whole.iter().sum::<u32>(),
        batched.iter().sum::<u32>(),
        "both policies must drain the same number of single pages"
    );
}

#[test]
fn reuse_first_requests_still_tune_the_list() {
    for gfp in [Gfp::ATOMIC, Gfp::KERNEL] {
        let mut grown = 0;
        let policy = Policy { highatomic: HighAtomicPolicy::ReuseFirst, ..Policy::LINUX_6_12 };
        let memory = [range(ZoneKind::Normal, 0, 0, 1 << 18)];
        with_machine(&Config { policy, ..linux() }, &memory, MinFree::BySize, |engine| {
            let zone = zone(engine, ZoneKind::Normal);
            let lists = engine.pcp(freehold::base::CpuId(0), zone);
            let before = lists.inspect(|lists| lists.high());
            alloc(engine, gfp, 2);
            let (count, high) = lists.inspect(|lists| (lists.count(), lists.high()));
            assert_eq!(count > 0, gfp == Gfp::KERNEL, "only the GFP_KERNEL request refills the list");
            grown = high - before;
        });
        assert_eq!(grown, 63, "{gfp:?}");
    }
}

/// Runs `scene` on two nodes of 32 MiB, with the CPU near the first one. The first node's kswapd is awake, and its zone
/// is between the low and the high watermark.
fn with_a_busy_node(nodes: BusyNodes, scene: impl FnOnce(&Engine<'_, '_>, &Cache)) {
    let config = with(Config { nodes: 2, ..bare() }, |policy| policy.kswapd.nodes = nodes);
    let memory = [range(ZoneKind::Normal, 0, 0, 1 << 13), range(ZoneKind::Normal, 1, 1 << 13, 1 << 14)];
    let cache = Cache::default();
    with_machine(&config, &memory, MinFree::Pages(256), |engine| {
        engine.platform().answer_with(&cache);
        let zone = zone(engine, ZoneKind::Normal);
        let here = QUIET | Gfp::THISNODE;
        while zone.free_pages() > zone.watermarks().low {
            cache.pages.borrow_mut().push(Pfn::new(alloc(engine, here, 0)));
        }
        (0..2).for_each(|_| cache.pages.borrow_mut().push(Pfn::new(alloc(engine, here | Gfp::KSWAPD_RECLAIM, 0))));
        assert_eq!(cache.kswapd.get(), 1);
        let first = cache.pages.borrow()[0];
        cache.drop_where(engine, |page| page.raw() < first.raw() + 8);
        assert!(zone.free_pages() > zone.watermarks().low && zone.free_pages() < zone.watermarks().high);
        scene(engine, &cache);
        engine.check().expect("the check must find no error");
    });
}

#[test]
fn spared_policy_skips_a_node_with_active_kswapd() {
    for (nodes, near) in [(BusyNodes::Used, true), (BusyNodes::Spared, false)] {
        with_a_busy_node(nodes, |engine, cache| {
            assert_eq!(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0) < 1 << 13, near, "{nodes:?}");
            assert!(
                alloc(engine, Gfp::HIGHUSER_MOVABLE | Gfp::THISNODE, 0) < 1 << 13,
                "a request with THISNODE must use its node"
            );
            cache.drop_where(engine, |_| true);
            assert_eq!(
                alloc(engine, Gfp::HIGHUSER_MOVABLE, 0) < 1 << 13,
                near,
                "{nodes:?}: the node counts as busy until kswapd has run"
            );
            run_to_sleep(engine);
            assert!(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0) < 1 << 13, "kswapd sleeps, so the near node must be used");
        });
    }
}

/// Runs `scene` after kswapd has given up on a node from which nothing can be reclaimed.
fn with_no_hope(hope: Hope, config: Config<'static>, memory: &[Range], scene: impl FnOnce(&Engine<'_, '_>, &Cache)) {
    with_cache(&with(config, |policy| policy.kswapd.hope = hope), memory, 0, |engine, cache| {
        cache.drop_where(engine, |page| page.raw() < 60);
        wake(engine, cache);
        run_to_sleep(engine);
        wake(engine, cache);
        assert_eq!(cache.kswapd.get(), 1, "kswapd has given up on the node");
        scene(engine, cache);
    });
}

fn wake(engine: &Engine<'_, '_>, cache: &Cache) {
    _ = engine.alloc_pages(WAKING | Gfp::THISNODE, Order::ZERO).map(|page| cache.pages.borrow_mut().push(page));
}

#[test]
fn reclaimed_page_resets_kswapd_failures_by_policy() {
    for (hope, woken) in [(Hope::Reclaim, 2), (Hope::Drains, 2), (Hope::Balance, 1)] {
        with_no_hope(hope, bare(), &small(), |engine, cache| {
            cache.at_once.set(1);
            while engine.platform().events.counts().pgsteal_direct == 0 {
                let page = Pfn::new(alloc(engine, Gfp::HIGHUSER_MOVABLE, 0));
                cache.pages.borrow_mut().push(page);
            }
            wake(engine, cache);
            assert_eq!(cache.kswapd.get(), woken, "{hope:?}");
        });
    }
}

#[test]
fn drain_resets_kswapd_failures_on_multiple_nodes() {
    let two = [range(ZoneKind::Normal, 0, 0, 1 << 13), range(ZoneKind::Normal, 1, 1 << 13, 1 << 14)];
    let cases = [(Hope::Reclaim, 2, 1), (Hope::Drains, 2, 2), (Hope::Balance, 2, 2), (Hope::Drains, 1, 1)];
    for (hope, nodes, woken) in cases {
        with_no_hope(hope, Config { nodes, ..linux() }, &two[..usize::from(nodes)], |engine, cache| {
            let zone = zone(engine, ZoneKind::Normal);
            cache.drop_where(engine, |page| page.raw() < 1 << 13);
            assert!(!zone.has(ZoneFlag::BelowHigh), "the drain must clear the flag");
            while zone.free_pages() >= zone.watermarks().low {
                cache.pages.borrow_mut().push(Pfn::new(alloc(engine, QUIET | Gfp::THISNODE, 0)));
            }
            (0..200).for_each(|_| wake(engine, cache));
            assert_eq!(cache.kswapd.get(), woken, "{hope:?}, {nodes} nodes");
        });
    }
}

#[test]
fn fruitless_boost_runs_are_excused_by_policy() {
    for (boosts, woken) in [(BoostRuns::Counted, 16), (BoostRuns::Excused, 20)] {
        with_cache(&with(bare(), |policy| policy.kswapd.boosts = boosts), &small(), 0, |engine, cache| {
            let zone = zone(engine, ZoneKind::Normal);
            cache.drop_where(engine, |page| page.raw() < 2048);
            for _ in 0..20 {
                engine.damage().set_boost(zone.node(), zone.kind(), 512);
                engine.damage().set_flag(zone.node(), zone.kind(), ZoneFlag::BoostedWatermark);
                let page = alloc(engine, WAKING, 0);
                free(engine, page, 0);
                run_to_sleep(engine);
            }
            assert_eq!(cache.kswapd.get(), woken, "{boosts:?}");
            engine.damage().set_boost(zone.node(), zone.kind(), 0);
        });
    }
}

#[test]
fn retry_policy_decides_reclaim_for_a_huge_page() {
    for (retry, asked) in [(RetryPolicy::ByOutcome, false), (RetryPolicy::OneRound, true)] {
        with_cache(&with(bare(), |policy| policy.retry = retry), &small(), 0, |engine, cache| {
            engine
                .alloc_pages(Gfp::TRANSHUGE | Gfp::NORETRY, Order::new(9))
                .expect_err("no page is free, so the request must fail");
            assert_eq!(!cache.asked.take().is_empty(), asked, "{retry:?}");
            let here = Gfp::TRANSHUGE | Gfp::NORETRY | Gfp::THISNODE;
            engine.alloc_pages(here, Order::new(9)).expect_err("no page is free, so the request must fail");
            assert!(
                cache.asked.take().is_empty(),
                "{retry:?}: another node may have a free page, so reclaim must not be called"
            );
        });
    }
}

/// 136 single pages are free: more than the high watermark (96) plus twice the block (32). With the distance from min
/// to low, 16 pages, they are not enough.
#[test]
fn reclaim_spares_zones_by_the_configured_mark() {
    for (spared, asked) in [(SparedZones::WithRoom, false), (SparedZones::AtHighMark, true)] {
        let compaction = CompactionPolicy { spared, ..CompactionPolicy::LINUX_6_12 };
        with_cache(&with(bare(), |policy| policy.compaction = compaction), &small(), 0, |engine, cache| {
            cache.drop_where(engine, |page| page.raw() < 272 && page.raw().is_multiple_of(2));
            engine
                .alloc_pages(Gfp::KERNEL | Gfp::NORETRY, Order::new(4))
                .expect_err("no page can be moved, so the request must fail");
            assert_eq!(!cache.asked.take().is_empty(), asked, "{spared:?}");
        });
    }
}

/// A platform that can move pages but refuses all moves.
struct Mover;

impl Hooks for Mover {}

/// Two pageblocks of a CMA area are free for movable requests, and no other pages are free.
#[test]
fn cma_room_policy_decides_huge_page_compaction() {
    for (cma, is_tried) in [(CmaRoom::Counted, true), (CmaRoom::Apart, false)] {
        let compaction = CompactionPolicy { cma, ..CompactionPolicy::LINUX_6_12 };
        let config = with(bare(), |policy| policy.compaction = compaction);
        let ranges = [range(ZoneKind::Normal, 0, 0, 1 << 13)];
        let (mut memory, mut bitmap) = (Memory::new(&config, &ranges), [const { MaybeUninit::uninit() }; 1024]);
        let engine = build(&config, &ranges, &mut memory);
        let (start, end) = (Pfn::new(6 * 512), Pfn::new(10 * 512));
        let _area = engine.reserve_cma(start..end, Order::ZERO, &mut bitmap).expect("whole pageblocks");
        engine.release(Pfn::new(0), start).expect("the frames must be online");
        engine.release(end, Pfn::new(1 << 13)).expect("the frames must be online");
        engine.set_up_watermarks(MinFree::Pages(64));
        exhaust(&engine, Gfp::NOWAIT.difference(Gfp::KSWAPD_RECLAIM) | Gfp::MEMALLOC, 0);
        engine.platform().answer_with(&Mover);
        let whole = Gfp::KERNEL | Gfp::COMP | Gfp::NORETRY;
        engine.alloc_pages(whole, Order::new(9)).expect_err("the request may not use the reserve, so it must fail");
        assert_eq!(engine.platform().events.counts().compact_stall > 0, is_tried, "{cma:?}");
    }
}

#[test]
fn later_kernels_share_unchanged_rules() {
    assert_eq!(Policy::LINUX_6_18.kswapd.boosts, KswapdPolicy::LINUX_6_12.boosts);
    assert_eq!(Policy::LINUX_7_3.compaction, Policy::LINUX_7_2.compaction);
    assert_eq!(
        (Policy::LINUX_7_3.pcp, Policy::LINUX_7_3.reserve),
        (Policy::LINUX_6_12.pcp, Policy::LINUX_6_12.reserve)
    );
}
