//! Defrag mode: reclaim and compaction run before types are mixed, and no request fails that mixing would have served.
//! linux: mm/page_alloc.c:alloc_flags_nofragment, get_page_from_freelist, __alloc_pages_slowpath, wake_all_kswapds

use freehold::Policy;
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, Range};
use freehold::platform::Event;
use freehold::policy::DefragMode;

use crate::common::range;
use crate::rules::reclaim::{Cache, with_cache};
use crate::rules::{Engine, bare};

/// Returns the pinned kernel's configuration without per-CPU lists, with or without the mode of later kernels.
fn in_mode(defrag_mode: DefragMode) -> Config<'static> {
    let config = bare();
    Config { policy: Policy { defrag_mode, ..config.policy }, ..config }
}

/// Runs `scene` on a machine full of movable pages, of which every 20th in the first half was freed: enough for the
/// watermarks, but too few for a claim of any pageblock. Each call of reclaim drops `at_once` of the other pages, from
/// the end.
fn scattered(mode: DefragMode, at_once: usize, scene: impl FnOnce(&Engine<'_, '_>, &Cache)) {
    with_cache(&in_mode(mode), &[range(ZoneKind::Normal, 0, 0, 1 << 13)], at_once, |engine, cache| {
        scatter(engine, cache, 0..1 << 12);
        engine.platform().events.take();
        scene(engine, cache);
    });
}

fn scatter(engine: &Engine<'_, '_>, cache: &Cache, frames: core::ops::Range<u32>) {
    cache.drop_where(engine, |page| frames.contains(&page.raw()) && page.raw().is_multiple_of(20));
}

/// Result of a request.
#[derive(Debug, PartialEq, Eq)]
enum Fare {
    /// A page of the request's own type, or of a pageblock that was claimed whole.
    Clean,
    /// A page from another type's pageblock.
    Mixed,
    Failed,
}

/// Requests a page. Returns the result, and the number of reclaim calls.
fn ask(engine: &Engine<'_, '_>, cache: &Cache, gfp: Gfp) -> (Fare, usize) {
    let page = engine.alloc_pages(gfp, Order::ZERO);
    let mixed = engine.platform().events.take().iter().any(|event| matches!(event, Event::Steal { .. }));
    let fare = match page {
        Err(_) => Fare::Failed,
        Ok(_) if mixed => Fare::Mixed,
        Ok(_) => Fare::Clean,
    };
    (fare, cache.asked.take().len())
}

#[test]
fn defrag_mode_reclaims_before_mixing_types() {
    // Reclaim frees two whole pageblocks at once, and the request claims one of them.
    scattered(DefragMode::Off, 1024, |engine, cache| assert_eq!(ask(engine, cache, Gfp::KERNEL), (Fare::Mixed, 0)));
    scattered(DefragMode::On, 1024, |engine, cache| assert_eq!(ask(engine, cache, Gfp::KERNEL), (Fare::Clean, 1)));
}

#[test]
fn defrag_mode_mixes_types_after_failed_reclaim() {
    scattered(DefragMode::On, 0, |engine, cache| {
        let (fare, asked) = ask(engine, cache, Gfp::KERNEL);
        assert_eq!(fare, Fare::Mixed);
        assert_eq!(asked, 17 * 13, "sixteen failed rounds and one more, each with every priority");
    });
}

#[test]
fn non_reclaiming_requests_mix_types_only_with_kswapd() {
    for (gfp, off, on) in [
        (Gfp::ATOMIC, Fare::Mixed, Fare::Mixed),
        (Gfp::NOWAIT, Fare::Mixed, Fare::Mixed),
        (Gfp::empty(), Fare::Mixed, Fare::Failed),
    ] {
        scattered(DefragMode::Off, 0, |engine, cache| assert_eq!(ask(engine, cache, gfp), (off, 0), "{gfp:?}"));
        scattered(DefragMode::On, 0, |engine, cache| assert_eq!(ask(engine, cache, gfp), (on, 0), "{gfp:?}"));
    }
}

#[test]
fn noretry_request_fails_without_mixing_types() {
    scattered(DefragMode::On, 0, |engine, cache| {
        assert_eq!(ask(engine, cache, Gfp::KERNEL | Gfp::NORETRY), (Fare::Failed, 13));
    });
}

#[test]
fn memalloc_request_mixes_types_immediately() {
    scattered(DefragMode::On, 0, |engine, cache| {
        assert_eq!(ask(engine, cache, Gfp::KERNEL | Gfp::MEMALLOC), (Fare::Mixed, 0));
    });
}

/// The request takes a whole pageblock of another node rather than a page of another type on the near node.
#[test]
fn defrag_mode_prefers_another_node_to_mixing_types() {
    let memory: [Range; 3] = [
        range(ZoneKind::Dma32, 0, 0, 1 << 12),
        range(ZoneKind::Normal, 0, 1 << 12, 1 << 13),
        range(ZoneKind::Normal, 1, 1 << 13, 1 << 14),
    ];
    let far = Pfn::new(1 << 13);
    for (mode, expected) in [(DefragMode::Off, Fare::Mixed), (DefragMode::On, Fare::Clean)] {
        let config = Config { nodes: 2, ..in_mode(mode) };
        with_cache(&config, &memory, 0, |engine, cache| {
            scatter(engine, cache, 1 << 12..1 << 13);
            cache.drop_where(engine, |page| page >= far);
            engine.platform().events.take();
            assert_eq!(ask(engine, cache, Gfp::KERNEL).0, expected);
        });
    }
}

#[test]
fn defrag_mode_wakes_kswapd_for_a_pageblock() {
    for (mode, expected) in [(DefragMode::Off, Order::ZERO), (DefragMode::On, Order::new(9))] {
        with_cache(&in_mode(mode), &[range(ZoneKind::Normal, 0, 0, 1 << 13)], 0, |engine, cache| {
            engine.alloc_pages(Gfp::NOWAIT, Order::ZERO).expect_err("no page is free, so the request must fail");
            engine.run_kswapd(NodeId(0));
            assert_eq!(cache.asked.take()[0].order, expected);
        });
    }
}
