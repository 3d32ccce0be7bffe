//! Tests of objects that are freed twice in a row: the second free is refused, and has no effect.

use super::*;

/// Returns the policies with sheaves for both kinds of slabs.
fn policies() -> [Policy; 2] {
    [policy(), Policy::FREEHOLD]
}

fn expect_refused(freed: Result<(), ObjectFreeError>, object: NonNull<u8>) {
    assert_eq!(freed, Err(ObjectFreeError::DoubleFree { address: object.as_ptr() as u64 }));
}

/// Frees one of two objects in use of a slab twice in a row, on a CPU that frees the object to its slab at once. The
/// other object stays in use.
fn free_twice_to_slab(slab: &Machine<'_, '_, '_>, size: u32, cpu: CpuId) {
    let cache = slab.create(&CacheConfig::new("objects", size)).unwrap();
    let [twice, live] = [(); 2].map(|()| cache.alloc(GFP).unwrap());
    cache.shrink();
    run_on_cpu(cpu);
    free(&cache, &[twice]);
    // SAFETY: the object is free, and the allocator must detect the double free.
    expect_refused(unsafe { cache.free(twice) }, twice);
    cache.shrink();
    assert_eq!((cache.slabs(), slab.ksize(live)), (1, Ok(size as usize)), "an object of {size} bytes is in use");
    check(slab).unwrap();
    free(&cache, &[live]);
    cache.destroy().unwrap();
}

#[test]
fn double_free_of_a_remote_node_object_is_refused() {
    for (policy, size) in policies().into_iter().flat_map(|policy| [(policy, 32), (policy, 64)]) {
        on_machine_with(policy, &[NodeId(0), NodeId(1)], |slab| free_twice_to_slab(slab, size, CpuId(1)));
    }
}

#[test]
fn double_free_without_sheaf_memory_is_refused() {
    for (policy, size) in policies().into_iter().flat_map(|policy| [(policy, 32), (policy, 64)]) {
        on_machine_with(policy, &[NodeId(0)], |slab| {
            destroy_sheaf_caches(slab);
            free_twice_to_slab(slab, size, CpuId(0));
        });
    }
}

/// The double free happens within one bulk free, before, at and after the place where a lock is taken, and then in two
/// bulk frees.
#[test]
fn double_free_in_a_bulk_is_refused() {
    for policy in policies() {
        on_machine_with(policy, &[NodeId(0)], |slab| {
            let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
            for at in [0, 63, 99] {
                let objects = allocate(&cache, 100);
                // SAFETY: the objects were allocated above. One occurs twice, which the allocator must detect.
                expect_refused(unsafe { cache.free_bulk(&[&objects[..=at], &objects[at..]].concat()) }, objects[at]);
                check(slab).unwrap();
            }
            let objects = allocate(&cache, 40);
            // SAFETY: the objects were allocated above, and are freed once.
            unsafe { cache.free_bulk(&objects[..30]).unwrap() };
            // SAFETY: the objects were allocated above and not freed, except for one, whose double free the allocator
            // must detect.
            expect_refused(unsafe { cache.free_bulk(&objects[29..]) }, objects[29]);
            check(slab).unwrap();
            cache.destroy().unwrap();
        });
    }
}
