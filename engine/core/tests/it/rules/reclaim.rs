//! Direct reclaim: the priorities of a request, the nodes from which it reclaims, and the condition under which it
//! stops.
//! linux: mm/vmscan.c:do_try_to_free_pages, shrink_zones, should_continue_reclaim

use core::cell::{Cell, RefCell};

use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, Range};
use freehold::platform::{FreePages, OutOfMemory, Reclaim, Reclaimed, Reclaimer, Request};

use crate::common::{Hooks, range, with_machine};
use crate::rules::{Engine, alloc, bare, exhaust, zone};

/// Flags of a request for a movable page that makes no effort.
pub(super) const QUIET: Gfp = Gfp::HIGHUSER_MOVABLE.difference(Gfp::DIRECT_RECLAIM).difference(Gfp::KSWAPD_RECLAIM);

/// Platform with pages that it drops, `at_once` per call, and a record of all calls.
#[derive(Default)]
pub(super) struct Cache {
    pub pages: RefCell<Vec<Pfn>>,
    pub at_once: Cell<usize>,
    pub asked: RefCell<Vec<Reclaim>>,
    /// Page that the last resort frees.
    pub last_resort: Cell<Option<Pfn>>,
    pub kswapd: Cell<u32>,
    pub kcompactd: Cell<u32>,
}

impl Cache {
    /// Allocates all remaining memory of a machine, without waking kswapd.
    pub(super) fn fill(&self, engine: &Engine<'_, '_>) {
        *self.pages.borrow_mut() = exhaust(engine, QUIET | Gfp::MEMALLOC, 0);
    }

    /// Drops pages outside of reclaim.
    pub(super) fn drop_where(&self, engine: &Engine<'_, '_>, drops: impl Fn(Pfn) -> bool) {
        self.pages.borrow_mut().retain(|&page| {
            if drops(page) {
                engine.free_pages(page, Order::ZERO).expect("the page is cached");
            }
            !drops(page)
        });
    }

    pub(super) fn priorities(&self) -> Vec<u8> {
        self.asked.take().iter().map(|wanted| wanted.priority).collect()
    }
}

impl Hooks for Cache {
    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        self.asked.borrow_mut().push(*wanted);
        let mut held = self.pages.borrow_mut();
        let keep = held.len().saturating_sub(self.at_once.get());
        let dropped = held.split_off(keep);
        pages.free_pages_bulk(&dropped);
        Reclaimed { pages: dropped.len() as u64, scanned: 2 * dropped.len() as u64 }
    }

    fn out_of_memory(&self, pages: &dyn FreePages, _request: &Request) -> OutOfMemory {
        let Some(page) = self.last_resort.take() else { return OutOfMemory::NothingFreed };
        pages.free_pages(page, Order::ZERO);
        OutOfMemory::Freed
    }

    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        self.pages.borrow().len() as u64
    }

    fn wake_kswapd(&self, _node: NodeId) {
        self.kswapd.set(self.kswapd.get() + 1);
    }

    fn wake_kcompactd(&self, _node: NodeId) {
        self.kcompactd.set(self.kcompactd.get() + 1);
    }
}

/// Runs `scene` on a machine whose memory is all in the cache, which drops `at_once` pages per call.
pub(super) fn with_cache(
    config: &Config<'_>,
    ranges: &[Range],
    at_once: usize,
    scene: impl FnOnce(&Engine<'_, '_>, &Cache),
) {
    let cache = Cache::default();
    cache.at_once.set(at_once);
    with_machine(config, ranges, MinFree::Pages(64), |engine| {
        cache.fill(engine);
        engine.platform().answer_with(&cache);
        scene(engine, &cache);
        engine.check().expect("the check must find no error");
        assert_eq!(engine.platform().events.counts().broken_promises, 0);
    });
}

fn small() -> [Range; 1] {
    [range(ZoneKind::Normal, 0, 0, 1 << 13)]
}

#[test]
fn reclaim_urgency_rises_until_a_cluster_is_freed() {
    with_cache(&bare(), &small(), 10, |engine, cache| {
        // The zone is below the min watermark until 65 pages are free: two rounds, of 40 pages each.
        alloc(engine, Gfp::KERNEL, 0);
        assert_eq!(cache.priorities(), [12, 11, 10, 9, 12, 11, 10, 9]);
        let counts = engine.platform().events.counts();
        assert_eq!((counts.allocstall_normal, counts.pgsteal_direct, counts.pgscan_direct), (2, 80, 160));
    });
}

#[test]
fn one_cluster_ends_reclaim() {
    with_cache(&bare(), &small(), 100, |engine, cache| {
        alloc(engine, Gfp::KERNEL, 0);
        let asked = cache.asked.take();
        let [wanted] = asked[..] else { panic!("asked {} times", asked.len()) };
        let highest = ZoneKind::Normal;
        let (node, order, by, gfp) = (NodeId(0), Order::ZERO, Reclaimer::Direct, Gfp::KERNEL);
        assert_eq!(wanted, Reclaim { node, highest, goal: 32, order, priority: 12, by, gfp });
    });
}

#[test]
fn each_node_reclaims_once_per_priority() {
    let config = Config { nodes: 2, ..bare() };
    let memory = [
        range(ZoneKind::Dma32, 0, 0, 1 << 12),
        range(ZoneKind::Normal, 0, 1 << 12, 1 << 13),
        range(ZoneKind::Normal, 1, 1 << 13, 1 << 14),
    ];
    for (gfp, nodes) in [(Gfp::KERNEL, vec![0, 1]), (Gfp::KERNEL | Gfp::THISNODE, vec![0])] {
        with_cache(&config, &memory, 0, |engine, cache| {
            engine
                .alloc_pages(gfp | Gfp::NORETRY, Order::ZERO)
                .expect_err("no page can be reclaimed, so the request must fail");
            let asked: Vec<u8> = cache.asked.take().iter().map(|wanted| wanted.node.0).collect();
            assert_eq!(asked, nodes.repeat(13), "{gfp:?}");
        });
    }
}

/// Many single pages are free, but no large block. This is a case for compaction, not for reclaim.
#[test]
fn compactable_zone_is_not_reclaimed() {
    with_cache(&bare(), &small(), 32, |engine, cache| {
        cache.drop_where(engine, |page| page.raw().is_multiple_of(2));
        engine
            .alloc_pages(Gfp::TRANSHUGE | Gfp::RETRY_MAYFAIL, Order::new(9))
            .expect_err("no page can be moved, so the request must fail");
        assert_eq!(cache.priorities(), [0; 0]);
        assert!(
            engine.platform().events.counts().allocstall_movable > 0,
            "the request must have reached direct reclaim"
        );
    });
}

/// One call is not enough for a huge page: reclaim repeats on a node until compaction has room.
#[test]
fn large_block_reclaim_stops_at_compaction_room() {
    with_cache(&bare(), &small(), 32, |engine, cache| {
        let zone = zone(engine, ZoneKind::Normal);
        // The pages are dropped in an order that leaves no two of them adjacent.
        cache.pages.borrow_mut().sort_by_key(|page| page.raw().is_multiple_of(2));
        engine.alloc_pages(Gfp::TRANSHUGE, Order::new(9)).expect_err("no page can be moved, so the request must fail");
        let priorities = cache.priorities();
        assert_eq!(priorities, vec![12; priorities.len()], "the priority must stay at 12");
        let room = zone.watermarks().low + 1024;
        assert!(zone.free_pages() > room, "{} pages are free", zone.free_pages());
        assert!(zone.free_pages() <= room + 32, "reclaim must stop just above the room for compaction");
    });
}

/// For a small block, reclaim runs once at each priority until the priority is urgent. Then it runs repeatedly, as for
/// a large block. linux: mm/vmscan.c:in_reclaim_compaction
#[test]
fn small_blocks_reclaim_repeatedly_only_at_high_urgency() {
    for order in [1, 2, 3] {
        with_cache(&bare(), &small(), 1, |engine, cache| {
            cache.pages.borrow_mut().sort_by_key(|page| page.raw().is_multiple_of(2));
            engine
                .alloc_pages(Gfp::KERNEL | Gfp::NORETRY, Order::new(order))
                .expect_err("no page can be moved, so the request must fail");
            // Compaction has room when the free pages exceed the min watermark by twice the block.
            let room = 64 + 2 * (1 << order) + 1;
            assert_eq!(cache.priorities(), [vec![12, 11, 10], vec![9; room - 3]].concat(), "order {order}");
        });
    }
    with_cache(&bare(), &small(), 1, |engine, cache| {
        engine
            .alloc_pages(Gfp::NOIO | Gfp::NORETRY, Order::new(2))
            .expect_err("the zone is below the min watermark, so the request must fail");
        assert_eq!(
            cache.priorities(),
            (0..=12).rev().collect::<Vec<u8>>(),
            "a request that may not compact must reclaim with every priority"
        );
    });
}

/// After the last resort has freed memory, a request that must not fail takes it regardless of any watermark.
#[test]
fn nofail_request_takes_the_last_page() {
    for (gfp, is_served) in [(Gfp::KERNEL, false), (Gfp::KERNEL | Gfp::NOFAIL, true)] {
        with_cache(&bare(), &small(), 0, |engine, cache| {
            cache.last_resort.set(cache.pages.borrow_mut().pop());
            let served = engine.alloc_pages(gfp, Order::ZERO).is_ok();
            assert_eq!(served, is_served, "{gfp:?}: one free page is below the min mark");
            assert_eq!(cache.last_resort.get(), None, "the OOM killer must not be called");
        });
    }
}

/// While nothing can be reclaimed, a request that must not fail uses half of the min reserve, and no more.
#[test]
fn nofail_request_uses_half_of_the_min_reserve() {
    for (gfp, free, is_served) in
        [(Gfp::KERNEL, 40, false), (Gfp::KERNEL | Gfp::NOFAIL, 40, true), (Gfp::KERNEL | Gfp::NOFAIL, 32, false)]
    {
        with_cache(&bare(), &small(), 0, |engine, cache| {
            for _ in 0..free {
                let page = cache.pages.borrow_mut().pop().expect("the cache has all pages");
                engine.free_pages(page, Order::ZERO).expect("the page is allocated");
            }
            let served = engine.alloc_pages(gfp, Order::ZERO);
            assert_eq!(served.is_ok(), is_served, "{gfp:?} with {free} free pages and a min watermark of 64");
            cache.pages.borrow_mut().extend(served.ok());
        });
    }
}

/// Platform whose reclaim frees one block per call, and reports how many pages became free.
struct Sharing {
    blocks: RefCell<Vec<(Pfn, Order, u64)>>,
}

impl Hooks for Sharing {
    fn reclaim(&self, pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let Some((pfn, order, behind)) = self.blocks.borrow_mut().pop() else { return Reclaimed::default() };
        pages.free_pages(pfn, order);
        Reclaimed { pages: behind, scanned: behind }
    }
}

/// An additional reference keeps a compound block allocated as a whole, and only the first page of any other block.
#[test]
fn referenced_blocks_are_not_reclaimed() {
    let sharing = Sharing { blocks: RefCell::default() };
    with_machine(&bare(), &small(), MinFree::Pages(64), |engine| {
        let order = Order::new(2);
        for (gfp, refs, behind) in [(QUIET, 1, 4), (QUIET, 2, 3), (QUIET | Gfp::COMP, 2, 0), (QUIET | Gfp::COMP, 1, 4)]
        {
            let block = engine.alloc_pages(gfp, order).expect("enough memory must be free");
            (1..refs).for_each(|_| engine.get_page(block).expect("the pages must be allocated"));
            sharing.blocks.borrow_mut().push((block, order, behind));
        }
        exhaust(engine, QUIET | Gfp::MEMALLOC, 0);
        engine.platform().answer_with(&sharing);
        engine
            .alloc_pages(Gfp::KERNEL | Gfp::NORETRY, Order::ZERO)
            .expect_err("the zone is below the min watermark, so the request must fail");
        let counts = engine.platform().events.counts();
        assert_eq!((counts.pgsteal_direct, counts.pgscan_direct, counts.broken_promises), (11, 11, 0));
        assert_eq!(zone(engine, ZoneKind::Normal).free_pages(), 11);
        engine.check().expect("the check must find no error");
    });
}

/// Platform whose reclaim frees one page per call, and which reports no reclaimable pages.
#[derive(Default)]
struct Trickle {
    pages: RefCell<Vec<Pfn>>,
    ended: Cell<u32>,
}

impl Hooks for Trickle {
    fn reclaim(&self, pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let Some(page) = self.pages.borrow_mut().pop() else { return Reclaimed::default() };
        pages.free_pages(page, Order::ZERO);
        Reclaimed { pages: 1, scanned: 1 }
    }

    fn out_of_memory(&self, _pages: &dyn FreePages, _request: &Request) -> OutOfMemory {
        self.ended.set(self.ended.get() + 1);
        OutOfMemory::NothingFreed
    }
}

/// Retries depend on the pages that could still be freed: a few freed pages are no reason to retry if all remaining
/// pages would not be enough. linux: mm/page_alloc.c:should_reclaim_retry
#[test]
fn retry_requires_enough_reclaimable_pages() {
    let trickle = Trickle::default();
    with_machine(&bare(), &small(), MinFree::Pages(64), |engine| {
        *trickle.pages.borrow_mut() = exhaust(engine, QUIET | Gfp::MEMALLOC, 0);
        engine.platform().answer_with(&trickle);
        engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect_err("thirteen pages are too few, so the request must fail");
        let counts = engine.platform().events.counts();
        assert_eq!((counts.pgsteal_direct, counts.allocstall_normal, trickle.ended.get()), (13, 1, 1));
    });
}
