//! Tests of slabs that are made at once: they are cut from one block, adjacent, and are given back as one block.

use super::super::flow::AHEAD;
use super::*;
use crate::base::{Order, Pfn, ZoneKind};
use crate::page::{MinFree, PageAllocator, Range};
use crate::platform::{Event, Probe};
use crate::slab::address::ObjectAddress;

/// Object size, eight of which fill a slab of 128 KiB. A sheaf has room for 28.
const LARGE: u32 = 16 << 10;
const SHEAF: usize = 28;

/// Runs a test on a machine with 64 MiB and the given policy.
fn on_large_machine(policy: Policy, run: impl FnOnce(&Machine<'_, '_, '_>)) {
    on_large_config(&Config { policy, ..Config::default() }, run);
}

fn on_large_config(config: &Config<'_>, run: impl FnOnce(&Machine<'_, '_, '_>)) {
    run_on_cpu(CpuId(0));
    with_locked_slab(Threads::default(), config, 1 << 14, 1, |slab| run(slab)).unwrap();
}

/// Returns a policy with slabs of several large objects.
fn large_slabs() -> Policy {
    let mut policy = Policy::FREEHOLD;
    policy.numbers.slab_max_order = Some(6);
    policy.numbers.slab_pinned = Some(4096);
    policy
}

/// Returns the start addresses of the objects' slabs, in the order of the objects and without adjacent duplicates.
fn slabs_of(cache: &Cache, objects: &[NonNull<u8>]) -> Vec<u64> {
    let addresses = objects.iter().map(|object| ObjectAddress::new(object.addr().get() as u64));
    let mut slabs: Vec<_> = addresses.map(|object| object.slab(cache.layout.mask).get()).collect();
    slabs.dedup();
    slabs
}

#[test]
fn refill_of_several_slabs_uses_adjacent_slabs() {
    on_large_machine(large_slabs(), |slab| {
        let cache = slab.create(&CacheConfig::new("large", LARGE)).unwrap();
        let (info, free_before) = (cache.info(), slab.pages.check().unwrap());
        let objects = allocate(&cache, 2 * SHEAF);
        assert_eq!(cache.slabs(), 8, "four for each sheaf, of 32 objects");
        let slabs = slabs_of(info, &objects[..SHEAF]);
        let next: Vec<_> = (0..4).map(|at| slabs[0] + at * info.layout.slab_bytes()).collect();
        assert_eq!(slabs, next, "objects are handed out from the first slab to the last");
        check(slab).unwrap();
        free(&cache, &objects);
        check(slab).unwrap();
        cache.destroy().unwrap();
        slab.shrink();
        let after = slab.pages.check().unwrap();
        assert_eq!(after.free + after.cached, free_before.free + free_before.cached, "all pages went back");
    });
}

#[test]
fn next_refill_uses_the_remaining_new_slabs() {
    on_large_machine(large_slabs(), |slab| {
        let cache = slab.create(&CacheConfig::new("larger", 2 * LARGE)).unwrap();
        let info = cache.info();
        assert_eq!((info.layout.objects, info.sheaf), (4, SHEAF as u16));
        let objects = allocate(&cache, SHEAF);
        assert_eq!(cache.slabs(), 8, "a sheaf needs seven");
        let more = allocate(&cache, 1);
        assert_eq!(slabs_of(info, &more)[0], slabs_of(info, &objects)[6] + info.layout.slab_bytes(), "the eighth");
        free(&cache, &objects);
        free(&cache, &more);
        cache.destroy().unwrap();
    });
}

#[test]
fn slabs_made_ahead_grow_with_their_number() {
    on_large_machine(large_slabs(), |slab| {
        let cache = slab.create(&CacheConfig::new("objects", 4096)).unwrap();
        let info = cache.info();
        let per_slab = usize::from(info.layout.objects);
        let mut objects = Vec::new();
        for slabs in [1, 8, 40, 64, 100] {
            objects.extend(allocate(&cache, slabs * per_slab - objects.len()));
            let (made, most) = (cache.slabs(), slabs as u64 + (slabs as u64 / AHEAD).next_power_of_two() + 1);
            assert!((slabs as u64..=most).contains(&made), "{made} slabs for {slabs}");
        }
        assert!(cache.slabs() > 100, "some are made ahead");
        check(slab).unwrap();
        free(&cache, &objects);
        check(slab).unwrap();
        assert!(cache.slabs() <= u64::from(info.limits.node_free) + 1 + u64::from(info.sheaf) * 12);
        cache.destroy().unwrap();
    });
}

/// Allocates all memory, and frees every other block of this order, so that no larger block is free. Returns the blocks
/// that were not freed.
fn break_up<P: Platform>(pages: &PageAllocator<'_, P>, node: NodeId, order: Order) -> Vec<Pfn> {
    let gfp = GFP | Gfp::NORETRY | Gfp::MEMALLOC | Gfp::THISNODE;
    let mut blocks: Vec<_> = core::iter::from_fn(|| pages.alloc_pages_node(node, gfp, order).ok()).collect();
    blocks.sort();
    let (given, kept): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|pfn| pfn.raw() >> order.get() & 1 == 0);
    given.iter().for_each(|&pfn| pages.free_pages(pfn, order).unwrap());
    pages.drain_all_pages();
    assert!(pages.alloc_pages_node(node, gfp, Order::new(order.get() + 1)).is_err(), "only such pieces");
    kept
}

#[test]
fn fragmented_memory_makes_slabs_one_by_one() {
    on_large_machine(large_slabs(), |slab| {
        let cache = slab.create(&CacheConfig::new("large", LARGE)).unwrap();
        let order = cache.info().layout.order;
        let kept = break_up(slab.pages, NodeId(0), order);
        let objects = allocate(&cache, SHEAF);
        assert_eq!(cache.slabs(), 4);
        check(slab).unwrap();
        free(&cache, &objects);
        cache.destroy().unwrap();
        kept.iter().for_each(|&pfn| slab.pages.free_pages(pfn, order).unwrap());
        slab.pages.check().unwrap();
    });
}

#[test]
fn slab_block_is_node_local_and_counts_no_failure() {
    let (nodes, order) = ([NodeId(0), NodeId(1)], Order::new(5));
    let config = Config { cpu_nodes: &nodes, nodes: 2, ..Config::default() };
    let ranges = nodes.map(|node| {
        let (start, end) = (Pfn::new(u32::from(node.0) << 14), Pfn::new(u32::from(node.0 + 1) << 14));
        Range { start, end, node, kind: ZoneKind::Normal }
    });
    run_on_cpu(CpuId(0));
    let failures = Failures::default();
    with_ranges(Threads::new(&failures), &config, &ranges, |pages| {
        ranges.iter().for_each(|range| pages.release(range.start, range.end).unwrap());
        pages.set_up_watermarks(MinFree::BySize);
        let _kept = break_up(pages, NodeId(0), order);
        failures.0.store(0, SeqCst);
        let gfp = GFP | Gfp::COMP;
        assert_eq!(pages.try_alloc_slab_pages(NodeId(0), gfp, Order::new(6)), None);
        assert_eq!(failures.0.load(SeqCst), 0);
        for (node, order) in [(NodeId(0), order), (NodeId(1), Order::new(6))] {
            let pfn = pages.try_alloc_slab_pages(node, gfp, order).unwrap();
            assert_eq!(pages.zone_of(pfn).node(), node);
        }
    })
    .unwrap();
}

/// Probe that counts failed requests.
#[derive(Default)]
struct Failures(AtomicUsize);

impl Probe for &Failures {
    fn report(&self, event: Event) {
        if matches!(event, Event::Failed { .. }) {
            self.0.fetch_add(1, SeqCst);
        }
    }
}

#[test]
fn node_receives_no_more_slabs_than_its_limit() {
    on_large_machine(large_slabs(), |slab| {
        let cache = slab.create(&CacheConfig::new("large", LARGE)).unwrap();
        let (info, gfp) = (cache.info(), Gfp::KERNEL);
        let keeps = u64::from(info.limits.node_free);
        for _ in 0..2 {
            let slabs = slab.new_slabs(info, gfp, NodeId(0), 3).unwrap();
            slab.add_new_partials(info, NodeId(0), slabs);
        }
        assert_eq!(cache.slabs(), keeps, "of sixteen");
        check(slab).unwrap();
        cache.destroy().unwrap();
    });
}

#[test]
fn slabs_made_at_once_fit_the_largest_block() {
    let mut policy = large_slabs();
    policy.numbers.slab_cpu_free = Some(1 << 14);
    on_large_machine(policy, |slab| {
        let cache = slab.create(&CacheConfig::new("large", LARGE)).unwrap();
        let info = cache.info();
        let bytes = u64::from(info.limits.made_at_once) * info.layout.slab_bytes();
        assert_eq!(bytes, u64::from(Order::MAX.pages()) * u64::from(slab.pages.page_size()));
        cache.destroy().unwrap();
    });
}

#[test]
fn linux_policy_makes_single_slabs() {
    on_large_machine(Policy::LINUX_7_3, |slab| {
        let cache = slab.create(&CacheConfig::new("large", 8 << 10)).unwrap();
        assert_eq!(cache.info().limits.made_at_once, 1);
        let objects = allocate(&cache, 1);
        let needed = u64::from(cache.info().sheaf.div_ceil(cache.info().layout.objects));
        assert_eq!(cache.slabs(), needed);
        free(&cache, &objects);
        cache.destroy().unwrap();
    });
}

#[test]
fn split_slab_block_is_freed_as_one_block() {
    on_large_machine(Policy::LINUX_7_3, |slab| {
        let (pages, order) = (slab.pages, Order::COSTLY);
        let pfn = pages.alloc_slab_pages(NodeId(0), GFP | Gfp::COMP, order).unwrap();
        pages.split_slab_pages(pfn, order, Order::ZERO);
        pages.free_slabs_pages(pfn..pfn.offset(order.pages()), Order::ZERO);
        assert_eq!(pages.alloc_pages(GFP, order), Ok(pfn), "the CPU's list of such blocks has it");
        pages.free_pages(pfn, order).unwrap();
        pages.check().unwrap();
    });
}

/// A slab cannot give up single frames, but a frame may be marked as broken while its block becomes a slab.
#[test]
fn broken_piece_of_a_split_slab_block_is_withheld() {
    on_large_machine(Policy::LINUX_7_3, |slab| {
        let (pages, order) = (slab.pages, Order::COSTLY);
        let before = pages.check().unwrap();
        let pfn = pages.alloc_slab_pages(NodeId(0), GFP | Gfp::COMP, order).unwrap();
        let piece = Order::new(1);
        pages.split_slab_pages(pfn, order, piece);
        let marked = pages.map().frame(pfn.offset(2));
        assert!(marked.mark_broken() && marked.mark_poisoned(piece));
        pages.free_slabs_pages(pfn..pfn.offset(order.pages()), piece);
        let after = pages.check().unwrap();
        assert_eq!((after.withheld, after.allocated), (before.withheld + 1, before.allocated), "one frame is lost");
    });
}
