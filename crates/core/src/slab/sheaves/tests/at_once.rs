//! Slabs that are made at once: cut from one block, side by side, and as one they go back.

use super::super::flow::AHEAD;
use super::*;
use crate::base::Order;
use crate::slab::address::ObjectAddress;

/// Eight objects of this size fill a slab of 128 KiB; 28 are in a sheaf.
const LARGE: u32 = 16 << 10;
const SHEAF: usize = 28;

/// A machine of 64 MiB under this policy.
fn on_large_machine(policy: Policy, run: impl FnOnce(&Machine<'_, '_, '_>)) {
    run_on_cpu(CpuId(0));
    let config = Config { policy, ..Config::default() };
    with_locked_slab(Threads::default(), &config, 1 << 14, 1, |slab| run(slab)).unwrap();
}

/// Where the slabs of objects begin, in the order in which these were given.
fn slabs_of(cache: &Cache, objects: &[NonNull<u8>]) -> Vec<u64> {
    let slab_of = |object: &NonNull<u8>| ObjectAddress::new(object.addr().get() as u64).slab(cache.layout.mask).get();
    let mut slabs: Vec<_> = objects.iter().map(slab_of).collect();
    slabs.dedup();
    slabs
}

#[test]
fn a_refill_that_needs_several_slabs_has_them_side_by_side() {
    on_large_machine(Policy::FREEHOLD, |slab| {
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
fn what_a_refill_leaves_of_them_is_the_next_ones() {
    on_large_machine(Policy::FREEHOLD, |slab| {
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
fn more_are_made_ahead_the_more_there_are() {
    on_large_machine(Policy::FREEHOLD, |slab| {
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

#[test]
fn where_memory_is_in_pieces_they_are_made_one_by_one() {
    on_large_machine(Policy::FREEHOLD, |slab| {
        let cache = slab.create(&CacheConfig::new("large", LARGE)).unwrap();
        let order = cache.info().layout.order;
        let last = GFP | Gfp::NORETRY | Gfp::MEMALLOC;
        let mut blocks: Vec<_> = core::iter::from_fn(|| slab.pages.alloc_pages(last, order).ok()).collect();
        blocks.sort();
        let (given, kept): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|pfn| pfn.raw() >> order.get() & 1 == 0);
        given.iter().for_each(|&pfn| slab.pages.free_pages(pfn, order).unwrap());
        slab.pages.drain_all();
        assert!(slab.pages.alloc_pages(last, Order::new(order.get() + 1)).is_err(), "only such pieces");
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
fn linux_makes_each_by_itself() {
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
fn what_was_cut_goes_back_as_one_block() {
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
