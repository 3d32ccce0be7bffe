//! Effects of kernel functions on its statistics.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::base::{CpuId, Gfp, Order};
use freehold::kernel::{Boot, Cpu, Heap, Kernel, PageSink, Region};
use freehold::platform::{Context, Reclaim, Reclaimed, Task};

use crate::kernel::machine::{
    Equipped, FourCpus, Hooks, MIB, Machine, OneCpu, audit, boot, boot_with, init, install, spawn_cpu, take_all_pages,
};

/// Objects in sheaves and on CPUs' lists, over all caches.
fn cached<H: Cpu>(kernel: &'static Kernel<H>) -> u64 {
    let mut cached = 0;
    kernel.slab().unwrap().usage(|_, usage| cached += usage.cached);
    cached
}

/// In an interrupt the heap does not reclaim, and may use the reserve of requests that cannot.
#[test]
fn heap_requests_memory_by_context() {
    static RECLAIMS: AtomicU32 = AtomicU32::new(0);
    static IN_INTERRUPT: AtomicU32 = AtomicU32::new(0);
    fn task() -> Task {
        let context = if IN_INTERRUPT.load(SeqCst) > 0 { Context::Hardirq } else { Context::Task };
        Task { context, ..Task::default() }
    }
    fn reclaim(_: &PageSink<'_, Machine<Equipped>>, _: &Reclaim) -> Reclaimed {
        RECLAIMS.fetch_add(1, SeqCst);
        Reclaimed::default()
    }
    boot_with::<Equipped>(32, Hooks { task, reclaim, ..Hooks::default() });
    let heap = Heap::<Machine<Equipped>>::new();
    let layout = Layout::from_size_align(4096, 4096).unwrap();
    let take_all = || {
        let mut count = 0;
        // SAFETY: the size of the layout is not zero. The memory is never freed.
        while !unsafe { heap.alloc(layout) }.is_null() {
            count += 1;
        }
        count
    };
    assert!(take_all() > 4000);
    assert!(RECLAIMS.swap(0, SeqCst) > 0, "a task reclaims before its request fails");
    IN_INTERRUPT.store(1, SeqCst);
    assert!(take_all() > 0, "requests that cannot reclaim have a reserve");
    assert_eq!(RECLAIMS.load(SeqCst), 0, "an interrupt reclaimed");
}

#[test]
fn range_that_shrinks_frees_each_page() {
    let kernel = boot::<OneCpu>(64);
    let heap = Heap::<Machine>::new();
    let layout = |pages: usize| Layout::from_size_align(pages * 4096, 8).unwrap();
    let before = kernel.stats().used();
    // SAFETY: each call gets the layout that the memory has, and no size is zero.
    unsafe {
        let mut memory = heap.alloc(layout(1100));
        for pages in [1099, 1098, 1090, 1026, 1025] {
            let held = kernel.stats().used() - before;
            memory = heap.realloc(memory, layout(held as usize), pages * 4096);
            assert_eq!(kernel.stats().used() - before, pages as u64, "a page of {held} was lost");
        }
        heap.dealloc(memory, layout(1025));
    }
    assert_eq!(kernel.stats().used(), before);
}

/// A CPU that stops gives back its pages and its objects.
#[test]
fn cpu_dead_returns_what_the_cpu_cached() {
    let kernel = boot::<FourCpus>(32);
    std::thread::scope(|scope| {
        let other = spawn_cpu(scope, 1, || {
            let objects: Vec<_> = (0..8).map(|_| kernel.kmalloc(256, Gfp::KERNEL).unwrap()).collect();
            // SAFETY: each object was allocated above, is not used, and is freed once.
            objects.into_iter().for_each(|object| unsafe { kernel.kfree(object) }.unwrap());
            drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap());
        });
        other.join().unwrap();
    });
    assert!(cached(kernel) >= 8 && kernel.stats().cached > 0);
    // SAFETY: the thread of CPU 1 has ended.
    unsafe { kernel.cpu_dead(CpuId(1)) };
    assert_eq!((cached(kernel), kernel.stats().cached), (0, 0), "objects and pages of the stopped CPU");
    kernel.cpu_online(CpuId(1));
    audit::<FourCpus>();
}

/// Memory that is added raises the watermarks, since they depend on the amount of memory.
#[test]
fn added_memory_raises_watermarks_and_counts() {
    install::<OneCpu>(Hooks::default());
    init::<OneCpu>(&[Region::usable(0, 32 * MIB)], 256, &Boot { end_max: 256 * MIB, ..Boot::default() }).unwrap();
    let kernel = Machine::<OneCpu>::kernel();
    // SAFETY: the pages are only looked at.
    let min = || unsafe { kernel.pages() }.unwrap().zones().iter().map(|zone| zone.watermarks().min).sum::<u64>();
    let (before, managed) = (min(), kernel.stats().managed);
    // SAFETY: the memory of the machine covers this range, and nothing else uses it.
    let added = unsafe { kernel.add_memory(32 * MIB..256 * MIB) }.unwrap();
    assert_eq!(kernel.stats().managed, managed + u64::from(added));
    assert!(min() > before, "{} pages with eight times the memory", min());
    let pages = take_all_pages(kernel, Gfp::KERNEL).len() as u64;
    assert!(pages < kernel.stats().managed - min() + 64, "{pages} pages were allocated below the watermark");
}
