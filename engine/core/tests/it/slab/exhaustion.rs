//! Exhaustion: the allocation of the n-th slab fails, for every n, and only that request fails. If no block as large as
//! a slab is free but smaller ones are, a request by size does not fail.

use std::iter;

use freehold::base::{Gfp, Order, Pfn};
use freehold::policy::slab::SlabPolicy;
use freehold::policy::{PcpPolicy, Policy};
use freehold::slab::CacheConfig;

use crate::slab::object_model::ObjectModel;
use crate::slab::scenario::{NOWAIT, tell};
use crate::slab::world::{PAGES, SIZES, Slab, check, judge_empty, pages_of, policies, policy, with_world};

fn free_page(slab: &Slab<'_, '_, '_>, page: Pfn) {
    pages_of(slab).free_pages(page, Order::ZERO).expect("the test holds these pages");
}

/// Allocates all pages except `left`, plays the scenario, and frees the pages. Returns the number of failed requests.
fn tell_with(slab: &Slab<'_, '_, '_>, size: u32, left: usize) -> u32 {
    let mut pages = Vec::new();
    while let Ok(page) = pages_of(slab).alloc_pages(NOWAIT, Order::ZERO) {
        pages.push(page);
    }
    pages.drain(pages.len() - left..).for_each(|page| free_page(slab, page));
    let held = pages.len() as u64;
    let failures = tell(slab, size, held);
    pages.into_iter().for_each(|page| free_page(slab, page));
    failures
}

fn count_allocated(slab: &Slab<'_, '_, '_>) -> u64 {
    pages_of(slab).check().expect("the check must find no error").allocated
}

#[test]
fn every_page_request_may_fail() {
    for policy in policies() {
        for size in SIZES {
            let failures = (0..).map(|left| with_world(policy, |slab| tell_with(slab, size, left)));
            let too_small = failures.take_while(|&count| count > 0).count();
            assert!(too_small >= 3, "allocations failed in only {too_small} worlds under {:?}", policy.slab);
        }
    }
}

/// A request that may use reserves does so for its own object only, not to prefetch objects and not for a sheaf.
#[test]
fn prefetch_does_not_use_the_reserve() {
    for objects in [SlabPolicy::Sheaves, SlabPolicy::SheavesBitmap] {
        with_world(policy(objects, 0), |slab| {
            let cache = slab.create(&CacheConfig::new("reserve", 1344)).expect("the cache can be created");
            let first = cache.alloc(Gfp::KERNEL).expect("enough memory must be free");
            slab.shrink();
            let pages: Vec<_> = iter::from_fn(|| pages_of(slab).alloc_pages(NOWAIT, Order::ZERO).ok()).collect();
            let before = count_allocated(slab);
            let others: Vec<_> = iter::from_fn(|| cache.alloc(Gfp::ATOMIC).ok()).take(2).collect();
            assert_eq!(count_allocated(slab), before, "the slab of the first has room for both");
            let more = cache.alloc(Gfp::ATOMIC).expect("the reserve must serve this request");
            assert_eq!(count_allocated(slab), before + 1);
            for object in others.into_iter().chain([first, more]) {
                // SAFETY: the object was allocated above and is not used any more.
                unsafe { cache.free(object) }.expect("the pointer must be an object in use");
            }
            pages.into_iter().for_each(|page| free_page(slab, page));
            cache.destroy().expect("the cache has no objects, so it can be destroyed");
            judge_empty(slab, 0);
        });
    }
}

/// One of this many consecutive pages stays allocated, so no block of this size is free.
const APART: u32 = 16;

/// Fragments the memory into blocks of less than [`APART`] pages. Returns the pages that stay allocated.
fn fragment(slab: &Slab<'_, '_, '_>) -> Vec<Pfn> {
    let taken: Vec<_> = iter::from_fn(|| pages_of(slab).alloc_pages(Gfp::KERNEL, Order::ZERO).ok()).collect();
    assert!(taken.len() > PAGES as usize / 2);
    let (kept, freed) = taken.into_iter().partition::<Vec<_>, _>(|page| page.raw() % APART == 0);
    freed
        .into_iter()
        .for_each(|page| pages_of(slab).free_pages(page, Order::ZERO).expect("the test holds these pages"));
    kept
}

/// Allocates objects of a size until the request fails, when no page may be left that could hold an object. Checks all
/// objects and frees them.
fn take_all(slab: &Slab<'_, '_, '_>, size: usize) {
    let mut object_model = ObjectModel::default();
    while let Ok(object) = slab.kmalloc(size, Gfp::KERNEL) {
        assert!(slab.ksize(object).expect("the pointer must be an object in use") >= size);
        object_model.take(object, size);
    }
    let order = Order::new(u8::from(size > 4096));
    let page = pages_of(slab).alloc_pages(Gfp::KERNEL, order);
    assert!(page.is_err(), "{} objects of {size} bytes, and a page is left", object_model.len());
    check(slab);
    while let Some(object) = object_model.pick(0) {
        object_model.give(object);
        if size < slab.policy().slab.sizes.largest() {
            // SAFETY: the object was allocated above, and its address is not used after this call unless the call
            // fails.
            let grown = unsafe { slab.krealloc(object, size + 1, Gfp::KERNEL) };
            // SAFETY: the object is the one that `krealloc` returned, or the original one if it failed, and is not used
            // any more.
            unsafe { slab.kfree(grown.unwrap_or(object)) }.expect("the pointer must be an object in use");
        } else {
            // SAFETY: the object was allocated above and is not used any more.
            unsafe { slab.kfree(object) }.expect("the pointer must be an object in use");
        }
    }
}

/// A heap that can bring more memory online prefers a failure to a block of pages for a small request.
/// [`fail_without_slab`](freehold::slab::SlabAllocator::fail_without_slab) selects this behaviour.
#[test]
fn fail_without_slab_prefers_failure_to_whole_pages() {
    let mut policy = Policy { pcp: PcpPolicy::Off, ..Policy::FREEHOLD };
    policy.slab.objects = SlabPolicy::Tagged;
    with_world(policy, |slab| {
        let others = fragment(slab);
        slab.fail_without_slab();
        let mut objects: Vec<_> = iter::from_fn(|| slab.kmalloc(1000, NOWAIT).ok()).collect();
        assert!(objects.iter().all(|&object| slab.ksize(object) == Ok(1024)), "each object must be in a slab");
        slab.take_pages_without_slab();
        let block =
            slab.kmalloc(1000, NOWAIT).expect("single pages must suffice, although no block for a slab is free");
        assert_eq!(slab.ksize(block), Ok(4096));
        objects.push(block);
        // SAFETY: the objects were allocated above and are not used any more.
        objects.into_iter().for_each(|object| unsafe { slab.kfree(object) }.expect("the test holds this object"));
        judge_empty(slab, others.len() as u64);
    });
}

#[test]
fn kmalloc_falls_back_to_smaller_blocks() {
    let ways =
        [SlabPolicy::Bitmap, SlabPolicy::Tagged, SlabPolicy::PageField, SlabPolicy::Sheaves, SlabPolicy::SheavesBitmap];
    for (base, objects) in
        [Policy::FREEHOLD, Policy::LINUX_6_12].into_iter().flat_map(|base| ways.map(|way| (base, way)))
    {
        let mut policy = Policy { pcp: PcpPolicy::Off, ..base };
        policy.slab.objects = objects;
        with_world(policy, |slab| {
            let others = fragment(slab);
            for size in [8, 96, 1000, 1024, 4096, 8192] {
                take_all(slab, size);
                slab.shrink();
            }
            judge_empty(slab, others.len() as u64);
        });
    }
}
