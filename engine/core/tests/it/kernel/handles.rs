//! Handles of a kernel: pages, ranges, areas, and typed objects.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null};
use std::rc::Rc;

use freehold::base::{Gfp, Order, Pfn};
use freehold::kernel::{Boot, Contig, Cpu, Error, Kernel, Pages, Region};
use freehold::page::{AllocError, CmaError, ContigError, Placement};
use freehold::slab::CreateError;

use crate::kernel::machine::{Hooks, MIB, Machine, OneCpu, audit, boot, init, install, take_all_pages};

#[test]
fn pages_are_zeroed_on_request_and_freed_on_drop() {
    let kernel = boot::<OneCpu>(32);
    let (before, _) = audit::<OneCpu>();
    for order in Order::all() {
        let mut dirty = kernel.alloc_pages(Gfp::KERNEL, order).unwrap();
        dirty.as_uninit().fill(core::mem::MaybeUninit::new(0xa5));
        assert!(dirty.as_ptr().addr().get().is_multiple_of(4096 << order.get()));
        let place = dirty.pfn();
        drop(dirty);
        let mut clean = kernel.alloc_pages(Gfp::KERNEL | Gfp::ZERO, order).unwrap();
        assert_eq!(clean.as_uninit().len(), 4096 << order.get());
        // SAFETY: all bytes were initialised, because the pages were requested with `Gfp::ZERO`.
        assert!(clean.as_uninit().iter().all(|byte| unsafe { byte.assume_init() } == 0), "{order} at {place}");
    }
    assert_eq!(audit::<OneCpu>().0, before);
    let two = kernel.alloc_pages(Gfp::KERNEL | Gfp::DMA | Gfp::DMA32, Order::ZERO);
    assert_eq!(two.unwrap_err(), Error::Pages(AllocError::Flags));
}

#[test]
fn pages_round_trip_through_raw() {
    let kernel = boot::<OneCpu>(32);
    let (before, _) = audit::<OneCpu>();
    let (pfn, order) = kernel.alloc_pages(Gfp::KERNEL, Order::new(3)).unwrap().into_raw();
    assert_eq!(audit::<OneCpu>().0.allocated, before.allocated + 8);
    // SAFETY: `into_raw` returned this block once, it never moved, and no handle was made since.
    drop(unsafe { Pages::<Machine>::from_raw(pfn, order) });
    assert_eq!(audit::<OneCpu>().0, before);
}

#[test]
fn contig_is_zeroed_on_request_and_round_trips_raw() {
    let kernel = boot::<OneCpu>(64);
    let (before, _) = audit::<OneCpu>();
    let mut dirty = kernel.alloc_contig_pages(Gfp::KERNEL, 100).unwrap();
    dirty.as_uninit().fill(core::mem::MaybeUninit::new(0x55));
    let frames = dirty.range();
    drop(dirty);
    let mut clean = kernel.alloc_contig_range(frames.clone(), Gfp::KERNEL | Gfp::ZERO).unwrap();
    assert_eq!((clean.physical(), clean.as_uninit().len()), (u64::from(frames.start.raw()) << 12, 100 << 12));
    // SAFETY: all bytes were initialised, because the range was requested with `Gfp::ZERO`.
    assert!(clean.as_uninit().iter().all(|byte| unsafe { byte.assume_init() } == 0));
    let place = clean.as_ptr().as_ptr();
    assert_eq!(kernel.phys_to_virt(clean.physical()).map(NonNull::as_ptr), Some(place));
    assert_eq!(kernel.virt_to_phys(place), Some(clean.physical()));
    let kept = clean.into_raw();
    let stats = kernel.stats();
    assert_eq!(stats.used(), before.allocated + 100, "{stats:?}");
    // SAFETY: `into_raw` returned these frames, and this is the only `from_raw` for them.
    drop(unsafe { Contig::<Machine>::from_raw(kept) });
    assert_eq!(audit::<OneCpu>().0, before);
    assert_eq!(kernel.stats().managed, before.free + before.cached + before.allocated);
}

#[test]
fn cma_and_contig_handles_free_on_drop() {
    let reserved = 16 * MIB..20 * MIB;
    let frames = Pfn::new(16 << 8)..Pfn::new(20 << 8);
    let map = [Region::usable(0, 64 * MIB)];
    install::<OneCpu>(Hooks::default());
    init::<OneCpu>(&map, 64, &Boot { reserved: &[reserved], ..Boot::default() }).unwrap();
    let kernel = <Machine>::kernel();
    // SAFETY: the frames were reserved for this area, and no code uses them otherwise.
    let cma = unsafe { kernel.reserve_cma(frames.clone(), Order::ZERO) }.unwrap();
    // SAFETY: the frames belong to the area, so the call is refused.
    let again = unsafe { kernel.reserve_cma(frames.clone(), Order::ZERO) };
    assert!(matches!(again, Err(Error::Cma(CmaError::NotReserved { .. }))));
    let (before, _) = audit::<OneCpu>();
    {
        let first = cma.alloc(100, 1, Gfp::KERNEL).unwrap();
        let second = cma.alloc(300, 64, Gfp::KERNEL).unwrap();
        assert!(frames.contains(&first.pfn()) && second.pfn().raw().is_multiple_of(64));
        assert_eq!((cma.allocated(), cma.range()), (400, frames));
        assert!(matches!(cma.alloc(5000, 1, Gfp::KERNEL), Err(Error::Contig(ContigError::NoRange))));
        let range = kernel.alloc_contig_pages(Gfp::KERNEL, 777).unwrap();
        assert_eq!(range.range().end.raw() - range.range().start.raw(), 777);
        let taken = kernel.alloc_contig_range(range.range(), Gfp::KERNEL).unwrap_err();
        assert!(matches!(taken, Error::Contig(ContigError::Unmovable { .. })), "{taken}");
        let again = range.range();
        drop(range);
        assert_eq!(kernel.alloc_contig_range(again.clone(), Gfp::KERNEL).unwrap().range(), again);
    }
    assert_eq!((audit::<OneCpu>().0, cma.allocated()), (before, 0));
}

/// Counts the number of its values that were dropped.
struct DropCounter(Rc<Cell<u32>>, [u64; 10]);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn typed_objects_are_dropped_once_before_their_cache() {
    let kernel = boot::<OneCpu>(32);
    let dropped = Rc::new(Cell::new(0));
    let before = audit::<OneCpu>();
    {
        let cache = kernel.cache::<DropCounter>("counted").unwrap();
        let mut all: Vec<_> =
            (0..100).map(|at| cache.alloc(DropCounter(Rc::clone(&dropped), [at; 10]), Gfp::KERNEL).unwrap()).collect();
        all[7].1[9] = 1234;
        assert!((0..100).all(|at| all[at].1[0] == at as u64) && all[7].1[9] == 1234);
        all.truncate(60);
        assert_eq!(dropped.get(), 40);
        cache.shrink();
    }
    assert_eq!(dropped.get(), 100);
    assert_eq!(audit::<OneCpu>(), before, "the cache must free all its pages");
}

/// The object of a value whose `drop` panics is freed nevertheless.
#[test]
fn panic_in_drop_frees_the_object() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a planted panic");
        }
    }
    let kernel = boot::<OneCpu>(32);
    let before = audit::<OneCpu>();
    {
        let cache = kernel.cache::<Panics>("panics").unwrap();
        for _ in 0..100 {
            let object = cache.alloc(Panics, Gfp::KERNEL).unwrap();
            assert!(catch_unwind(AssertUnwindSafe(|| drop(object))).is_err());
        }
    }
    assert_eq!(audit::<OneCpu>(), before, "the cache must free all its pages");
}

#[test]
fn contig_pages_are_where_a_device_needs_them() {
    type Map = Kernel<Machine>;
    let kernel = boot::<OneCpu>(64);
    for (align, mask, pages) in [(1 << 20, u64::MAX, 300), (1, 16 * MIB - 1, 1000), (64 << 10, 32 * MIB - 1, 17)] {
        let range = kernel.alloc_contig_pages_at(Gfp::KERNEL, pages, Map::placement(align, mask)).unwrap();
        assert!(range.physical().is_multiple_of(align), "{:#x}", range.physical());
        assert!(range.physical() + u64::from(pages) * 4096 - 1 <= mask, "{:#x}", range.physical());
    }
    let whole_map = Map::placement(4096, u64::MAX);
    assert_eq!(whole_map, Placement::ANYWHERE);
    assert_eq!(Map::placement(8192, 0xffff_ffff), Placement::aligned(2).below(Pfn::new(1 << 20)));
    assert_eq!(Map::placement(1, 0xffff), Placement::ANYWHERE.below(Pfn::new(16)));
    let none = kernel.alloc_contig_pages_at(Gfp::KERNEL, 1, Map::placement(4096, 4095));
    assert_eq!(none.unwrap_err(), Error::Contig(ContigError::NoRange), "frame 0 is never used");
}

#[test]
fn addresses_outside_of_memory_are_refused() {
    let kernel = boot::<OneCpu>(32);
    let first = kernel.phys_to_virt(4096).unwrap().as_ptr();
    let last = kernel.phys_to_virt(32 * MIB - 1).unwrap().as_ptr();
    assert_eq!((kernel.virt_to_phys(first), kernel.virt_to_phys(last)), (Some(4096), Some(32 * MIB - 1)));
    for physical in [32 * MIB, 33 * MIB, 1 << 40, 1 << 62, u64::MAX] {
        assert_eq!(kernel.phys_to_virt(physical), None, "{physical:#x}");
    }
    for address in [last.wrapping_add(1), first.wrapping_sub(2 * 4096), null(), usize::MAX as *const u8] {
        assert_eq!(kernel.virt_to_phys(address), None, "{address:p}");
    }
}

#[test]
fn typed_cache_uses_the_alignment_of_the_type() {
    let kernel = boot::<OneCpu>(32);
    #[repr(align(256))]
    struct Wide([u8; 3]);
    #[repr(align(8192))]
    struct TooWide([u8; 3]);
    let wide = kernel.cache::<Wide>("wide").unwrap();
    let objects: Vec<_> = (0..40).map(|at| wide.alloc(Wide([at; 3]), Gfp::KERNEL).unwrap()).collect();
    assert!(objects.iter().all(|object| core::ptr::from_ref(&**object).is_aligned()));
    assert!((0..40).all(|at| objects[usize::from(at)].0 == [at; 3]));
    let unit = kernel.cache::<()>("unit").unwrap();
    *unit.alloc((), Gfp::KERNEL).unwrap() = ();
    assert_eq!(kernel.cache::<TooWide>("too wide").unwrap_err(), Error::Cache(CreateError::Align { align: 8192 }));
    let _never = TooWide([0; 3]).0;
}

#[test]
fn idle_memory_is_reclaimed_before_a_request_fails() {
    let kernel = boot::<OneCpu>(16);
    let all = take_all_pages(kernel, Gfp::KERNEL).len();
    let objects: Vec<_> = core::iter::from_fn(|| kernel.kmalloc(1024, Gfp::KERNEL).ok()).collect();
    // SAFETY: each object was allocated above, is not used, and is freed once.
    objects.into_iter().for_each(|object| unsafe { kernel.kfree(object) }.unwrap());
    let pages = take_all_pages(kernel, Gfp::KERNEL);
    assert!(pages.len() >= all, "{} of {all}", pages.len());
    assert_eq!(
        <Machine>::kernel().alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap_err(),
        Error::Pages(AllocError::OutOfMemory)
    );
}
