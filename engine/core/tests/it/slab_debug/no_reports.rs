//! A caller without mistakes gets no reports, for all choices of checks, and the properties of its cache hold.

use core::ptr::NonNull;

use freehold::Policy;
use freehold::base::{CpuId, Gfp};
use freehold::platform::host::run_on_cpu;
use freehold::policy::slab::SlabOrder;
use freehold::slab::{CacheConfig, CacheFlags};

use super::hardening::links;
use super::{Slab, check, listener, with_world};

/// Returns every choice of checks.
fn choices() -> impl Iterator<Item = CacheFlags> {
    (1..16).map(|bits| CacheFlags::from_bits_truncate(CacheFlags::SANITY.bits() * bits) & CacheFlags::DEBUG)
}

#[test]
fn random_steps_cause_no_reports() {
    for (turn, debug) in choices().enumerate() {
        for mut policy in links() {
            policy.slab.order = if turn % 2 == 0 { SlabOrder::Address } else { SlabOrder::Random };
            with_world(policy, debug, |slab| {
                random_steps(slab, turn as u64);
                assert_eq!((slab.validate(), slab.taken_out_of_use()), (0, 0));
                assert_eq!(listener(slab).take(), [""; 0], "{debug:?}");
                slab.shrink();
                assert_eq!(check(slab).unwrap().slabs, 0);
                assert_eq!(listener(slab).take(), [""; 0], "{debug:?}");
            });
        }
    }
}

fn random_steps(slab: &Slab<'_, '_>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut live: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
    for step in 0..4000 {
        run_on_cpu(CpuId(rng.u16(0..4)));
        match rng.u32(0..100) {
            0..55 if live.len() < 500 => {
                let most = 1 << rng.u32(1..15);
                let size = rng.usize(1..most);
                let object = slab.kmalloc(size, Gfp::KERNEL).unwrap();
                assert!(slab.ksize(object).unwrap() >= size);
                live.push(filled(object, size, rng.u8(..)));
            }
            55..60 if !live.is_empty() => {
                let at = rng.usize(0..live.len());
                let (object, old, tag) = live.swap_remove(at);
                let size = rng.usize(1..9000);
                // SAFETY: the object is allocated, and only the returned pointer is used afterwards.
                let object = unsafe { slab.krealloc(object, size, Gfp::KERNEL).unwrap() };
                expect(object, old.min(size), tag);
                live.push(filled(object, size, tag));
            }
            60..61 => slab.shrink(),
            _ if !live.is_empty() => {
                let (object, size, tag) = live.swap_remove(rng.usize(0..live.len()));
                expect(object, size, tag);
                // SAFETY: the object is allocated and is not used any more.
                unsafe { slab.kfree(object).unwrap() };
            }
            _ => {}
        }
        if step % 500 == 0 {
            check(slab).unwrap();
        }
    }
    for (object, size, tag) in live {
        expect(object, size, tag);
        // SAFETY: the object is allocated and is not used any more.
        unsafe { slab.kfree(object).unwrap() };
    }
}

fn filled(object: NonNull<u8>, size: usize, tag: u8) -> (NonNull<u8>, usize, u8) {
    // SAFETY: the callers pass an allocated object of at least `size` bytes.
    unsafe { object.write_bytes(tag, size) };
    (object, size, tag)
}

fn expect(object: NonNull<u8>, size: usize, tag: u8) {
    // SAFETY: the callers pass an allocated object of at least `size` bytes, all of which are initialised.
    let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), size) };
    assert!(bytes.iter().all(|byte| *byte == tag), "{size} bytes of {tag:#x}");
}

#[test]
fn checked_objects_have_room_and_alignment() {
    for debug in choices() {
        with_world(Policy::FREEHOLD, debug, |slab| {
            for size in (1..300).chain([511, 512, 513, 1000, 1024, 2048, 4095, 4096, 5000, 8192]) {
                let [first, second] = [(); 2].map(|()| slab.kmalloc(size, Gfp::KERNEL | Gfp::ZERO).unwrap());
                expect(first, size, 0);
                expect(second, size, 0);
                let align = if size.is_power_of_two() { size.min(4096) } else { 8 };
                assert!((first.as_ptr() as usize).is_multiple_of(align), "{size}");
                filled(first, size, 0xff);
                filled(second, size, 0xff);
                // SAFETY: both objects were allocated above and are not used any more.
                unsafe {
                    slab.kfree(first).unwrap();
                    slab.kfree(second).unwrap();
                }
            }
            assert_eq!(listener(slab).take(), [""; 0], "{debug:?}");
        });
    }
}

/// Constructor of the next test's cache.
fn fill_inode(object: NonNull<u8>) {
    // SAFETY: the cache calls its constructor with an object of 40 bytes.
    unsafe { object.write_bytes(0x77, 40) };
}

#[test]
fn constructed_contents_survive_a_free() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        let cache = slab.create(&CacheConfig::new("inode", 40).with_constructor(fill_inode)).unwrap();
        for _ in 0..3 {
            let objects = [(); 50].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
            for object in objects {
                expect(object, 40, 0x77);
                // SAFETY: the object was allocated above and is not used any more.
                unsafe { cache.free(object).unwrap() };
            }
        }
        cache.destroy().unwrap();
        assert_eq!(listener(slab).take(), [""; 0]);
    });
}

#[test]
fn exhaustion_of_a_checked_cache_loses_nothing() {
    with_world(Policy::FREEHOLD, CacheFlags::DEBUG, |slab| {
        let mut objects = Vec::new();
        let gfp = Gfp::KERNEL | Gfp::NOWARN;
        while let Ok(object) = slab.kmalloc(4000, gfp) {
            objects.push(object);
        }
        assert!(objects.len() > 1000);
        check(slab).unwrap();
        for object in objects {
            // SAFETY: the object was allocated above and is not used any more.
            unsafe { slab.kfree(object).unwrap() };
        }
        slab.shrink();
        assert_eq!(check(slab).unwrap().slabs, 0);
        assert_eq!(listener(slab).take(), [""; 0]);
    });
}

/// Objects whose size is no multiple of a word, so that padding follows them under every choice of checks.
#[test]
fn every_debug_flag_set_works_with_every_size() {
    for debug in choices() {
        with_world(Policy::FREEHOLD, CacheFlags::empty(), |slab| {
            for size in 1..=40 {
                let cache = slab.create(&CacheConfig::new("task", size).with_flags(debug)).unwrap();
                let objects = [(); 3].map(|()| cache.alloc(Gfp::KERNEL).unwrap());
                objects.iter().for_each(|&object| _ = filled(object, size as usize, 0xff));
                assert_eq!(cache.validate(), 0, "{debug:?} of {size}");
                // SAFETY: the objects were allocated above and are not used any more.
                objects.into_iter().for_each(|object| unsafe { cache.free(object) }.unwrap());
                assert_eq!(cache.validate(), 0, "{debug:?} of {size}");
                cache.destroy().unwrap();
            }
            assert_eq!(listener(slab).take(), [""; 0], "{debug:?}");
        });
    }
}
