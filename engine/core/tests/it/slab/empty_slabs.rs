//! Slabs that a CPU keeps when none of its objects is in use: at most as many as the rule allows, for every order and
//! every CPU of the frees.

use std::ptr::NonNull;

use freehold::base::Gfp;
use freehold::policy::Policy;
use freehold::slab::CacheConfig;

use crate::slab::interfering_local::Meddling;
use crate::slab::world::{Cache, judge, judge_empty, policies, run_on, with_meddler, with_world};

/// Number of slabs that are filled.
const SLABS: usize = 300;

/// Fills slabs on CPU 0, lets `free_all` free all objects, grouped by slab, and checks the number of slabs that are
/// kept.
fn expect_few(free_all: fn(&Cache<'_, '_, '_, '_>, Vec<Vec<NonNull<u8>>>)) {
    for policy in policies().into_iter().filter(|policy| !policy.slab.objects.has_sheaves()) {
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("kept", 1344)).expect("the cache can be created");
            let layout = cache.info().layout;
            let mut objects: Vec<_> = (0..SLABS * usize::from(layout.objects)).map(|_| alloc(&cache, 0)).collect();
            assert_eq!(cache.slabs(), SLABS as u64);
            objects.sort();
            let slabs = objects
                .chunk_by(|one, other| layout.mask.is_shared(one.addr().get() as u64, other.addr().get() as u64));
            free_all(&cache, slabs.map(<[_]>::to_vec).collect());
            judge(slab, 0);
            let limits = cache.info().limits;
            let most = limits.kept_by_cpu() + u64::from(limits.node_free);
            assert!(cache.slabs() <= most, "{} slabs, at most {most}, under {:?}", cache.slabs(), policy.slab);
            judge_empty(slab, 0);
        });
    }
}

fn alloc(cache: &Cache<'_, '_, '_, '_>, cpu: u16) -> NonNull<u8> {
    run_on(cpu);
    cache.alloc(Gfp::KERNEL).expect("enough memory must be free")
}

fn free(cache: &Cache<'_, '_, '_, '_>, cpu: u16, objects: impl IntoIterator<Item = NonNull<u8>>) {
    run_on(cpu);
    // SAFETY: the tests pass allocated objects of this cache that they do not use any more.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) }.expect("the pointer must be an object in use"));
}

#[test]
fn remotely_emptied_slabs_are_freed() {
    expect_few(|cache, slabs| free(cache, 1, slabs.into_iter().flatten()));
}

/// The owner allocates from time to time, so that the slabs are moved to its list. Afterwards it does not allocate
/// again.
#[test]
fn remotely_emptied_slabs_on_the_owners_list_are_freed() {
    expect_few(|cache, mut slabs| {
        let mut more = Vec::new();
        for (at, objects) in slabs.iter_mut().enumerate() {
            free(cache, 1, objects.pop());
            if at % 3 == 0 {
                more.extend([alloc(cache, 0), alloc(cache, 0)]);
            }
        }
        free(cache, 1, slabs.into_iter().flatten().chain(more));
    });
}

/// The owner frees into each slab first, so no other CPU has to queue the slabs.
#[test]
fn slabs_emptied_remotely_after_an_owner_free_are_freed() {
    expect_few(|cache, mut slabs| {
        slabs.iter_mut().for_each(|objects| free(cache, 0, objects.pop()));
        free(cache, 1, slabs.into_iter().flatten());
    });
}

/// The owner frees the last object in use but does not notice, because objects that others freed count as in use.
#[test]
fn slabs_emptied_by_owner_after_a_remote_free_are_freed() {
    expect_few(|cache, mut slabs| {
        for objects in &mut slabs {
            free(cache, 0, objects.pop());
            free(cache, 1, objects.pop());
        }
        free(cache, 0, slabs.into_iter().flatten());
    });
}

/// Another CPU frees into each slab first. The owner then frees the other objects, including the last one in use.
#[test]
fn remotely_queued_slabs_emptied_by_the_owner_are_freed() {
    expect_few(|cache, slabs| {
        for mut objects in slabs {
            free(cache, 1, objects.pop());
            free(cache, 0, objects);
        }
    });
}

/// Only the owner frees into the slabs. Each slab is freed or counted at the free of its last object, which is not done
/// in a section.
#[test]
fn owner_keeps_its_limit_of_empty_slabs() {
    for policy in policies().into_iter().filter(|policy| !policy.slab.objects.has_sheaves()) {
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("kept", 1344)).expect("the cache can be created");
            let objects: Vec<_> = (0..SLABS).map(|_| alloc(&cache, 0)).collect();
            free(&cache, 0, objects);
            judge(slab, 0);
            let kept = 1 + u64::from(cache.info().limits.cpu_free);
            assert_eq!(cache.slabs(), kept, "the current slab and the limit of empty slabs, under {:?}", policy.slab);
            judge_empty(slab, 0);
        });
    }
}

/// Pages of a world with room for 300 MiB of objects.
const PLENTY: u32 = 96 << 10;

/// Fills 300 MiB with objects of a size, and frees all of them in strides, so that consecutive frees are in different
/// slabs. Returns the bytes of slabs that are left.
fn left_by_strides(policy: Policy, size: u32) -> u64 {
    const STRIDE: usize = 64;
    with_meddler(policy, PLENTY, (Meddling::Nothing, 0), |slab| {
        let cache = slab.create(&CacheConfig::new("strides", size)).expect("the cache can be created");
        let objects: Vec<_> = (0..(300 << 20) / size).map(|_| alloc(&cache, 0)).collect();
        let strides = (0..STRIDE).flat_map(|first| objects.iter().skip(first).step_by(STRIDE));
        free(&cache, 0, strides.copied());
        judge(slab, 0);
        let left = cache.slabs() * cache.info().layout.slab_bytes();
        judge_empty(slab, 0);
        left
    })
}

/// Each object in a sheaf may keep its slab allocated. The policy bounds the bytes of slabs that a CPU's two sheaves
/// and the node's sheaves keep in this way.
#[test]
fn sheaves_of_large_objects_pin_few_slabs() {
    for size in [2056, 3072, 4096, 8192, 12 << 10, 20 << 10, 32 << 10] {
        let left = left_by_strides(Policy::FREEHOLD, size);
        assert!(left <= 16 << 20, "{} MiB of slabs of {size} bytes", left >> 20);
    }
    let mut unbounded = Policy::FREEHOLD;
    unbounded.numbers.slab_pinned = None;
    assert!(left_by_strides(unbounded, 4096) > 32 << 20, "without a bound, each object must keep its slab");
}

/// A cache that was refilled since the last call keeps its free objects. One that was not gives back all of them, and
/// its slabs.
#[test]
fn reap_empties_caches_that_are_not_used() {
    for policy in policies() {
        let has_sheaves = policy.slab.objects.has_sheaves();
        with_world(policy, |slab| {
            let [idle, busy] = ["idle", "busy"].map(|name| slab.create(&CacheConfig::new(name, 64)).unwrap());
            for _ in 0..2 {
                slab.reap(u64::MAX);
                for cache in [&idle, &busy] {
                    let objects: Vec<_> = (0..500).map(|_| alloc(cache, 0)).collect();
                    free(cache, 1, objects);
                }
                slab.reap(u64::MAX);
                assert!(idle.slabs() > 0 && busy.slabs() > 0, "both were used since the last call");
                let objects: Vec<_> = (0..500).map(|_| alloc(&busy, 0)).collect();
                slab.reap(u64::MAX);
                assert_eq!(idle.slabs() == 0, has_sheaves);
                assert!(busy.slabs() > 0);
                free(&busy, 0, objects);
                judge(slab, 0);
            }
            judge_empty(slab, 0);
        });
    }
}

/// Caches that are in use keep at most the given bytes together. Those that keep most give back first, and a cache that
/// keeps little is left alone.
#[test]
fn reap_bounds_what_all_caches_keep() {
    with_meddler(Policy::FREEHOLD, PLENTY, (Meddling::Nothing, 0), |slab| {
        let sizes = [("little", 64), ("much", 1024), ("more", 4096), ("most", 16 << 10)];
        let caches = sizes.map(|(name, size)| slab.create(&CacheConfig::new(name, size)).unwrap());
        let use_all = || {
            for cache in &caches {
                let objects: Vec<_> = (0..500).map(|_| alloc(cache, 0)).collect();
                free(cache, 0, objects);
            }
        };
        let bytes = || caches.each_ref().map(|cache| cache.slabs() * cache.info().layout.slab_bytes());
        use_all();
        slab.reap(u64::MAX);
        let before = bytes();
        assert!(before.iter().all(|&bytes| bytes > 0), "each cache keeps slabs");
        use_all();
        slab.reap(bytes()[..2].iter().sum());
        let after = bytes();
        assert!(after[..2] == before[..2] && after[2..] == [0; 2], "kept {before:?}, and then {after:?}");
        slab.reap(u64::MAX);
        assert_eq!(bytes(), [0; 4], "no cache was used since the last call");
        judge_empty(slab, 0);
    });
}

/// Allocates `count` objects of a cache, and frees them. Returns the numbers of slabs before and after the frees.
fn fill_and_empty(count: usize) -> (u64, u64) {
    with_world(Policy::FREEHOLD, |slab| {
        let cache = slab.create(&CacheConfig::new("emptied", 64)).expect("the cache can be created");
        let objects: Vec<_> = (0..count).map(|_| alloc(&cache, 0)).collect();
        let had = cache.slabs();
        free(&cache, 0, objects);
        judge(slab, 0);
        let left = cache.slabs();
        judge_empty(slab, 0);
        (had, left)
    })
}

/// A node keeps 1 MiB of slabs in addition to its sheaves. A program that repeatedly fills and empties a cache does not
/// allocate pages each time, and a program that had much more memory returns it.
#[test]
fn node_keeps_a_mebibyte_of_free_slabs() {
    let (had, left) = fill_and_empty(10_000);
    assert_eq!(left, had, "{had} slabs of 4 KiB are less than it keeps");
    let (had, left) = fill_and_empty(100_000);
    assert!(had > 1024 && (256..512).contains(&left), "{left} of {had} slabs are left");
}
