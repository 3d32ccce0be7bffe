//! Tests of bulk allocation and bulk free.

use super::*;

#[test]
fn bulk_uses_whole_sheaves() {
    on_machine(&[NodeId(0)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let mut objects = [NonNull::dangling(); 3 * CAPACITY + 7];
        cache.alloc_bulk(GFP | Gfp::ZERO, &mut objects).unwrap();
        assert_eq!(held(slab, cache.id, CpuId(0)), [0, 0, 0], "what no sheaf has comes from slabs directly");
        let mut distinct = objects.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), objects.len());
        check(slab).unwrap();
        let one = allocate(&cache, 1);
        let foreign = NonNull::from(&mut 0_u64).cast();
        let of_another = slab.kmalloc(8, GFP).unwrap();
        objects.swap(0, 5);
        let wrong = [&objects[..30], &[foreign, of_another], &objects[30..]].concat();
        // SAFETY: the objects were allocated above and are freed once, except for two addresses, which are refused.
        let error = unsafe { cache.free_bulk(&wrong) };
        let address = foreign.as_ptr() as u64;
        assert_eq!(error, Err(ObjectFreeError::Foreign { address }), "the first that is wrong is named");
        assert_eq!(
            held(slab, cache.id, CpuId(0)),
            [0, CAPACITY, 0],
            "the sheaf that is there is filled, and no other made"
        );
        check(slab).unwrap();
        cache.alloc_bulk(GFP, &mut objects[..CAPACITY + 10]).unwrap();
        assert_eq!(
            held(slab, cache.id, CpuId(0)),
            [0, 0, 0],
            "the sheaves must be emptied before objects of slabs are allocated"
        );
        free(&cache, &objects[..CAPACITY + 10]);
        free(&cache, &one);
        // SAFETY: the object was allocated above, and was not freed since.
        unsafe { slab.kfree(of_another).unwrap() };
        check(slab).unwrap();
        cache.destroy().unwrap();
    });
}

#[test]
fn bulk_only_callers_use_sheaves() {
    on_machine(&[NodeId(0)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let mut objects = [NonNull::dangling(); CAPACITY / 2];
        for _ in 0..3 {
            cache.alloc_bulk(GFP, &mut objects).unwrap();
            // SAFETY: the objects were allocated above, and were not freed since.
            unsafe { cache.free_bulk(&objects).unwrap() };
            assert_eq!(held(slab, cache.id, CpuId(0)), [0, CAPACITY / 2, 0]);
        }
        check(slab).unwrap();
        cache.destroy().unwrap();
    });
}

#[test]
fn failed_bulk_frees_its_allocations() {
    on_machine(&[NodeId(0)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", 4096)).unwrap();
        let mut objects = std::vec![NonNull::dangling(); 1 << 13];
        assert!(matches!(cache.alloc_bulk(GFP, &mut objects), Err(ObjectError::Pages(_))));
        check(slab).unwrap();
        cache.destroy().expect("nothing is in use");
        slab.shrink();
        assert_eq!(check(slab).unwrap().slabs, 0);
    });
}

#[test]
fn failed_bulk_returns_sheaf_objects() {
    on_machine(&[NodeId(0)], |slab| {
        let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
        let all: Vec<_> = core::iter::from_fn(|| cache.alloc(GFP).ok()).collect();
        free(&cache, &all[..3]);
        let before = held(slab, cache.id, CpuId(0));
        assert!(matches!(cache.alloc_bulk(GFP, &mut [NonNull::dangling(); 5]), Err(ObjectError::Pages(_))));
        assert_eq!(held(slab, cache.id, CpuId(0)).iter().sum::<usize>(), before.iter().sum::<usize>(), "{before:?}");
        check(slab).unwrap();
        assert_eq!(core::iter::from_fn(|| cache.alloc(GFP).ok()).count(), 3);
    });
}

/// An address inside an object must not reach a sheaf, from which it would be allocated.
#[test]
fn address_inside_an_object_is_refused_in_a_bulk() {
    for policy in [policy(), Policy::FREEHOLD] {
        on_machine_with(policy, &[NodeId(0)], |slab| {
            let cache = slab.create(&CacheConfig::new("objects", SIZE)).unwrap();
            let objects = allocate(&cache, 10);
            // SAFETY: the result is used as an address only.
            let inside = unsafe { objects[9].byte_add(8) };
            // SAFETY: the objects were allocated above and are freed once, except for an address, which is refused.
            let error = unsafe { cache.free_bulk(&[&objects[..9], &[inside]].concat()) };
            assert_eq!(error, Err(ObjectFreeError::Interior { address: inside.as_ptr() as u64 }));
            let again = allocate(&cache, 3 * CAPACITY);
            assert!(!again.contains(&inside), "no sheaf has the address");
            free(&cache, &again);
            free(&cache, &objects[9..]);
            check(slab).unwrap();
            cache.destroy().unwrap();
        });
    }
}
