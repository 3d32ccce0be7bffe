//! A heap: the engine with memory, locks and CPU numbers of a process.
//!
//! A heap has one address range for all objects and another range for the engine's metadata. If a request finds no free
//! memory, memory is mapped and comes online in steps that begin at 2 MiB. [`Heap::give_back`] returns free memory to
//! the system; `supply` implements both. A heap takes memory from the kernel only, so that it can serve as the malloc
//! of a program.

mod give_back;
mod ranges;
mod returned;
mod supply;
#[cfg(test)]
mod tests;

use core::fmt;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};

use freehold::PageAllocator;
use freehold::base::carve::Storage;
use freehold::base::lock::Locked;
use freehold::base::{Gfp, NodeId, Order, Pfn};
use freehold::page::{Config, ConfigError, OnlineError, Violation, Zone};
use freehold::platform::Platform;
use freehold::policy::Policy;
use freehold::slab::cpu::CACHES_MAX;
use freehold::slab::fast_path::{FastPath, Frontend};
use freehold::slab::{Cache, CacheUsage, CpuLocal, Memory, ObjectError, ObjectFreeError, SlabAllocator, SlabViolation};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::os::budget::{MemoryBudget, UNLIMITED};
use crate::os::cpus::{MAX_CPUS, cpu_count};
use crate::os::mmap::{HugePages, Reservation};
use crate::os::platform::{CurrentCpuOfProcess, LockedCpus, Process, lock_cpus};
use crate::os::rseq::{Rseq, Unavailable};
pub use give_back::PieceSize;
use ranges::{Metadata, Ranges};
use supply::Supply;

/// Free pages above the high watermark below which [`Heap::take_more_if_short`] brings memory online.
const SHORT: u64 = 16;
/// Frames of a section of the engine.
const SECTION_PAGES: u32 = 1 << 15;
/// Bytes of a section: 128 MiB.
pub(crate) const SECTION: usize = page_bytes(SECTION_PAGES);
/// Bytes of the largest block of pages.
pub(crate) const LARGEST_BLOCK: usize = (PAGE_SIZE as usize) << Order::MAX.get();
/// Node of each possible CPU: all CPUs belong to one node.
static ONE_NODE: [NodeId; MAX_CPUS as usize] = [NodeId(0); MAX_CPUS as usize];
/// Bytes of a page of the engine, whatever the machine's page size is.
const PAGE_SIZE: u32 = 4096;

/// Size, pages and policy of a new heap.
#[derive(Clone, Copy, Debug)]
pub struct HeapConfig {
    /// Most bytes for objects, rounded up to sections of 128 MiB; below one section, rounded up to blocks of 4 MiB.
    pub bytes: usize,
    /// The engine's policy for pages and objects.
    pub policy: Policy,
    /// Advice to the kernel about backing the heap with huge pages.
    pub huge_pages: HugePages,
    /// Number of cache identifiers, from the number that the policy [uses itself](freehold::slab::own_caches) to 256.
    /// Each costs some 400 bytes and another 64 bytes per CPU, whether a cache uses it or not.
    pub caches: u16,
    /// Budget of the heap's memory. Fixed tables, of some KiB for each CPU, are not charged.
    pub budget: &'static MemoryBudget,
}

impl Default for HeapConfig {
    /// Returns a configuration for at most 16 GiB, with the default policy, the system's setting for huge pages,
    /// the largest number of caches, and no limit of memory.
    fn default() -> HeapConfig {
        HeapConfig {
            bytes: 16 << 30,
            policy: Policy::default(),
            huge_pages: HugePages::default(),
            caches: CACHES_MAX as u16,
            budget: &UNLIMITED,
        }
    }
}

/// Returns the bytes of a number of pages; of a frame's number, its offset in the memory of the heap.
const fn page_bytes(pages: u32) -> usize {
    pages as usize * PAGE_SIZE as usize
}

/// Reason why a heap was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapError {
    /// The size is more than the engine can number.
    #[error("a heap cannot have {bytes} bytes; use at most 16 TiB")]
    Size {
        /// The requested bytes.
        bytes: usize,
    },
    /// The address space has no room for a range.
    #[error("cannot reserve {bytes} bytes of address space: {errno}; use a smaller heap, or raise `ulimit -v`")]
    Reserve {
        /// The requested bytes.
        bytes: usize,
        /// The system's error number.
        errno: Errno,
    },
    /// The kernel does not accept advice about huge pages.
    #[error("the kernel does not accept advice about huge pages: {errno}; leave huge pages to the system")]
    HugePages {
        /// The system's error number.
        errno: Errno,
    },
    /// The engine does not support the policy or the machine.
    #[error("the engine does not support the configuration: {0}")]
    Config(ConfigError),
    /// A section of memory did not come online.
    #[error("a section of memory did not come online: {0}")]
    Online(OnlineError),
    /// The process has no restartable sequences, for the given reason.
    #[error(transparent)]
    Rseq(#[from] Unavailable),
}

impl HeapError {
    /// Returns whether another mapping of the program is in the way.
    fn is_blocked(&self) -> bool {
        matches!(self, HeapError::Reserve { errno: Errno::EXIST, .. })
    }
}

/// Inconsistent state of a heap, which [`Heap::check`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapViolation {
    /// A page, a block of pages or a list of blocks.
    #[error("pages: {0}")]
    Pages(Violation),
    /// A slab, a list of slabs or a sheaf.
    #[error("objects: {0}")]
    Objects(SlabViolation),
}

/// An allocator of objects by size, in one address range.
///
/// All methods may be called from any thread. Objects that were not freed become invalid when the heap is dropped.
pub struct Heap<C, P: Platform + 'static = Process> {
    slab: SlabAllocator<'static, 'static, P, C>,
    supply: Locked<P::Lock, Supply>,
    /// Counter that is raised when memory was taken from the supply, by this thread or, as far as a failed request
    /// notices, by another one.
    taken: AtomicUsize,
    /// Bytes that have come online, as the supply last counted them, for readers that do not take the supply's lock.
    /// `returned` counts those of them that are returned to the system.
    online: AtomicUsize,
    returned: AtomicUsize,
    /// Bytes of the range up to which memory has come online. Holes count as well.
    end: AtomicUsize,
    /// Whether the system refused memory since some came online or was returned.
    is_refused: AtomicBool,
    /// The last field, because it must be dropped after all fields that refer to it.
    ranges: Ranges,
}

impl<C, P: Platform + 'static> fmt::Debug for Heap<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

impl Heap<Rseq> {
    /// Creates a heap whose CPU-local lists are restartable sequences.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn with_rseq(config: &HeapConfig) -> Result<Heap<Rseq>, HeapError> {
        let rseq = Rseq::find()?;
        Heap::new(config, rseq, Process::new(CurrentCpuOfProcess::Rseq(rseq)))
    }
}

impl Heap<LockedCpus> {
    /// Creates a heap whose CPU-local lists are protected by one lock per CPU. Works on every system.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn with_locks(config: &HeapConfig) -> Result<Heap<LockedCpus>, HeapError> {
        let current = CurrentCpuOfProcess::find();
        let cpus = cpu_count();
        let locks = lock_cpus(cpus, current).map_err(|errno| HeapError::Reserve { bytes: cpus.into(), errno })?;
        Heap::new(config, locks, Process::new(current))
    }
}

impl<C: CpuLocal, P: Platform + 'static> Heap<C, P> {
    /// Creates a heap with the given CPU-local primitive, which must support all CPUs of this machine.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(config: &HeapConfig, local: C, platform: P) -> Result<Heap<C, P>, HeapError> {
        let pages = frames(config.bytes)?;
        let engine = Config {
            cpu_nodes: &ONE_NODE[..usize::from(cpu_count())],
            end: Pfn::new(pages),
            page_size: PAGE_SIZE,
            policy: config.policy,
            ..Config::default()
        };
        let ranges = Ranges::choose::<P, C>(&engine, config.caches)?;
        // SAFETY: the ranges were chosen for this configuration above and are split once. They are dropped with the
        // heap, which is the only owner of the parts. The heap's safe methods hand out nothing else that could outlive
        // the ranges than addresses of objects.
        let Metadata { allocator: place, fixed, slab: slab_bytes, supply } =
            unsafe { ranges.parts::<P, C>(&engine, config)? };
        let allocator = place.write(PageAllocator::new(platform, &engine, fixed).map_err(HeapError::Config)?);
        // SAFETY: the storage was just split off, and the heap owns both the supply and the metadata.
        let mut supply = unsafe { Supply::new(supply, engine.end, config) };
        supply.take(allocator, &ranges)?;
        ranges
            .memory
            .advise_part(config.huge_pages, 0, supply.end_bytes())
            .map_err(|errno| HeapError::HugePages { errno })?;
        let memory = Memory { first: Pfn::new(0), base: ranges.memory.start(), pages, caches: config.caches };
        let secret = seed(memory.base);
        // SAFETY: the kernel has zeroed the storage. The frames are those of `memory`, which is mapped as long as the
        // heap exists and becomes accessible before the engine gets a frame. The page allocator belongs to this heap
        // alone.
        let slab = unsafe { SlabAllocator::new(allocator, local, memory, secret, Storage::zeroed(slab_bytes)) }
            .expect("the storage has the requested size, and the memory is aligned");
        slab.fail_without_slab();
        let (online, returned, end, taken) = (0.into(), 0.into(), 0.into(), 0.into());
        let is_refused = false.into();
        let heap = Heap { slab, online, returned, end, is_refused, taken, supply: Locked::new(supply), ranges };
        heap.take_note(&heap.supply.lock());
        Ok(heap)
    }

    /// Allocates at least `size` bytes, aligned to 8 bytes. With the default policy the alignment is 16 from 9 bytes
    /// on, and `size` if that is a power of two up to a page. For 0 bytes returns
    /// [`ZERO_SIZE`](freehold::slab::ZERO_SIZE), which may be freed but not accessed. Brings more memory online if
    /// necessary.
    ///
    /// # Errors
    /// If there is no memory, or no block of pages is that large.
    #[inline(always)]
    pub fn malloc(&self, size: usize) -> Result<NonNull<u8>, ObjectError> {
        match self.slab.kmalloc(size, Gfp::KERNEL) {
            Ok(object) => Ok(object),
            Err(error) => self.malloc_with_more(size, error),
        }
    }

    /// Frees an object that [`malloc`](Self::malloc) returned.
    ///
    /// # Errors
    /// If the address is not the start of an object, or if the object is found to be free already; nothing is changed
    /// then.
    ///
    /// # Safety
    /// If the address is that of an object, the object is allocated and is not used any more.
    #[inline(always)]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller promises that an object at this address is allocated and is not used any more.
        unsafe { self.slab.kfree(object) }
    }

    /// Returns the heap's slab allocator, for operations that the heap does not wrap.
    pub fn slab(&self) -> &SlabAllocator<'static, 'static, P, C> {
        &self.slab
    }

    /// Returns the heap's interface for one fast path, if its policy has that one.
    pub fn frontend<F: FastPath>(&self) -> Option<HeapFrontend<'_, C, F, P>> {
        self.slab.frontend().map(|frontend| HeapFrontend { heap: self, frontend })
    }

    /// Returns the address range that contains the objects.
    pub fn memory(&self) -> &Reservation {
        &self.ranges.memory
    }

    /// Returns what the heap's memory is used for. The numbers are read one after the other and need not be consistent
    /// with each other. Takes no lock.
    pub fn usage(&self) -> HeapUsage {
        let (online, returned) = (self.online.load(Relaxed), self.returned.load(Relaxed));
        let free: u64 = self.pages().zones().iter().map(Zone::free_pages).sum();
        HeapUsage { online, returned, free: (free * u64::from(PAGE_SIZE)) as usize }
    }

    /// Passes each cache with its usage to `visit`. Reads the state of each page that has come online, and of each page
    /// in a hole.
    pub fn each_size(&self, visit: impl FnMut(&Cache, CacheUsage)) {
        self.slab.usage_before(self.end(), visit);
    }

    /// Checks the pages, slabs, lists and sheaves of the heap. Reads the state of each page up to the end of the memory
    /// that has come online, including pages in holes.
    ///
    /// # Errors
    /// The first violation that is found.
    ///
    /// # Safety
    /// No other call uses the heap meanwhile.
    pub unsafe fn check(&self) -> Result<(), HeapViolation> {
        self.pages().check().map_err(HeapViolation::Pages)?;
        // SAFETY: the caller promises that no other call uses the heap, and no slab is in memory that has not come
        // online.
        unsafe { self.slab.check_before(self.end()) }.map_err(HeapViolation::Objects).map(|_| ())
    }

    /// Writes the number of free blocks of each order, in the format of `/proc/buddyinfo`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_free_blocks(&self, mut to: &mut dyn fmt::Write) -> fmt::Result {
        freehold::procfs::buddyinfo(self.pages(), &mut to)
    }

    /// Returns two addresses for readers outside of the process: that of the number of bytes up to which memory has
    /// come online, a `usize`, and that of the holes before that ([`decode_hole`](crate::os::holes::decode_hole)).
    pub fn online_addresses(&self) -> [u64; 2] {
        [core::ptr::from_ref(&self.end).addr() as u64, self.ranges.memory.holes().address()]
    }

    /// Returns the first frame that has never been online.
    fn end(&self) -> Pfn {
        Pfn::new((self.end.load(Relaxed) / PAGE_SIZE as usize) as u32)
    }

    fn take_note(&self, supply: &Supply) {
        let (online, returned) = supply.bytes();
        self.online.store(online, Relaxed);
        self.returned.store(returned, Relaxed);
        self.end.store(supply.end_bytes(), Relaxed);
        self.is_refused.store(false, Relaxed);
    }

    fn pages(&self) -> &PageAllocator<'static, P> {
        // SAFETY: callers in this module free only pages that they allocated, and do not keep the reference.
        unsafe { self.slab.pages() }
    }

    /// Brings more memory online if free memory is near the high watermark, unless the system refused that since memory
    /// was last returned. Caches ask for the memory of sheaves without waiting, so without free memory they would work
    /// without sheaves, until a request for an object fails.
    pub fn take_more_if_short(&self) {
        let is_short = || self.pages().zones().iter().all(|zone| zone.free_pages() < zone.watermarks().high + SHORT);
        if !is_short() || self.is_refused.load(Relaxed) {
            return;
        }
        let mut supply = self.supply.lock();
        if is_short() {
            let is_refused = supply.take(self.pages(), &self.ranges).is_err();
            self.taken.fetch_add(1, Release);
            self.take_note(&supply);
            self.is_refused.store(is_refused, Relaxed);
        }
    }

    /// Tries a request again and brings memory online, until the request succeeds or no memory is left. Then it may use
    /// the pages below the watermarks. Returns errors that are not for lack of pages at once.
    #[cold]
    #[inline(never)]
    fn malloc_with_more(&self, size: usize, first_error: ObjectError) -> Result<NonNull<u8>, ObjectError> {
        let mut error = first_error;
        while matches!(error, ObjectError::Pages(_)) {
            let seen = self.taken.load(Acquire);
            match self.slab.kmalloc(size, Gfp::KERNEL) {
                Ok(object) => return Ok(object),
                Err(again) => error = again,
            }
            let mut supply = self.supply.lock();
            // Another thread may have brought memory online since `taken` was read; the request is then tried again
            // first.
            if self.taken.load(Acquire) == seen && supply.take(self.pages(), &self.ranges).is_err() {
                drop(supply);
                return self.malloc_from_reserves(size);
            }
            self.taken.fetch_add(1, Release);
            self.take_note(&supply);
        }
        Err(error)
    }

    /// Serves a request when no more memory comes online. No other requests need the pages that watermarks keep, so
    /// this one may use them. As a last resort, this and all later requests take pages instead of a slab
    /// ([`take_pages_without_slab`](SlabAllocator::take_pages_without_slab)).
    #[cold]
    fn malloc_from_reserves(&self, size: usize) -> Result<NonNull<u8>, ObjectError> {
        let gfp = Gfp::KERNEL.union(Gfp::MEMALLOC);
        self.slab.kmalloc(size, gfp).or_else(|_| {
            self.slab.take_pages_without_slab();
            self.slab.kmalloc(size, gfp)
        })
    }
}

/// Bytes of a heap's memory by their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUsage {
    /// Bytes that have ever come online.
    pub online: usize,
    /// Bytes of these that are free, in no slab and on no CPU's page list; they may have memory.
    pub free: usize,
    /// Bytes of these that were returned to the system; they have no memory.
    pub returned: usize,
}

/// C's `malloc` and `free` on a heap, compiled for one fast path.
#[derive(Debug)]
pub struct HeapFrontend<'h, C, F, P: Platform + 'static = Process> {
    heap: &'h Heap<C, P>,
    frontend: Frontend<'h, 'static, 'static, P, C, F>,
}

impl<C: CpuLocal, F: FastPath, P: Platform + 'static> HeapFrontend<'_, C, F, P> {
    /// Allocates as C's `malloc` does: returns null if there is no memory, and a unique address if `size` is 0.
    #[inline(always)]
    pub fn malloc(self, size: usize) -> *mut u8 {
        match self.frontend.alloc_fast(size) {
            Some(object) => object.as_ptr(),
            None => self.malloc_slow(size),
        }
    }

    /// Frees an object as C's `free` does. Null is ignored, and a refused free is reported to the platform.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    #[inline(always)]
    pub unsafe fn free(self, object: *mut u8) {
        // SAFETY: the caller promises that an object at this address is allocated and is not used any more.
        unsafe { self.frontend.free(object) }
    }

    /// Allocates after a miss of the fast path. It is a tail call of `malloc`, so `malloc` saves no registers for it.
    #[cold]
    #[inline(never)]
    fn malloc_slow(self, size: usize) -> *mut u8 {
        // C requires a unique address for a request of zero bytes as well.
        self.heap.malloc(size.max(1)).map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<C, F, P: Platform + 'static> Clone for HeapFrontend<'_, C, F, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, F, P: Platform + 'static> Copy for HeapFrontend<'_, C, F, P> {}

/// Returns an unpredictable number from the kernel. If the kernel has no entropy yet, or the system call is not
/// allowed, the number is derived from the heap's address, which the kernel randomises.
pub(crate) fn seed(base: NonNull<u8>) -> u64 {
    let mut bytes = base.as_ptr().addr().to_ne_bytes();
    // The kernel may fill only some of the bytes; the other bytes keep those of the address.
    let _filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}

/// Returns the number of frames for `bytes` bytes: whole sections, or blocks of the largest order if `bytes` is less
/// than a section.
///
/// # Errors
/// If there are not as many frame numbers.
fn frames(bytes: usize) -> Result<u32, HeapError> {
    let unit = if bytes < SECTION { LARGEST_BLOCK } else { SECTION };
    let units = u32::try_from(bytes.div_ceil(unit).max(1)).ok();
    let frames = units.and_then(|units| units.checked_mul(unit as u32 / PAGE_SIZE));
    frames.ok_or(HeapError::Size { bytes })
}
