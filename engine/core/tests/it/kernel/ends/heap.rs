//! The heap with layouts and addresses at their ends, and in handlers that `Promises::task` does not report.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::kernel::{Cpu, Heap};
use freehold::platform::Context;
#[cfg(debug_assertions)]
use freehold::{base::Gfp, base::Order, kernel::Pages, platform::Reclaimed, platform::Task};

use crate::kernel::machine::{Equipped, Hooks, Machine, audit, boot_with};
#[cfg(debug_assertions)]
use crate::kernel::machine::{IRQS_OFF, take_all_pages};

type Hw = Machine<Equipped>;

#[test]
fn layouts_and_addresses() {
    static REPORTS: AtomicU32 = AtomicU32::new(0);
    let hooks = Hooks { slab_error: |_| _ = REPORTS.fetch_add(1, SeqCst), ..Hooks::default() };
    boot_with::<Equipped>(32, hooks);
    let heap = Heap::<Hw>::new();
    let before = audit::<Equipped>();
    let largest = isize::MAX as usize;
    for (size, align) in
        [(largest, 1), (largest - 1, 2), (1, 1 << 62), ((1 << 62) - 1, 1 << 62), (largest - 4095, 4096)]
    {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the size of the layout is not zero.
        unsafe { assert!(heap.alloc(layout).is_null() && heap.alloc_zeroed(layout).is_null(), "{layout:?}") };
    }
    let (small, range) = (Layout::new::<u64>(), Layout::from_size_align(5 << 20, 8).unwrap());
    // SAFETY: null and addresses outside of objects are refused. `object` is used with its layout until it is freed,
    // and a `realloc` that fails leaves it alone.
    unsafe {
        heap.dealloc(null_mut(), small);
        for (layout, address) in [small, range].into_iter().flat_map(|layout| [(layout, 1), (layout, usize::MAX)]) {
            REPORTS.store(0, SeqCst);
            heap.dealloc(without_provenance_mut(address), layout);
            assert_eq!(REPORTS.load(SeqCst), 1, "{layout:?} at {address:#x}");
        }
        let object = heap.alloc(small).cast::<u64>();
        object.write(u64::MAX / 3);
        for size in [largest - 7, 33 << 20, 1 << 40] {
            assert!(heap.realloc(object.cast(), small, size).is_null(), "{size}");
        }
        assert_eq!(object.read(), u64::MAX / 3);
        heap.dealloc(object.cast(), small);
    }
    assert_eq!(audit::<Equipped>(), before);
}

thread_local! {
    /// Context that `task` reports.
    static CONTEXT: Cell<Context> = const { Cell::new(Context::Task) };
    /// Whether `reclaim` finds a page.
    static FINDS: Cell<bool> = const { Cell::new(false) };
}

/// Allocates and frees an object as an interrupt handler does. Returns the message of the panic, if there is one.
#[cfg(debug_assertions)]
fn allocate_in_handler() -> Option<String> {
    let flags = Hw::irq_save();
    let result = super::catch(|| {
        // SAFETY: the size of the layout is not zero, and the object is freed once with its layout.
        unsafe {
            let object = Heap::<Hw>::new().alloc(Layout::new::<u64>());
            Heap::<Hw>::new().dealloc(object, Layout::new::<u64>());
        }
    });
    Hw::irq_restore(flags);
    result.err()
}

/// Debug builds notice a handler that `task` does not report, once the callbacks of the kernel find memory.
#[test]
#[cfg(debug_assertions)]
fn unreported_interrupt_is_noticed() {
    static CACHED: std::sync::Mutex<Vec<Pages<Hw>>> = std::sync::Mutex::new(Vec::new());
    let task = || Task { context: CONTEXT.get(), ..Task::default() };
    let hooks = Hooks {
        task,
        reclaim: |pages, _| {
            let page = FINDS.get().then(|| CACHED.lock().unwrap().pop()).flatten();
            let found = u64::from(page.is_some());
            page.into_iter().for_each(|page| pages.free(page));
            Reclaimed { pages: found, scanned: found }
        },
        ..Hooks::default()
    };
    let kernel = boot_with::<Equipped>(16, hooks);
    let exhaust = |finds: bool, with_irqs_off: bool| {
        CACHED.lock().unwrap().extend(take_all_pages(kernel, Gfp::ATOMIC));
        FINDS.set(finds);
        IRQS_OFF.set(with_irqs_off);
        drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO));
        IRQS_OFF.set(false);
        FINDS.set(false);
        CACHED.lock().unwrap().clear();
    };
    // At boot interrupts are off, and a kernel whose callbacks find nothing, or work with interrupts off, is not wrong.
    assert_eq!(allocate_in_handler(), None);
    exhaust(false, false);
    exhaust(true, true);
    assert_eq!(allocate_in_handler(), None);
    exhaust(true, false);
    for context in [Context::Hardirq, Context::Softirq, Context::SoftirqsOff] {
        CONTEXT.set(context);
        assert_eq!(allocate_in_handler(), None, "{context:?}");
    }
    CONTEXT.set(Context::Task);
    let said = allocate_in_handler().expect("a handler that is not reported must be noticed");
    assert!(said.contains("`Promises::task` reports `Context::Task`"), "{said}");
    assert_eq!(allocate_in_handler(), None, "a handler of the panic may allocate");
    exhaust(true, false);
    assert!(allocate_in_handler().is_some(), "it is noticed again");
    assert!(!IRQS_OFF.get());
    audit::<Equipped>();
}
