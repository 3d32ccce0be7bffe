//! Machines for tests: a kernel, calls between its CPUs, and memory that is never given back.
//!
//! All tests share one type, [`Machine`], because the engine is compiled once more for each type of a machine. A thread
//! belongs to one machine at a time and stands for one of its CPUs. [`install`] makes a machine and puts the calling
//! thread on its CPU 0; [`boot`] also gives the machine memory; [`spawn_cpu`] starts a thread on another CPU of the
//! caller's machine. Handles of a kernel are used and dropped on threads of its machine only.

use std::alloc::{Layout, alloc};
use std::any::Any;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::thread::{Scope, ScopedJoinHandle};

use freehold::base::{CpuId, Gfp, NodeId, Order, ZoneKind};
use freehold::kernel::{Boot, Cpu, Kernel, PageSink, Pages, Promises, Region, SetupError};
use freehold::page::Census;
use freehold::platform::{
    Isolation, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, SlabReport, Task,
};
use freehold::policy::Policy;
use freehold::slab::SlabCensus;

pub(crate) use crate::kernel::hooks::Hooks;
pub(crate) use crate::kernel::variants::{
    BitmapSlab, Equipped, FourCpus, Impatient, ImpatientOwner, LargePages, OneCpu, PagesAlone, Variant,
};

/// One MiB.
pub(crate) const MIB: u64 = 1 << 20;
/// Most CPUs that a machine has.
const CPUS_MAX: usize = 4;
/// Largest number of objects that [`fill_with_objects`] allocates.
pub(crate) const OBJECTS_MAX: usize = 200_000;

thread_local! {
    /// The CPU that this thread stands for.
    pub static CPU: Cell<u16> = const { Cell::new(0) };
    /// Whether its interrupts are off.
    pub static IRQS_OFF: Cell<bool> = const { Cell::new(false) };
    /// CPUs that did not answer this thread.
    pub static UNANSWERED: Cell<u32> = const { Cell::new(0) };
    /// The machine that this thread belongs to.
    static MACHINE: Cell<Option<AnyMachine>> = const { Cell::new(None) };
}

/// A machine of any variant.
pub(crate) type AnyMachine = &'static (dyn Any + Sync);

/// A machine. The functions of the type use the machine of the calling thread.
pub(crate) struct Machine<V: Variant = OneCpu> {
    kernel: Kernel<Machine<V>>,
    /// CPUs for which a call waits.
    calls: [AtomicBool; CPUS_MAX],
    hooks: Hooks<V>,
}

impl<V: Variant> Machine<V> {
    /// Returns the machine of the calling thread.
    fn current() -> &'static Machine<V> {
        let machine: &dyn Any = current_machine();
        machine.downcast_ref().expect("the machine of this thread has another variant")
    }

    /// Returns the data that the callbacks of the calling thread's machine share.
    pub(crate) fn context<T: 'static>() -> &'static T {
        let context: &dyn Any = Self::current().hooks.context;
        context.downcast_ref().expect("the context must have the type that the test installed")
    }

    /// Returns for each CPU whether a call waits for it.
    pub(crate) fn calls() -> &'static [AtomicBool] {
        &Self::current().calls[..usize::from(V::CPUS)]
    }

    /// Answers the pending call of this CPU, if there is one. Interrupts must be on.
    pub(crate) fn deliver() {
        let calls = Self::calls();
        if calls.get(usize::from(CPU.get())).is_some_and(|call| call.swap(false, AcqRel)) {
            Self::kernel().answer();
        }
    }
}

impl<V: Variant> Promises for Machine<V> {
    const MIGRATES: bool = V::MIGRATES;

    fn task() -> Task {
        (Self::current().hooks.task)()
    }

    fn is_reclaiming() -> Option<bool> {
        (Self::current().hooks.is_reclaiming)()
    }

    fn set_reclaiming(is_reclaiming: bool) {
        (Self::current().hooks.set_reclaiming)(is_reclaiming);
    }

    fn reclaim(pages: &PageSink<'_, Self>, wanted: &Reclaim) -> Reclaimed {
        (Self::current().hooks.reclaim)(pages, wanted)
    }

    fn reclaimable(node: NodeId, zone: ZoneKind) -> u64 {
        (Self::current().hooks.reclaimable)(node, zone)
    }

    fn can_isolate(isolation: &Isolation) -> bool {
        (Self::current().hooks.can_isolate)(isolation)
    }

    fn migrate(migration: &Migration) -> Migrated {
        (Self::current().hooks.migrate)(migration)
    }

    fn out_of_memory(pages: &PageSink<'_, Self>, request: &Request) -> OutOfMemory {
        (Self::current().hooks.out_of_memory)(pages, request)
    }

    fn slab_error(report: &SlabReport<'_>) {
        (Self::current().hooks.slab_error)(report);
    }

    fn unanswered(_: CpuId) {
        UNANSWERED.set(UNANSWERED.get() + 1);
    }

    fn relax() -> Patience {
        (Self::current().hooks.relax)()
    }
}

// SAFETY: a thread belongs to one machine from before it uses the kernel until it has dropped all that it got there, so
// `kernel` is the same one to every user of a kernel. A thread keeps its CPU, apart from tests about that, and no two
// threads of a machine stand for one CPU at once. Nothing interrupts a thread: a call is only answered where
// `irq_restore` turns interrupts on, or where the engine or `stand_for` waits.
unsafe impl<V: Variant> Cpu for Machine<V> {
    const CPUS: u16 = V::CPUS;
    const POLICY: Policy = V::POLICY;
    const CACHES: u16 = V::CACHES;
    const SLAB_DEBUG: bool = V::SLAB_DEBUG;
    const PAGE_SIZE: u32 = V::PAGE_SIZE;
    const CALL_ROUNDS_MAX: u64 = V::CALL_ROUNDS_MAX;
    const CALL_NANOS_MAX: u64 = V::CALL_NANOS_MAX;

    fn kernel() -> &'static Kernel<Machine<V>> {
        &Self::current().kernel
    }

    fn id() -> u16 {
        (Self::current().hooks.id)()
    }

    fn irq_save() -> usize {
        IRQS_OFF.replace(true).into()
    }

    fn irq_restore(flags: usize) {
        if !(Self::current().hooks.restores_irqs)() {
            return;
        }
        IRQS_OFF.set(flags != 0);
        if flags == 0 {
            Self::deliver();
        }
    }

    fn call(cpu: u16) {
        assert_ne!(cpu, CPU.get(), "a CPU must not call itself");
        Self::calls()[usize::from(cpu)].store(true, Release);
    }

    fn wait() {
        (Self::current().hooks.wait)();
    }

    fn time() -> Option<u64> {
        (Self::current().hooks.time)()
    }

    fn irqs_disabled() -> Option<bool> {
        (Self::current().hooks.irqs_disabled)()
    }
}

/// Returns the machine that the calling thread belongs to.
///
/// # Panics
/// If there is none.
pub(crate) fn current_machine() -> AnyMachine {
    MACHINE.get().expect("this thread has no machine: `install` makes one, and `spawn_cpu` passes it on")
}

/// Puts the calling thread on a CPU of a machine, with interrupts on.
pub(crate) fn join_machine(machine: AnyMachine, cpu: u16) {
    MACHINE.set(Some(machine));
    CPU.set(cpu);
    IRQS_OFF.set(false);
    UNANSWERED.set(0);
}

/// Makes a machine whose kernel is not set up, and puts the calling thread on its CPU 0.
pub(crate) fn install<V: Variant>(hooks: Hooks<V>) {
    let calls = [const { AtomicBool::new(false) }; CPUS_MAX];
    join_machine(Box::leak(Box::new(Machine { kernel: Kernel::new(), calls, hooks })), 0);
}

/// Starts a thread on a CPU of the calling thread's machine.
pub(crate) fn spawn_cpu<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    cpu: u16,
    run: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let machine = current_machine();
    scope.spawn(move || {
        join_machine(machine, cpu);
        run()
    })
}

/// Allocates the memory of a machine, aligned to 16 MiB, and returns the number that is added to a physical address for
/// its virtual one.
pub(crate) fn memory(bytes: u64) -> usize {
    let layout = Layout::from_size_align(bytes as usize, 16 << 20).unwrap();
    // SAFETY: every caller passes the size of a machine, so the size of the layout is not zero.
    let memory = unsafe { alloc(layout) };
    assert!(!memory.is_null());
    memory.expose_provenance()
}

/// Makes a machine and sets its kernel up with the memory from address 0 to `mib`.
pub(crate) fn boot<V: Variant>(mib: u64) -> &'static Kernel<Machine<V>> {
    boot_with(mib, Hooks::default())
}

/// Makes a machine with these callbacks, and sets its kernel up likewise.
pub(crate) fn boot_with<V: Variant>(mib: u64, hooks: Hooks<V>) -> &'static Kernel<Machine<V>> {
    install::<V>(hooks);
    init::<V>(&[Region::usable(0, mib * MIB)], mib, &Boot::default()).unwrap();
    Machine::<V>::kernel()
}

/// Sets the kernel of the calling thread's machine up with a map, for memory from address 0 to `mib`, through which the
/// direct map leads.
pub(crate) fn init<V: Variant>(map: &[Region], mib: u64, boot: &Boot<'_>) -> Result<(), SetupError> {
    let boot = Boot { direct_map: memory(mib * MIB), ..boot.clone() };
    // SAFETY: `memory` has just allocated `mib` MiB for this call alone, which are never freed, and the maps of tests
    // end below that or are refused.
    unsafe { Machine::<V>::kernel().init(map.iter().copied(), &boot) }
}

/// Counts pages and objects of an idle machine, once unused slabs are given back.
pub(crate) fn audit<V: Variant>() -> (Census, SlabCensus) {
    let kernel = Machine::<V>::kernel();
    kernel.shrink();
    // SAFETY: no other thread uses the kernel meanwhile, and the pages are only looked at.
    unsafe { (kernel.pages().unwrap().check().unwrap(), kernel.slab().unwrap().check().unwrap()) }
}

/// Allocates single pages until there are none.
pub(crate) fn take_all_pages<H: Cpu>(kernel: &'static Kernel<H>, gfp: Gfp) -> Vec<Pages<H>> {
    core::iter::from_fn(|| kernel.alloc_pages(gfp, Order::ZERO).ok()).collect()
}

/// Allocates objects of this size until memory is exhausted or their number is at its limit. Each object contains its
/// own number.
pub(crate) fn fill_with_objects<H: Cpu>(kernel: &'static Kernel<H>, size: usize) -> Vec<NonNull<u64>> {
    let mut objects = Vec::new();
    while objects.len() < OBJECTS_MAX
        && let Ok(object) = kernel.kmalloc(size, Gfp::ATOMIC)
    {
        let object = object.cast::<u64>();
        // SAFETY: the object was just allocated, has at least 8 bytes and is aligned to 8.
        unsafe { object.write(objects.len() as u64) };
        objects.push(object);
    }
    objects
}

/// Checks the contents of objects and frees them. Returns the number of objects that are at `limit` or above.
pub(crate) fn free_objects<H: Cpu>(kernel: &'static Kernel<H>, objects: Vec<NonNull<u64>>, limit: u64) -> usize {
    let mut above = 0;
    for (number, object) in (0..).zip(objects) {
        above += usize::from(kernel.virt_to_phys(object.as_ptr().cast()).unwrap() >= limit);
        // SAFETY: `fill_with_objects` allocated and initialised the object, which is not used any more and freed once.
        unsafe {
            assert_eq!(object.read(), number, "two objects overlap");
            kernel.kfree(object.cast()).unwrap();
        }
    }
    above
}

/// Runs a CPU's work, and then answers calls as an idle CPU does, until `is_over`.
pub(crate) fn stand_for<V: Variant>(is_over: impl Fn() -> bool, run: impl FnOnce()) {
    run();
    while !is_over() {
        Machine::<V>::kernel().answer();
        Machine::<V>::wait();
    }
}

/// Uses the allocator on this CPU, so that the CPU counts as up.
pub(crate) fn touch<V: Variant>() -> CpuId {
    let kernel = Machine::<V>::kernel();
    let object = kernel.kmalloc(64, Gfp::KERNEL).unwrap();
    // SAFETY: the object was just allocated, is not used, and is freed only here.
    unsafe { kernel.kfree(object) }.unwrap();
    CpuId(Machine::<V>::id())
}
