//! Writes to bytes that do not belong to the writer, and the reports about them, line by line.

use core::ptr::NonNull;

use freehold::Policy;
use freehold::base::Gfp;
use freehold::slab::{CacheConfig, CacheFlags, ObjectFreeError};

use super::{Slab, check, listener, with_world};

/// Runs `run` with a cache of objects of 40 bytes with all checks, and two of its objects.
fn scene(run: impl FnOnce(&Scene<'_, '_, '_>)) {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::DEBUG)).unwrap();
        let first = cache.alloc(Gfp::KERNEL).unwrap();
        let second = cache.alloc(Gfp::KERNEL).unwrap();
        let base = cache.info().layout.mask.slab_around(first.as_ptr() as u64).get();
        run(&Scene { slab, cache: &cache, first, second, base });
        check(slab).expect("the check must find no error");
    });
}

struct Scene<'s, 'n, 'm> {
    slab: &'s Slab<'n, 'm>,
    cache: &'s super::Cache<'s, 'n, 'm>,
    first: NonNull<u8>,
    second: NonNull<u8>,
    base: u64,
}

impl Scene<'_, '_, '_> {
    fn report(&self) -> String {
        listener(self.slab).take_one(self.base)
    }

    /// Writes a byte at an offset from the first object.
    fn poke(&self, offset: isize, byte: u8) {
        // SAFETY: the byte is in a mapped slab that no other thread uses. The write outside of the object is the damage
        // that the test plants.
        unsafe { self.first.as_ptr().offset(offset).write(byte) }
    }

    fn free(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the object is not used any more. Where the tests free it twice, the checks refuse the second free.
        unsafe { self.cache.free(object) }
    }
}

#[test]
fn write_past_the_end_is_reported() {
    scene(|scene| {
        scene.poke(40, 0x41);
        scene.poke(42, 0x42);
        let address = scene.first.as_ptr() as u64;
        assert_eq!(scene.free(scene.first), Err(ObjectFreeError::Damaged { address }));
        let expected = "\
=============================================================================
BUG task: Right Redzone overwritten
-----------------------------------------------------------------------------

S+0x30-S+0x32 @offset=48. First byte 41 instead of cc
Allocated in engine/core/tests/it/slab_debug/damage.rs age=1 cpu=0
Slab S+0x0 objects=215 used=2
Object S+0x8 @offset=8

Redzone  S+0x0: cc cc cc cc cc cc cc cc                          ........
Object   S+0x8: 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b  kkkkkkkkkkkkkkkk
Object   S+0x18: 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b  kkkkkkkkkkkkkkkk
Object   S+0x28: 6b 6b 6b 6b 6b 6b 6b a5                          kkkkkkk.
Redzone  S+0x30: 41 cc 42 cc cc cc cc cc                          A.B.....
FIX task: Object at S+0x8 not freed
";
        assert_eq!(scene.report(), expected);
        assert_eq!(scene.slab.taken_out_of_use(), 1);
    });
}

#[test]
fn write_before_the_start_is_reported() {
    scene(|scene| {
        scene.poke(-1, 0);
        assert!(scene.free(scene.first).is_err());
        let report = scene.report();
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines[1], "BUG task: Left Redzone overwritten");
        assert_eq!(lines[4], "S+0x7-S+0x7 @offset=7. First byte 0 instead of cc");
        assert_eq!(lines[9], "Redzone  S+0x0: cc cc cc cc cc cc cc 00                          ........");
    });
}

#[test]
fn write_after_free_is_reported_at_the_next_allocation() {
    scene(|scene| {
        scene.free(scene.second).unwrap();
        scene.free(scene.first).unwrap();
        scene.poke(33, 0xff);
        let next = scene.cache.alloc(Gfp::KERNEL).unwrap();
        assert_ne!(next, scene.first, "a damaged object is not used again");
        assert_eq!(next, scene.second);
        let expected = "\
=============================================================================
BUG task: Poison overwritten
-----------------------------------------------------------------------------

S+0x29-S+0x29 @offset=41. First byte ff instead of 6b
Allocated in engine/core/tests/it/slab_debug/damage.rs age=3 cpu=0
Freed in engine/core/tests/it/slab_debug/damage.rs age=0 cpu=0
Slab S+0x0 objects=215 used=0
Object S+0x8 @offset=8

Redzone  S+0x0: bb bb bb bb bb bb bb bb                          ........
Object   S+0x18: 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b  kkkkkkkkkkkkkkkk
Object   S+0x28: 6b ff 6b 6b 6b 6b 6b a5                          k.kkkkk.
Redzone  S+0x30: bb bb bb bb bb bb bb bb                          ........
FIX task: Object at S+0x8 taken out of use
";
        assert_eq!(scene.report(), expected);
        assert_eq!(scene.slab.taken_out_of_use(), 1);
    });
}

#[test]
fn write_after_free_is_reported_at_shrink() {
    scene(|scene| {
        scene.free(scene.second).unwrap();
        scene.free(scene.first).unwrap();
        scene.poke(0, 0);
        scene.cache.shrink();
        assert!(scene.report().contains("BUG task: Poison overwritten\n"));
        assert_eq!(scene.cache.slabs(), 1, "the pages of the damaged object must be kept");
        scene.cache.shrink();
        assert_eq!(listener(scene.slab).take().len(), 0, "the damage must be reported only once");
        let others = 214;
        let mut objects = vec![scene.first; others];
        scene.cache.alloc_bulk(Gfp::KERNEL, &mut objects).unwrap();
        assert!(!objects.contains(&scene.first));
        assert_eq!(scene.cache.slabs(), 1, "all other objects of the slab must still be usable");
    });
}

#[test]
fn write_to_padding_is_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let config = CacheConfig::new("wide", 40).with_align(64).with_flags(CacheFlags::POISON);
        let cache = slab.create(&config).unwrap();
        let object = cache.alloc(Gfp::KERNEL).unwrap();
        // SAFETY: the byte is mapped: the object has 40 bytes and two words of metadata, followed by padding up to byte
        // 64. The write to the padding is the damage that the test plants.
        unsafe { object.as_ptr().add(60).write(9) };
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { cache.free(object).unwrap_err() };
        let report = listener(slab).take_one(object.as_ptr() as u64);
        assert!(report.contains("BUG wide: Object padding overwritten\n"), "{report}");
        assert!(report.contains("S+0x3c-S+0x3c @offset=60. First byte 9 instead of 5a\n"), "{report}");
        assert!(
            report.contains("Padding  S+0x38: 5a 5a 5a 5a 09 5a 5a 5a                          ZZZZ.ZZZ\n"),
            "{report}"
        );
    });
}

/// The red zone and the padding have more bytes, of which the report shows one row.
#[test]
fn report_shows_sixteen_bytes_of_a_zone() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let config = CacheConfig::new("wide", 40).with_align(256).with_flags(CacheFlags::DEBUG);
        let cache = slab.create(&config).unwrap();
        let object = cache.alloc(Gfp::KERNEL).unwrap();
        // SAFETY: the byte is the last of the left red zone, in a slab that no other thread uses. The write is the
        // damage that the test plants.
        unsafe { object.as_ptr().sub(1).write(9) };
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { cache.free(object).unwrap_err() };
        let report = listener(slab).take_one(object.as_ptr() as u64 - 256);
        for row in [
            "\nRedzone  S+0xf0: cc cc cc cc cc cc cc cc cc cc cc cc cc cc cc 09  ................\nObject ",
            "\nPadding  S+0x190: 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a  ZZZZZZZZZZZZZZZZ\nFIX ",
        ] {
            assert!(report.contains(row), "{report}");
        }
    });
}

#[test]
fn write_past_the_requested_size_is_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        let object = slab.kmalloc(13, Gfp::KERNEL).unwrap();
        assert_eq!(slab.ksize(object), Ok(13), "bytes past the requested size must not be usable");
        // SAFETY: the object has at least 16 bytes, of which 13 are the caller's. The write to the 14th byte is the
        // damage that the test plants.
        unsafe { object.as_ptr().write_bytes(b'x', 14) };
        // SAFETY: the object was allocated above and is not used any more.
        unsafe { slab.kfree(object).unwrap_err() };
        let report = listener(slab).take_one(object.as_ptr() as u64);
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines[1], "BUG kmalloc-16: kmalloc Redzone overwritten");
        assert!(lines[4].starts_with("S+0xd-S+0xd "), "{report}");
        assert!(report.contains("Object   S+0x0: 78 78 78 78 78 78 78 78 78 78 78 78 78 78 cc cc  xxxxxxxxxxxxxx..\n"));
    });
}

#[test]
fn link_out_of_the_slab_is_reported() {
    for policy in super::hardening::links() {
        with_world(policy, CacheFlags::empty(), |slab| {
            let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::DEBUG)).unwrap();
            let layout = cache.info().layout;
            let mut objects = vec![NonNull::dangling(); usize::from(layout.objects)];
            cache.alloc_bulk(Gfp::KERNEL, &mut objects).unwrap();
            for object in &objects[..10] {
                // SAFETY: the objects were allocated above and are not used any more.
                unsafe { cache.free(*object).unwrap() };
            }
            // SAFETY: the link of a free object is mapped memory of a slab that no other thread uses. The write is the
            // damage that the test plants.
            unsafe { objects[9].as_ptr().add(layout.link as usize).cast::<u64>().write(0x1234_5678) };
            let mut again = Vec::new();
            while again.len() < 9 {
                again.push(cache.alloc(Gfp::KERNEL).unwrap());
            }
            let report = listener(slab).take_one(0);
            assert!(report.contains("BUG task: Freepointer corrupt\n"), "{report}");
            assert!(report.ends_with("taken out of use\n"), "{report}");
            again.sort_unstable();
            let mut others = objects[..9].to_vec();
            others.sort_unstable();
            assert_eq!(again, others, "the other free objects are found again");
            assert_eq!(cache.slabs(), 1);
            check(slab).unwrap();
        });
    }
}

/// Frees an object of each of two slabs, and overwrites the link of the first with the address that `wrong` computes
/// from the addresses of both. The walk must report the link and withdraw the object.
fn expect_wrong_link(wrong: fn([u64; 2]) -> u64) {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::RED_ZONE)).unwrap();
        let layout = cache.info().layout;
        let mut objects = vec![NonNull::dangling(); 2 * usize::from(layout.objects)];
        cache.alloc_bulk(Gfp::KERNEL, &mut objects).unwrap();
        let freed = [objects[0], objects[usize::from(layout.objects)]];
        let [near, far] = freed.map(|object| object.as_ptr() as u64);
        assert_ne!(layout.mask.slab_around(near), layout.mask.slab_around(far));
        // SAFETY: the objects are not used after they are freed. The write to the link of a free object is the damage
        // that the test plants, in a slab that no other thread uses.
        unsafe {
            freed.iter().for_each(|&object| cache.free(object).unwrap());
            freed[0].as_ptr().add(layout.link as usize).cast::<u64>().write(wrong([near, far]));
        }
        assert_eq!(cache.validate(), 1);
        let report = listener(slab).take_one(0);
        assert!(report.contains("BUG task: Freepointer corrupt\n"), "{report}");
        assert_eq!(slab.taken_out_of_use(), 1);
        check(slab).unwrap();
    });
}

#[test]
fn link_to_a_free_object_of_another_slab_is_reported() {
    expect_wrong_link(|[_, far]| far);
}

#[test]
fn link_into_an_object_is_reported() {
    expect_wrong_link(|[near, _]| near + 8);
}

#[test]
fn link_to_a_used_object_is_reported() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::RED_ZONE)).unwrap();
        let [in_use, free, last] = [(); 3].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
        // SAFETY: the objects are not used after they are freed. The write to the link of a free object is the damage
        // that the test plants, in a slab that no other thread uses.
        unsafe {
            cache.free(last).unwrap();
            cache.free(free).unwrap();
            free.as_ptr().add(cache.info().layout.link as usize).cast::<u64>().write(in_use.as_ptr() as u64);
        }
        assert_eq!(cache.alloc(Gfp::KERNEL).unwrap(), free);
        let next = cache.alloc(Gfp::KERNEL).unwrap();
        assert_ne!(next, in_use, "an object in use was allocated again");
        let report = listener(slab).take_one(0);
        assert!(report.contains("BUG task: Freepointer corrupt\n"), "{report}");
        assert!(report.ends_with("FIX task: Free objects relinked\n"), "{report}");
        assert_eq!(slab.taken_out_of_use(), 0);
        check(slab).unwrap();
    });
}

#[test]
fn sanity_checks_the_whole_freelist() {
    with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
        let cache = slab.create(&CacheConfig::new("task", 40).with_flags(CacheFlags::SANITY)).unwrap();
        let objects = [(); 4].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
        let link = cache.info().layout.link as usize;
        // SAFETY: the objects are not used after they are freed. The write to the link of a free object is the damage
        // that the test plants, in a slab that no other thread uses.
        unsafe {
            objects[..3].iter().for_each(|&object| cache.free(object).unwrap());
            objects[1].as_ptr().add(link).cast::<u64>().write(16);
            cache.free(objects[3]).unwrap();
        }
        let report = listener(slab).take_one(0);
        assert!(report.contains("BUG task: Freepointer corrupt\n"), "{report}");
        let census = check(slab).unwrap();
        assert_eq!(census.free, census.objects, "no object may be lost");
    });
}

#[test]
fn overwritten_object_state_is_reported() {
    scene(|scene| {
        let state = scene.cache.info().layout.link as isize + 8;
        (0..8).for_each(|at| scene.poke(state + at, 0x11));
        assert!(scene.free(scene.first).is_err());
        assert!(scene.report().contains("BUG task: Object state overwritten\n"));
        scene.free(scene.second).unwrap();
    });
}

#[test]
fn write_over_several_free_objects_withdraws_them() {
    scene(|scene| {
        let size = scene.cache.info().layout.size as usize;
        let mut others = [scene.second; 6];
        scene.cache.alloc_bulk(Gfp::KERNEL, &mut others).unwrap();
        others.iter().for_each(|&object| scene.free(object).unwrap());
        // SAFETY: the bytes belong to three consecutive free objects of a slab that no other thread uses. The write is
        // the damage that the test plants.
        unsafe { others[3].write_bytes(0, 3 * size - 8) };
        let mut again = [scene.second; 3];
        scene.cache.alloc_bulk(Gfp::KERNEL, &mut again).unwrap();
        assert!(scene.report().contains("BUG task: Left Redzone overwritten\n"));
        assert_eq!(scene.slab.taken_out_of_use(), 3, "one report, and none of them is used again");
        assert!(again.iter().all(|object| !others[3..].contains(object)));
        for object in again.into_iter().chain([scene.first, scene.second]) {
            scene.free(object).unwrap();
        }
        let census = check(scene.slab).unwrap();
        assert_eq!(census.objects - census.free, 3);
    });
}

#[test]
fn platform_caller_is_reported_by_address() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        listener(slab).caller.set(0x1234);
        let object = slab.kmalloc(8, Gfp::KERNEL).unwrap();
        // SAFETY: the 9th byte is a red zone in the object's slab. The write is the damage that the test plants. The
        // object is not used after the free.
        unsafe {
            object.as_ptr().add(8).write(1);
            slab.kfree(object).unwrap_err();
        }
        let report = &listener(slab).take()[0];
        assert!(report.contains("Allocated in 0x1234 age=0 cpu=0\n"), "{report}");
    });
}

#[test]
fn overwritten_last_byte_of_a_free_object_is_reported() {
    scene(|scene| {
        scene.free(scene.first).unwrap();
        scene.poke(39, 0x6b);
        assert_eq!(scene.cache.validate(), 1);
        assert!(scene.report().contains("S+0x2f-S+0x2f @offset=47. First byte 6b instead of a5\n"));
    });
}

/// An object with an invalid state word is known to be free if it is on its slab's list, at any place.
#[test]
fn overwritten_state_of_a_listed_object_withdraws_the_object() {
    scene(|scene| {
        let third = scene.cache.alloc(Gfp::KERNEL).unwrap();
        scene.free(scene.first).unwrap();
        scene.free(scene.second).unwrap();
        let state = scene.cache.info().layout.link as isize + 8;
        (0..8).for_each(|at| scene.poke(state + at, 0x11));
        assert_eq!(scene.cache.validate(), 1);
        assert!(scene.report().ends_with("FIX task: Object at S+0x8 taken out of use\n"));
        assert_eq!(scene.slab.taken_out_of_use(), 1);
        scene.free(third).unwrap();
    });
}

/// The state words of two objects are overwritten, and one of the objects is in use. The check cannot tell which one,
/// so only the object that was about to be allocated is taken out of use.
#[test]
fn write_over_free_and_used_object_withdraws_only_the_free() {
    scene(|scene| {
        scene.free(scene.first).unwrap();
        let (state, size) = (scene.cache.info().layout.link as isize + 8, scene.cache.info().layout.size as isize);
        (0..8).for_each(|at| [state + at, size + state + at].into_iter().for_each(|at| scene.poke(at, 0x11)));
        assert_ne!(scene.cache.alloc(Gfp::KERNEL).unwrap(), scene.first);
        assert_eq!((scene.slab.taken_out_of_use(), scene.report().is_empty()), (1, false));
        let address = scene.second.as_ptr() as u64;
        assert_eq!(
            scene.free(scene.second),
            Err(ObjectFreeError::Damaged { address }),
            "the object in use must be withdrawn when it is freed"
        );
        assert!(scene.report().contains("BUG task: Object state overwritten\n"));
    });
}
