//! A machine whose frames are real memory, so that there can be objects in them.

extern crate std;

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::{alloc, dealloc, handle_alloc_error};
use std::vec::Vec;

use super::{MachineError, bytes, with_memory};
use crate::base::{CpuId, Order, Pfn, RawLock};
use crate::page::{Census, Config, Violation};
use crate::platform::Platform;
use crate::platform::host;
use crate::slab::cpu::CACHES_MAX;
use crate::slab::cpu::locked::{CpuLocks, CurrentCpu};
use crate::slab::{CacheFlags, CpuLocal, Memory, SlabAllocator, SlabCensus, SlabViolation};

/// The CPU that a thread said it stands for ([`host::run_on_cpu`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct HostCpu;

impl CurrentCpu for HostCpu {
    fn cpu(&self) -> CpuId {
        host::current_cpu()
    }
}

/// Builds a machine of `pages` frames of memory, as [`with_memory`] does, and a slab over it whose sections are those
/// of `local`; `seed` makes its secrets.
///
/// # Errors
/// If the configuration is wrong, or `local` has more CPUs.
pub fn with_slab<P: Platform, C: CpuLocal, R>(
    platform: P,
    config: &Config<'_>,
    pages: u32,
    local: C,
    seed: u64,
    run: impl FnOnce(&SlabAllocator<'_, '_, P, C>) -> R,
) -> Result<R, MachineError> {
    with_checked_slab(platform, config, pages, local, (seed, CacheFlags::empty()), run)
}

/// The same, in which every cache makes the checks that come with the seed.
///
/// # Errors
/// If the configuration is wrong.
pub fn with_checked_slab<P: Platform, C: CpuLocal, R>(
    platform: P,
    config: &Config<'_>,
    pages: u32,
    local: C,
    (seed, debug): (u64, CacheFlags),
    run: impl FnOnce(&SlabAllocator<'_, '_, P, C>) -> R,
) -> Result<R, MachineError> {
    let mapping = Mapping::new(pages, config.page_size);
    with_memory(platform, config, pages, |allocator| {
        let caches = CACHES_MAX as u16;
        let mut storage = bytes(
            SlabAllocator::<P, C>::layout(pages, config.page_size, allocator.cpus(), allocator.nodes(), caches),
            1,
        );
        let memory = Memory { first: Pfn::new(0), base: mapping.start, pages, caches };
        // SAFETY: the frames are those of `mapping`, which stays until `run` is over; nobody else gets them.
        let slab = unsafe { SlabAllocator::with_debug(allocator, local, memory, seed, debug, &mut *storage) };
        Ok(run(&slab.map_err(MachineError::Slab)?))
    })?
}

/// What is there when nobody uses a slab any more.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// In the slab.
    pub objects: Result<SlabCensus, SlabViolation>,
    /// In the page allocator beneath.
    pub pages: Result<Census, Violation>,
}

/// The same as [`with_checked_slab`], and what is there when `run` is over: for programs of safe code, which cannot ask
/// for a [`check`](SlabAllocator::check).
///
/// # Errors
/// If the configuration is wrong.
pub fn with_audited_slab<P: Platform, C: CpuLocal, R>(
    platform: P,
    config: &Config<'_>,
    pages: u32,
    local: C,
    debug: (u64, CacheFlags),
    run: impl FnOnce(&SlabAllocator<'_, '_, P, C>) -> R,
) -> Result<(R, Audit), MachineError> {
    with_checked_slab(platform, config, pages, local, debug, |slab| {
        let result = run(slab);
        // SAFETY: `run` was lent the slab, and is over, so nobody else has a handle. The pages are only looked at.
        let (objects, pages) = unsafe { (slab.check(), slab.pages().check()) };
        (result, Audit { objects, pages })
    })
}

/// The same with a lock of the platform's around each CPU's sections.
///
/// # Errors
/// If the configuration is wrong.
pub fn with_locked_slab<P: Platform, R>(
    platform: P,
    config: &Config<'_>,
    pages: u32,
    seed: u64,
    run: impl FnOnce(&SlabAllocator<'_, '_, P, CpuLocks<'_, P::Lock, HostCpu>>) -> R,
) -> Result<R, MachineError> {
    let locks: Vec<P::Lock> = config.cpu_nodes.iter().map(|_| P::Lock::new()).collect();
    with_slab(platform, config, pages, CpuLocks::new(&locks, HostCpu), seed, run)
}

/// Memory that the frames stand for, freed when dropped.
struct Mapping {
    start: NonNull<u8>,
    layout: Layout,
}

impl Mapping {
    fn new(pages: u32, page_size: u32) -> Mapping {
        let align = (page_size as usize) << Order::MAX.get();
        let layout = Layout::from_size_align((pages as usize * page_size as usize).max(align), align)
            .expect("a machine is smaller than the address space");
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Mapping { start, layout }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody uses it any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
