//! A machine whose frames are backed by real memory, so that a slab can hand out objects.

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

/// The CPU that the calling thread represents ([`host::run_on_cpu`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct HostCpu;

impl CurrentCpu for HostCpu {
    fn cpu(&self) -> CpuId {
        host::current_cpu()
    }
}

/// Builds a machine of `pages` frames of memory, as [`with_memory`] does, with a slab that uses the sections of
/// `local`. `seed` is the source of the slab's secrets.
///
/// # Errors
/// If the configuration is invalid, or `local` has more CPUs than the configuration.
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

/// Builds a machine as [`with_slab`] does, where every cache makes the checks that are passed with the seed.
///
/// # Errors
/// As for [`with_slab`].
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
        // SAFETY: the frames are those of `mapping`, which lives until `run` has returned and is used for nothing else.
        let slab = unsafe { SlabAllocator::with_debug(allocator, local, memory, seed, debug, &mut *storage) };
        Ok(run(&slab.map_err(MachineError::Slab)?))
    })?
}

/// Contents of a machine after the last use of its slab.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// Check of the slab.
    pub objects: Result<SlabCensus, SlabViolation>,
    /// Check of the page allocator beneath it.
    pub pages: Result<Census, Violation>,
}

/// Builds a machine as [`with_checked_slab`] does, and checks it after `run` has returned. For programs of safe code,
/// which cannot call [`check`](SlabAllocator::check).
///
/// # Errors
/// As for [`with_checked_slab`].
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
        // SAFETY: `run` only borrowed the slab and has returned, so no other handle exists. The page allocator is only
        // read.
        let (objects, pages) = unsafe { (slab.check(), slab.pages().check()) };
        (result, Audit { objects, pages })
    })
}

/// Builds a machine as [`with_slab`] does, where each CPU's sections are protected by a lock of the platform.
///
/// # Errors
/// As for [`with_slab`].
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

/// Memory that backs the frames; freed when dropped.
struct Mapping {
    start: NonNull<u8>,
    layout: Layout,
}

impl Mapping {
    fn new(pages: u32, page_size: u32) -> Mapping {
        let align = (page_size as usize) << Order::MAX.get();
        let layout = Layout::from_size_align((pages as usize * page_size as usize).max(align), align)
            .expect("the memory of a machine fits the address space");
        // SAFETY: `max(align)` above makes the size of the layout greater than 0.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Mapping { start, layout }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout and is not used after the mapping is dropped.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
