//! Walks over whole caches: validation, and the list of objects that were not freed.

use freehold::Policy;
use freehold::base::{CpuId, Gfp};
use freehold::platform::host::run_on_cpu;
use freehold::slab::{CacheConfig, CacheFlags};

use super::{check, listener, relative, with_world, without_lines};

#[test]
fn validate_counts_damage_and_repairs_used_objects() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40)).unwrap();
        let objects: Vec<_> = (0..1000).map(|_| cache.alloc(Gfp::KERNEL).unwrap()).collect();
        assert_eq!((cache.validate(), slab.validate()), (0, 0));
        // SAFETY: the freed objects are not used any more. The writes outside of objects, and into a free one, are the
        // damage that the test plants, in slabs that no other thread uses.
        unsafe {
            objects[500..].iter().for_each(|&object| cache.free(object).unwrap());
            objects[3].as_ptr().add(40).write(1);
            objects[450].as_ptr().sub(1).write(1);
            objects[600].as_ptr().write(1);
            slab.kmalloc(100, Gfp::KERNEL).unwrap().as_ptr().add(100).write(1);
        }
        assert_eq!(cache.validate(), 3);
        let reports = listener(slab).take();
        let fixes: Vec<&str> = reports.iter().filter_map(|report| report.lines().last()).collect();
        assert_eq!(fixes.iter().filter(|fix| fix.contains("Restoring")).count(), 2, "{fixes:?}");
        assert_eq!(fixes.iter().filter(|fix| fix.contains("taken out of use")).count(), 1, "{fixes:?}");
        assert_eq!(
            (cache.validate(), slab.validate()),
            (0, 1),
            "the damage must be counted only in the cache of kmalloc"
        );
        assert_eq!(slab.validate(), 0);
        // SAFETY: the objects were allocated above and are not used any more.
        unsafe { objects[..500].iter().for_each(|&object| cache.free(object).unwrap()) };
        check(slab).unwrap();
    });
}

#[test]
fn validate_accepts_an_unchecked_cache() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40)).unwrap();
        cache.alloc(Gfp::KERNEL).unwrap();
        assert_eq!((cache.validate(), slab.validate()), (0, 0));
        cache.each_in_use(|object| panic!("an unchecked cache knows no objects, but listed {object:?}"));
    });
}

#[test]
fn each_in_use_callback_may_free_and_allocate() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::RED_ZONE)).unwrap();
        let first = cache.alloc(Gfp::KERNEL).unwrap();
        let (mut shown, mut second) = (0, None);
        cache.each_in_use(|object| {
            shown += 1;
            if object.address == first.as_ptr() as u64 {
                second = cache.alloc(Gfp::KERNEL).ok();
                // SAFETY: the object was allocated above and is not used any more.
                unsafe { cache.free(first).unwrap() };
            }
        });
        assert_eq!(shown, 2, "the walk must show both objects");
        // SAFETY: the object was allocated during the walk and is not used any more.
        unsafe { cache.free(second.expect("enough memory must be free")).unwrap() };
        cache.destroy().unwrap();
    });
}

#[test]
fn leak_lists_used_objects_with_their_users() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::STORE_USER)).unwrap();
        let objects = [(); 4].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
        run_on_cpu(CpuId(3));
        let last = cache.alloc(Gfp::KERNEL).unwrap();
        let base = cache.info().layout.mask.slab_around(objects[0].as_ptr() as u64).get();
        // SAFETY: the objects were allocated above and are not used any more.
        unsafe { objects[1..].iter().for_each(|&object| cache.free(object).unwrap()) };
        let leak = cache.destroy().unwrap_err();
        let text = without_lines(&relative(&leak.to_string(), base));
        let expected = "\
objects of the cache still in use: 2, one of them at S+0x0
Object S+0x0 @offset=0
Allocated in engine/core/tests/it/slab_debug/walks.rs age=7 cpu=0
Object S+0x220 @offset=544
Allocated in engine/core/tests/it/slab_debug/walks.rs age=3 cpu=3";
        assert_eq!(text, expected);
        // SAFETY: both objects are still allocated and are not used any more.
        unsafe { [objects[0], last].iter().for_each(|&object| leak.cache.free(object).unwrap()) };
        leak.cache.destroy().unwrap();
    });
}

#[test]
fn withdrawn_objects_are_reported_apart_from_leaks() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::RED_ZONE)).unwrap();
        let object = cache.alloc(Gfp::KERNEL).unwrap();
        // SAFETY: the 41st byte is a red zone in the object's slab. The write is the damage that the test plants. The
        // object is not used after the free.
        unsafe {
            object.as_ptr().add(40).write(1);
            cache.free(object).unwrap_err();
        }
        let leak = cache.destroy().unwrap_err();
        assert_eq!((leak.objects, leak.taken_out, leak.example), (0, 1, None));
        assert_eq!(
            leak.to_string(),
            "objects of the cache still in use: 0; damaged and taken out of use, so that the cache stays: 1"
        );
    });
}
