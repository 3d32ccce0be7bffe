//! Fault injection: platforms that return wrong CPU numbers, interrupt states, times and results of callbacks.
//!
//! Each fault is injected while memory of all kinds is allocated and freed, and while blocks are requested that only
//! reclaim and compaction could make free. A call may fail, and some faults make calls panic with a documented message.
//! No memory may get two owners, and Miri may find no undefined behaviour. Each test takes a minute or two in Miri:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-stacked-borrows" \
//!     cargo +nightly miri test -p freehold --test it kernel::faulty_platform::
//! ```
//!
//! The safety contracts of the traits allow all of these faults. Two faults break a promise of [`Cpu`] and are not
//! injected: a CPU number that changes while interrupts are off, and interrupts that `irq_save` leaves on. Debug builds
//! panic on the second fault if [`Cpu::irqs_disabled`] reports it.

use std::alloc::{GlobalAlloc, Layout};
use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};

use freehold::base::{Gfp, Order};
use freehold::kernel::{Contig, Cpu, Heap, Kernel, Pages};
use freehold::platform::{Context, Migrated, Migration, OutOfMemory, Patience, Reclaimed, Task};

use crate::common::panic_hook;
use crate::kernel::machine::{
    CPU, Equipped, Hooks, IRQS_OFF, Impatient, Machine, UNANSWERED, Variant, boot_with, touch,
};

/// Memory of a machine, in MiB.
const MEMORY_MIB: u64 = 4;
/// Number of requests under each fault.
const REQUESTS: u32 = if cfg!(miri) { 12 } else { 2000 };
const MOVABLE: Gfp = Gfp::KERNEL.union(Gfp::MOVABLE);

/// Fault of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No fault, except that CPU 1 never answers calls.
    None,
    /// `Cpu::id` returns a number out of range, during some calls.
    NumberOutOfRange,
    /// `Cpu::id` returns a different number each time while interrupts are on.
    NumberChanges,
    /// `Cpu::irqs_disabled` always returns `Some(true)`, always `None`, or `Some(false)` during some calls.
    AlwaysOff,
    Unknown,
    AlwaysOn,
    /// `Cpu::irq_restore` does nothing.
    NeverRestored,
    ClockBackwards,
    ClockStopped,
    ClockVanishes,
    ClockRaces,
    /// The clock advances once, right after the start of the first wait, and then stops.
    ClockStopsLater,
    /// Callbacks report impossible numbers.
    AbsurdCounts,
    /// `migrate` reports moves that did not happen.
    FalseMoves,
    MigratePanics,
    /// `can_isolate` changes its answer.
    IsolateChanges,
    TaskChanges,
    /// The mark of a reclaiming task is always set, never set, or changes.
    MarkSet,
    MarkUnset,
    MarkChanges,
}

thread_local! {
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
    /// Whether a fault that makes calls panic is active during the current call.
    static IS_ACTIVE: Cell<bool> = const { Cell::new(false) };
    /// Number of calls of `Cpu::wait` since the fault was injected.
    static WAITS: Cell<u64> = const { Cell::new(0) };
    static TICKS: Cell<u64> = const { Cell::new(1 << 40) };
    static RANDOM: Cell<u32> = const { Cell::new(1) };
}

/// Payload of a planned panic.
struct Planned;

/// Largest number of calls of `Cpu::wait` under one fault. A wait that does not end panics instead of hanging.
const WAITS_MAX: u64 = 10_000_000;

/// Messages of the panics that a fault may cause. Release builds do not check the interrupt state.
fn expected_panics(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::NumberOutOfRange => &["raise `Cpu::CPUS`"],
        Fault::AlwaysOn if cfg!(debug_assertions) => &[
            "`Cpu::irq_save` left interrupts on",
            "interrupts are on under a lock of rank",
            "interrupts are on in a section",
        ],
        _ => &[],
    }
}

fn random(below: u32) -> u32 {
    RANDOM.set(RANDOM.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    (RANDOM.get() >> 8) % below
}

/// Returns the next tick of the clock, `step` after the last one.
fn tick(step: i64) -> Option<u64> {
    TICKS.set(TICKS.get().wrapping_add_signed(step));
    Some(TICKS.get())
}

/// Returns callbacks that show the present fault.
fn faulty_hooks<V: Variant>() -> Hooks<V> {
    Hooks {
        id: || match FAULT.get() {
            Fault::NumberOutOfRange if IS_ACTIVE.get() => [V::CPUS, 1000, u16::MAX][random(3) as usize],
            Fault::NumberChanges if !IRQS_OFF.get() => {
                CPU.set(1 - CPU.get());
                CPU.get()
            }
            _ => CPU.get(),
        },
        irqs_disabled: || match FAULT.get() {
            Fault::AlwaysOff => Some(true),
            Fault::Unknown => None,
            Fault::AlwaysOn if IS_ACTIVE.get() => Some(false),
            _ => Some(IRQS_OFF.get()),
        },
        restores_irqs: || FAULT.get() != Fault::NeverRestored,
        time: || match FAULT.get() {
            Fault::ClockBackwards => tick(-1),
            Fault::ClockStopped => Some(5),
            Fault::ClockVanishes => (random(2) == 0).then_some(5),
            Fault::ClockRaces => tick(1 << 62),
            Fault::ClockStopsLater if TICKS.get() < 2 => tick(1),
            Fault::ClockStopsLater => Some(2),
            _ => tick(1 << 30),
        },
        reclaim: |_, _| match FAULT.get() {
            Fault::AbsurdCounts => Reclaimed { pages: [0, 1, u64::MAX][random(3) as usize], scanned: u64::MAX },
            _ => Reclaimed::default(),
        },
        reclaimable: |_, _| match FAULT.get() {
            Fault::AbsurdCounts => [0, 1, u64::MAX - 1, u64::MAX][random(4) as usize],
            _ => 0,
        },
        out_of_memory: |_, _| match FAULT.get() {
            Fault::AbsurdCounts if random(2) == 0 => OutOfMemory::Freed,
            _ => OutOfMemory::NothingFreed,
        },
        relax: || Patience::GiveUp,
        can_isolate: |_| FAULT.get() != Fault::IsolateChanges || random(2) == 0,
        migrate,
        task: || match FAULT.get() {
            Fault::TaskChanges => {
                let [memalloc, oom_victim, realtime] = [(); 3].map(|()| random(2) == 0);
                Task { memalloc, oom_victim, realtime, context: Context::ALL[random(4) as usize] }
            }
            _ => Task::default(),
        },
        wait: || {
            WAITS.set(WAITS.get() + 1);
            assert!(WAITS.get() < WAITS_MAX, "{:?}: a wait does not end", FAULT.get());
        },
        is_reclaiming: || match FAULT.get() {
            Fault::MarkSet => Some(true),
            Fault::MarkUnset => Some(false),
            Fault::MarkChanges => [None, Some(true), Some(false)][random(3) as usize],
            _ => None,
        },
        ..Hooks::default()
    }
}

/// Moves nothing, regardless of its result. The offered blocks have no handle, and nothing accesses them.
fn migrate(_: &Migration) -> Migrated {
    match FAULT.get() {
        Fault::FalseMoves | Fault::IsolateChanges => Migrated::Moved,
        Fault::MigratePanics if random(2) == 0 => panic_any(Planned),
        _ => Migrated::Refused,
    }
}

/// Memory of one owner, with the owner's number in its first and last byte.
enum Owned<V: Variant> {
    Pages(Pages<Machine<V>>),
    Range(Contig<Machine<V>>),
    /// An object of the heap, by address.
    Object(*mut u8, Layout),
    /// A movable block without a handle. It is leaked, because a false `migrate` may change its place.
    Leaked,
}

impl<V: Variant> Owned<V> {
    /// Returns the addresses of the memory; `None` if its owner may not access it.
    fn bytes(&self) -> Option<Range<*mut u8>> {
        let (start, len) = match self {
            Owned::Pages(pages) => (pages.as_ptr().as_ptr(), 4096 << pages.order().get()),
            Owned::Range(pages) => {
                let frames = pages.range();
                (pages.as_ptr().as_ptr(), ((frames.end.raw() - frames.start.raw()) as usize) << 12)
            }
            Owned::Object(start, layout) => (*start, layout.size()),
            Owned::Leaked => return None,
        };
        Some(start..start.wrapping_add(len))
    }

    fn fill(&self, mark: u8) {
        let Some(bytes) = self.bytes() else { return };
        // SAFETY: the allocator returned these bytes to this owner alone, unless it is wrong, which `check` finds.
        unsafe {
            bytes.start.write(mark);
            bytes.end.sub(1).write(mark);
        }
    }

    fn check(&self, mark: u8) {
        let Some(bytes) = self.bytes() else { return };
        // SAFETY: `fill` has written these bytes.
        let found = unsafe { (bytes.start.read(), bytes.end.sub(1).read()) };
        assert_eq!(found, (mark, mark), "memory at {:p} has another owner's contents", bytes.start);
    }
}

/// Makes a request of a random kind.
fn request<V: Variant>() -> Option<Owned<V>> {
    let kernel = Machine::<V>::kernel();
    let layout = Layout::from_size_align([24, 200, 3000, 9000][random(4) as usize], 8).unwrap();
    match random(6) {
        0 | 1 => kernel.alloc_pages(Gfp::KERNEL, Order::new(random(4) as u8)).ok().map(Owned::Pages),
        2 => kernel.alloc_pages(MOVABLE, Order::new(random(2) as u8)).ok().map(Owned::Pages),
        3 => kernel.alloc_contig_pages(Gfp::KERNEL, 1 + random(20)).ok().map(Owned::Range),
        4 if random(20) == 0 => {
            kernel.alloc_pages(MOVABLE, Order::ZERO).ok()?.into_raw();
            Some(Owned::Leaked)
        }
        _ => {
            // SAFETY: the size of the layout is not zero.
            let object = unsafe { Heap::<Machine<V>>::new().alloc(layout) };
            (!object.is_null()).then_some(Owned::Object(object, layout))
        }
    }
}

/// Frees memory, except for a block without a handle.
fn free<V: Variant>(owned: Owned<V>) {
    match owned {
        Owned::Pages(pages) => drop(pages),
        Owned::Range(pages) => drop(pages),
        // SAFETY: the object was allocated with this layout, and its owner gives it up here.
        Owned::Object(object, layout) => unsafe { Heap::<Machine<V>>::new().dealloc(object, layout) },
        Owned::Leaked => {}
    }
}

/// Runs one call. Returns `None` if the call panics as the fault allows, and continues any other panic.
fn call<T>(run: impl FnOnce() -> T) -> Option<T> {
    let fault = FAULT.get();
    IS_ACTIVE.set(matches!(fault, Fault::NumberOutOfRange | Fault::AlwaysOn) && random(3) == 0);
    let result = catch_unwind(AssertUnwindSafe(run));
    let was_active = IS_ACTIVE.replace(false);
    match result {
        Ok(result) => Some(result),
        Err(panic) => {
            let is_planned = fault == Fault::MigratePanics && panic.is::<Planned>();
            let is_expected = was_active && has_message(&*panic, expected_panics(fault));
            if !is_planned && !is_expected {
                eprintln!("{fault:?} makes a call panic");
                resume_unwind(panic);
            }
            IRQS_OFF.set(false);
            None
        }
    }
}

/// Returns whether the message of a panic contains one of these texts.
fn has_message(panic: &(dyn Any + Send), texts: &[&str]) -> bool {
    let message = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    message.is_some_and(|message| texts.iter().any(|text| message.contains(text)))
}

/// Allocates and frees under a fault. Then the fault ends, and every owner must still have its memory.
fn inject<V: Variant>(kernel: &'static Kernel<Machine<V>>, fault: Fault) {
    // CPU 1 answers the calls so far, and no call from now on.
    CPU.set(1);
    touch::<V>();
    CPU.set(0);
    UNANSWERED.set(0);
    WAITS.set(0);
    TICKS.set(if fault == Fault::ClockStopsLater { 0 } else { 1 << 40 });
    let mut all: Vec<(Owned<V>, u8)> = Vec::new();
    FAULT.set(fault);
    for number in 0..REQUESTS {
        if let Some(owned) = call(request::<V>).flatten() {
            owned.fill(number as u8);
            all.push((owned, number as u8));
        }
        if all.len() > 12 || random(4) == 0 && !all.is_empty() {
            let (owned, mark) = all.swap_remove(random(all.len() as u32) as usize);
            owned.check(mark);
            call(|| free(owned));
        }
        if number % 12 == 11 {
            call(|| drop(kernel.alloc_pages(Gfp::KERNEL, Order::new(9))));
            call(|| kernel.shrink());
        }
    }
    FAULT.set(Fault::None);
    CPU.set(0);
    IRQS_OFF.set(false);
    let mut places: Vec<Range<*mut u8>> = all.iter().filter_map(|(owned, _)| owned.bytes()).collect();
    places.sort_by_key(|bytes| bytes.start);
    assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{fault:?}: memory has two owners");
    for (owned, mark) in all {
        owned.check(mark);
        free(owned);
    }
    // SAFETY: no other thread uses the kernel, and the pages are checked only.
    unsafe { kernel.pages() }.unwrap().check().unwrap_or_else(|violation| panic!("{fault:?}: {violation}"));
}

fn boot_faulty<V: Variant>() -> &'static Kernel<Machine<V>> {
    panic_hook::silence_payload::<Planned>();
    panic_hook::silence(|panic| IS_ACTIVE.get() && has_message(panic.payload(), expected_panics(FAULT.get())));
    boot_with::<V>(MEMORY_MIB, faulty_hooks())
}

/// Injects faults into one machine, one after the other.
fn inject_all<V: Variant>(faults: &[Fault]) {
    let kernel = boot_faulty::<V>();
    for &fault in faults {
        inject(kernel, fault);
    }
}

#[test]
fn wrong_cpu_numbers_and_interrupt_states() {
    inject_all::<Impatient>(&[
        Fault::NumberOutOfRange,
        Fault::NumberChanges,
        Fault::AlwaysOff,
        Fault::Unknown,
        Fault::AlwaysOn,
        Fault::NeverRestored,
    ]);
}

/// CPU 1 answers no call, so only the clock, or the number of rounds, ends a wait.
#[test]
fn faulty_clocks() {
    let kernel = boot_faulty::<Impatient>();
    for fault in [Fault::None, Fault::ClockBackwards, Fault::ClockStopped, Fault::ClockVanishes, Fault::ClockRaces] {
        inject(kernel, fault);
        assert!(UNANSWERED.get() > 0, "{fault:?}: a CPU that does not answer must be reported");
    }
}

/// A wait ends although its clock shows that little time has passed, because the clock no longer advances.
#[test]
fn clock_that_stops_during_a_wait() {
    inject(boot_faulty::<Impatient>(), Fault::ClockStopsLater);
    assert!(UNANSWERED.get() > 0, "a CPU that does not answer must be reported");
}

#[test]
fn wrong_results_of_callbacks() {
    inject_all::<Equipped>(&[
        Fault::AbsurdCounts,
        Fault::FalseMoves,
        Fault::MigratePanics,
        Fault::IsolateChanges,
        Fault::TaskChanges,
        Fault::MarkSet,
        Fault::MarkUnset,
        Fault::MarkChanges,
    ]);
}
