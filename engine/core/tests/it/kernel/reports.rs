//! `Promises::slab_error` receives one report for each free that is refused, in all builds.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::RefCell;
use std::ptr::NonNull;

use freehold::base::{Gfp, Order};
use freehold::kernel::{Boot, Cpu, Heap, Region};
use freehold::platform::SlabReport;
use freehold::slab::{CacheConfig, CacheFlags, ObjectFreeError};

use crate::kernel::machine::{Equipped, Hooks, MIB, Machine, OneCpu, PagesAlone, Variant, boot_with, init, install};

thread_local! {
    /// Reports since the last check: the text of the bug, and the address.
    static REPORTS: RefCell<Vec<(String, usize)>> = const { RefCell::new(Vec::new()) };
}

fn note(report: &SlabReport<'_>) {
    REPORTS.with_borrow_mut(|reports| reports.push((report.bug.to_string(), report.address as usize)));
}

/// Returns hooks that record reports.
fn noting<V: Variant>() -> Hooks<V> {
    Hooks { slab_error: note, ..Hooks::default() }
}

/// Checks that there is exactly one report, about this address. Returns the bug.
fn expect_report(address: *const u8) -> String {
    let reports = REPORTS.take();
    let [(bug, at)] = &reports[..] else { panic!("one report is due: {reports:?}") };
    assert_eq!(*at, address.addr());
    bug.clone()
}

const FOREIGN: &str = "Attempt to free object outside of slab";
const INTERIOR: &str = "Invalid object pointer";
const TWICE: &str = "Object already free";

/// Makes invalid frees of all kinds on a machine, with or without checks.
fn refuse_everything<V: Variant>() {
    let kernel = Machine::<V>::kernel();
    let slab = kernel.slab().unwrap();
    let object = kernel.kmalloc(256, Gfp::KERNEL).unwrap();
    let large = kernel.kmalloc(100_000, Gfp::KERNEL).unwrap();
    let elsewhere = NonNull::from(&mut [0_u64; 4]).cast::<u8>();
    let page = kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap();
    // SAFETY: every address is either refused, because no object or block starts there or it belongs to another cache,
    // or is an object of this test that is freed once.
    unsafe {
        for (foreign, bugs) in [
            (elsewhere, &[FOREIGN][..]),
            (page.as_ptr(), &[FOREIGN]),
            (large.add(4096), &[FOREIGN]),
            (large.add(8), &[INTERIOR, FOREIGN]),
            (object.add(8), &[INTERIOR]),
            (object.add(1), &[INTERIOR]),
        ] {
            kernel.kfree(foreign).unwrap_err();
            let bug = expect_report(foreign.as_ptr());
            assert!(bugs.contains(&bug.as_str()), "{bug}");
            Heap::<Machine<V>>::new().dealloc(foreign.as_ptr(), Layout::new::<u64>());
            expect_report(foreign.as_ptr());
        }
        // Frees that a cache refuses.
        let [cache, other] = ["one", "other"].map(|name| slab.create(&CacheConfig::new(name, 200)).unwrap());
        let its = other.alloc(Gfp::KERNEL).unwrap();
        assert!(matches!(cache.free(its), Err(ObjectFreeError::WrongCache { .. })));
        assert!(expect_report(its.as_ptr()).starts_with("Wrong slab cache"));
        cache.free(elsewhere).unwrap_err();
        expect_report(elsewhere.as_ptr());
        other.free(its).unwrap();
    }
    assert_eq!(REPORTS.take(), [], "valid calls must not be reported");
    // SAFETY: each object is freed once and not used afterwards. The second free of `large` follows at once, before its
    // pages have a new owner, and is refused.
    unsafe {
        kernel.kfree(object).unwrap();
        assert_eq!(REPORTS.take(), []);
        kernel.kfree(large).unwrap();
        kernel.kfree(large).unwrap_err();
        assert_eq!(expect_report(large.as_ptr()), FOREIGN);
    }
}

#[test]
fn refused_frees_are_reported() {
    boot_with::<OneCpu>(32, noting());
    refuse_everything::<OneCpu>();
}

#[test]
fn refused_frees_of_checked_caches_are_reported_once() {
    install::<Equipped>(noting());
    let boot = Boot { slab_debug: CacheFlags::DEBUG, ..Boot::default() };
    init::<Equipped>(&[Region::usable(0, 32 * MIB)], 32, &boot).unwrap();
    refuse_everything::<Equipped>();
    let kernel = Machine::<Equipped>::kernel();
    let [object, other] = [(); 2].map(|()| kernel.kmalloc(64, Gfp::KERNEL).unwrap());
    // SAFETY: the objects are not used afterwards. The second free of one of them is refused, because the checks find
    // that it is free.
    unsafe {
        kernel.kfree(object).unwrap();
        kernel.kfree(other).unwrap();
        kernel.kfree(object).unwrap_err();
    }
    assert_eq!(expect_report(object.as_ptr()), TWICE);
}

/// Double frees that a default build detects: of the object that this CPU freed last if its sheaf is full, of objects
/// in a sheaf when the sheaf is flushed, of blocks, and of ranges.
#[test]
fn double_frees_are_reported_on_detection() {
    let kernel = boot_with::<OneCpu>(64, noting());
    let heap = Heap::<Machine>::new();
    // SAFETY: the sizes of the layouts are not zero. Each double free is detected before the memory is allocated again.
    unsafe {
        let layout = Layout::new::<[u64; 32]>();
        let [first, second] = [(); 2].map(|()| heap.alloc(layout));
        for object in [first, second, first] {
            heap.dealloc(object, layout);
        }
        kernel.shrink();
        assert_eq!(expect_report(first), TWICE, "the sheaf is flushed");
        let block = Layout::from_size_align(1 << 20, 8).unwrap();
        let large = heap.alloc(block);
        heap.dealloc(large, block);
        heap.dealloc(large, block);
        expect_report(large);
        let range = Layout::from_size_align(6 << 20, 8).unwrap();
        let vast = heap.alloc(range);
        heap.dealloc(vast, range);
        heap.dealloc(vast, range);
        assert_eq!(expect_report(vast), TWICE);
        for foreign in [vast.wrapping_add(8), core::ptr::dangling_mut(), (&raw mut REPORTED_STATIC).cast()] {
            heap.dealloc(foreign, range);
            assert_eq!(expect_report(foreign), FOREIGN);
        }
    }
}

static mut REPORTED_STATIC: u64 = 0;

/// Frees an object twice in a row, in any build. The second free is detected at once if the sheaf is full, and
/// otherwise when the sheaf is flushed.
#[test]
fn consecutive_double_free_is_reported() {
    let kernel = boot_with::<OneCpu>(32, noting());
    let heap = Heap::<Machine>::new();
    let layout = Layout::new::<[u64; 20]>();
    // SAFETY: the size of the layout is not zero. The double free is detected before the object is allocated again.
    unsafe {
        let object = heap.alloc(layout);
        heap.dealloc(object, layout);
        heap.dealloc(object, layout);
        kernel.shrink();
        assert_eq!(expect_report(object), TWICE);
    }
}

#[test]
fn kernel_without_a_slab_reports_foreign_frees() {
    let kernel = boot_with::<PagesAlone>(32, noting());
    let page = kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap();
    // SAFETY: the kernel has no objects, so the free is refused.
    unsafe { kernel.kfree(page.as_ptr()) }.unwrap_err();
    assert_eq!(expect_report(page.as_ptr().as_ptr()), FOREIGN);
}
