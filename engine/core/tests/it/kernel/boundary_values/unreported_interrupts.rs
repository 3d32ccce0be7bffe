//! Requests of the heap in interrupt handlers that `Promises::task` does not report. Debug builds detect them.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};

use freehold::base::{Gfp, Order};
use freehold::kernel::{Cpu, Heap, Kernel, Pages};
use freehold::platform::{Context, Reclaimed, Task};

use super::Hw;
use crate::kernel::machine::{Equipped, Hooks, IRQS_OFF, audit, boot_with, take_all_pages};

thread_local! {
    /// Context that `task` reports.
    static CONTEXT: Cell<Context> = const { Cell::new(Context::Task) };
    /// Pages that `reclaim` frees one by one.
    static CACHED: RefCell<Vec<Pages<Hw>>> = const { RefCell::new(Vec::new()) };
}

/// Boots a machine whose `reclaim` frees a page of `CACHED`, and whose `task` reports `CONTEXT`.
fn boot_with_page_cache() -> &'static Kernel<Hw> {
    let hooks = Hooks {
        task: || Task { context: CONTEXT.get(), ..Task::default() },
        reclaim: |pages, _| {
            let page = CACHED.with_borrow_mut(Vec::pop);
            let count = u64::from(page.is_some());
            page.into_iter().for_each(|page| pages.free(page));
            Reclaimed { pages: count, scanned: count }
        },
        ..Hooks::default()
    };
    boot_with::<Equipped>(16, hooks)
}

/// Outcome of `reclaim` during a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reclaims {
    Pages,
    Nothing,
}

/// Makes a request while no page is free, so that the kernel calls `reclaim`.
fn request_without_free_pages(kernel: &'static Kernel<Hw>, reclaims: Reclaims, has_irqs_off: bool) {
    let all = take_all_pages(kernel, Gfp::ATOMIC);
    let kept = match reclaims {
        Reclaims::Pages => CACHED.replace(all),
        Reclaims::Nothing => all,
    };
    let count = CACHED.with_borrow(Vec::len);
    IRQS_OFF.set(has_irqs_off);
    drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO));
    IRQS_OFF.set(false);
    let rest = CACHED.take();
    assert_eq!(rest.len() < count, reclaims == Reclaims::Pages, "`reclaim` must be called");
    drop((kept, rest));
}

/// Allocates and frees an object as an interrupt handler does. Returns the message of the panic, if there is one.
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

/// Debug builds detect a handler that `task` does not report, once the callbacks of the kernel find memory.
#[test]
fn unreported_interrupt_is_detected() {
    let kernel = boot_with_page_cache();
    // At boot interrupts are off, and callbacks that find nothing work in any context.
    assert_eq!(allocate_in_handler(), None);
    request_without_free_pages(kernel, Reclaims::Nothing, false);
    assert_eq!(allocate_in_handler(), None);
    request_without_free_pages(kernel, Reclaims::Pages, false);
    for context in [Context::Hardirq, Context::Softirq, Context::SoftirqsOff] {
        CONTEXT.set(context);
        assert_eq!(allocate_in_handler(), None, "{context:?}");
    }
    CONTEXT.set(Context::Task);
    let message = allocate_in_handler().expect("a handler that is not reported must be detected");
    assert!(message.contains("`Promises::task` reports `Context::Task`"), "{message}");
    assert_eq!(allocate_in_handler(), None, "a handler of the panic may allocate");
    request_without_free_pages(kernel, Reclaims::Pages, false);
    assert!(allocate_in_handler().is_some(), "the handler must be detected again");
    assert!(!IRQS_OFF.get());
    audit::<Equipped>();
}

/// Callbacks that have found memory with interrupts off work in that state, so a request there is correct.
#[test]
fn callbacks_may_work_with_interrupts_on_and_off() {
    for order in [[false, true], [true, false]] {
        let kernel = boot_with_page_cache();
        for has_irqs_off in order {
            request_without_free_pages(kernel, Reclaims::Pages, has_irqs_off);
        }
        for _ in 0..3 {
            assert_eq!(allocate_in_handler(), None, "callbacks worked with interrupts off: {order:?}");
            request_without_free_pages(kernel, Reclaims::Pages, false);
        }
        assert!(!IRQS_OFF.get());
        audit::<Equipped>();
    }
}
