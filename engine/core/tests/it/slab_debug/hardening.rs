//! Hardening that costs almost nothing and works without debugging: mangled links, a random order, and the cheap check
//! for two consecutive frees of one object.

use core::ptr::NonNull;

use freehold::Policy;
use freehold::base::{CpuId, Gfp};
use freehold::platform::host::run_on_cpu;
use freehold::policy::slab::{SlabLinks, SlabOrder, SlabPolicy};
use freehold::slab::{CacheConfig, CacheFlags, ObjectFreeError};

use super::{Cache, check, with_world};

/// Returns policies with each kind of link.
pub(super) fn links() -> [Policy; 2] {
    [SlabLinks::Plain, SlabLinks::Mangled].map(|links| policy(SlabPolicy::Tagged, links))
}

fn policy(objects: SlabPolicy, links: SlabLinks) -> Policy {
    let mut policy = Policy::FREEHOLD;
    (policy.slab.objects, policy.slab.links) = (objects, links);
    policy
}

/// Allocates objects of two slabs: all of the first and some of the second.
fn two_slabs(cache: &Cache<'_, '_, '_>) -> (Vec<NonNull<u8>>, Vec<NonNull<u8>>) {
    let mut all = vec![NonNull::dangling(); usize::from(cache.info().layout.objects) + 10];
    cache.alloc_bulk(Gfp::KERNEL, &mut all).unwrap();
    let second = all.split_off(all.len() - 10);
    (all, second)
}

fn free(cache: &Cache<'_, '_, '_>, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
    // SAFETY: the object is not used any more. Where the tests free it twice, the free is refused.
    unsafe { cache.free(object) }
}

/// Frees an object twice, and checks that the second free is refused.
fn free_twice(cache: &Cache<'_, '_, '_>, object: NonNull<u8>, objects: SlabPolicy) {
    free(cache, object).unwrap();
    let address = object.as_ptr() as u64;
    assert_eq!(free(cache, object), Err(ObjectFreeError::DoubleFree { address }), "{objects:?}");
}

#[test]
fn consecutive_double_free_is_refused() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Bitmap] {
        with_world(policy(objects, SlabLinks::Mangled), CacheFlags::empty(), |slab| {
            let cache = slab.create(&CacheConfig::new("task", 200)).unwrap();
            let (first, second) = two_slabs(&cache);
            // The slab from which this CPU allocates, another slab that it owns, and afterwards slabs that it does not
            // own.
            second[..3].iter().for_each(|&object| free_twice(&cache, object, objects));
            first[..3].iter().for_each(|&object| free_twice(&cache, object, objects));
            run_on_cpu(CpuId(1));
            first[3..6].iter().chain(&second[3..6]).for_each(|&object| free_twice(&cache, object, objects));
            check(slab).unwrap();
        });
    }
}

#[test]
fn bitmap_refuses_any_double_free() {
    with_world(policy(SlabPolicy::Bitmap, SlabLinks::Plain), CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 200)).unwrap();
        let (first, _second) = two_slabs(&cache);
        first[..5].iter().for_each(|&object| free(&cache, object).unwrap());
        for &object in &first[..5] {
            let address = object.as_ptr() as u64;
            assert_eq!(free(&cache, object), Err(ObjectFreeError::DoubleFree { address }));
        }
        check(slab).unwrap();
    });
}

/// Sheaves check the last object that was freed to them. Slabs with bitmaps check each object that is flushed to them.
#[test]
fn sheaves_refuse_the_last_object_and_bitmaps_report_all() {
    for (objects, reports) in [(SlabPolicy::Sheaves, 0), (SlabPolicy::SheavesBitmap, 2)] {
        with_world(policy(objects, SlabLinks::Plain), CacheFlags::empty(), |slab| {
            let cache = slab.create(&CacheConfig::new("task", 200)).unwrap();
            let (all, _second) = two_slabs(&cache);
            for &object in &all[..3] {
                free(&cache, object).unwrap();
                let address = object.as_ptr() as u64;
                assert_eq!(free(&cache, object), Err(ObjectFreeError::DoubleFree { address }), "{objects:?}");
            }
            if reports > 0 {
                free(&cache, all[0]).unwrap();
                cache.shrink();
                free(&cache, all[1]).unwrap();
                cache.shrink();
            }
            assert_eq!(slab.platform().take().len(), reports);
            check(slab).unwrap();
        });
    }
}

/// Returns the words at the links of free objects, and the addresses to which they link.
fn words(links: SlabLinks) -> (Vec<u64>, Vec<u64>) {
    let mut found = (Vec::new(), Vec::new());
    with_world(policy(SlabPolicy::Tagged, links), CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 64)).unwrap();
        let (_first, second) = two_slabs(&cache);
        second.iter().for_each(|&object| free(&cache, object).unwrap());
        // SAFETY: the words are initialised links of free objects, in a slab that no other thread uses.
        found.0 = second[1..].iter().map(|object| unsafe { object.cast::<u64>().read() }).collect();
        found.1 = second.iter().map(|object| object.as_ptr() as u64).take(9).collect();
    });
    found
}

#[test]
fn mangled_link_reveals_no_address() {
    let (plain, next) = words(SlabLinks::Plain);
    assert_eq!(plain, next, "plain links are the addresses");
    let (mangled, next) = words(SlabLinks::Mangled);
    assert!(mangled.iter().zip(&next).all(|(word, next)| word >> 32 != next >> 32), "{mangled:x?} {next:x?}");
    let differences: Vec<u64> = mangled.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
    let true_ones: Vec<u64> = next.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
    assert!(
        differences.iter().zip(&true_ones).all(|(found, real)| found != real),
        "the encoding must depend on the address of the link"
    );
}

/// If links are plain, a stray write to a link can make a list end at any address. Such an end is not trusted.
#[test]
fn forged_end_mark_allocates_nothing_elsewhere() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::PageField] {
        with_world(policy(objects, SlabLinks::Plain), CacheFlags::empty(), |slab| {
            let victim = slab.create(&CacheConfig::new("victim", 64)).unwrap();
            let (theirs, _) = two_slabs(&victim);
            free(&victim, theirs[0]).unwrap();
            let cache = slab.create(&CacheConfig::new("task", 64)).unwrap();
            let [first, second] = [(); 2].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
            free(&cache, second).unwrap();
            free(&cache, first).unwrap();
            let elsewhere = victim.info().layout.mask.slab_around(theirs[0].as_ptr() as u64).get() | 1;
            // SAFETY: the link of a free object is mapped memory of a slab that no other thread uses. The write is the
            // damage that the test plants.
            unsafe { first.cast::<u64>().write(elsewhere) };
            assert_eq!(cache.alloc(Gfp::KERNEL), Ok(first));
            for _ in 0..100 {
                let object = cache.alloc(Gfp::KERNEL).unwrap();
                // SAFETY: the object was just allocated from this cache and is not used any more.
                unsafe { cache.free(object).unwrap() };
            }
            victim.alloc(Gfp::KERNEL).unwrap();
            check(slab).unwrap();
        });
    }
}

#[test]
fn random_order_differs_from_address_order() {
    let mut policy = policy(SlabPolicy::Tagged, SlabLinks::Plain);
    policy.slab.order = SlabOrder::Random;
    with_world(policy, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 64)).unwrap();
        let (mut objects, _second) = two_slabs(&cache);
        let ascending = objects.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(ascending < objects.len() - 1, "the objects were allocated in the order of their addresses");
        objects.sort_unstable();
        objects.dedup();
        assert_eq!(objects.len(), usize::from(cache.info().layout.objects));
    });
}
