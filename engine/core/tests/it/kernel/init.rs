//! Setup of a kernel's memory: valid and invalid memory maps, repeated setup, and memory that is added later.

use std::ptr::NonNull;
use std::slice::from_ref;
use std::sync::Barrier;

use freehold::base::{Gfp, Order, Pfn, ZoneKind};
use freehold::kernel::{Boot, Cpu, Error, Heap, Kernel, Pages, Region, RegionKind, SetupError};
use freehold::page::{OnlineError, Zone};
use freehold::slab::{CacheConfig, CacheFlags, ObjectFreeError};

use crate::kernel::machine::{
    Equipped, FourCpus, Hooks, MIB, Machine, OneCpu, PagesAlone, Variant, audit, boot, init, install, memory,
    spawn_cpu, take_all_pages,
};

#[test]
fn calls_before_init_fail() {
    install::<FourCpus>(Hooks::default());
    let kernel = Machine::<FourCpus>::kernel();
    let frames = Pfn::new(1)..Pfn::new(2);
    assert_eq!(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap_err(), Error::NotSetUp);
    assert_eq!(kernel.kmalloc(8, Gfp::KERNEL).unwrap_err(), Error::NotSetUp);
    assert_eq!(kernel.cache::<u64>("unborn").unwrap_err(), Error::NotSetUp);
    assert_eq!(kernel.alloc_contig_pages(Gfp::KERNEL, 2).unwrap_err(), Error::NotSetUp);
    assert_eq!(kernel.alloc_contig_range(frames, Gfp::KERNEL).unwrap_err(), Error::NotSetUp);
    assert!(kernel.slab().is_none());
    kernel.answer();
    kernel.shrink();
    let heap = Heap::<Machine<FourCpus>>::new();
    let layout = std::alloc::Layout::new::<u64>();
    // SAFETY: the layout's size is not zero. The pointers that are freed belong to no allocation, so these calls change
    // nothing, and `add_memory` is refused.
    unsafe {
        assert!(core::alloc::GlobalAlloc::alloc(&heap, layout).is_null());
        core::alloc::GlobalAlloc::dealloc(&heap, core::ptr::dangling_mut(), layout);
        assert!(kernel.kfree(NonNull::dangling()).is_err());
        assert_eq!(kernel.add_memory(0..MIB), Err(SetupError::NotSetUp));
    }
}

#[test]
fn kernel_without_a_slab_serves_pages() {
    let kernel = boot::<PagesAlone>(32);
    let page = kernel.alloc_pages(Gfp::KERNEL, Order::new(3)).unwrap();
    assert!(kernel.slab().is_none());
    assert_eq!(kernel.kmalloc(8, Gfp::KERNEL).unwrap_err(), Error::NoCaches);
    assert_eq!(kernel.cache::<u64>("bare").unwrap_err(), Error::NoCaches);
    let frames = Pfn::new(1 << 9)..Pfn::new(2 << 9);
    // SAFETY: this kernel has no caches, so the call is refused before it uses the frames.
    assert_eq!(unsafe { kernel.reserve_cma(frames, Order::ZERO) }.unwrap_err(), Error::NoCaches);
    drop(page);
    kernel.shrink();
    // SAFETY: the pages are checked only; nothing is freed or released through the reference.
    let census = unsafe { kernel.pages() }.unwrap().check().unwrap();
    assert_eq!(census.allocated, 0);
    // SAFETY: no thread runs as CPU 1, and it never used the allocator.
    unsafe { kernel.cpu_dead(freehold::base::CpuId(1)) };
    kernel.cpu_online(freehold::base::CpuId(1));
}

#[test]
fn slab_debug_requires_the_built_in_checks() {
    let checked = Boot { slab_debug: CacheFlags::DEBUG, ..Boot::default() };
    let map = [Region::usable(0, 32 * MIB)];
    install::<OneCpu>(Hooks::default());
    assert_eq!(init::<OneCpu>(&map, 32, &checked), Err(SetupError::NoSlabDebug));
    init::<OneCpu>(&map, 32, &Boot::default()).unwrap();
    // A cache that requests the checks is created without them.
    let slab = <Machine>::kernel().slab().unwrap();
    let cache = slab.create(&CacheConfig::new("trusting", 64).with_flags(CacheFlags::DEBUG)).unwrap();
    assert!(!cache.info().is_checked() && cache.info().layout.size == 64);

    install::<Equipped>(Hooks::default());
    init::<Equipped>(&map, 32, &checked).unwrap();
    let object = Machine::<Equipped>::kernel().kmalloc(60, Gfp::KERNEL).unwrap();
    // SAFETY: the object was just allocated and is not used after the free. The byte behind it is in the object's slab.
    unsafe {
        object.as_ptr().add(60).write(7);
        assert!(matches!(Machine::<Equipped>::kernel().kfree(object), Err(ObjectFreeError::Damaged { .. })));
    }
}

#[test]
fn second_init_is_an_error() {
    boot::<OneCpu>(32);
    let again = init::<OneCpu>(&[Region::usable(0, 32 * MIB)], 32, &Boot::default());
    assert_eq!(again, Err(SetupError::Twice));
    audit::<OneCpu>();
}

#[test]
fn concurrent_init_succeeds_once() {
    install::<FourCpus>(Hooks::default());
    let start = Barrier::new(2);
    let mut results = std::thread::scope(|scope| {
        let cpus = [(); 2].map(|()| {
            spawn_cpu(scope, 0, || {
                start.wait();
                init::<FourCpus>(&[Region::usable(0, 32 * MIB)], 32, &Boot::default())
            })
        });
        cpus.map(|cpu| cpu.join().unwrap())
    });
    results.sort_by_key(Result::is_err);
    assert_eq!(results, [Ok(()), Err(SetupError::Twice)]);
    audit::<FourCpus>();
}

/// Tries to set a machine up with an unsuitable map, and returns the error.
fn refusal<V: Variant>(map: &[Region], boot: &Boot<'_>) -> SetupError {
    init::<V>(map, 32, boot).unwrap_err()
}

#[test]
fn init_with_an_invalid_map_fails_and_can_be_retried() {
    install::<FourCpus>(Hooks::default());
    let none = Boot::default();
    assert_eq!(refusal::<FourCpus>(&[], &none), SetupError::NoMemory);
    assert_eq!(refusal::<FourCpus>(&[Region::usable(0, 4096)], &none), SetupError::NoMemory);
    assert_eq!(refusal::<FourCpus>(&[Region::reserved(0, MIB)], &none), SetupError::NoMemory);
    let turned = Region { start: 8192, end: 4096, kind: RegionKind::Usable };
    assert_eq!(refusal::<FourCpus>(&[turned], &none), SetupError::Backwards { start: 8192, end: 4096 });
    let reserved = core::ops::Range { start: 2, end: 1 };
    let reserved = Boot { reserved: from_ref(&reserved), ..Boot::default() };
    assert_eq!(refusal::<FourCpus>(&[Region::usable(0, MIB)], &reserved), SetupError::Backwards { start: 2, end: 1 });
    let page = [Region::usable(MIB, 4096)];
    assert!(matches!(refusal::<FourCpus>(&page, &none), SetupError::NoRoom { largest: 4096, .. }));
    let odd = Boot { direct_map: 4096, ..Boot::default() };
    // SAFETY: `init` refuses the offset before it writes. The direct map at that offset leads into the allocated
    // memory, which is never freed.
    let wrong = unsafe {
        let offset = memory(64 * MIB) + 4096;
        Machine::<FourCpus>::kernel().init([Region::usable(0, 32 * MIB)], &Boot { direct_map: offset, ..odd })
    };
    assert_eq!(wrong, Err(SetupError::DirectMap { largest: 4 << 20 }));
    assert_eq!(Machine::<FourCpus>::kernel().kmalloc(8, Gfp::KERNEL).unwrap_err(), Error::NotSetUp);
    init::<FourCpus>(&[Region::usable(0, 32 * MIB)], 32, &none).unwrap();
    audit::<FourCpus>();
}

/// Regions of a PC in any order, overlapping, with limits inside pages.
#[test]
fn only_usable_frames_are_allocated() {
    let map = [
        Region::usable(20 * MIB, 12 * MIB),
        Region::usable(0, 0x9_fc00),
        Region::reserved(0x9_fc00, 0x6_0400),
        Region::usable(MIB, 20 * MIB),
        Region::reserved(5 * MIB + 1, 1),
        Region::reserved(1 << 40, u64::MAX),
    ];
    let kernel_image = 2 * MIB..3 * MIB + 100;
    install::<FourCpus>(Hooks::default());
    init::<FourCpus>(&map, 32, &Boot { reserved: from_ref(&kernel_image), ..Boot::default() }).unwrap();
    let reserved = [0..4096, 0x9_f000..MIB, 5 * MIB..5 * MIB + 4096, kernel_image, 32 * MIB..u64::MAX];
    let (before, _) = audit::<FourCpus>();
    let all = take_all_pages(Machine::<FourCpus>::kernel(), Gfp::ATOMIC);
    for pages in &all {
        let (start, end) = (pages.physical(), pages.physical() + 4096);
        assert!(reserved.iter().all(|range| end <= range.start || range.end <= start), "{start:#x} is not usable");
    }
    let mut frames: Vec<_> = all.iter().map(Pages::pfn).collect();
    frames.sort();
    assert!(frames.windows(2).all(|pair| pair[0] < pair[1]), "a frame was allocated twice");
    drop(all);
    assert_eq!(audit::<FourCpus>().0, before, "all frames must be free again");
    let holes = 1 + 0x61 + 1 + 0x101;
    let metadata = before.reserved - 0x101;
    assert_eq!(before.free + before.cached + before.allocated + metadata, 32 * MIB / 4096 - holes);
    assert!(metadata * 4096 < MIB, "{metadata} pages of metadata for 32 MiB");
}

#[test]
fn zones_follow_the_configured_limits() {
    let map = [Region::usable(0, 64 * MIB)];
    install::<OneCpu>(Hooks::default());
    init::<OneCpu>(&map, 64, &Boot { dma_end: 8 * MIB, dma32_end: 32 * MIB, ..Boot::default() }).unwrap();
    let kernel = <Machine>::kernel();
    // SAFETY: the zones are only read; nothing is freed or released through the reference.
    let zones = unsafe { kernel.pages() }.unwrap().zones();
    for (kind, mib) in [(ZoneKind::Dma, 7), (ZoneKind::Dma32, 24), (ZoneKind::Normal, 32)] {
        let present = zones.iter().find(|zone| zone.kind() == kind).map_or(0, Zone::present);
        assert_eq!(present * 4096 / MIB, mib, "{kind:?}");
    }
    for (gfp, below) in [(Gfp::DMA, 8), (Gfp::DMA32, 32), (Gfp::empty(), 64)] {
        let pages = kernel.alloc_pages(Gfp::KERNEL | gfp, Order::new(2)).unwrap();
        assert!(pages.physical() < below * MIB, "{gfp:?}");
        let object = kernel.kmalloc(100, Gfp::KERNEL | gfp).unwrap();
        // SAFETY: the object was just allocated, is not used, and is freed only here.
        unsafe { kernel.kfree(object) }.unwrap();
    }
    let normal = kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap();
    assert!(normal.physical() >= 32 * MIB, "the largest zone must be used first");
}

/// Adds memory between two addresses in MiB.
fn add_mib<H: Cpu>(kernel: &'static Kernel<H>, start: u64, end: u64) -> Result<u32, SetupError> {
    // SAFETY: the memory of the machine covers this range, and nothing else uses it.
    unsafe { kernel.add_memory(start * MIB..end * MIB) }
}

#[test]
fn memory_can_be_added_and_taken_offline() {
    let map = [Region::usable(0, 32 * MIB)];
    install::<FourCpus>(Hooks::default());
    init::<FourCpus>(&map, 512, &Boot { end_max: 256 * MIB, ..Boot::default() }).unwrap();
    let kernel = Machine::<FourCpus>::kernel();
    let few = take_all_pages(kernel, Gfp::ATOMIC);
    assert!(matches!(add_mib(kernel, 33, 34), Err(SetupError::Misaligned { .. })));
    assert!(matches!(add_mib(kernel, 34, 34), Err(SetupError::Backwards { .. })));
    assert!(matches!(add_mib(kernel, 16, 64), Err(SetupError::Online(OnlineError::Overlap { .. }))));
    assert!(matches!(add_mib(kernel, 254, 258), Err(SetupError::Online(OnlineError::Range))));
    assert_eq!(add_mib(kernel, 32, 64), Ok(8192), "the section's metadata must already exist");
    let free = add_mib(kernel, 128, 192).unwrap();
    assert!((15_000..16_384).contains(&free), "{free} of 16384 pages are free; only the metadata may be missing");
    let more = take_all_pages(kernel, Gfp::ATOMIC);
    assert!(more.len() as u32 > free + 7000);
    drop((few, more));
    audit::<FourCpus>();
    // SAFETY: all handles were dropped, so the range is free, and `offline` releases no frame that is in use.
    unsafe { kernel.pages() }.unwrap().offline(Pfn::new(32 << 8)..Pfn::new(64 << 8)).unwrap();
    assert_eq!(add_mib(kernel, 32, 64), Ok(8192), "the offline memory can be added again");
    audit::<FourCpus>();
}

/// Memory behind a hole costs metadata for itself, and objects are allocated on both sides of the hole.
#[test]
fn holes_have_no_metadata() {
    install::<OneCpu>(Hooks::default());
    let small = [Region::usable(0, MIB), Region::usable(1 << 40, 64 << 10)];
    let SetupError::NoRoom { needed, .. } = refusal::<OneCpu>(&small, &Boot::default()) else { panic!("it has room") };
    assert!(needed < 4 * MIB, "{needed} bytes for two sections of 128 MiB");
    let map = [Region::usable(0, 32 * MIB), Region::usable(4096 * MIB, 16 * MIB)];
    init::<OneCpu>(&map, 4096 + 32, &Boot { end_max: 4128 * MIB, ..Boot::default() }).unwrap();
    let kernel = Machine::<OneCpu>::kernel();
    let slab = kernel.slab().unwrap();
    let (mut objects, mut far) = (Vec::new(), 0);
    while let Ok(object) = kernel.kmalloc(1000, Gfp::ATOMIC) {
        far += usize::from(kernel.virt_to_phys(object.as_ptr()).unwrap() >= 4096 * MIB);
        objects.push(object);
    }
    assert!(far > 10_000 && objects.len() - far > 20_000, "{far} of {} objects are above the hole", objects.len());
    for hole in [64 * MIB, 2048 * MIB, 4095 * MIB, 4200 * MIB] {
        let foreign = NonNull::new(objects[0].as_ptr().wrapping_add(hole as usize)).unwrap();
        // SAFETY: no object is at the address, so the free is refused.
        assert!(unsafe { kernel.kfree(foreign) }.is_err(), "an address in a hole was freed");
    }
    let mut most = 0;
    slab.usage(|_, usage| most = most.max(usage.active));
    // The last requests get whole pages, since there is no block for a slab.
    let of_slabs = objects.iter().filter(|&&object| slab.ksize(object).unwrap() < 4096).count();
    assert_eq!(most, of_slabs as u64, "a walk over all slabs missed some");
    // SAFETY: each object was allocated above, is not used, and is freed once.
    objects.into_iter().for_each(|object| unsafe { kernel.kfree(object) }.unwrap());
    assert_eq!(add_mib(kernel, 4112, 4128), Ok(4096), "the section has its metadata already");
    assert!(add_mib(kernel, 1024, 1040).unwrap() > 3500, "the new memory holds its own metadata");
    let block = kernel.alloc_contig_pages(Gfp::KERNEL, 3000).unwrap();
    drop(block);
    audit::<OneCpu>();
}

#[test]
fn static_kernel_starts_empty() {
    static KERNEL: Kernel<Machine> = Kernel::new();
    assert!(format!("{KERNEL:?}").contains("Kernel"));
    assert!(KERNEL.slab().is_none());
}

/// Handles store no reference to their kernel, because they all belong to the one that `Cpu::kernel` returns.
#[test]
fn second_kernel_of_a_machine_is_an_error() {
    static SECOND: Kernel<Machine> = Kernel::new();
    let set_up_second = || {
        let boot = Boot { direct_map: memory(32 * MIB), ..Boot::default() };
        // SAFETY: the memory was allocated for this call and is never freed.
        unsafe { SECOND.init([Region::usable(0, 32 * MIB)], &boot) }
    };
    install::<OneCpu>(Hooks::default());
    assert_eq!(
        set_up_second(),
        Err(SetupError::NotTheKernel),
        "a second kernel must be refused before the first is set up"
    );
    init::<OneCpu>(&[Region::usable(0, 32 * MIB)], 32, &Boot::default()).unwrap();
    let kernel = <Machine>::kernel();
    assert_eq!(set_up_second(), Err(SetupError::NotTheKernel));
    assert!(SetupError::NotTheKernel.to_string().contains("Cpu::kernel"));
    let before = audit::<OneCpu>();
    assert_eq!(SECOND.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap_err(), Error::NotSetUp);
    assert_eq!(SECOND.kmalloc(8, Gfp::KERNEL).unwrap_err(), Error::NotSetUp);
    assert_eq!(SECOND.cache::<u64>("second").unwrap_err(), Error::NotSetUp);
    assert_eq!(SECOND.alloc_contig_pages(Gfp::KERNEL, 2).unwrap_err(), Error::NotSetUp);
    assert_eq!(SECOND.alloc_contig_range(Pfn::new(1)..Pfn::new(2), Gfp::KERNEL).unwrap_err(), Error::NotSetUp);
    assert!(SECOND.slab().is_none() && SECOND.phys_to_virt(4096).is_none());
    assert_eq!((SECOND.virt_to_phys(&raw const SECOND as *const u8), SECOND.stats()), (None, Default::default()));
    SECOND.answer();
    SECOND.shrink();
    SECOND.cpu_online(freehold::base::CpuId(0));
    // SAFETY: `add_memory` is refused because this kernel is not set up, and no CPU ever used it.
    unsafe {
        assert_eq!(SECOND.add_memory(0..MIB), Err(SetupError::NotSetUp));
        SECOND.cpu_dead(freehold::base::CpuId(0));
    }
    assert_eq!(audit::<OneCpu>(), before);
    drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap());
}
