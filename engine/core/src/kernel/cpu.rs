//! The two traits that a kernel implements: [`Cpu`] for its machine, with five required functions, and [`Promises`] for
//! callbacks about its memory, all of which are optional.
//!
//! # Design
//!
//! The callbacks of [`Promises`] are safe code and cannot give a frame two owners. The engine's own interface for
//! callbacks frees pages by number (`platform::FreePages`). This suits a laboratory, whose frames have no contents. In
//! a kernel the number may be that of a block that a live `Pages` owns. The kernel module therefore passes a `PageSink`
//! to [`Promises::reclaim`], whose only function takes a `Pages` by value. For migration, the handle pins its block
//! (`pages`).
//!
//! The alternative was an `unsafe` trait. Each kernel would then have to prove that its callbacks pass correct numbers.

use super::{Kernel, PageSink};
use crate::base::{CpuId, NodeId, ZoneKind};
use crate::platform::{
    Isolation, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, SlabReport, Task,
};
use crate::policy::Policy;
use crate::slab::cpu::CACHES_MAX;

/// Hardware interface of a kernel: the running CPU, its interrupts, and calls to other CPUs.
///
/// The engine calls these functions on any CPU, also in interrupt handlers. None of them may call the engine.
///
/// # Safety
/// - [`kernel`](Self::kernel) returns the same allocator each time.
/// - [`id`](Self::id) returns the number of the CPU that runs the caller. No two running CPUs have the same number.
/// - Between [`irq_save`](Self::irq_save) and the matching [`irq_restore`](Self::irq_restore), the caller stays on its
///   CPU, and nothing else runs on that CPU that allocates, frees or [answers](Kernel::answer). Both functions are
///   compiler barriers for memory accesses (an `asm!` block without `nomem` is one).
/// - A CPU answers a [`call`](Self::call), by [`Kernel::answer`], only in an interrupt handler or in a loop in which it
///   waits, never in a function of this trait.
///
/// Nothing else is promised. A number out of range panics. Interrupts that `irq_restore` leaves off, and calls that do
/// not arrive, delay other CPUs until the limit. A wrong [`time`](Self::time) shortens or lengthens the limit, and a
/// wrong [`irqs_disabled`](Self::irqs_disabled) makes debug builds panic, or requests wait or fail.
pub unsafe trait Cpu: Promises + Sized + 'static {
    /// Maximum number of CPUs, at least 1; CPU numbers are below it. Each CPU costs about 22 KiB of metadata.
    const CPUS: u16;
    /// Policy that the engine follows. Code that only other policies need is removed at compile time.
    const POLICY: Policy = Policy::FREEHOLD;
    /// Maximum number of caches, from the number that the policy [needs itself](crate::slab::own_caches) up to 256.
    /// Each costs about 400 bytes, and 64 bytes per CPU, whether or not the cache exists. With 0 there are only pages:
    /// the slab and the heap are removed at compile time.
    const CACHES: u16 = CACHES_MAX as u16;
    /// Whether caches can be checked ([`Boot::slab_debug`](super::Boot::slab_debug)). Costs about 9 KiB of code.
    const SLAB_DEBUG: bool = false;
    /// Page size in bytes: a power of two, at least 4 KiB.
    const PAGE_SIZE: u32 = 4096;
    /// Rounds of [`wait`](Self::wait) after which a call times out, while [`time`](Self::time) does not advance or if
    /// there is no clock.
    const CALL_ROUNDS_MAX: u64 = 1 << 28;
    /// Nanoseconds after which a call times out, if there is a [`time`](Self::time).
    const CALL_NANOS_MAX: u64 = 10_000_000_000;

    /// Returns the kernel's allocator, a static.
    fn kernel() -> &'static Kernel<Self>;

    /// Returns the CPU that runs the caller, below [`CPUS`](Self::CPUS). A section that gets a number out of range
    /// panics before it changes anything. With interrupts on, the caller may migrate to another CPU at any time, so any
    /// CPU's number is a valid result. The function takes no lock and does not disable preemption, because it is called
    /// in the middle of sections.
    fn id() -> u16;

    /// Disables interrupts on this CPU and returns the previous state. linux: local_irq_save
    fn irq_save() -> usize;

    /// Restores the interrupt state that [`irq_save`](Self::irq_save) returned. linux: local_irq_restore
    fn irq_restore(flags: usize);

    /// Interrupts another CPU without waiting for it. The handler on that CPU calls [`Kernel::answer`]. This function
    /// is not called on a machine with one CPU, nor for a CPU that never used the allocator. If CPUs cannot interrupt
    /// each other, the function does nothing and the timer's handler answers; a waiting CPU then waits for the next
    /// tick. linux: arch_send_call_function_single_ipi
    fn call(cpu: u16);

    /// Pauses briefly while this CPU waits for another. linux: cpu_relax
    fn wait() {
        core::hint::spin_loop();
    }

    /// Returns the nanoseconds since a fixed moment, which is the same for all CPUs; `None` if there is no clock. While
    /// the clock does not advance, [`CALL_ROUNDS_MAX`](Self::CALL_ROUNDS_MAX) limits a wait.
    fn time() -> Option<u64> {
        None
    }

    /// Returns whether this CPU's interrupts are off, or `None` if that is unknown. Debug builds check it where
    /// interrupts must be off. It also has an effect in release builds: a request with interrupts off that finds no
    /// memory does not wait for other CPUs' sections. It frees the idle slabs of nodes, drains the CPUs' page lists, is
    /// repeated once, and fails if this does not suffice. linux: irqs_disabled
    fn irqs_disabled() -> Option<bool> {
        None
    }
}

/// Optional callbacks of a kernel about the memory it has allocated. The functions of the same names in
/// [`Platform`](crate::platform::Platform) document the details. `impl Promises for Hw {}` implements none of them:
/// requests then fail when free pages and idle objects are used up.
///
/// The trait is safe, because no action or result of these functions can give a frame two owners. A wrong result costs
/// lost memory or a failed request. [`rules`](super::rules#callbacks) lists the functions that each callback may call.
pub trait Promises {
    /// Whether [`migrate`](Self::migrate) ever moves a block. If not, it is not called, and nothing is compacted.
    const MIGRATES: bool = false;

    /// Returns the context and rights of the calling task. In an interrupt handler the context is
    /// [`Context::Hardirq`](crate::platform::Context::Hardirq), and the heap then requests memory without reclaim. The
    /// same holds for [`Context::SoftirqsOff`](crate::platform::Context::SoftirqsOff), in a task that has disabled
    /// interrupts. Debug builds of a kernel with [`Cpu::irqs_disabled`] help to find a handler that is not reported. If
    /// callbacks have found memory only with interrupts on, an allocation from the heap with interrupts off panics in
    /// [`Context::Task`](crate::platform::Context::Task). A task that frees memory for others, such as kswapd or a task
    /// that writes pages out, sets [`memalloc`](Task::memalloc): its requests use the emergency reserve and do not
    /// reclaim.
    fn task() -> Task {
        Task::default()
    }

    /// Returns whether the calling task is inside [`reclaim`](Self::reclaim), [`migrate`](Self::migrate) or
    /// [`out_of_memory`](Self::out_of_memory), as last set by [`set_reclaiming`](Self::set_reclaiming). `None` if the
    /// kernel keeps no such mark in its tasks.
    ///
    /// A request inside one of these three callbacks uses the emergency reserve and calls none of them again, so
    /// callbacks do not nest until the stack overflows. With the default `None`, the mark is kept per CPU. This is
    /// right if a callback runs to its end before another task runs on its CPU. If a kernel switches tasks inside a
    /// callback, for example to wait for a disk, the other tasks on that CPU would not reclaim meanwhile, so such a
    /// kernel keeps the mark in its tasks. If the two functions contradict each other, callbacks nest.
    /// linux: PF_MEMALLOC
    fn is_reclaiming() -> Option<bool> {
        None
    }

    /// Stores in the calling task whether it is inside one of the three callbacks. Called only if
    /// [`is_reclaiming`](Self::is_reclaiming) returns `Some`. linux: memalloc_noreclaim_save,
    /// memalloc_noreclaim_restore
    fn set_reclaiming(is_reclaiming: bool) {
        let _ = is_reclaiming;
    }

    /// Frees pages that the kernel can do without, through `pages`. The engine relies on the count that `pages` keeps
    /// and not on the result.
    fn reclaim(pages: &PageSink<'_, Self>, wanted: &Reclaim) -> Reclaimed
    where
        Self: Cpu,
    {
        let _ = (pages, wanted);
        Reclaimed::default()
    }

    /// Returns the number of pages of a zone that [`reclaim`](Self::reclaim) could still free.
    fn reclaimable(node: NodeId, zone: ZoneKind) -> u64 {
        let _ = (node, zone);
        0
    }

    /// Returns whether a block may be moved for a request with these flags and this effort. Must be cheap and must not
    /// call the engine.
    fn can_isolate(isolation: &Isolation) -> bool {
        let _ = isolation;
        true
    }

    /// Moves the contents of a block and updates all references to it. Only two kinds of blocks are offered: those that
    /// left their handle by [`Pages::into_raw`](super::Pages::into_raw), and those that the page allocator returned by
    /// number. After [`Moved`](Migrated::Moved), the block's number for [`Pages::from_raw`](super::Pages::from_raw) is
    /// [`Migration::to`].
    fn migrate(migration: &Migration) -> Migrated {
        let _ = migration;
        Migrated::Refused
    }

    /// Terminates a process, or something similar, and frees its memory through `pages`: the last resort before a
    /// request fails.
    fn out_of_memory(pages: &PageSink<'_, Self>, request: &Request) -> OutOfMemory
    where
        Self: Cpu,
    {
        let _ = (pages, request);
        OutOfMemory::NothingFreed
    }

    /// Wakes kswapd of a node. Must not call the engine.
    fn wake_kswapd(node: NodeId) {
        let _ = node;
    }

    /// Wakes kcompactd of a node. Must not call the engine.
    fn wake_kcompactd(node: NodeId) {
        let _ = node;
    }

    /// Logs a report about a misused object. Called for every refused free, in all builds: for an address outside any
    /// object, an address inside an object, an object of another cache, and an object that is detected as free. The
    /// [module](super#invalid-frees) lists the invalid frees that are detected. With [`Cpu::SLAB_DEBUG`] it is also
    /// called for damaged objects.
    fn slab_error(report: &SlabReport<'_>) {
        let _ = report;
    }

    /// Logs that a CPU does not answer within the limit ([`Cpu::CALL_ROUNDS_MAX`]), or halts the machine. The memory
    /// that the CPU may be using is lost; everything else continues. May be called with locks held, and must not call
    /// the engine.
    fn unanswered(cpu: CpuId) {
        let _ = cpu;
    }

    /// Lets other tasks run between two rounds of a request that has to wait. Must not make a request that reclaims,
    /// because that request may have to wait as well.
    fn relax() -> Patience {
        Patience::GiveUp
    }
}
