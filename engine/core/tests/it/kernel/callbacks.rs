//! Requests inside callbacks: they may use the reserve, and they call none of the callbacks again.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use freehold::base::{Gfp, Order};
use freehold::kernel::{Cpu, PageSink, Pages};
use freehold::platform::{Migrated, Migration, OutOfMemory, Reclaim, Reclaimed, Request};

use crate::common::panic_hook;
use crate::kernel::machine::{
    CPU, Equipped, FourCpus, Hooks, Machine, OneCpu, Variant, audit, boot_with, current_machine, join_machine,
    take_all_pages,
};

thread_local! {
    /// Nesting depth of this thread in callbacks, and its maximum.
    static DEPTH: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Runs the work of a callback one nesting level deeper. A callback on the second level does no work, so the recursion
/// always ends.
fn one_level_deeper(run: impl FnOnce()) {
    let (depth, most) = DEPTH.get();
    DEPTH.set((depth + 1, most.max(depth + 1)));
    if depth == 0 {
        run();
    }
    let (_, most) = DEPTH.get();
    DEPTH.set((depth, most));
}

/// Makes requests of all kinds until no page is left.
fn request_until_failure<V: Variant>() {
    one_level_deeper(|| {
        let kernel = Machine::<V>::kernel();
        for order in [9, 5, 3].map(Order::new) {
            drop(kernel.alloc_pages(Gfp::KERNEL | Gfp::NOMEMALLOC, order));
        }
        drop(kernel.alloc_contig_pages(Gfp::KERNEL, 700));
        drop(take_all_pages(kernel, Gfp::KERNEL));
        drop(kernel.alloc_pages(Gfp::KERNEL | Gfp::NOFAIL, Order::ZERO));
        // SAFETY: the object was just allocated, is not used, and is freed only here.
        unsafe { kernel.kmalloc(5000, Gfp::KERNEL).ok().inspect(|&object| kernel.kfree(object).unwrap()) };
    });
}

/// Runs `run` on a stack as small as a CPU's. Returns the maximum nesting depth of callbacks.
fn depth_of(run: impl FnOnce() + Send) -> u32 {
    const STACK: usize = if cfg!(debug_assertions) { 96 << 10 } else { 64 << 10 };
    let machine = current_machine();
    let (_, most) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
            join_machine(machine, 0);
            run();
            DEPTH.get()
        });
        thread.unwrap().join().unwrap()
    });
    most
}

#[test]
fn allocation_in_reclaim_does_not_nest() {
    fn reclaim(_: &PageSink<'_, Machine>, _: &Reclaim) -> Reclaimed {
        request_until_failure::<OneCpu>();
        Reclaimed::default()
    }
    fn out_of_memory(_: &PageSink<'_, Machine>, _: &Request) -> OutOfMemory {
        request_until_failure::<OneCpu>();
        OutOfMemory::NothingFreed
    }
    let kernel = boot_with::<OneCpu>(16, Hooks { reclaim, out_of_memory, ..Hooks::default() });
    assert_eq!(depth_of(|| drop(take_all_pages(kernel, Gfp::KERNEL))), 1);
    audit::<OneCpu>();
}

#[test]
fn allocation_in_migrate_does_not_nest() {
    fn migrate(_: &Migration) -> Migrated {
        request_until_failure::<Equipped>();
        Migrated::Refused
    }
    let kernel = boot_with::<Equipped>(16, Hooks { migrate, ..Hooks::default() });
    let all = take_all_pages(kernel, Gfp::KERNEL | Gfp::MOVABLE);
    let mut raw = Vec::new();
    for (page, at) in all.into_iter().zip(0..) {
        // Three of four blocks stay allocated without a handle.
        if at % 4 > 0 {
            raw.push(page.into_raw());
        }
    }
    let depth = depth_of(|| {
        drop(kernel.alloc_pages(Gfp::KERNEL, Order::new(9)));
        let start = raw[100].0.align_down(Order::new(5));
        drop(kernel.alloc_contig_range(start..start.offset(32), Gfp::KERNEL));
    });
    assert_eq!(depth, 1);
    for (pfn, order) in raw {
        // SAFETY: `into_raw` returned this number once, no handle was made since, and `migrate` never answered `Moved`.
        drop(unsafe { Pages::<Machine<Equipped>>::from_raw(pfn, order) });
    }
    audit::<Equipped>();
}

/// A callback may need a page to free many, so its requests may use the reserve.
#[test]
fn callback_allocates_from_the_reserve() {
    static GOT: AtomicU32 = AtomicU32::new(0);
    fn reclaim(_: &PageSink<'_, Machine>, _: &Reclaim) -> Reclaimed {
        one_level_deeper(|| {
            let page = <Machine>::kernel().alloc_pages(Gfp::KERNEL, Order::ZERO);
            GOT.fetch_add(u32::from(page.is_ok()), SeqCst);
        });
        Reclaimed::default()
    }
    let kernel = boot_with::<OneCpu>(16, Hooks { reclaim, ..Hooks::default() });
    drop(take_all_pages(kernel, Gfp::KERNEL));
    assert!(GOT.load(SeqCst) > 0, "the callback of the reclaiming request must get a page");
}

/// Pages that a callback frees through the sink serve the request.
#[test]
fn pages_freed_by_a_callback_serve_the_request() {
    use std::sync::Mutex;
    static CACHED: Mutex<Vec<Pages<Machine>>> = Mutex::new(Vec::new());
    fn reclaim(pages: &PageSink<'_, Machine>, wanted: &Reclaim) -> Reclaimed {
        let mut count = 0;
        while count < wanted.goal && !pages.has_enough() {
            let Some(page) = CACHED.lock().unwrap().pop() else { break };
            pages.free(page);
            count += 1;
        }
        Reclaimed { pages: count, scanned: count }
    }
    let kernel = boot_with::<OneCpu>(16, Hooks { reclaim, ..Hooks::default() });
    let before = audit::<OneCpu>().0;
    let all = take_all_pages(kernel, Gfp::KERNEL);
    let count = all.len();
    CACHED.lock().unwrap().extend(all);
    let again: Vec<_> = (0..count).map(|_| kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap()).collect();
    assert!(CACHED.lock().unwrap().len() < 64, "each reclaimed page must serve a request");
    drop((again, std::mem::take(&mut *CACHED.lock().unwrap())));
    assert_eq!(audit::<OneCpu>().0, before);
}

struct Planned;

#[test]
fn callback_that_panics_or_changes_cpu_leaves_no_mark() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static DOES: Cell<fn()> = const { Cell::new(|| ()) };
    }
    fn reclaim(_: &PageSink<'_, Machine<FourCpus>>, _: &Reclaim) -> Reclaimed {
        CALLS.fetch_add(1, SeqCst);
        DOES.get()();
        Reclaimed::default()
    }
    panic_hook::silence_payload::<Planned>();
    let kernel = boot_with::<FourCpus>(16, Hooks { reclaim, ..Hooks::default() });
    let _all = take_all_pages(kernel, Gfp::KERNEL);
    let calls_of_a_request = || {
        let before = CALLS.load(SeqCst);
        let _ended = catch_unwind(AssertUnwindSafe(|| drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO))));
        CALLS.load(SeqCst) - before
    };
    assert!(calls_of_a_request() > 0);
    DOES.set(|| panic_any(Planned));
    assert_eq!(
        (calls_of_a_request(), calls_of_a_request()),
        (1, 1),
        "the mark of the task must be removed when the callback panics"
    );
    // The task runs on CPU 1 when the callback ends.
    DOES.set(|| CPU.set(1 - CPU.get()));
    assert!(calls_of_a_request() > 0);
    DOES.set(|| ());
    for cpu in [0, 1] {
        CPU.set(cpu);
        assert!(calls_of_a_request() > 0, "CPU {cpu} is not marked");
    }
    CPU.set(0);
}

/// An interrupt handler that runs during a callback gets free pages, but does not reclaim.
#[test]
fn interrupt_during_a_callback_is_served_without_reclaim() {
    static SERVED: AtomicU32 = AtomicU32::new(0);
    fn reclaim(_: &PageSink<'_, Machine>, _: &Reclaim) -> Reclaimed {
        one_level_deeper(|| {
            let page = <Machine>::kernel().alloc_pages(Gfp::ATOMIC, Order::ZERO);
            SERVED.fetch_add(u32::from(page.is_ok()), SeqCst);
        });
        Reclaimed::default()
    }
    let kernel = boot_with::<OneCpu>(16, Hooks { reclaim, ..Hooks::default() });
    drop(take_all_pages(kernel, Gfp::KERNEL));
    assert!(SERVED.load(SeqCst) > 0);
    assert_eq!(DEPTH.get(), (0, 1));
}

thread_local! {
    /// Number of the task that runs on this CPU, and for each task whether it is reclaiming.
    static TASK: Cell<usize> = const { Cell::new(0) };
    static RECLAIMS: Cell<[bool; 2]> = const { Cell::new([false; 2]) };
}

/// A task waits inside a callback while another task runs on its CPU and reclaims.
#[test]
fn per_task_mark_allows_other_tasks_to_reclaim() {
    static BY_TASK: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    fn is_reclaiming() -> Option<bool> {
        Some(RECLAIMS.get()[TASK.get()])
    }
    fn set_reclaiming(is_reclaiming: bool) {
        let mut reclaims = RECLAIMS.get();
        reclaims[TASK.get()] = is_reclaiming;
        RECLAIMS.set(reclaims);
    }
    fn reclaim(_: &PageSink<'_, Machine>, _: &Reclaim) -> Reclaimed {
        BY_TASK[TASK.get()].fetch_add(1, SeqCst);
        one_level_deeper(|| {
            drop(take_all_pages(<Machine>::kernel(), Gfp::KERNEL));
            if TASK.replace(1) == 0 {
                drop(take_all_pages(<Machine>::kernel(), Gfp::KERNEL));
                TASK.set(0);
            }
        });
        Reclaimed::default()
    }
    let hooks = Hooks { is_reclaiming, set_reclaiming, reclaim, ..Hooks::default() };
    let kernel = boot_with::<OneCpu>(16, hooks);
    drop(take_all_pages(kernel, Gfp::KERNEL));
    assert!(BY_TASK[0].load(SeqCst) > 0 && BY_TASK[1].load(SeqCst) > 0, "{BY_TASK:?}");
    assert_eq!((DEPTH.get(), RECLAIMS.get()), ((0, 2), [false; 2]), "each task is in one callback at most");
    audit::<OneCpu>();
}
