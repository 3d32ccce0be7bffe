//! All CPUs allocate every page. Then requests of each kind must fail with an error. Finally all pages are freed.

use alloc::boxed::Box;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use freehold::base::{Gfp, Order, Pfn};
use freehold::kernel::Pages;

use crate::console::say;
use crate::hardware::Hardware;
use crate::hardware::KERNEL;
use crate::interrupts::{self, TickWork};
use crate::memory::free_pages;
use crate::together;

/// Linked list of the allocated pages, each of which holds the address of the next one at its start.
static TAKEN: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Runs on all CPUs.
pub fn play() {
    let before = free_pages();
    together::on_all_cpus(|_| take_all());
    // Idle memory is allocated as well, after ticks have stopped allocating.
    interrupts::set_tick_work(TickWork::Count);
    KERNEL.shrink();
    take_all();
    assert!(free_pages() < before / 20, "{} of {before} pages are still free", free_pages());
    assert!(KERNEL.alloc_pages(Gfp::KERNEL, Order::new(3)).is_err());
    assert!(KERNEL.kmalloc(30_000, Gfp::KERNEL).is_err());
    let layout = core::alloc::Layout::new::<[u8; 100_000]>();
    // SAFETY: the layout has a non-zero size, and the memory is not used. `black_box` keeps the compiler from removing
    // the call.
    assert!(core::hint::black_box(unsafe { alloc::alloc::alloc(layout) }).is_null());
    say!("  {} of {before} pages are left for requests that must not fail", free_pages());
    interrupts::set_tick_work(TickWork::Allocate);
    together::on_all_cpus(|_| while give_back() {});
    drop(Box::new([1_u8; 30_000]));
}

fn take_all() {
    while let Ok(page) = KERNEL.alloc_pages(Gfp::ATOMIC, Order::ZERO) {
        take(page);
    }
}

fn take(mut page: Pages<Hardware>) {
    let place = page.as_uninit().as_mut_ptr().cast::<*mut u8>();
    let (pfn, _) = page.into_raw();
    let mut first = TAKEN.load(Relaxed);
    loop {
        // SAFETY: this CPU owns the page until the exchange puts it into the list, and `place` is its start.
        unsafe { place.write(first) };
        match TAKEN.compare_exchange(first, place.cast(), AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
        debug_assert!(pfn != Pfn::new(0));
    }
}

/// Frees all pages of the list, including those of other CPUs; returns whether there were any.
fn give_back() -> bool {
    let Some(all) = NonNull::new(TAKEN.swap(null_mut(), AcqRel)) else { return false };
    let mut next = Some(all);
    while let Some(page) = next {
        // SAFETY: the swap took the whole list, so this CPU owns its pages, and `take` has written a link into each of
        // them.
        next = NonNull::new(unsafe { page.cast::<*mut u8>().read() });
        let pfn = Pfn::new((KERNEL.virt_to_phys(page.as_ptr()).expect("pages are memory") >> 12) as u32);
        // SAFETY: `take` released the page with `into_raw`, and each page is in the list once.
        drop(unsafe { Pages::<Hardware>::from_raw(pfn, Order::ZERO) });
    }
    true
}
