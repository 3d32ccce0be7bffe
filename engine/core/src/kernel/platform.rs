//! The engine's platform, implemented by a kernel's two traits.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;

use super::calls::this_cpu;
use super::reclaim::ReclaimScope;
use super::{Cpu, PageSink, SpinLock};
use crate::base::{CpuId, NodeId, ZoneKind};
use crate::platform::{
    FreePages, Isolation, Migrated, Migration, NoProbe, OutOfMemory, Patience, Platform, Reclaim, Reclaimed, Request,
    SlabReport, Task,
};
use crate::policy::Policy;

/// The platform of a kernel's allocator, which forwards each call to [`Cpu`] or [`Promises`](super::Promises). A
/// request inside one of the callbacks that find memory calls none of these callbacks again.
#[doc(hidden)]
pub struct KernelPlatform<H>(PhantomData<fn() -> H>);

impl<H> KernelPlatform<H> {
    pub(super) const fn new() -> KernelPlatform<H> {
        KernelPlatform(PhantomData)
    }
}

impl<H: Cpu> Platform for KernelPlatform<H> {
    type Lock = SpinLock<H>;
    type Probe = NoProbe;

    const POLICY: Option<Policy> = Some(H::POLICY);
    const ONE_NODE: bool = true;
    const SPARSEMEM: bool = true;
    const SLAB_DEBUG: bool = H::SLAB_DEBUG;
    const REPORTS_REFUSED_FREES: bool = true;

    #[inline(always)]
    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        this_cpu::<H>()
    }

    fn task(&self) -> Task {
        let task = H::task();
        Task { memalloc: task.memalloc || ReclaimScope::<H>::is_entered(), ..task }
    }

    fn reclaim(&self, pages: &dyn FreePages, wanted: &Reclaim) -> Reclaimed {
        let Some(_scope) = ReclaimScope::<H>::enter() else { return Reclaimed::default() };
        let reclaimed = H::reclaim(&PageSink::new(pages), wanted);
        note_callback::<H>(reclaimed.pages > 0);
        reclaimed
    }

    #[inline]
    fn can_isolate(&self, isolation: &Isolation) -> bool {
        H::can_isolate(isolation)
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let Some(_scope) = ReclaimScope::<H>::enter() else { return Migrated::Refused };
        let migrated = H::migrate(migration);
        note_callback::<H>(migrated == Migrated::Moved);
        migrated
    }

    fn migrates(&self) -> bool {
        H::MIGRATES
    }

    fn reclaimable(&self, node: NodeId, zone: ZoneKind) -> u64 {
        H::reclaimable(node, zone)
    }

    fn out_of_memory(&self, pages: &dyn FreePages, request: &Request) -> OutOfMemory {
        let Some(_scope) = ReclaimScope::<H>::enter() else { return OutOfMemory::NothingFreed };
        let outcome = H::out_of_memory(&PageSink::new(pages), request);
        note_callback::<H>(outcome == OutOfMemory::Freed);
        outcome
    }

    fn wake_kswapd(&self, node: NodeId) {
        H::wake_kswapd(node);
    }

    fn wake_kcompactd(&self, node: NodeId) {
        H::wake_kcompactd(node);
    }

    fn slab_error(&self, report: &SlabReport<'_>) {
        H::slab_error(report);
    }

    /// Answers calls before it lets other tasks run, since the caller may have interrupts off.
    fn relax(&self) -> Patience {
        H::kernel().answer();
        H::wait();
        H::relax()
    }
}

/// Records in debug builds whether interrupts were on when a callback found memory.
fn note_callback<H: Cpu>(has_found_memory: bool) {
    if cfg!(debug_assertions)
        && has_found_memory
        && let Some(is_off) = H::irqs_disabled()
    {
        let worked = &H::kernel().callbacks_worked;
        if is_off { &worked.with_irqs_off } else { &worked.with_irqs_on }.store(true, Relaxed);
    }
}
