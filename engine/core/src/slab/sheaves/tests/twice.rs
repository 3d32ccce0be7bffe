//! An object that is freed twice in a row: the second time is refused, and harms nobody.

use super::*;

/// Both kinds of slabs, with sheaves.
fn policies() -> [Policy; 2] {
    [policy(), Policy::FREEHOLD]
}

fn expect_refused(freed: Result<(), ObjectFreeError>, object: NonNull<u8>) {
    assert_eq!(freed, Err(ObjectFreeError::DoubleFree { address: object.as_ptr() as u64 }));
}

/// Has one of the two objects in use of a slab freed twice in a row, by a CPU from which it goes to its slab at once.
/// The other one stays where it is.
fn free_twice_to_slab(slab: &Machine<'_, '_, '_>, size: u32, cpu: CpuId) {
    let cache = slab.create(&CacheConfig::new("objects", size)).unwrap();
    let [twice, live] = [(); 2].map(|()| cache.alloc(GFP).unwrap());
    cache.shrink();
    run_on_cpu(cpu);
    free(&cache, &[twice]);
    // SAFETY: it is free; that is what must be noticed.
    expect_refused(unsafe { cache.free(twice) }, twice);
    cache.shrink();
    assert_eq!((cache.slabs(), slab.ksize(live)), (1, Ok(size as usize)), "an object of {size} bytes is in use");
    check(slab).unwrap();
    free(&cache, &[live]);
    cache.destroy().unwrap();
}

#[test]
fn an_object_of_another_node() {
    for (policy, size) in policies().into_iter().flat_map(|policy| [(policy, 32), (policy, 64)]) {
        on_machine_with(policy, &[NodeId(0), NodeId(1)], |slab| free_twice_to_slab(slab, size, CpuId(1)));
    }
}

#[test]
fn an_object_without_memory_for_a_sheaf() {
    for (policy, size) in policies().into_iter().flat_map(|policy| [(policy, 32), (policy, 64)]) {
        on_machine_with(policy, &[NodeId(0)], |slab| {
            destroy_sheaf_caches(slab);
            free_twice_to_slab(slab, size, CpuId(0));
        });
    }
}

/// By one request, before and after the place where it takes a lock, and at its end; then by two.
#[test]
fn an_object_among_many() {
    for policy in policies() {
        on_machine_with(policy, &[NodeId(0)], |slab| {
            let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
            for at in [0, 63, 99] {
                let objects = allocate(&cache, 100);
                // SAFETY: allocated just now; one is named twice, which must be noticed.
                expect_refused(unsafe { cache.free_bulk(&[&objects[..=at], &objects[at..]].concat()) }, objects[at]);
                check(slab).unwrap();
            }
            let objects = allocate(&cache, 40);
            // SAFETY: allocated just now, and nobody else has it.
            unsafe { cache.free_bulk(&objects[..30]).unwrap() };
            // SAFETY: allocated above, and not freed but for one, which must be noticed.
            expect_refused(unsafe { cache.free_bulk(&objects[29..]) }, objects[29]);
            check(slab).unwrap();
            cache.destroy().unwrap();
        });
    }
}
