//! Invalid pointers in frees: to free objects, to foreign memory, into an object, and to an object of another cache.

use core::ptr::NonNull;

use freehold::Policy;
use freehold::base::Gfp;
use freehold::slab::{CacheConfig, CacheFlags, KreallocError, ObjectFreeError};

use super::{check, listener, with_world};

fn pointer(address: u64) -> NonNull<u8> {
    NonNull::new(address as *mut u8).expect("no test frees null")
}

#[test]
fn double_free_is_reported() {
    for flags in [CacheFlags::SANITY, CacheFlags::RED_ZONE, CacheFlags::POISON, CacheFlags::DEBUG] {
        with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
            let cache = slab.create(&CacheConfig::new("task", 40).with_flags(flags)).unwrap();
            let [object, other, _kept] = [(); 3].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
            let address = object.as_ptr() as u64;
            // SAFETY: the objects are not used any more. The second free of one of them violates the contract on
            // purpose, and the checks refuse it.
            unsafe {
                cache.free(object).unwrap();
                cache.free(other).unwrap();
                assert_eq!(cache.free(object), Err(ObjectFreeError::DoubleFree { address }));
            }
            let report = listener(slab).take_one(cache.info().layout.mask.slab_around(address).get());
            let lines: Vec<&str> = report.lines().collect();
            assert_eq!(lines[1], "BUG task: Object already free");
            if flags.contains(CacheFlags::STORE_USER) {
                assert_eq!(lines[4], "Allocated in engine/core/tests/it/slab_debug/pointers.rs age=4 cpu=0");
                assert_eq!(lines[5], "Freed in engine/core/tests/it/slab_debug/pointers.rs age=1 cpu=0");
            }
            assert!(report.ends_with("not freed\n"), "{report}");
            check(slab).unwrap();
        });
    }
}

#[test]
fn krealloc_of_a_freed_object_is_an_error() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        let object = slab.kmalloc(40, Gfp::KERNEL).unwrap();
        let address = object.as_ptr() as u64;
        // SAFETY: the object is not used any more. The call of `krealloc` for a free object violates the contract on
        // purpose, and the checks refuse it.
        let grown = unsafe {
            slab.kfree(object).unwrap();
            slab.krealloc(object, 400, Gfp::KERNEL)
        };
        assert_eq!(grown, Err(KreallocError::Object(ObjectFreeError::DoubleFree { address })));
        assert_eq!(slab.ksize(object), Ok(0), "no byte of a freed object may be usable");
        assert_eq!(listener(slab).take().len(), 1);
        let census = check(slab).unwrap();
        assert_eq!(census.objects, census.free, "the new object must be freed when krealloc fails");
    });
}

#[test]
fn interior_pointers_are_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::DEBUG)).unwrap();
        let object = cache.alloc(Gfp::KERNEL).unwrap().as_ptr() as u64;
        let size = u64::from(cache.info().layout.size);
        for address in (object - 8..object - 8 + size).filter(|&address| address != object) {
            // SAFETY: no object starts at this address, so the free is refused.
            assert_eq!(unsafe { cache.free(pointer(address)) }, Err(ObjectFreeError::Interior { address }));
            let report = listener(slab).take_one(object - 8);
            assert!(report.contains("BUG task: Invalid object pointer\n"), "{report}");
            assert!(report.contains(&format!("\nAddress S+{:#x}\nAllocated in ", address + 8 - object)), "{report}");
            assert!(report.contains("\nObject S+0x8 @offset=8\n"), "{report}");
        }
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { cache.free(pointer(object)).unwrap() };
        assert_eq!(listener(slab).take().len(), 0);
    });
}

#[test]
fn pointer_past_the_last_object_is_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::DEBUG)).unwrap();
        let object = cache.alloc(Gfp::KERNEL).unwrap().as_ptr() as u64;
        let layout = cache.info().layout;
        let last = layout.mask.slab_around(object).get() + layout.slab_bytes() - 8;
        // SAFETY: no object starts at this address, so the free is refused.
        assert_eq!(unsafe { cache.free(pointer(last)) }, Err(ObjectFreeError::Interior { address: last }));
        let report = listener(slab).take_one(last);
        assert!(report.ends_with("\nAddress S+0x0\nFIX task: Object at S+0x0 not freed\n"), "{report}");
    });
}

#[test]
fn foreign_pointers_are_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40)).unwrap();
        let inside = cache.alloc(Gfp::KERNEL).unwrap().as_ptr() as u64;
        let (on_the_stack, end) = (0_u64, inside - inside % (1 << 22) + (1 << 26));
        for address in [&raw const on_the_stack as u64, 8, end, end + 4096, inside + (1 << 20), u64::MAX - 7] {
            let expected = Err(ObjectFreeError::Foreign { address });
            // SAFETY: no object of this slab is at this address, so the free is refused.
            assert_eq!(unsafe { cache.free(pointer(address)) }, expected);
            let [report] = &listener(slab).take()[..] else { panic!("exactly one report is expected") };
            assert!(report.contains("BUG task: Attempt to free object outside of slab\n"), "{report}");
            assert!(report.contains(&format!("Address {address:#x}\n")), "{report}");
            // SAFETY: no object of this slab is at this address, so the free is refused.
            assert_eq!(unsafe { slab.kfree(pointer(address)) }, expected);
            let [report] = &listener(slab).take()[..] else { panic!("exactly one report is expected") };
            assert!(report.contains("BUG kmalloc: Attempt to free object outside of slab\n"), "{report}");
        }
        check(slab).unwrap();
    });
}

#[test]
fn wrong_cache_is_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let checked = slab.create(&CacheConfig::new("inode", 40).with_flags(CacheFlags::DEBUG)).unwrap();
        let plain = slab.create(&CacheConfig::new("dentry", 40)).unwrap();
        let (ours, theirs) = (checked.alloc(Gfp::KERNEL).unwrap(), plain.alloc(Gfp::KERNEL).unwrap());
        // SAFETY: each object belongs to the other cache, so both frees are refused.
        let errors = unsafe { [checked.free(theirs).unwrap_err(), plain.free(ours).unwrap_err()] };
        assert!(errors.iter().all(|error| matches!(error, ObjectFreeError::WrongCache { .. })), "{errors:?}");
        let reports = listener(slab).take();
        assert_eq!(reports.len(), 2);
        assert!(reports[0].contains("BUG inode: Wrong slab cache: object is from dentry\n"), "{}", reports[0]);
        assert!(reports[1].contains("BUG dentry: Wrong slab cache: object is from inode\n"), "{}", reports[1]);
        assert!(reports[1].contains("\nAllocated in engine/core/tests/it/slab_debug/pointers.rs:"), "{}", reports[1]);
        // SAFETY: both objects are still allocated and are not used any more.
        unsafe {
            checked.free(ours).unwrap();
            plain.free(theirs).unwrap();
        }
    });
}

#[test]
fn unchecked_caches_refuse_frees_without_a_report() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40)).unwrap();
        let object = cache.alloc(Gfp::KERNEL).unwrap().as_ptr() as u64;
        // SAFETY: no objects start at these addresses, so both frees are refused.
        unsafe {
            assert_eq!(cache.free(pointer(object + 8)), Err(ObjectFreeError::Interior { address: object + 8 }));
            assert_eq!(slab.kfree(pointer(24)), Err(ObjectFreeError::Foreign { address: 24 }));
        }
        assert_eq!(listener(slab).take().len(), 0);
    });
}
