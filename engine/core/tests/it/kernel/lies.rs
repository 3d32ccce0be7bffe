//! Machines that lie about themselves: about the running CPU, its interrupts, the clock, and the results of callbacks.
//!
//! Each lie is told while memory of all kinds is allocated and freed, and while blocks are requested that only reclaim
//! and compaction could make free. A call may fail, and some lies make calls panic. No memory may get two owners, and
//! Miri may find no undefined behaviour. Each of the tests takes a minute or two in Miri:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-stacked-borrows" \
//!     cargo +nightly miri test -p freehold --test it kernel::lies::
//! ```
//!
//! The lies are those that the traits' safety contracts allow. Two lies break a promise of [`Cpu`] and are not told: a
//! CPU number that changes while interrupts are off, and interrupts that `irq_save` leaves on. Debug builds panic on
//! the second one if [`Cpu::irqs_disabled`] reports it.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use freehold::base::{Gfp, Order};
use freehold::kernel::{Contig, Cpu, Heap, Kernel, Pages};
use freehold::platform::{Context, Migrated, Migration, OutOfMemory, Patience, Reclaimed, Task};

use crate::common::panic_hook;
use crate::kernel::machine::{
    CPU, Equipped, Hooks, IRQS_OFF, Impatient, Machine, UNANSWERED, Variant, boot_with, touch,
};

/// Memory of a machine, in MiB.
const MEMORY_MIB: u64 = 4;
/// Requests under each lie.
const REQUESTS: u32 = if cfg!(miri) { 12 } else { 2000 };
const MOVABLE: Gfp = Gfp::KERNEL.union(Gfp::MOVABLE);

/// A wrong answer of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// No lie; calls to CPU 1 are never answered, though.
    Nothing,
    /// `Cpu::id` returns a number out of range, during some calls.
    NumberOutOfRange,
    /// `Cpu::id` returns another number each time while interrupts are on.
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
    /// Callbacks report numbers that cannot be.
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
    static LIE: Cell<Lie> = const { Cell::new(Lie::Nothing) };
    /// Whether a lie that lasts for a whole call is told now.
    static LIES_NOW: Cell<bool> = const { Cell::new(false) };
    static TICKS: Cell<u64> = const { Cell::new(1 << 40) };
    static RANDOM: Cell<u32> = const { Cell::new(1) };
}

/// Payload of a planned panic.
struct Planned;

fn random(below: u32) -> u32 {
    RANDOM.set(RANDOM.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    (RANDOM.get() >> 8) % below
}

/// Returns the next tick of the clock, `step` after the last one.
fn tick(step: i64) -> Option<u64> {
    TICKS.set(TICKS.get().wrapping_add_signed(step));
    Some(TICKS.get())
}

/// Returns callbacks that tell the present lie.
fn lying<V: Variant>() -> Hooks<V> {
    Hooks {
        id: || match LIE.get() {
            Lie::NumberOutOfRange if LIES_NOW.get() => [V::CPUS, 1000, u16::MAX][random(3) as usize],
            Lie::NumberChanges if !IRQS_OFF.get() => {
                CPU.set(1 - CPU.get());
                CPU.get()
            }
            _ => CPU.get(),
        },
        irqs_disabled: || match LIE.get() {
            Lie::AlwaysOff => Some(true),
            Lie::Unknown => None,
            Lie::AlwaysOn if LIES_NOW.get() => Some(false),
            _ => Some(IRQS_OFF.get()),
        },
        restores_irqs: || LIE.get() != Lie::NeverRestored,
        time: || match LIE.get() {
            Lie::ClockBackwards => tick(-1),
            Lie::ClockStopped => Some(5),
            Lie::ClockVanishes => (random(2) == 0).then_some(5),
            Lie::ClockRaces => tick(1 << 62),
            _ => tick(1 << 30),
        },
        reclaim: |_, _| match LIE.get() {
            Lie::AbsurdCounts => Reclaimed { pages: [0, 1, u64::MAX][random(3) as usize], scanned: u64::MAX },
            _ => Reclaimed::default(),
        },
        reclaimable: |_, _| match LIE.get() {
            Lie::AbsurdCounts => [0, 1, u64::MAX - 1, u64::MAX][random(4) as usize],
            _ => 0,
        },
        out_of_memory: |_, _| match LIE.get() {
            Lie::AbsurdCounts if random(2) == 0 => OutOfMemory::Freed,
            _ => OutOfMemory::NothingFreed,
        },
        relax: || Patience::GiveUp,
        can_isolate: |_| LIE.get() != Lie::IsolateChanges || random(2) == 0,
        migrate,
        task: || match LIE.get() {
            Lie::TaskChanges => {
                let [memalloc, oom_victim, realtime] = [(); 3].map(|()| random(2) == 0);
                Task { memalloc, oom_victim, realtime, context: Context::ALL[random(4) as usize] }
            }
            _ => Task::default(),
        },
        is_reclaiming: || match LIE.get() {
            Lie::MarkSet => Some(true),
            Lie::MarkUnset => Some(false),
            Lie::MarkChanges => [None, Some(true), Some(false)][random(3) as usize],
            _ => None,
        },
        ..Hooks::default()
    }
}

/// Moves nothing, whatever it answers. The blocks that it is asked for have no handle, and nothing accesses them.
fn migrate(_: &Migration) -> Migrated {
    match LIE.get() {
        Lie::FalseMoves | Lie::IsolateChanges => Migrated::Moved,
        Lie::MigratePanics if random(2) == 0 => panic_any(Planned),
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

/// Runs one call. Returns `None` if the lie that is told ends it by a panic.
fn call<T>(run: impl FnOnce() -> T) -> Option<T> {
    LIES_NOW.set(matches!(LIE.get(), Lie::NumberOutOfRange | Lie::AlwaysOn) && random(3) == 0);
    let result = catch_unwind(AssertUnwindSafe(run));
    let was_lied_to = LIES_NOW.replace(false);
    match result {
        Ok(result) => Some(result),
        Err(panic) => {
            let is_planned = match LIE.get() {
                Lie::MigratePanics => panic.is::<Planned>(),
                _ => was_lied_to,
            };
            assert!(is_planned, "{:?} makes a call panic", LIE.get());
            IRQS_OFF.set(false);
            None
        }
    }
}

/// Allocates and frees under a lie. Then the machine tells the truth, and every owner must still have its memory.
fn tell<V: Variant>(kernel: &'static Kernel<Machine<V>>, lie: Lie) {
    // CPU 1 answers the calls so far, and no call from now on.
    CPU.set(1);
    touch::<V>();
    CPU.set(0);
    UNANSWERED.set(0);
    let mut all: Vec<(Owned<V>, u8)> = Vec::new();
    LIE.set(lie);
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
    LIE.set(Lie::Nothing);
    CPU.set(0);
    IRQS_OFF.set(false);
    let mut places: Vec<Range<*mut u8>> = all.iter().filter_map(|(owned, _)| owned.bytes()).collect();
    places.sort_by_key(|bytes| bytes.start);
    assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{lie:?} gives memory two owners");
    for (owned, mark) in all {
        owned.check(mark);
        free(owned);
    }
    // SAFETY: no other thread uses the kernel, and the pages are checked only.
    unsafe { kernel.pages() }.unwrap().check().unwrap_or_else(|violation| panic!("{lie:?}: {violation}"));
}

fn boot_liar<V: Variant>() -> &'static Kernel<Machine<V>> {
    panic_hook::silence_payload::<Planned>();
    panic_hook::silence(|_| LIES_NOW.get());
    boot_with::<V>(MEMORY_MIB, lying())
}

/// Tells lies to one machine, one after the other.
fn tell_all<V: Variant>(lies: &[Lie]) {
    let kernel = boot_liar::<V>();
    for &lie in lies {
        tell(kernel, lie);
    }
}

#[test]
fn lies_about_processors_and_interrupts() {
    tell_all::<Impatient>(&[
        Lie::NumberOutOfRange,
        Lie::NumberChanges,
        Lie::AlwaysOff,
        Lie::Unknown,
        Lie::AlwaysOn,
        Lie::NeverRestored,
    ]);
}

/// CPU 1 answers no call, so only the clock, or the number of rounds, ends a wait.
#[test]
fn lies_of_clocks() {
    let kernel = boot_liar::<Impatient>();
    for lie in [Lie::Nothing, Lie::ClockBackwards, Lie::ClockStopped, Lie::ClockVanishes, Lie::ClockRaces] {
        tell(kernel, lie);
        assert!(UNANSWERED.get() > 0, "{lie:?}: a CPU that does not answer must be reported");
    }
}

#[test]
fn lies_of_callbacks() {
    tell_all::<Equipped>(&[
        Lie::AbsurdCounts,
        Lie::FalseMoves,
        Lie::MigratePanics,
        Lie::IsolateChanges,
        Lie::TaskChanges,
        Lie::MarkSet,
        Lie::MarkUnset,
        Lie::MarkChanges,
    ]);
}
