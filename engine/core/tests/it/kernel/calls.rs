//! CPUs that wait for each other, CPUs that do not answer, and machines that are not what they say.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use freehold::base::{CpuId, Gfp, Order, Rank, RawLock};
use freehold::kernel::{Cpu, Kernel, Promises, SpinLock};
use freehold::policy::Policy;
use freehold::slab::cpu::FenceOutcome;
use freehold::slab::{CpuLocal, SlabViolation};

use crate::kernel::machine::{CPU, IRQS_OFF, UNANSWERED, audit, boot, machine, stand_for, touch};

/// A CPU waits for a lock with interrupts off, and the holder for that CPU.
#[test]
fn a_cpu_that_waits_for_a_lock_answers() {
    machine!(Crossed, 2);
    let kernel = boot::<Crossed>(32);
    let (lock, waits, is_over) = (SpinLock::<Crossed>::new(), AtomicBool::new(false), AtomicBool::new(false));
    lock.lock(Rank::Zone);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stand_for::<Crossed>(
                1,
                || is_over.load(Acquire),
                || {
                    touch::<Crossed>();
                    waits.store(true, Release);
                    lock.lock(Rank::Zone);
                    // SAFETY: it was taken above.
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
        // SAFETY: it was taken above.
        unsafe { lock.unlock(Rank::Zone) };
        is_over.store(true, Release);
    });
    assert!(!IRQS_OFF.get(), "interrupts are as they were before the lock");
}

#[test]
fn interrupts_come_back_with_the_last_lock_whatever_the_order() {
    machine!(Nested, 1);
    boot::<Nested>(32);
    let (first, second) = (SpinLock::<Nested>::new(), SpinLock::<Nested>::new());
    first.lock(Rank::Pcp);
    assert!(second.try_lock(Rank::Zone) && !second.try_lock(Rank::Zone));
    // SAFETY: both were taken above.
    unsafe {
        first.unlock(Rank::Pcp);
        assert!(IRQS_OFF.get());
        second.unlock(Rank::Zone);
    }
    assert!(!IRQS_OFF.get());
    let flags = Nested::irq_save();
    first.lock(Rank::Pcp);
    // SAFETY: it was taken above.
    unsafe { first.unlock(Rank::Pcp) };
    assert!(IRQS_OFF.get(), "they were off before");
    Nested::irq_restore(flags);
}

#[test]
fn a_cpu_that_never_asked_for_anything_is_not_called() {
    machine!(Asleep, 4);
    let kernel = boot::<Asleep>(32);
    let local = kernel.slab().unwrap().local();
    assert_eq!((1..4).map(|cpu| CpuLocal::fence(local, CpuId(cpu))).collect::<Vec<_>>(), [FenceOutcome::Ended; 3]);
    assert!(Asleep::calls().iter().all(|call| !call.load(Acquire)));
    kernel.shrink();
}

/// A CPU uses the allocator, and then takes no interrupt any more.
#[test]
fn what_a_cpu_may_be_using_that_does_not_answer_is_lost_and_nothing_else() {
    machine!(Deaf, 2, const CALL_ROUNDS_MAX: u64 = 50;);
    lose::<Deaf>();
}

/// The same where CPUs own slabs, which are disowned before the fence.
#[test]
fn slabs_of_a_cpu_that_does_not_answer_are_left_alone() {
    machine!(DeafOwner, 2, const CALL_ROUNDS_MAX: u64 = 50;, const POLICY: Policy = Policy::LINUX_6_12;);
    lose::<DeafOwner>();
}

/// The same by a clock.
#[test]
fn a_clock_says_when_a_call_was_not_answered() {
    machine!(
        DeafByClock,
        2,
        const CALL_ROUNDS_MAX: u64 = u64::MAX;,
        const CALL_NANOS_MAX: u64 = 5_000;,
        fn time() -> Option<u64> {
            static TIME: AtomicU64 = AtomicU64::new(0);
            Some(TIME.fetch_add(100, Relaxed))
        }
    );
    lose::<DeafByClock>();
}

/// Once it was given up, nobody waits for it any more; and who comes with interrupts off waits for nobody at all.
#[test]
fn a_cpu_that_does_not_answer_is_waited_for_once() {
    machine!(Waited, 2, const CALL_ROUNDS_MAX: u64 = 50;);
    let kernel = boot::<Waited>(32);
    as_other(use_many_sizes::<Waited>);
    UNANSWERED.set(0);
    let flags = Waited::irq_save();
    assert!(kernel.alloc_pages(Gfp::KERNEL, Order::MAX).is_ok());
    assert!(kernel.kmalloc(1 << 30, Gfp::KERNEL).is_err());
    assert!((0..100).any(|_| kernel.alloc_pages(Gfp::KERNEL, Order::MAX).map(core::mem::forget).is_err()));
    Waited::irq_restore(flags);
    assert_eq!(UNANSWERED.get(), 0, "interrupts were off");
    kernel.shrink();
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 1, "of all its caches, one was waited for");
    // It takes the call that waits when its interrupts come on, and then it is waited for again, and loses nothing
    // more.
    as_other(Waited::deliver);
    assert!(!CpuLocal::is_out_of_reach(kernel.slab().unwrap().local(), CpuId(1)));
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 2, "it does not answer any more");
}

/// What a CPU that was given up has stays with it, but for what was being taken; and one that went down and came back
/// is called again, whatever it owed.
#[test]
fn a_cpu_that_was_given_up_keeps_what_it_has() {
    machine!(Kept, 2, const CALL_ROUNDS_MAX: u64 = 50;);
    let kernel = boot::<Kept>(32);
    as_other(use_many_sizes::<Kept>);
    UNANSWERED.set(0);
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 1);
    // SAFETY: it does not run, and does not come back before it is said to be online.
    unsafe { kernel.cpu_dead(CpuId(1)) };
    kernel.cpu_online(CpuId(1));
    kernel.shrink();
    // SAFETY: nothing else runs, and the pages are only looked at.
    let objects = unsafe { kernel.slab().unwrap().check() };
    let few = matches!(objects, Ok(_) | Err(SlabViolation::Sheaves { expected: 0..=2, found: 0 }));
    assert!(few, "the main sheaf of a cache was lost, and its spare: {objects:?}");
    as_other(|| _ = touch::<Kept>());
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 2, "it is up again, and was waited for");
}

/// It may come back in the middle of things, with interrupts off: it reaches itself, and calls nobody for that.
#[test]
fn a_cpu_that_was_given_up_reaches_itself() {
    machine!(Back, 2, const CALL_ROUNDS_MAX: u64 = 50;);
    let kernel = boot::<Back>(32);
    as_other(use_many_sizes::<Back>);
    UNANSWERED.set(0);
    kernel.shrink();
    assert_eq!(UNANSWERED.get(), 1);
    as_other(|| {
        let flags = Back::irq_save();
        Back::kernel().shrink();
        Back::irq_restore(flags);
    });
}

/// Runs this as CPU 1, to the end.
fn as_other(run: fn()) {
    let other = std::thread::spawn(move || {
        CPU.set(1);
        run();
    });
    other.join().unwrap();
}

/// Has this CPU have objects of many caches at hand.
fn use_many_sizes<H: Cpu>() {
    for size in [16, 64, 200, 500, 1000, 3000] {
        let object = H::kernel().kmalloc(size, Gfp::KERNEL).unwrap();
        // SAFETY: it was just allocated.
        unsafe { H::kernel().kfree(object) }.unwrap();
    }
}

fn lose<H: Cpu>() {
    let kernel = boot::<H>(32);
    let mine = kernel.kmalloc(256, Gfp::KERNEL).unwrap();
    let other = std::thread::spawn(|| {
        CPU.set(1);
        touch::<H>();
        kernel.kmalloc(256, Gfp::KERNEL).unwrap().as_ptr().expose_provenance()
    });
    let its = NonNull::new(core::ptr::with_exposed_provenance_mut(other.join().unwrap())).unwrap();
    UNANSWERED.set(0);
    kernel.shrink();
    assert!(UNANSWERED.get() >= 1, "it is reported");
    // SAFETY: both are this test's by now.
    unsafe {
        kernel.kfree(mine).unwrap();
        kernel.kfree(its).unwrap();
    }
    let blocks: Vec<_> = (0..500).map(|_| kernel.alloc_pages(Gfp::KERNEL, Order::ZERO).unwrap()).collect();
    drop(blocks);
    touch::<H>();
    // SAFETY: nothing else runs, and the pages are only looked at.
    let (pages, objects) = unsafe { (kernel.pages().unwrap().check(), kernel.slab().unwrap().check()) };
    assert!(pages.is_ok(), "{pages:?}");
    // Slabs or sheaves that it may be using are nobody's any more.
    let lost = matches!(objects, Err(SlabViolation::Lost { .. } | SlabViolation::Sheaves { .. }));
    assert!(objects.is_ok() || lost, "{objects:?}");
    // It comes back to its senses: what it has from now on is found again.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| stand_for::<H>(1, || is_over.load(Acquire), || _ = touch::<H>()));
        while CpuLocal::fence(kernel.slab().unwrap().local(), CpuId(1)) == FenceOutcome::Unanswered {
            std::thread::yield_now();
        }
        is_over.store(true, Release);
    });
    audit_lost::<H>();
}

/// As [`audit`], where a CPU may have ended without an answer.
fn audit_lost<H: Cpu>() {
    // SAFETY: nothing else runs, and the pages are only looked at.
    unsafe { H::kernel().pages().unwrap().check().unwrap() };
}

#[test]
fn a_number_that_no_cpu_has_is_refused() {
    machine!(Liar, 2);
    let kernel = boot::<Liar>(32);
    let before = audit::<Liar>();
    CPU.set(2);
    let pages = catch_unwind(AssertUnwindSafe(|| drop(kernel.alloc_pages(Gfp::KERNEL, Order::ZERO))));
    let object = catch_unwind(AssertUnwindSafe(|| kernel.kmalloc(64, Gfp::KERNEL).is_ok()));
    CPU.set(0);
    IRQS_OFF.set(false);
    assert!(pages.is_err() && object.is_err());
    assert_eq!(audit::<Liar>(), before);
}

#[test]
#[cfg(debug_assertions)]
fn interrupts_that_stay_on_are_noticed() {
    struct On;
    impl Promises for On {}
    // SAFETY: one thread uses it, so nothing interrupts anything.
    unsafe impl Cpu for On {
        const CPUS: u16 = 1;
        fn kernel() -> &'static Kernel<On> {
            static KERNEL: Kernel<On> = Kernel::new();
            &KERNEL
        }
        fn id() -> u16 {
            0
        }
        fn irq_save() -> usize {
            0
        }
        fn irq_restore(_: usize) {}
        fn call(_: u16) {}
        fn irqs_disabled() -> Option<bool> {
            Some(false)
        }
    }
    assert!(catch_unwind(|| SpinLock::<On>::new().lock(Rank::Zone)).is_err());
}

thread_local! {
    /// A non-maskable interrupt comes at the next look at the interrupts, and asks for this.
    static NMI: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
}

#[test]
#[cfg(debug_assertions)]
fn an_nmi_that_allocates_in_a_section_is_noticed() {
    struct Struck;
    impl Promises for Struck {}
    // SAFETY: one thread uses it; what interrupts it is what the test is about.
    unsafe impl Cpu for Struck {
        const CPUS: u16 = 1;
        fn kernel() -> &'static Kernel<Struck> {
            static KERNEL: Kernel<Struck> = Kernel::new();
            &KERNEL
        }
        fn id() -> u16 {
            0
        }
        fn irq_save() -> usize {
            IRQS_OFF.replace(true).into()
        }
        fn irq_restore(flags: usize) {
            IRQS_OFF.set(flags != 0);
        }
        fn call(_: u16) {}
        fn irqs_disabled() -> Option<bool> {
            if IRQS_OFF.get()
                && Struck::is_in_section()
                && let Some(handler) = NMI.take()
            {
                handler();
            }
            Some(IRQS_OFF.get())
        }
    }
    impl Struck {
        /// The second look of a section is at its end.
        fn is_in_section() -> bool {
            LOOKS.set(LOOKS.get() + 1);
            LOOKS.get() == 2
        }
    }
    thread_local! {
        static LOOKS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let kernel = boot::<Struck>(32);
    touch::<Struck>();
    LOOKS.set(0);
    NMI.set(Some(|| _ = Struck::kernel().kmalloc(64, Gfp::ATOMIC)));
    let noticed = catch_unwind(AssertUnwindSafe(|| kernel.kmalloc(64, Gfp::KERNEL).is_ok())).unwrap_err();
    let said = noticed.downcast_ref::<&str>().map(|said| (*said).to_owned());
    assert!(said.is_some_and(|said| said.contains("a section was interrupted")));
}
