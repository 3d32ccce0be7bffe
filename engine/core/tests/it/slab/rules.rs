//! Rules of SLUB, one scene per rule: the number of slabs that are kept, the slabs that are used first, and the
//! contents of objects.

use std::cell::Cell;
use std::ptr::NonNull;

use freehold::base::{CpuId, Gfp};
use freehold::policy::Policy;
use freehold::policy::slab::{SlabGuard, SlabLinks, SlabOrder, SlabPolicy, SlabSizes};
use freehold::slab::fast_path::{AnyFastPath, Bitmap, FastPath, PageField, PageFieldGuarded, Sheaves, Tagged};
use freehold::slab::freelist::{Mangled, Plain};
use freehold::slab::{CacheConfig, CacheFlags, CacheUsage};

use crate::slab::world::{Cache, Slab, check, judge, judge_empty, policies, policy, run_on, with_world};

fn alloc(cache: &Cache<'_, '_, '_, '_>, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc(Gfp::KERNEL).expect("enough memory must be free")).collect()
}

fn free(cache: &Cache<'_, '_, '_, '_>, cpu: u16, objects: impl IntoIterator<Item = NonNull<u8>>) {
    run_on(cpu);
    // SAFETY: the tests pass allocated objects of this cache that they do not use any more.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) }.expect("the pointer must be an object in use"));
}

fn owning_policies() -> impl Iterator<Item = Policy> {
    policies().into_iter().filter(|policy| !policy.slab.objects.has_sheaves())
}

/// A CPU keeps twice the number of free objects that Linux allows, counted in slabs. linux: mm/slub.c:set_cpu_partial,
/// slub_set_cpu_partial
#[test]
fn cpu_keeps_empty_slabs_like_linux() {
    let by_size = [
        (8, 120),
        (136, 120),
        (240, 120),
        (248, 120),
        (256, 52),
        (304, 52),
        (480, 52),
        (1016, 52),
        (1024, 24),
        (1424, 24),
        (2048, 24),
        (4088, 24),
        (4096, 6),
        (6552, 6),
        (8192, 6),
    ];
    for (size, objects_kept) in by_size {
        with_world(Policy::LINUX_6_12, |slab| {
            let cache = slab.create(&CacheConfig::new("kept", size)).expect("the cache can be created");
            let in_slab = usize::from(cache.info().layout.objects);
            let kept = 1 + (2 * objects_kept as usize).div_ceil(in_slab);
            run_on(0);
            let objects = alloc(&cache, (kept + 3) * in_slab);
            free(&cache, 0, objects);
            assert_eq!(cache.slabs(), kept as u64, "slabs of {in_slab} objects of {size} bytes, with the current slab");
            judge_empty(slab, 0);
        });
    }
}

/// A node keeps half the logarithm of the size, between 5 and 10 slabs. linux: mm/slub.c:do_kmem_cache_create
#[test]
fn node_keeps_free_slabs_like_linux() {
    for (size, kept) in [(8, 5), (1024, 5), (2048, 5), (4096, 6), (16_384, 7), (65_536, 8), (1 << 18, 9)] {
        for policy in owning_policies() {
            with_world(policy, |slab| {
                let cache = slab.create(&CacheConfig::new("kept", size)).expect("the cache can be created");
                run_on(2);
                let objects = alloc(&cache, (kept + 3) * usize::from(cache.info().layout.objects));
                slab.cpu_dead(CpuId(2));
                free(&cache, 1, objects);
                judge(slab, 0);
                assert_eq!(cache.slabs(), kept as u64, "of {size} bytes, under {:?}", policy.slab);
                judge_empty(slab, 0);
            });
        }
    }
}

/// A node keeps ten free slabs of objects so large that the machine has too little memory to test the behaviour.
#[test]
fn node_limit_for_the_largest_objects_is_ten() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        for size in [1 << 20, 1 << 21, 4 << 20] {
            let cache = slab.create(&CacheConfig::new("large", size)).expect("the cache can be created");
            assert_eq!(cache.info().limits.node_free, 10, "{size}");
        }
    });
}

/// A node keeps as many free slabs of a checked cache, all of whose slabs belong to the node.
#[test]
fn node_keeps_equal_numbers_for_checked_caches() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        for (size, kept) in [(8, 5), (4000, 5), (4096, 6), (16_384, 7)] {
            let cache = slab
                .create(&CacheConfig::new("kept", size).with_flags(CacheFlags::SANITY))
                .expect("the cache can be created");
            let objects = alloc(&cache, (kept + 3) * usize::from(cache.info().layout.objects));
            free(&cache, 1, objects);
            judge(slab, 0);
            assert_eq!(cache.slabs(), kept as u64, "of {size} bytes");
            assert!(cache.destroy().is_ok());
        }
    });
}

/// The documentation of [`slab`](freehold::slab) states this bound: nine times the configured number, and the slab from
/// which the CPU allocates.
#[test]
fn cpu_limit_is_nine_times_the_setting_and_a_slab() {
    for slabs in [1, 2, 16] {
        with_world(policy(SlabPolicy::Tagged, 4 * slabs), |slab| {
            let cache = slab.create(&CacheConfig::new("most", 1344)).expect("the cache can be created");
            assert_eq!(cache.info().limits.kept_by_cpu(), 1 + 9 * u64::from(slabs));
        });
    }
}

/// Allocates and frees, through a frontend, an object of the largest size and one that is a byte larger.
fn expect_pages_beyond_the_largest<F: FastPath>(slab: &Slab<'_, '_, '_>) {
    let frontend = slab.frontend::<F>().expect("the policy must have this front end");
    let largest = slab.policy().slab.sizes.largest();
    for (size, room) in [(largest, largest), (largest + 1, 2 * largest)] {
        let object = NonNull::new(frontend.malloc(size)).expect("enough memory must be free");
        assert_eq!(slab.ksize(object), Ok(room), "{size} under {:?}", slab.policy().slab);
        // SAFETY: the object was just allocated and is not used any more.
        unsafe { frontend.free(object.as_ptr()) };
    }
    judge_empty(slab, 0);
}

/// Returns a policy without a guard.
fn unguarded(objects: SlabPolicy, sizes: SlabSizes) -> Policy {
    let mut policy = policy(objects, 0);
    (policy.slab.sizes, policy.slab.guard) = (sizes, SlabGuard::None);
    policy
}

/// A frontend for one fast path must also handle sizes that have no cache.
#[test]
fn frontend_serves_sizes_beyond_the_largest_cache() {
    for sizes in [SlabSizes::Linux, SlabSizes::Fine] {
        with_world(unguarded(SlabPolicy::Tagged, sizes), expect_pages_beyond_the_largest::<Tagged<Plain>>);
        with_world(unguarded(SlabPolicy::PageField, sizes), expect_pages_beyond_the_largest::<PageField<Plain>>);
        with_world(unguarded(SlabPolicy::Bitmap, sizes), expect_pages_beyond_the_largest::<Bitmap<Plain>>);
        with_world(unguarded(SlabPolicy::Sheaves, sizes), expect_pages_beyond_the_largest::<Sheaves>);
        with_world(unguarded(SlabPolicy::SheavesBitmap, sizes), expect_pages_beyond_the_largest::<Sheaves>);
    }
}

/// Returns a policy whose CPUs disable preemption.
fn guarded(mut policy: Policy) -> Policy {
    policy.slab.guard = SlabGuard::Preempt;
    policy
}

/// A frontend is compiled for one fast path, and is refused by an allocator with another one.
#[test]
fn frontend_requires_the_policy_fast_path() {
    for policy in policies().into_iter().flat_map(|policy| [policy, guarded(policy)]) {
        with_world(policy, |slab| {
            let ways = [
                slab.frontend::<Tagged<Plain>>().is_some(),
                slab.frontend::<Tagged<Mangled>>().is_some(),
                slab.frontend::<PageField<Plain>>().is_some(),
                slab.frontend::<PageField<Mangled>>().is_some(),
                slab.frontend::<PageFieldGuarded<Plain>>().is_some(),
                slab.frontend::<PageFieldGuarded<Mangled>>().is_some(),
                slab.frontend::<Bitmap<Plain>>().is_some(),
                slab.frontend::<Bitmap<Mangled>>().is_some(),
                slab.frontend::<Sheaves>().is_some(),
            ];
            let is_mangled = usize::from(policy.slab.links == SlabLinks::Mangled);
            let own = match (policy.slab.objects, policy.slab.guard) {
                (SlabPolicy::Tagged, _) => is_mangled,
                (SlabPolicy::PageField, SlabGuard::None) => 2 + is_mangled,
                (SlabPolicy::PageField, SlabGuard::Preempt) => 4 + is_mangled,
                (SlabPolicy::Bitmap, _) => 6 + is_mangled,
                (SlabPolicy::Sheaves | SlabPolicy::SheavesBitmap, _) => 8,
            };
            let found: Vec<_> = (0..ways.len()).filter(|&at| ways[at]).collect();
            assert_eq!(found, [own], "{:?}", policy.slab);
        });
    }
}

/// A block of pages belongs to no cache. It comes from the zone in the flags, which this machine may not have.
#[test]
fn kmalloc_block_uses_the_requested_zone() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        for size in [8, 5000, 9000] {
            for modifier in [Gfp::DMA, Gfp::DMA32] {
                assert!(
                    slab.kmalloc(size, Gfp::KERNEL | modifier).is_err(),
                    "the zone of {modifier:?} does not exist, so the request must fail"
                );
            }
            for modifier in [Gfp::HIGHMEM, Gfp::MOVABLE] {
                let block = slab.kmalloc(size, Gfp::KERNEL | modifier).expect("enough memory must be free");
                // SAFETY: the block was just allocated and is not used any more.
                unsafe { slab.kfree(block) }.expect("the pointer must be a block in use");
            }
        }
        judge_empty(slab, 0);
    });
}

/// A slab into which other CPUs freed objects is used first, before the slab into which the CPU itself freed last.
#[test]
fn cpu_reuses_remotely_freed_slabs_first() {
    for policy in owning_policies().filter(|policy| policy.slab.order == SlabOrder::Address) {
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("turns", 2048)).expect("the cache can be created");
            let objects = alloc(&cache, 6);
            free(&cache, 1, [objects[0]]);
            free(&cache, 0, [objects[2]]);
            assert_eq!(alloc(&cache, 2), [objects[0], objects[2]], "under {:?}", policy.slab);
        });
    }
}

/// A CPU that creates a slab may be overtaken by a signal handler that creates another one. The second slab goes to the
/// node.
#[test]
fn surplus_new_slab_is_kept_by_the_node() {
    thread_local! {
        static CACHE: Cell<usize> = const { Cell::new(0) };
    }
    fn overtake(_: NonNull<u8>) {
        let cache = CACHE.take() as *const Cache<'_, '_, '_, '_>;
        if !cache.is_null() {
            // SAFETY: the cache exists as long as a call allocates from it.
            unsafe { &*cache }.alloc(Gfp::KERNEL).expect("enough memory must be free");
        }
    }
    for policy in owning_policies() {
        with_world(policy, |slab| {
            let config = CacheConfig::new("overtaken", 1344).with_constructor(overtake);
            let cache = slab.create(&config).expect("the cache can be created");
            CACHE.set(&raw const cache as usize);
            cache.alloc(Gfp::KERNEL).expect("enough memory must be free");
            judge(slab, 2);
            assert_eq!(cache.slabs(), 2, "one slab of the CPU and one empty slab of the node");
            cache.shrink();
            assert_eq!(cache.slabs(), 1, "the node's empty slab must be freed");
        });
    }
}

/// Way to request an object of the cache's size, or a block of pages.
type Ask = fn(&Slab<'_, '_, '_>, &Cache<'_, '_, '_, '_>, Gfp) -> NonNull<u8>;

const ASKS: [(&str, Ask); 4] = [
    ("alloc", |_, cache, gfp| cache.alloc(gfp).expect("enough memory must be free")),
    ("kmalloc", |slab, cache, gfp| slab.kmalloc(size_of(cache), gfp).expect("enough memory must be free")),
    ("frontend", |slab, cache, gfp| {
        let frontend = slab.frontend::<AnyFastPath>().expect("a front end for any fast path must exist");
        frontend.kmalloc(size_of(cache), gfp).expect("enough memory must be free")
    }),
    ("alloc_bulk", |_, cache, gfp| {
        let mut objects = [NonNull::dangling()];
        cache.alloc_bulk(gfp, &mut objects).expect("enough memory must be free");
        objects[0]
    }),
];

fn size_of(cache: &Cache<'_, '_, '_, '_>) -> usize {
    cache.info().layout.object_size as usize
}

/// Returns the bytes of an object after its first word, which may have been a link.
fn bytes_of<'o>(object: NonNull<u8>, size: usize) -> &'o [u8] {
    // SAFETY: the callers pass an allocated object of `size` bytes that was initialised before.
    unsafe { std::slice::from_raw_parts(object.as_ptr().add(8), size - 8) }
}

#[test]
fn memory_is_zeroed_only_on_request() {
    for policy in policies() {
        for (name, ask) in ASKS {
            for size in [64, 192, 1024, 4096, 3 * 8192] {
                with_world(policy, |slab| {
                    let cache = slab.create(&CacheConfig::new("bytes", size as u32)).expect("the cache can be created");
                    for (gfp, byte) in [(Gfp::KERNEL, 0xaa), (Gfp::KERNEL | Gfp::ZERO, 0)] {
                        let first = ask(slab, &cache, Gfp::KERNEL);
                        // SAFETY: the object was just allocated, has `size` bytes, and is not used after the free.
                        unsafe {
                            first.write_bytes(0xaa, size);
                            slab.kfree(first).expect("the pointer must be an object in use");
                        }
                        let again = ask(slab, &cache, gfp);
                        assert_eq!(again, first, "{name} of {size}: the object freed last must be allocated next");
                        assert!(bytes_of(again, size).iter().all(|&found| found == byte), "{name} of {size}, {gfp:?}");
                        // SAFETY: the object was allocated above and is not used any more.
                        unsafe { slab.kfree(again) }.expect("the pointer must be an object in use");
                    }
                });
            }
        }
    }
}

#[test]
fn in_place_shrink_clears_the_tail_only_on_request() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        for (gfp, byte) in [(Gfp::KERNEL, 0xaa), (Gfp::KERNEL | Gfp::ZERO, 0)] {
            let object = slab.kmalloc(64, gfp).expect("enough memory must be free");
            // SAFETY: the object was just allocated and has 64 bytes.
            unsafe { object.write_bytes(0xaa, 64) };
            // SAFETY: the object was allocated above, and only its returned address, which is the same, is used
            // afterwards.
            assert_eq!(unsafe { slab.krealloc(object, 8, gfp) }, Ok(object));
            assert!(bytes_of(object, 64).iter().all(|&found| found == byte), "{gfp:?}");
        }
    });
}

/// Objects that were freed into sheaves count as cached. A list in a CPU's slot is not counted, so other policies have
/// none.
#[test]
fn usage_counts_objects_in_sheaves_as_cached() {
    for policy in policies() {
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("cached", 64)).expect("the cache can be created");
            let mut objects = alloc(&cache, 500);
            let kept = objects.split_off(300);
            free(&cache, 0, objects);
            let mut found = None;
            slab.usage(|cache, usage| found = Some(usage).filter(|_| cache.name.as_str() == "cached").or(found));
            let CacheUsage { active, cached, .. } = found.expect("the cache must be visited");
            if policy.slab.objects.has_sheaves() {
                assert_eq!(active - cached, kept.len() as u64, "under {:?}", policy.slab);
                assert!(cached > 0, "under {:?}", policy.slab);
            } else {
                assert_eq!(cached, 0, "under {:?}", policy.slab);
            }
            free(&cache, 0, kept);
            check(slab);
        });
    }
}

/// A walk over all pages sees each slab, whether it follows a slab, a block, or other memory.
#[test]
fn usage_counts_objects_on_all_pages() {
    for policy in policies() {
        with_world(policy, |slab| {
            let cache = slab.create(&CacheConfig::new("usage", 4096)).expect("the cache can be created");
            let mut objects = alloc(&cache, 24);
            objects.sort();
            let blocks: Vec<_> =
                (0..5).map(|_| slab.kmalloc(5 * 4096, Gfp::KERNEL).expect("enough memory must be free")).collect();
            let gone: Vec<_> = objects.iter().copied().enumerate().filter(|(at, _)| at % 3 == 1).collect();
            free(&cache, 0, gone.into_iter().map(|(_, object)| object));
            slab.shrink();
            let mut found = None;
            slab.usage(|cache, usage| found = Some(usage).filter(|_| cache.name.as_str() == "usage").or(found));
            assert_eq!(
                found,
                Some(CacheUsage { active: 16, cached: 0, objects: 16, slabs: 16 }),
                "under {:?}",
                policy.slab
            );
            check(slab);
            // SAFETY: the blocks were allocated above and are not used any more.
            blocks
                .into_iter()
                .for_each(|block| unsafe { slab.kfree(block) }.expect("the pointer must be a block in use"));
        });
    }
}

/// An attacker who learns the order of one slab does not know the order of another.
#[test]
fn random_orders_of_slabs_differ() {
    let mut policy = policy(SlabPolicy::Tagged, 0);
    policy.slab.order = SlabOrder::Random;
    with_world(policy, |slab| {
        let cache = slab.create(&CacheConfig::new("random", 8)).expect("the cache can be created");
        let in_slab = usize::from(cache.info().layout.objects);
        let mut orders = Vec::new();
        for _ in 0..64 {
            let objects = alloc(&cache, in_slab);
            let order: Vec<_> = objects.iter().map(|object| object.addr().get() % 4096).collect();
            assert!(!orders.contains(&order));
            orders.push(order);
        }
    });
}

/// The objects of each slab are handed out by ascending address, even if a refill combines several slabs.
#[test]
fn sheaves_return_objects_by_ascending_address() {
    for size in [32, 64, 1024] {
        with_world(policy(SlabPolicy::SheavesBitmap, 0), |slab| {
            let cache = slab.create(&CacheConfig::new("ascending", size)).expect("the cache can be created");
            let mask = cache.info().layout.mask;
            run_on(0);
            let objects = alloc(&cache, 1000);
            let mut descents = objects.windows(2).filter(|pair| pair[1] < pair[0]);
            let is_within_slab =
                descents.any(|pair| mask.is_shared(pair[0].addr().get() as u64, pair[1].addr().get() as u64));
            assert!(!is_within_slab, "{size}");
            free(&cache, 0, objects);
            judge_empty(slab, 0);
        });
    }
}
