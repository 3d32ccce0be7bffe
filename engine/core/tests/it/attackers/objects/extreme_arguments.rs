//! Arguments at their limits. Each error has a helpful message. Each returned object has at least the requested size
//! and alignment, and overlaps no other object.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use freehold::base::{Gfp, NodeId};
use freehold::page::Config;
use freehold::policy::Policy;
use freehold::policy::slab::SlabPolicy;
use freehold::slab::fast_path::AnyFastPath;
use freehold::slab::{CacheConfig, CacheFlags, CacheId, CreateError, ObjectError, ZERO_SIZE};

use super::{CPUS, FRAMES, Slab, attack, attack_with, picture, policies};

/// Size of the largest block of pages, in bytes.
const BLOCK: usize = 4 << 20;

const SIZES: [usize; 26] = [
    0,
    1,
    7,
    8,
    9,
    63,
    64,
    65,
    95,
    97,
    1023,
    1025,
    4095,
    4096,
    4097,
    8191,
    8192,
    8193,
    32_768,
    32_769,
    BLOCK - 1,
    BLOCK,
    BLOCK + 1,
    usize::MAX / 2,
    usize::MAX - 4095,
    usize::MAX,
];

/// Flags of every kind of request, including none.
fn flags() -> [Gfp; 11] {
    let nothing = Gfp::empty();
    let by_zone = [Gfp::DMA, Gfp::DMA32, Gfp::HIGHMEM, Gfp::MOVABLE].map(|zone| Gfp::NOWAIT | zone);
    let [dma, dma32, high, movable] = by_zone;
    let both = Gfp::DMA | Gfp::DMA32 | Gfp::HIGHMEM | Gfp::MOVABLE | Gfp::RECLAIMABLE;
    [
        nothing,
        Gfp::NOWAIT,
        Gfp::ATOMIC,
        Gfp::KERNEL | Gfp::ZERO,
        Gfp::HIGHUSER_MOVABLE,
        dma,
        dma32,
        high,
        movable,
        both,
        Gfp::all() - Gfp::NOFAIL,
    ]
}

/// Sizes of allocated objects, by address.
#[derive(Default)]
struct LiveObjects(BTreeMap<usize, usize>);

impl LiveObjects {
    fn take(&mut self, object: NonNull<u8>, size: usize) {
        let start = object.addr().get();
        let before = self.0.range(..start + size).next_back();
        assert!(before.is_none_or(|(at, len)| at + len <= start), "{object:p} of {size} lies in {before:x?}");
        self.0.insert(start, size);
    }
}

/// Checks that an error has a message of at least a sentence.
fn expect_advice(error: &dyn core::error::Error) {
    assert!(error.to_string().len() > 20, "{error}");
}

#[test]
fn every_object_size_is_served_or_an_error() {
    for policy in policies() {
        for gfp in flags() {
            attack(policy, CacheFlags::empty(), |slab| every_size(slab, gfp));
        }
        attack(policy, CacheFlags::DEBUG, |slab| every_size(slab, Gfp::KERNEL));
    }
}

fn every_size(slab: &Slab<'_, '_, '_, '_>, gfp: Gfp) {
    let (mut held, frontend) =
        (LiveObjects::default(), slab.frontend::<AnyFastPath>().expect("a front end for any fast path must exist"));
    for (turn, size) in SIZES.into_iter().enumerate() {
        if turn % 2 == 0 {
            slab.fail_without_slab()
        } else {
            slab.take_pages_without_slab()
        }
        for answer in [slab.kmalloc(size, gfp), frontend.kmalloc(size, gfp)] {
            match answer {
                Ok(object) if size == 0 => assert_eq!((object, slab.ksize(object)), (ZERO_SIZE, Ok(0))),
                Ok(object) => {
                    assert!(slab.ksize(object).is_ok_and(|bytes| bytes >= size), "{size}, {gfp:?}");
                    let align = if size.is_power_of_two() { size.min(4096) } else { 8 };
                    assert!(object.addr().get().is_multiple_of(align.max(8)), "{size}, {gfp:?}");
                    held.take(object, size);
                }
                Err(error) => {
                    assert_eq!(size > BLOCK, error == ObjectError::TooLarge { size }, "{size}, {gfp:?}: {error}");
                    expect_advice(&error);
                }
            }
        }
        if let Some(object) = NonNull::new(frontend.malloc(size)) {
            held.take(object, size.max(1));
        }
    }
}

#[test]
fn every_cache_config_is_created_or_an_error() {
    const SIZES: [u32; 14] =
        [0, 1, 7, 8, 63, 65, 4096, 4097, 1 << 20, (4 << 20) - 8, 4 << 20, (4 << 20) + 1, u32::MAX - 7, u32::MAX];
    const ALIGNS: [u32; 10] = [0, 1, 2, 3, 64, 4096, 4097, 8192, 1 << 31, u32::MAX];
    let choices = [
        CacheFlags::empty(),
        CacheFlags::HWCACHE_ALIGN,
        CacheFlags::RECLAIM_ACCOUNT,
        CacheFlags::RED_ZONE,
        CacheFlags::DEBUG,
        CacheFlags::from_bits_retain(u32::MAX),
    ];
    for policy in policies() {
        for flags in choices {
            for constructor in [None, Some((|_| ()) as fn(NonNull<u8>))] {
                attack(policy, CacheFlags::empty(), |slab| {
                    for (size, align) in SIZES.into_iter().flat_map(|size| ALIGNS.map(|align| (size, align))) {
                        let config = CacheConfig { name: "attacker", size, align, flags, constructor };
                        make(slab, &config);
                    }
                });
            }
        }
    }
}

/// Creates a cache, uses it, and tries to destroy it while an object is in use.
fn make(slab: &Slab<'_, '_, '_, '_>, config: &CacheConfig<'_>) {
    let before = picture(slab);
    let cache = match slab.create(config) {
        Ok(cache) => cache,
        Err(error) => {
            expect_advice(&error);
            assert_eq!(picture(slab), before, "{config:?} was refused");
            return;
        }
    };
    assert_eq!(cache.info().layout.object_size, config.size);
    let Ok(object) = cache.alloc(Gfp::NOWAIT | Gfp::ZERO) else {
        assert!(cache.destroy().is_ok(), "{config:?} has no object");
        return;
    };
    assert!(object.addr().get().is_multiple_of(config.align.max(8) as usize), "{config:?}");
    assert_eq!(slab.ksize(object), Ok(config.size as usize), "{config:?}");
    cache.alloc_bulk(Gfp::NOWAIT, &mut []).expect("an allocation of no objects must succeed");
    let leak = cache.destroy().expect_err("an object is in use");
    assert_eq!((leak.objects, leak.taken_out, leak.example), (1, 0, Some(object)), "{config:?}");
    assert!(leak.to_string().contains("still in use: 1"), "{leak}");
    assert_eq!(leak.cache.info().layout.object_size, config.size, "a cache with an object in use is kept");
    leak.cache.shrink();
    _ = (leak.cache.validate(), leak.cache.slabs(), leak.cache.alloc(Gfp::NOWAIT));
    leak.cache.each_in_use(|object| assert!(object.offset < 4 << 20));
}

#[test]
fn any_cache_name_and_number_is_accepted() {
    attack(policies()[0], CacheFlags::empty(), |slab| {
        let long = "ü".repeat(5000);
        let names = ["", "\0", "kmalloc-8", "kmalloc-8", "\u{10ffff}\u{10ffff}\u{10ffff}", long.as_str()];
        let caches = names.map(|name| slab.create(&CacheConfig::new(name, 8)).expect("the cache can be created"));
        for (cache, name) in caches.iter().zip(names) {
            assert!(name.starts_with(cache.info().name.as_str()));
        }
        let named = (0..=u8::MAX).filter(|&number| slab.name_of(CacheId::new(number)).is_some()).count();
        assert_eq!(named, picture(slab).len(), "only the numbers of existing caches have names");
        for letters in ["", "-", "fzpu", "FFFF", "F,kmalloc-8", "x", "🦀", long.as_str()] {
            match CacheFlags::from_slab_debug(letters) {
                Ok(flags) => assert!(CacheFlags::DEBUG.contains(flags)),
                Err(error) => expect_advice(&error),
            }
        }
        let mut more: Vec<_> = core::iter::from_fn(|| slab.create(&CacheConfig::new("more", 8)).ok()).collect();
        assert_eq!(slab.create(&CacheConfig::new("one more", 8)).err(), Some(CreateError::TooMany));
        assert!(more.pop().is_some_and(|cache| cache.destroy().is_ok()));
    });
}

/// Requests the size of the object at addresses of every page, at addresses around objects, and at addresses outside
/// the memory.
#[test]
fn ksize_of_any_address_is_a_size_or_an_error() {
    for (policy, debug) in
        policies().into_iter().flat_map(|policy| [(policy, CacheFlags::empty()), (policy, CacheFlags::DEBUG)])
    {
        attack(policy, debug, |slab| {
            let objects = [1, 100, 1000, 8192, 20_000]
                .map(|size| slab.kmalloc(size, Gfp::KERNEL).expect("enough memory must be free"));
            let start = objects[0].addr().get() & !(BLOCK - 1);
            let pages = (0..FRAMES as usize + 2048).map(|page| start - BLOCK + page * 4096);
            let near = objects.iter().flat_map(|object| (0..300).map(|off| object.addr().get() - 150 + off));
            let before = picture(slab);
            for address in
                pages.flat_map(|page| [page, page + 1, page + 8, page + 4095]).chain(near).chain([1, 16, usize::MAX])
            {
                let at = NonNull::without_provenance(core::num::NonZero::new(address).expect("it is not null"));
                if let Err(error) = slab.ksize(at) {
                    expect_advice(&error);
                }
            }
            assert_eq!(picture(slab), before, "a query changed the state of the caches");
        });
    }
}

/// Computes the storage of machines of any size. The result is a layout, or a panic where the documentation announces
/// one.
#[test]
fn slab_layout_of_any_machine_is_valid_or_panics() {
    for pages in [0, 1, FRAMES, u32::MAX] {
        for page_size in [0, 1, 1024, 4095, 4096, 1 << 16, 1 << 31, u32::MAX] {
            for (cpus, nodes, caches) in [(0, 0, 0), (1, 1, 256), (u16::MAX, u8::MAX, u16::MAX)] {
                let layout = catch_unwind(|| Slab::layout(pages, page_size, cpus, nodes, caches));
                let is_right = page_size.is_power_of_two() && page_size >= 4096;
                assert!(is_right || layout.is_err(), "pages of {page_size}");
                assert!(!is_right || layout.is_ok_and(|layout| layout.size() >= pages as usize / 4), "{page_size}");
            }
        }
    }
}

#[test]
fn extreme_slab_policy_numbers_are_safe() {
    type Set = fn(&mut Policy, Option<u32>);
    let numbers: [(&str, Set); 5] = [
        ("slab_min_objects", |policy, value| policy.numbers.slab_min_objects = value),
        ("slab_max_order", |policy, value| policy.numbers.slab_max_order = value),
        ("slab_cpu_free", |policy, value| policy.numbers.slab_cpu_free = value),
        ("slab_sheaf", |policy, value| policy.numbers.slab_sheaf = value),
        ("slab_pinned", |policy, value| policy.numbers.slab_pinned = value),
    ];
    for mut policy in policies() {
        for (name, set) in numbers {
            for value in [0, 1, 63, 255, 256, 1 << 20, u32::MAX].map(Some) {
                set(&mut policy, value);
                attack(policy, CacheFlags::empty(), |slab| {
                    let mut objects = [NonNull::dangling(); 300];
                    let cache = slab.create(&CacheConfig::new("numbers", 200)).expect("the cache can be created");
                    cache
                        .alloc_bulk(Gfp::KERNEL, &mut objects)
                        .unwrap_or_else(|error| panic!("{name} of {value:?}: {error}"));
                    slab.shrink();
                });
                set(&mut policy, None);
            }
        }
    }
}

/// Builds slabs on pages of several sizes. Pages of 4 KiB and more work; smaller ones are refused with a panic.
#[test]
fn slabs_require_pages_of_4_kib_or_more() {
    for objects in [SlabPolicy::Tagged, SlabPolicy::SheavesBitmap] {
        let mut policy = Policy::FREEHOLD;
        policy.slab.objects = objects;
        for page_size in [1024, 2048, 4096, 1 << 14, 1 << 16] {
            let config = Config { policy, page_size, cpu_nodes: &[NodeId(0); CPUS], ..Config::default() };
            let used = catch_unwind(AssertUnwindSafe(|| {
                attack_with(&config, CPUS, CacheFlags::empty(), |slab| {
                    for size in SIZES {
                        let object = slab.kmalloc(size, Gfp::NOWAIT);
                        assert!(
                            object.is_err()
                                || object.is_ok_and(|object| slab.ksize(object).is_ok_and(|has| has >= size))
                        );
                    }
                });
            }));
            assert_eq!(used.is_ok(), page_size >= 4096, "pages of {page_size}");
        }
    }
}
