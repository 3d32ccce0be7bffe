//! What a kernel says of its machine, and what it promises about its memory: two traits, five functions of which must
//! be written.

use super::{Kernel, PageSink};
use crate::base::{CpuId, NodeId, ZoneKind};
use crate::platform::{Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, SlabReport, Task};
use crate::policy::Policy;
use crate::slab::cpu::CACHES_MAX;

/// The hardware under a kernel: which CPU runs, its interrupts, and how to reach another CPU.
///
/// The engine calls all of it from any CPU, and from interrupt handlers too. None of it may call the engine back.
///
/// # Safety
/// - [`kernel`](Self::kernel) is the same one each time.
/// - [`id`](Self::id) is that of the CPU that runs the caller; no two CPUs that run have the same.
/// - Between [`irq_save`](Self::irq_save) and the [`irq_restore`](Self::irq_restore) of what it returned, the caller
///   stays on its CPU, and nothing else runs there that allocates, frees or [answers](Kernel::answer). Neither lets the
///   compiler move an access to memory across it (an `asm!` without `nomem` does not).
/// - A CPU answers a [`call`](Self::call), by [`Kernel::answer`], in an interrupt handler or in a loop in which it
///   waits, never in a function of this trait.
pub unsafe trait Cpu: Promises + Sized + 'static {
    /// How many CPUs there may be, from 1 up: their numbers are below it. Each costs some 22 KiB of metadata.
    const CPUS: u16;
    /// The rules that the engine follows; what only others need is not in the program.
    const POLICY: Policy = Policy::FREEHOLD;
    /// Numbers for caches, from what the policy [takes itself](crate::slab::own_caches) to 256. Each costs some 400
    /// bytes, and 64 a CPU, be there a cache of it or not. With 0 there are pages alone: no slab, no heap, and nothing
    /// of them in the program.
    const CACHES: u16 = CACHES_MAX as u16;
    /// Whether caches may be checked ([`Boot::slab_debug`](super::Boot::slab_debug)): some 9 KiB of code.
    const SLAB_DEBUG: bool = false;
    /// Bytes of a page: a power of two, 4 KiB or more.
    const PAGE_SIZE: u32 = 4096;
    /// Rounds of [`wait`](Self::wait) after which a call counts as never answered, where there is no
    /// [`time`](Self::time).
    const CALL_ROUNDS_MAX: u64 = 1 << 28;
    /// Nanoseconds after which it does where there is.
    const CALL_NANOS_MAX: u64 = 10_000_000_000;

    /// The kernel's allocator, a static.
    fn kernel() -> &'static Kernel<Self>;

    /// The CPU that runs the caller, below [`CPUS`](Self::CPUS): a section that is told another number panics before it
    /// changes anything. With interrupts on the caller may be moved at once; then any CPU's number will do. Takes no
    /// lock, and does not turn preemption off and on: it is asked for in the middle of sections.
    fn id() -> u16;

    /// Turns this CPU's interrupts off; returns what brings them back to what they were. linux: local_irq_save
    fn irq_save() -> usize;

    /// Brings them back. linux: local_irq_restore
    fn irq_restore(flags: usize);

    /// Interrupts another CPU, whose handler calls [`Kernel::answer`]; does not wait for it. Not called on a machine of
    /// one CPU, nor for one that never used the allocator. Where CPUs cannot interrupt each other it does nothing, and
    /// the timer's handler answers: whoever waits then waits for a tick. linux: arch_send_call_function_single_ipi
    fn call(cpu: u16);

    /// Passes a moment, while this CPU waits for another. linux: cpu_relax
    fn wait() {
        core::hint::spin_loop();
    }

    /// Nanoseconds since any moment, the same for all CPUs; nothing where there is no clock.
    fn time() -> Option<u64> {
        None
    }

    /// Whether this CPU's interrupts are off; nothing where that cannot be told. Debug builds ask where they must be.
    /// And a request that comes with interrupts off and finds no memory fails without waiting for other CPUs' sections.
    /// linux: irqs_disabled
    fn irqs_disabled() -> Option<bool> {
        None
    }
}

/// What a kernel may promise about the memory it has handed out, as [`Platform`](crate::platform::Platform) asks for
/// it: the functions of the same names say more. `impl Promises for Hw {}` promises nothing: then requests fail when
/// free pages and idle objects are used up.
///
/// The trait is safe: no act or answer of these functions gives a frame two owners. A wrong answer costs memory that is
/// lost, or a request that fails. [`rules`](super::rules#callbacks) lists what each of them may call.
pub trait Promises {
    /// Whether [`migrate`](Self::migrate) ever moves anything. Without it nothing is compacted.
    const MIGRATES: bool = false;

    /// What the calling task may do. In an interrupt handler its context says so
    /// ([`Context::Hardirq`](crate::platform::Context::Hardirq)): then the heap asks for memory without reclaim. A task
    /// that frees memory for others, such as one that runs kswapd or writes pages out, says
    /// [`memalloc`](Task::memalloc): its requests use the emergency reserve and do not reclaim.
    fn task() -> Task {
        Task::default()
    }

    /// Whether the calling task is inside [`reclaim`](Self::reclaim), [`migrate`](Self::migrate) or
    /// [`out_of_memory`](Self::out_of_memory), as [`set_reclaiming`](Self::set_reclaiming) said last. `None` if the
    /// kernel keeps no such mark in its tasks.
    ///
    /// A request inside one of these three uses the emergency reserve, and calls none of them again: it does not nest
    /// until the stack ends. With the default `None` the CPU has the mark. That is right where a callback runs to its end
    /// before another task runs on its CPU. If a kernel switches tasks inside a callback, for example to wait for a
    /// disk, the other tasks on that CPU would do without reclaim meanwhile, so such a kernel keeps the mark in its
    /// tasks. If the two functions do not agree, callbacks nest. linux: PF_MEMALLOC
    fn is_reclaiming() -> Option<bool> {
        None
    }

    /// Notes in the calling task whether it is inside one of the three callbacks. Called only if
    /// [`is_reclaiming`](Self::is_reclaiming) does not return `None`. linux: memalloc_noreclaim_save,
    /// memalloc_noreclaim_restore
    fn set_reclaiming(is_reclaiming: bool) {
        let _ = is_reclaiming;
    }

    /// Frees pages that the kernel can do without, through `pages`. The engine goes by the count that `pages` keeps, not
    /// by the answer.
    fn reclaim(pages: &PageSink<'_, Self>, wanted: &Reclaim) -> Reclaimed
    where
        Self: Cpu,
    {
        let _ = (pages, wanted);
        Reclaimed::default()
    }

    /// Pages of a zone that [`reclaim`](Self::reclaim) could still free.
    fn reclaimable(node: NodeId, zone: ZoneKind) -> u64 {
        let _ = (node, zone);
        0
    }

    /// Moves the contents of a block, and its users along. Only blocks that left their handle by
    /// [`Pages::into_raw`](super::Pages::into_raw), or that came from the page allocator by number, are offered; after
    /// [`Moved`](Migrated::Moved), [`Pages::from_raw`](super::Pages::from_raw) names [`Migration::to`].
    fn migrate(migration: &Migration) -> Migrated {
        let _ = migration;
        Migrated::Refused
    }

    /// Ends something and frees what it had, through `pages`: the last resort before a request fails.
    fn out_of_memory(pages: &PageSink<'_, Self>, request: &Request) -> OutOfMemory
    where
        Self: Cpu,
    {
        let _ = (pages, request);
        OutOfMemory::NothingFreed
    }

    /// There is work for kswapd. Must not call the engine.
    fn wake_kswapd(node: NodeId) {
        let _ = node;
    }

    /// There is work for kcompactd. Must not call the engine.
    fn wake_kcompactd(node: NodeId) {
        let _ = node;
    }

    /// Logs a report about an object that was misused. It hears of every free that is refused, in all builds:
    /// of an address that is no object's, of one inside an object, of an object that is noticed to be free. The
    /// [module](super#frees-that-are-wrong) lists what is noticed. With [`Cpu::SLAB_DEBUG`] it hears of damage too.
    fn slab_error(report: &SlabReport<'_>) {
        let _ = report;
    }

    /// A CPU does not answer ([`Cpu::CALL_ROUNDS_MAX`]): the place to log it, or to end it all. What that CPU may be
    /// using is lost; everything else goes on. May be called with locks held, and must not call the engine.
    fn unanswered(cpu: CpuId) {
        let _ = cpu;
    }

    /// Lets others run, between two rounds of a request that has to wait. Makes no request that reclaims: that request
    /// may have to wait as well.
    fn relax() -> Patience {
        Patience::GiveUp
    }
}
