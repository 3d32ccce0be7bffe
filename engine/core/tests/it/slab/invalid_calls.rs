//! Mistakes of callers: each is refused with the right error, and changes nothing.

use std::ptr::NonNull;

use freehold::base::lock::RawLock;
use freehold::base::{Gfp, NodeId, Order, Pfn};
use freehold::machine::MachineError;
use freehold::machine::objects::{HostCpu, with_slab};
use freehold::page::Config;
use freehold::platform::NoProbe;
use freehold::platform::host::{CheckedSpinLock, Threads};
use freehold::policy::slab::{SlabPolicy, SlabSizes};
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::fast_path::AnyFastPath;
use freehold::slab::{
    CacheConfig, CacheFlags, CreateError, KreallocError, ObjectError, ObjectFreeError, SlabError, ZERO_SIZE,
};

use crate::slab::world::{PAGES, Slab, judge, judge_empty, pages_of, policies, policy, with_world};

/// Number of kmalloc caches under fine sizes.
const BY_SIZE: usize = 45;
/// Bytes of a request that is served by a block of pages under all size policies, and the number of pages of that
/// block.
const BLOCK: usize = 9 * 4096;
const BLOCK_PAGES: usize = 16;

/// Number of blocks of the largest order in the range.
const RANGE_BLOCKS: usize = PAGES as usize >> 10;

fn make_pointer(address: usize) -> NonNull<u8> {
    NonNull::new(address as *mut u8).expect("no test frees null, which no pointer of this type is")
}

/// Checks that every function that takes an object refuses this address as foreign.
fn expect_foreign(slab: &Slab<'_, '_, '_>, object: NonNull<u8>) {
    let foreign = ObjectFreeError::Foreign { address: object.addr().get() as u64 };
    // SAFETY: no object is at this address, so the free is refused.
    assert_eq!(unsafe { slab.kfree(object) }, Err(foreign));
    assert_eq!(slab.ksize(object), Err(foreign));
    // SAFETY: no object is at this address, so the call is refused and accesses no memory.
    assert_eq!(unsafe { slab.krealloc(object, 8, Gfp::KERNEL) }, Err(KreallocError::Object(foreign)));
}

#[test]
fn invalid_sizes_are_errors() {
    for policy in policies() {
        with_world(policy, |slab| {
            assert_eq!(slab.kmalloc(0, Gfp::KERNEL), Ok(ZERO_SIZE));
            assert_eq!(slab.ksize(ZERO_SIZE), Ok(0));
            // SAFETY: `ZERO_SIZE` is the address of no object; freeing it has no effect.
            (0..2)
                .for_each(|_| unsafe { slab.kfree(ZERO_SIZE) }.expect("a free of the zero-size pointer must succeed"));
            // SAFETY: `ZERO_SIZE` is the address of no object, and no memory is accessed through it.
            let grown = unsafe { slab.krealloc(ZERO_SIZE, 8, Gfp::KERNEL) }.expect("enough memory must be free");
            // SAFETY: the object was just allocated and is not used any more.
            assert_eq!(unsafe { slab.krealloc(grown, 0, Gfp::KERNEL) }, Ok(ZERO_SIZE));
            for size in [(4 << 20) + 1, usize::MAX / 2, usize::MAX - 4095, usize::MAX] {
                assert_eq!(slab.kmalloc(size, Gfp::KERNEL), Err(ObjectError::TooLarge { size }));
            }
            let largest = slab.kmalloc(4 << 20, Gfp::KERNEL).expect("a block of the largest order");
            // SAFETY: the block was just allocated, and the call fails, so it stays allocated.
            let too_large = unsafe { slab.krealloc(largest, usize::MAX, Gfp::KERNEL) };
            assert_eq!(too_large, Err(KreallocError::Memory(ObjectError::TooLarge { size: usize::MAX })));
            // SAFETY: the block is still allocated, because `krealloc` failed, and is not used any more.
            unsafe { slab.kfree(largest) }.expect("the test holds this object");
            judge_empty(slab, 0);
        });
    }
}

#[test]
fn local_primitive_with_too_many_cpus_is_an_error() {
    let locks: Vec<_> = (0..3).map(|_| CheckedSpinLock::new()).collect();
    for cpus in 1..=4 {
        let nodes = vec![NodeId(0); cpus];
        let config = Config { cpu_nodes: &nodes, ..Config::default() };
        let local = CpuLocks::new(&locks, HostCpu);
        let made = with_slab(Threads::<NoProbe>::default(), &config, PAGES, local, 7, |_| ());
        assert_eq!(made, if cpus < 3 { Err(MachineError::Slab(SlabError::Cpus)) } else { Ok(()) });
    }
}

fn create(slab: &Slab<'_, '_, '_>, config: CacheConfig<'_>) -> Result<(), CreateError> {
    slab.create(&config).map(drop)
}

#[test]
fn invalid_cache_configs_are_errors() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        for size in [0, (4 << 20) + 1, u32::MAX - 8, u32::MAX] {
            assert_eq!(create(slab, CacheConfig::new("size", size)), Err(CreateError::Size { size }));
        }
        for align in [3, 24, 4097, 8192, u32::MAX] {
            assert_eq!(create(slab, CacheConfig::new("align", 8).with_align(align)), Err(CreateError::Align { align }));
        }
        let poisoned = CacheConfig::new("poison", 8).with_flags(CacheFlags::POISON).with_constructor(|_| ());
        assert_eq!(create(slab, poisoned), Err(CreateError::PoisonedConstructor));
        judge_empty(slab, 0);
        let huge = slab.create(&CacheConfig::new("huge", 4 << 20)).expect("one fits into the largest block");
        let object = huge.alloc(Gfp::KERNEL).expect("enough memory must be free");
        // SAFETY: the object was just allocated and is not used any more.
        unsafe { huge.free(object) }.expect("the pointer must be an object in use");
        assert!(huge.destroy().is_ok());
        judge_empty(slab, 0);
        let left = std::iter::from_fn(|| slab.create(&CacheConfig::new("many", 40)).ok()).count();
        assert_eq!(left, 254 - BY_SIZE, "a refused cache must not use a number");
    });
}

#[test]
fn cache_count_is_limited_to_254() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        let mut caches: Vec<_> = std::iter::from_fn(|| slab.create(&CacheConfig::new("many", 40)).ok()).collect();
        assert_eq!(caches.len(), 254 - BY_SIZE, "all numbers except those of kmalloc");
        assert_eq!(slab.create(&CacheConfig::new("one more", 40)).map(drop), Err(CreateError::TooMany));
        let objects: Vec<_> =
            caches.iter().map(|cache| cache.alloc(Gfp::KERNEL).expect("enough memory must be free")).collect();
        judge(slab, objects.len());
        for (cache, object) in caches.iter().zip(objects) {
            // SAFETY: the object was allocated above from this cache and is not used any more.
            unsafe { cache.free(object) }.expect("the pointer must be an object in use");
        }
        assert!(caches.pop().expect("there must be another cache").destroy().is_ok());
        slab.create(&CacheConfig::new("one more", 40)).expect("a cache can be created again");
        judge_empty(slab, 0);
    });
}

#[test]
fn long_names_are_cut_at_a_character_boundary() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        for (name, kept) in [
            ("", ""),
            ("plain", "plain"),
            ("exactly-thirty-one-bytes-of-it-", "exactly-thirty-one-bytes-of-it-"),
            ("exactly-thirty-two-bytes-of-it--", "exactly-thirty-two-bytes-of-it-"),
            ("thirty-bytes-and-then-a-letterü", "thirty-bytes-and-then-a-letter"),
            ("🦀🦀🦀🦀🦀🦀🦀🦀🦀", "🦀🦀🦀🦀🦀🦀🦀"),
        ] {
            let cache = slab.create(&CacheConfig::new(name, 8)).expect("the cache can be created");
            assert_eq!(cache.info().name.as_str(), kept);
            assert!(cache.destroy().is_ok());
        }
    });
}

/// Returns whether an address is within `pages` pages from that of `start` on.
fn is_within(address: usize, start: NonNull<u8>, pages: usize) -> bool {
    address.wrapping_sub(start.addr().get() & !4095) < pages * 4096
}

#[test]
fn foreign_pointers_are_errors() {
    // Policies with sheaves are left out, because a sheaf is itself an object and could be at one of these addresses.
    for policy in policies().into_iter().filter(|policy| !policy.slab.objects.has_sheaves()) {
        with_world(policy, |slab| {
            static STATIC: u64 = 0;
            let local = 0_u64;
            let object = slab.kmalloc(8, Gfp::KERNEL).expect("enough memory must be free");
            let block = slab.kmalloc(BLOCK, Gfp::KERNEL).expect("enough memory must be free");
            expect_foreign(slab, NonNull::from(&STATIC).cast());
            expect_foreign(slab, NonNull::from(&local).cast());
            // Limits of blocks, including those of the whole range on both sides.
            let (blocks, start) = (4 << 20, object.addr().get() & !((4 << 20) - 1));
            let ends = (0..=2 * RANGE_BLOCKS).map(|block| start - RANGE_BLOCKS * blocks + block * blocks);
            for address in ends.flat_map(|end| [end - 4096, end - 1, end]).chain([1, 8, usize::MAX - 7, usize::MAX]) {
                if !is_within(address, object, 1) && !is_within(address, block, BLOCK_PAGES) {
                    expect_foreign(slab, make_pointer(address));
                }
            }
            // Addresses inside a block: on its first page, and after it.
            let inside = make_pointer(block.addr().get() + 8);
            let interior = ObjectFreeError::Interior { address: inside.addr().get() as u64 };
            // SAFETY: no object starts at this address, so the free is refused.
            assert_eq!(unsafe { slab.kfree(inside) }, Err(interior));
            assert_eq!(slab.ksize(inside), Err(interior));
            expect_foreign(slab, make_pointer(block.addr().get() + 4096));
            judge(slab, 1);
            // SAFETY: both were allocated above and are not used any more.
            [object, block]
                .into_iter()
                .for_each(|object| unsafe { slab.kfree(object) }.expect("the test holds this object"));
            // The block is free, and its pages have been freed.
            expect_foreign(slab, block);
            judge_empty(slab, 0);
            expect_foreign(slab, object);
        });
    }
}

#[test]
fn interior_pointers_are_errors_at_every_size() {
    for policy in policies() {
        with_world(policy, |slab| {
            let linux = [8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192];
            let fine = [48, 80, 160, 224, 1280, 1792, 5120, 10 << 10, 12 << 10, 20 << 10, 28 << 10, 32 << 10];
            let is_fine = slab.policy().slab.sizes == SlabSizes::Fine;
            for size in linux.into_iter().chain(fine.into_iter().filter(|_| is_fine)) {
                let object = slab.kmalloc(size, Gfp::KERNEL).expect("enough memory must be free");
                for offset in (1..size.min(64)).chain([size / 2, size - 8, size - 1]).filter(|&offset| offset > 0) {
                    let inside = make_pointer(object.addr().get() + offset);
                    let interior = ObjectFreeError::Interior { address: inside.addr().get() as u64 };
                    // SAFETY: no object starts at this address, so the free is refused.
                    assert_eq!(unsafe { slab.kfree(inside) }, Err(interior), "{size} {offset}");
                    assert_eq!(slab.ksize(inside), Err(interior));
                }
                judge(slab, 1);
                // SAFETY: the object was allocated above and is not used any more.
                unsafe { slab.kfree(object) }.expect("the test holds this object");
            }
            judge_empty(slab, 0);
        });
    }
}

#[test]
fn zeroed_memory_grows_by_zero_bytes() {
    for policy in policies() {
        with_world(policy, |slab| {
            let zeroed = Gfp::KERNEL | Gfp::ZERO;
            // All bytes are written, and some are given up. Bytes that are added again are zero, in place and after a
            // move.
            for (first, given_up, grown) in [(60, 10, 64), (64, 10, 100), (3000, 1, 9000), (9000, 100, 20_000)] {
                let object = slab.kmalloc(first, zeroed).expect("enough memory must be free");
                // SAFETY: the object was just allocated and has `first` bytes.
                unsafe { object.write_bytes(0xaa, first) };
                // SAFETY: the object was allocated above, and only the returned pointer is used afterwards.
                let less = unsafe { slab.krealloc(object, given_up, zeroed) }.expect("the object must be in use");
                assert_eq!(less, object, "memory must not move when it shrinks");
                // SAFETY: the object has not moved and is still allocated. Only the returned pointer is used
                // afterwards.
                let more = unsafe { slab.krealloc(less, grown, zeroed) }.expect("enough memory must be free");
                // SAFETY: the object has `grown` bytes, all of which were initialised by the writes above or by
                // `Gfp::ZERO`.
                let bytes = unsafe { std::slice::from_raw_parts(more.as_ptr(), grown) };
                assert!(
                    bytes[..given_up].iter().all(|&byte| byte == 0xaa)
                        && bytes[given_up..].iter().all(|&byte| byte == 0)
                );
                // SAFETY: the object was allocated above and is not used any more.
                unsafe { slab.kfree(more) }.expect("the test holds this object");
            }
            judge_empty(slab, 0);
        });
    }
}

#[test]
fn frontend_malloc_of_zero_bytes_is_unique() {
    with_world(policy(SlabPolicy::Tagged, 0), |slab| {
        let frontend = slab.frontend::<AnyFastPath>().expect("a front end for any fast path must exist");
        let [one, other] = [(); 2].map(|()| frontend.malloc(0));
        assert!(!one.is_null() && !other.is_null() && one != other);
        // SAFETY: both were allocated above and are not used any more.
        [one, other].into_iter().for_each(|object| unsafe { frontend.free(object) });
        judge_empty(slab, 0);
    });
}

#[test]
fn slab_pages_cannot_be_freed_as_pages() {
    for policy in policies() {
        with_world(policy, |slab| {
            let objects =
                [8, 200, 4096, BLOCK].map(|size| slab.kmalloc(size, Gfp::KERNEL).expect("enough memory must be free"));
            for (frame, order) in (0..PAGES).flat_map(|frame| Order::all().map(move |order| (frame, order))) {
                assert!(pages_of(slab).free_pages(Pfn::new(frame), order).is_err(), "frame {frame}, {order:?}");
            }
            judge(slab, 3);
            // SAFETY: the objects were allocated above and are not used any more.
            objects.into_iter().for_each(|object| unsafe { slab.kfree(object) }.expect("the test holds this object"));
            judge_empty(slab, 0);
        });
    }
}

#[test]
fn free_to_the_wrong_cache_is_an_error() {
    for policy in policies() {
        with_world(policy, |slab| {
            let [one, other] = ["one", "other"]
                .map(|name| slab.create(&CacheConfig::new(name, 64)).expect("the cache can be created"));
            let object = one.alloc(Gfp::KERNEL).expect("enough memory must be free");
            let address = object.as_ptr() as u64;
            // SAFETY: the object belongs to another cache, so the free is refused.
            let refused = unsafe { other.free(object) };
            assert!(matches!(refused, Err(ObjectFreeError::WrongCache { address: said, .. }) if said == address));
            judge(slab, 1);
            let leak = one.destroy().expect_err("an object is in use");
            assert_eq!((leak.objects, leak.example), (1, Some(object)));
            // SAFETY: the object is still allocated and not used any more. `kfree` accepts objects of any cache.
            unsafe { slab.kfree(object) }.expect("the pointer must be an object in use");
            assert!(leak.cache.destroy().is_ok());
            // The cache is destroyed and its pages are free.
            expect_foreign(slab, object);
            // SAFETY: no object is at this address any more, so the free is refused.
            assert_eq!(unsafe { other.free(object) }, Err(ObjectFreeError::Foreign { address }));
            judge_empty(slab, 0);
        });
    }
}
