//! Calls between CPUs: CPUs that wait for each other, CPUs that do not answer, and implementations that break the
//! contract of `Cpu`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use freehold::base::{CpuId, Gfp, Order, Rank, RawLock};
use freehold::kernel::{Cpu, Kernel, SpinLock};
use freehold::slab::cpu::FenceOutcome;
use freehold::slab::{CpuLocal, SlabViolation};

use crate::kernel::machine::{
    CPU, FourCpus, Hooks, IRQS_OFF, Impatient, ImpatientOwner, Machine, OneCpu, UNANSWERED, Variant, audit, boot,
    boot_with, spawn_cpu, stand_for, touch,
};

/// A CPU waits for a lock with interrupts off, while the holder of the lock waits for that CPU.
#[test]
fn cpu_waiting_for_a_lock_answers_calls() {
    let kernel = boot::<FourCpus>(32);
    let (lock, waits, is_over) = (SpinLock::<Machine<FourCpus>>::new(), AtomicBool::new(false), AtomicBool::new(false));
    lock.lock(Rank::Zone);
    std::thread::scope(|scope| {
        spawn_cpu(scope, 1, || {
            stand_for::<FourCpus>(
                || is_over.load(Acquire),
                || {
                    touch::<FourCpus>();
                    waits.store(true, Release);
                    lock.lock(Rank::Zone);
                    // SAFETY: this thread took the lock with `lock` in the line above.
                    unsafe { lock.unlock(Rank::Zone) };
                },
            );
        });
        while !waits.load(Acquire) {
            std::thread::yield_now();
        }
        let local = kernel.slab().unwrap().local();
        for _ in 0..1000 {
            assert_eq!(CpuLocal::fence(local, CpuId(1)), FenceOutcome::Ended);
        }
        // SAFETY: this thread took the lock at the start of the test.
        unsafe { lock.unlock(Rank::Zone) };
        is_over.store(true, Release);
    });
    assert!(!IRQS_OFF.get(), "interrupts must be on again, as before the lock");
}

#[test]
fn last_unlock_restores_interrupts_in_any_order() {
    boot::<OneCpu>(32);
    let (first, second) = (SpinLock::<Machine>::new(), SpinLock::<Machine>::new());
    first.lock(Rank::Pcp);
    assert!(second.try_lock(Rank::Zone) && !second.try_lock(Rank::Zone));
    // SAFETY: this thread took both locks above and releases each of them once.
    unsafe {
        first.unlock(Rank::Pcp);
        assert!(IRQS_OFF.get());
        second.unlock(Rank::Zone);
    }
    assert!(!IRQS_OFF.get());
    let flags = <Machine>::irq_save();
    first.lock(Rank::Pcp);
    // SAFETY: this thread took the lock in the line above.
    unsafe { first.unlock(Rank::Pcp) };
    assert!(IRQS_OFF.get(), "interrupts must stay off, as before the lock");
    <Machine>::irq_restore(flags);
}

#[test]
fn fence_of_an_unused_cpu_makes_no_call() {
    let kernel = boot::<FourCpus>(32);
    let local = kernel.slab().unwrap().local();
    assert_eq!((1..4).map(|cpu| CpuLocal::fence(local, CpuId(cpu))).collect::<Vec<_>>(), [FenceOutcome::Ended; 3]);
    assert!(Machine::<FourCpus>::calls().iter().all(|call| !call.load(Acquire)));
    kernel.shrink();
}

/// CPU 1 uses the allocator, and then takes no interrupts any more.
#[test]
fn unresponsive_cpu_loses_only_its_current_objects() {
    lose(boot::<Impatient>(32));
}

/// CPU 1 stops taking interrupts, under a policy in which CPUs own slabs. Slabs are disowned before the fence.
#[test]
fn slabs_of_an_unresponsive_cpu_are_untouched() {
    lose(boot::<ImpatientOwner>(32));
}

/// CPU 1 stops taking interrupts, on a machine with a clock that limits the wait.
#[test]
fn clock_ends_the_wait_for_an_unresponsive_cpu() {
    fn time() -> Option<u64> {
        static TIME: AtomicU64 = AtomicU64::new(0);
        Some(TIME.fetch_add(100, Relaxed))
    }
    lose(boot_with::<FourCpus>(32, Hooks { time, ..Hooks::default() }));
}

thread_local! {
    /// Number of calls of a coarse clock, and number of calls after which it advances.
    static CLOCK_CALLS: Cell<u64> = const { Cell::new(0) };
    static CLOCK_PERIOD: Cell<u64> = const { Cell::new(1) };
}

/// Returns the time of a clock that advances once per `CLOCK_PERIOD`, by a quarter of the limit of a call.
fn coarse_time<V: Variant>() -> u64 {
    CLOCK_CALLS.get() / CLOCK_PERIOD.get() * (V::CALL_NANOS_MAX / 4)
}

/// Waits for CPU 1, which does not answer, by a coarse clock that advances after `period` calls.
fn wait_by_coarse_clock<V: Variant>(period: u64) {
    let time = || {
        CLOCK_CALLS.set(CLOCK_CALLS.get() + 1);
        Some(coarse_time::<V>())
    };
    let kernel = boot_with::<V>(32, Hooks { time, ..Hooks::default() });
    as_other(|| _ = touch::<V>());
    CLOCK_PERIOD.set(period);
    CLOCK_CALLS.set(0);
    assert_eq!(CpuLocal::fence(kernel.slab().unwrap().local(), CpuId(1)), FenceOutcome::Unanswered);
    assert!(coarse_time::<V>() > V::CALL_NANOS_MAX, "the wait ended after {} calls of the clock", CLOCK_CALLS.get());
}

/// The limit of rounds does not end a wait early if the clock advances from time to time.
#[test]
fn coarse_clock_does_not_end_a_wait_early() {
    const { assert!(Impatient::CALL_ROUNDS_MAX > 40, "the clock must advance before the limit of rounds") };
    wait_by_coarse_clock::<Impatient>(40);
    wait_by_coarse_clock::<FourCpus>(1000);
}

/// After a CPU was given up, no other CPU waits for it again. A caller with interrupts off never waits for any CPU.
#[test]
fn unresponsive_cpu_is_waited_for_once() {
    let kernel = boot::<Impatient>(32);
    as_other(use_many_sizes::<Impatient>);
    UNANSWERED.set(0);
    let flags = Machine::<Impatient>::irq_save();
    assert!(kernel.alloc_pages(Gfp::KERNEL, Order::MAX).is_ok());
    assert!(kernel.kmalloc(1 << 30, Gfp::KERNEL).is_err());
    assert!((0..100).any(|_| kernel.alloc_pages(Gfp::KERNEL, Order::MAX).map(core::mem::forget).is_err()));
    Machine::<Impatient>::irq_restore(flags);
    assert_eq!(UNANSWERED.get(), 0, "interrupts were off");
    kernel.shrink();
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 1, "the CPU must be waited for only once, not once for each cache");
    // CPU 1 takes the pending call when its interrupts are on. Afterwards the other CPU waits for it again, and nothing
    // more is lost.
    as_other(Machine::<Impatient>::deliver);
    assert!(!CpuLocal::is_out_of_reach(kernel.slab().unwrap().local(), CpuId(1)));
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 2, "the CPU took the pending call, so it must be waited for again");
}

/// A CPU that was given up keeps its objects, except for the slabs and sheaves that were being taken from it. A CPU
/// that went offline and came back is called again, even if it never answered before.
#[test]
fn given_up_cpu_keeps_its_objects() {
    let kernel = boot::<Impatient>(32);
    as_other(use_many_sizes::<Impatient>);
    UNANSWERED.set(0);
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 1);
    // SAFETY: no thread runs as CPU 1, and the CPU uses the allocator again only after `cpu_online`.
    unsafe { kernel.cpu_dead(CpuId(1)) };
    kernel.cpu_online(CpuId(1));
    kernel.shrink();
    // SAFETY: no other thread uses the allocator during the check.
    let objects = unsafe { kernel.slab().unwrap().check() };
    let few = matches!(objects, Ok(_) | Err(SlabViolation::Sheaves { expected: 0..=2, found: 0 }));
    assert!(few, "the main sheaf of a cache was lost, and its spare: {objects:?}");
    as_other(|| _ = touch::<Impatient>());
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 2, "the CPU is online again, so it must be waited for again");
}

/// The CPU may resume in the middle of an operation, with interrupts off. It reaches its own part without a call.
#[test]
fn given_up_cpu_still_shrinks_its_own_lists() {
    let kernel = boot::<Impatient>(32);
    as_other(use_many_sizes::<Impatient>);
    UNANSWERED.set(0);
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 1);
    as_other(|| {
        let flags = Machine::<Impatient>::irq_save();
        Machine::<Impatient>::kernel().shrink();
        Machine::<Impatient>::irq_restore(flags);
    });
}

/// Runs `run` as CPU 1 until it returns.
fn as_other(run: fn()) {
    std::thread::scope(|scope| spawn_cpu(scope, 1, run).join().unwrap());
}

/// Fills this CPU's sheaves of many caches.
fn use_many_sizes<V: Variant>() {
    let kernel = Machine::<V>::kernel();
    for size in [16, 64, 200, 500, 1000, 3000] {
        let object = kernel.kmalloc(size, Gfp::KERNEL).unwrap();
        // SAFETY: the object was just allocated, is not used, and is freed only here.
        unsafe { kernel.kfree(object) }.unwrap();
    }
}

/// Gives up CPU 1 of a machine that was just set up, and loses what that CPU may be using.
fn lose<V: Variant>(kernel: &'static Kernel<Machine<V>>) {
    let mine = kernel.kmalloc(256, Gfp::KERNEL).unwrap();
    let its = std::thread::scope(|scope| {
        let other = spawn_cpu(scope, 1, || {
            touch::<V>();
            kernel.kmalloc(256, Gfp::KERNEL).unwrap().as_ptr().expose_provenance()
        });
        other.join().unwrap()
    });
    let its = NonNull::new(core::ptr::with_exposed_provenance_mut(its)).unwrap();
    UNANSWERED.set(0);
    kernel.shrink();
    assert!(UNANSWERED.get() >= 1, "the CPU that does not answer must be reported");
    // SAFETY: both objects were allocated above, and CPU 1's thread, which allocated one of them, has ended. Each is
    // freed once.
    unsafe {
        kernel.kfree(mine).unwrap();
        kernel.kfree(its).unwrap();
    }
    let blocks: Vec<_> = (0..500).map(|_| kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap()).collect();
    drop(blocks);
    touch::<V>();
    // SAFETY: no other thread uses the allocator during the checks.
    let (pages, objects) = unsafe { (kernel.pages().unwrap().check(), kernel.slab().unwrap().check()) };
    assert!(pages.is_ok(), "{pages:?}");
    // Slabs and sheaves that the CPU may be using no longer have an owner.
    let lost = matches!(objects, Err(SlabViolation::Lost { .. } | SlabViolation::Sheaves { .. }));
    assert!(objects.is_ok() || lost, "{objects:?}");
    // The CPU answers again. Objects that it allocates from now on are not lost.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        spawn_cpu(scope, 1, || stand_for::<V>(|| is_over.load(Acquire), || _ = touch::<V>()));
        while CpuLocal::fence(kernel.slab().unwrap().local(), CpuId(1)) == FenceOutcome::Unanswered {
            std::thread::yield_now();
        }
        is_over.store(true, Release);
    });
    // The slab is not checked, because the CPU may have ended without an answer.
    // SAFETY: the pages are checked only; nothing is freed or released through the reference.
    unsafe { kernel.pages().unwrap().check().unwrap() };
}

#[test]
fn call_with_an_invalid_cpu_number_panics() {
    let kernel = boot::<FourCpus>(32);
    let before = audit::<FourCpus>();
    CPU.set(FourCpus::CPUS);
    let pages = catch_unwind(AssertUnwindSafe(|| drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO))));
    let object = catch_unwind(AssertUnwindSafe(|| kernel.kmalloc(64, Gfp::KERNEL).is_ok()));
    CPU.set(0);
    IRQS_OFF.set(false);
    assert!(pages.is_err() && object.is_err());
    assert_eq!(audit::<FourCpus>(), before);
}

#[test]
#[cfg(debug_assertions)]
fn enabled_interrupts_under_a_lock_panic() {
    crate::kernel::machine::install::<OneCpu>(Hooks { irqs_disabled: || Some(false), ..Hooks::default() });
    assert!(catch_unwind(|| SpinLock::<Machine>::new().lock(Rank::Zone)).is_err());
    IRQS_OFF.set(false);
}

thread_local! {
    /// Request of a non-maskable interrupt, which occurs at the next check of the interrupt state.
    static NMI: Cell<Option<fn()>> = const { Cell::new(None) };
}

#[test]
#[cfg(debug_assertions)]
fn nmi_allocation_in_a_section_panics() {
    thread_local! {
        static LOOKS: Cell<u32> = const { Cell::new(0) };
    }
    /// Counts checks while interrupts are off. Returns whether this is the second one, at the end of a section.
    fn is_in_section() -> bool {
        LOOKS.set(LOOKS.get() + 1);
        LOOKS.get() == 2
    }
    fn irqs_disabled() -> Option<bool> {
        if IRQS_OFF.get()
            && is_in_section()
            && let Some(handler) = NMI.take()
        {
            handler();
        }
        Some(IRQS_OFF.get())
    }
    let kernel = boot_with::<OneCpu>(32, Hooks { irqs_disabled, ..Hooks::default() });
    touch::<OneCpu>();
    LOOKS.set(0);
    NMI.set(Some(|| _ = <Machine>::kernel().kmalloc(64, Gfp::ATOMIC)));
    let panic = catch_unwind(AssertUnwindSafe(|| kernel.kmalloc(64, Gfp::KERNEL).is_ok())).unwrap_err();
    let message = panic.downcast_ref::<&str>();
    assert!(message.is_some_and(|message| message.contains("a section was interrupted")));
}
