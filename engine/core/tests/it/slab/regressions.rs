//! Regressions: faults of earlier designs. The list that ends in its slab, as first proposed in 2014, leaked slabs, and
//! mishandled the first object and small slabs. The other faults were found in this design before it was proved.

use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp};
use freehold::policy::slab::{SlabLinks, SlabPolicy};
use freehold::slab::{CacheConfig, ObjectFreeError};

use crate::slab::interfering_local::Meddling;
use crate::slab::world::{Cache, PAGES, check, judge, judge_empty, policies, policy, run_on, with_meddler, with_world};

fn alloc(cache: &Cache<'_, '_, '_, '_>, cpu: u16) -> NonNull<u8> {
    run_on(cpu);
    cache.alloc(Gfp::KERNEL).expect("enough memory must be free")
}

fn free(cache: &Cache<'_, '_, '_, '_>, cpu: u16, object: NonNull<u8>) {
    run_on(cpu);
    // SAFETY: the tests pass allocated objects of this cache that they do not use any more, except where they test a
    // double free, which is refused.
    unsafe { cache.free(object) }.expect("the pointer must be an object in use");
}

/// A slab whose objects are all allocated is let go. Objects that another CPU frees into it afterwards must be found
/// again; otherwise each round would lose slabs.
#[test]
fn remote_frees_into_a_full_slab_are_reused() {
    for policy in policies() {
        for size in [64, 1344, 2048, 4096] {
            with_world(policy, |slab| {
                let cache = slab.create(&CacheConfig::new("rounds", size)).expect("the cache can be created");
                let objects = 3 * usize::from(cache.info().layout.objects);
                let mut most = 0;
                for round in 0..60 {
                    let taken: Vec<_> = (0..objects).map(|_| alloc(&cache, 0)).collect();
                    taken.into_iter().for_each(|object| free(&cache, 1, object));
                    if round == 20 {
                        most = cache.slabs();
                    }
                }
                assert!(cache.slabs() <= most, "{} slabs, and {most} after a third of the rounds", cache.slabs());
                judge(slab, 0);
                cache.shrink();
                assert_eq!(cache.slabs(), 0, "all objects must be freed");
            });
        }
    }
}

/// The first and the last object of a slab, and slabs of one page. A free of either goes to the CPU's list, so the next
/// two requests get them, the last one first. No other word changes, so no slab is queued for them.
#[test]
fn first_and_last_object_share_the_slab() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField] {
        for (size, max_order) in [(64, 0), (1344, 0), (2048, 0), (256, 3)] {
            let mut policy = policy(objects, 0);
            policy.numbers.slab_max_order = Some(max_order);
            policy.numbers.slab_min_objects = Some(if max_order == 0 { 1 } else { 100 });
            with_world(policy, |slab| {
                let cache = slab.create(&CacheConfig::new("ends", size)).expect("the cache can be created");
                let count = usize::from(cache.info().layout.objects);
                let taken: Vec<_> = (0..count).map(|_| alloc(&cache, 0)).collect();
                assert_eq!(cache.slabs(), 1);
                for object in [taken[0], taken[count - 1]] {
                    free(&cache, 0, object);
                    assert_eq!(alloc(&cache, 0), object, "the slab is the one that the CPU allocates from");
                }
                free(&cache, 0, taken[0]);
                free(&cache, 0, taken[count - 1]);
                assert_eq!((alloc(&cache, 0), alloc(&cache, 0)), (taken[count - 1], taken[0]));
                let words = if objects == SlabPolicy::Tagged { 1 } else { 2 };
                assert_eq!(
                    slab.local().replacements(),
                    2 + words,
                    "replacements only for the new slab, none for the frees"
                );
                taken.into_iter().for_each(|object| free(&cache, 0, object));
                judge_empty(slab, 0);
            });
        }
    }
}

/// A section refused because it ran on another CPU, and then the caller is on the owner's CPU, whose list is still this
/// slab's mark. The slab is wholly free, but it is not freed.
#[test]
fn slab_in_use_as_an_end_mark_is_not_freed() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        for at in 0..8 {
            with_meddler(policy(objects, 0), PAGES, (Meddling::Elsewhere, at), |slab| {
                let cache = slab.create(&CacheConfig::new("mark", 4096)).expect("the cache can be created");
                let object = alloc(&cache, 0);
                free(&cache, 1, object);
                judge(slab, 0);
                let others: Vec<_> = (0..3)
                    .map(|at| slab.kmalloc(3000 + at, Gfp::KERNEL).expect("enough memory must be free"))
                    .collect();
                let again = alloc(&cache, 0);
                judge(slab, 4);
                free(&cache, 0, again);
                // SAFETY: the objects were allocated above and are not used any more.
                others
                    .into_iter()
                    .for_each(|object| unsafe { slab.kfree(object) }.expect("the pointer must be an object in use"));
                judge_empty(slab, 0);
            });
        }
    }
}

/// A second free of an object into a sheaf, or into a slab from which its CPU does not allocate, is refused with an
/// error.
#[test]
fn consecutive_double_free_is_refused() {
    for mut policy in policies() {
        policy.slab.links = SlabLinks::Mangled;
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("twice", 1344)).expect("the cache can be created");
            let taken: Vec<_> = (0..5).map(|_| alloc(&cache, 0)).collect();
            for object in [taken[0], taken[4]] {
                free(&cache, 0, object);
                let address = object.as_ptr() as u64;
                // SAFETY: the contract is violated on purpose, since the object is free. No other code uses the object,
                // and the free is refused.
                assert_eq!(unsafe { cache.free(object) }, Err(ObjectFreeError::DoubleFree { address }));
            }
            judge(slab, 3);
        });
    }
}

/// Other CPUs find objects that were freed into the slabs of an offline CPU.
#[test]
fn remote_frees_to_an_offline_cpus_slabs_are_reused() {
    for policy in policies() {
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("left", 2048)).expect("the cache can be created");
            let taken: Vec<_> = (0..20).map(|_| alloc(&cache, 2)).collect();
            run_on(0);
            slab.cpu_dead(CpuId(2));
            let slabs = cache.slabs();
            taken.iter().for_each(|&object| free(&cache, 1, object));
            let again: Vec<_> = (0..20).map(|_| alloc(&cache, 1)).collect();
            assert!(cache.slabs() <= slabs, "{} slabs, {slabs} before", cache.slabs());
            again.into_iter().for_each(|object| free(&cache, 1, object));
            slab.cpu_online(CpuId(2));
            judge_empty(slab, 0);
        });
    }
}

/// The second copy of an object that was freed twice is flushed after its slab was freed and its page was given to
/// another cache.
#[test]
fn late_flush_of_a_double_free_changes_nothing() {
    with_world(policy(SlabPolicy::SheavesBitmap, 0), |slab| {
        let cache = slab.create(&CacheConfig::new("first", 128)).expect("the cache can be created");
        let (in_slab, in_sheaf) = (usize::from(cache.info().layout.objects), usize::from(cache.info().sheaf));
        let mut objects: Vec<_> = (0..80 * in_slab).map(|_| alloc(&cache, 0)).collect();
        objects.sort();
        let doomed: Vec<_> = objects.drain(40 * in_slab..41 * in_slab).collect();
        let (&twice, others) = doomed.split_first().expect("a slab has objects");
        // All sheaves and the barn are full, so further free slabs are freed.
        let mut rest = others.iter().copied().chain(objects);
        rest.by_ref().take(25 * in_sheaf).for_each(|object| free(&cache, 0, object));
        free(&cache, 0, twice);
        rest.by_ref().take(in_sheaf).for_each(|object| free(&cache, 0, object));
        free(&cache, 0, twice);
        let page = twice.addr().get() & !4095;
        rest.by_ref().take_while(|_| slab.ksize(twice).is_ok()).for_each(|object| free(&cache, 0, object));
        let second = slab.create(&CacheConfig::new("second", 64)).expect("the cache can be created");
        let found = (0..100 * 64).map(|_| alloc(&second, 0)).any(|object| object.addr().get() & !4095 == page);
        assert!(found, "the page must be in use by the second cache");
        cache.shrink();
        check(slab);
    });
}
