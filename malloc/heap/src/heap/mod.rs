//! The engine with everything it needs of a process: a heap.
//!
//! One address range is reserved for all objects there may ever be, another for the engine's metadata. Memory comes
//! online in steps when a request finds nothing, 2 MiB at first, and goes back to the system when it is told to
//! ([`Heap::give_back`]): see `supply`. A heap takes no memory from anybody but the kernel, so that a program's malloc
//! can be one.

mod supply;

use core::fmt;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use freehold::PageAllocator;
use freehold::base::carve::Storage;
use freehold::base::lock::Locked;
use freehold::base::{Gfp, NodeId, Order, Pfn};
use freehold::page::{Config, ConfigError, OnlineError, Zone};
use freehold::platform::Platform;
use freehold::policy::Policy;
use freehold::slab::cpu::CACHES_MAX;
use freehold::slab::fast_path::{FastPath, Frontend};
use freehold::slab::{Cache, CacheUsage, CpuLocal, Memory, ObjectError, ObjectFreeError, SlabAllocator};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::os::cpus::cpu_count;
use crate::os::mmap::{HugePages, Reservation};
use crate::os::platform::{CurrentCpuOfProcess, LockedCpus, Process, lock_cpus};
use crate::os::rseq::{Rseq, Unavailable};
use supply::{Metadata, Ranges, Supply};

/// Frames of a section of the engine.
const SECTION_PAGES: u32 = 1 << 15;
/// Bytes of a section, 128 MiB.
pub(crate) const SECTION: usize = SECTION_PAGES as usize * PAGE_SIZE as usize;
/// Bytes of the largest block of pages.
pub(crate) const LARGEST_BLOCK: usize = (PAGE_SIZE as usize) << Order::MAX.get();
/// Every CPU that there may be is of one node.
static ONE_NODE: [NodeId; u16::MAX as usize] = [NodeId(0); u16::MAX as usize];
/// Bytes of a page of the engine, whatever those of the machine are.
const PAGE_SIZE: u32 = 4096;

/// Size, pages and policy of a heap that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct HeapConfig {
    /// Bytes that objects may ever take, rounded up to sections of 128 MiB; below one section, to blocks of 4 MiB.
    pub bytes: usize,
    /// The engine's policy, for pages and for objects.
    pub policy: Policy,
    /// What the kernel should back it with.
    pub huge_pages: HugePages,
    /// Numbers for caches, from what the policy [takes itself](freehold::slab::own_caches) to 256. Each costs some 400
    /// bytes, and 64 a CPU, be there a cache of it or not.
    pub caches: u16,
}

impl Default for HeapConfig {
    /// 16 GiB at most, the default policy, pages as the system is set, as many caches as there can be.
    fn default() -> HeapConfig {
        HeapConfig {
            bytes: 16 << 30,
            policy: Policy::default(),
            huge_pages: HugePages::default(),
            caches: CACHES_MAX as u16,
        }
    }
}

/// Why a heap was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapError {
    /// More than the engine can number.
    #[error("a heap cannot have {bytes} bytes; take at most 16 TiB")]
    Size {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The address space has no room.
    #[error("no address range of {bytes} bytes can be reserved: {errno}; take a smaller heap, or raise `ulimit -v`")]
    Reserve {
        /// Bytes that were asked for.
        bytes: usize,
        /// The system's error number.
        errno: Errno,
    },
    /// The kernel takes no advice on huge pages.
    #[error("the kernel takes no advice on huge pages: {errno}; leave them to the system")]
    HugePages {
        /// The system's error number.
        errno: Errno,
    },
    /// The policy or the machine is beyond the engine.
    #[error("the engine refuses the configuration: {0}")]
    Config(ConfigError),
    /// A section did not come online.
    #[error("a section of memory did not come online: {0}")]
    Online(OnlineError),
    /// The process has no restartable sequences, for this reason.
    #[error(transparent)]
    Rseq(#[from] Unavailable),
}

/// Objects by size, in one address range.
///
/// Methods may be called from any thread. What was not freed is gone when the heap is dropped.
pub struct Heap<C, P: Platform + 'static = Process> {
    slab: SlabAllocator<'static, 'static, P, C>,
    supply: Locked<P::Lock, Supply>,
    /// Times that something was taken from the supply.
    taken: AtomicUsize,
    /// Bytes that came online, and bytes of them that were returned: what the supply says, for those who do not wait.
    online: AtomicUsize,
    returned: AtomicUsize,
    /// The last field, so that it is dropped after all that refers to it.
    ranges: Ranges,
}

impl<C, P: Platform + 'static> fmt::Debug for Heap<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

impl Heap<Rseq> {
    /// A heap whose CPUs' lists are restartable sequences.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn with_rseq(config: &HeapConfig) -> Result<Heap<Rseq>, HeapError> {
        let rseq = Rseq::find()?;
        Heap::new(config, rseq, Process::new(CurrentCpuOfProcess::Rseq(rseq)))
    }
}

impl Heap<LockedCpus> {
    /// A heap with a lock for each CPU's lists: anywhere.
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
    /// A heap with this primitive, which must know the CPUs of this machine.
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
        let ranges = Ranges::reserve::<P, C>(&engine, config.caches)?;
        ranges.memory.advise(config.huge_pages).map_err(|errno| HeapError::HugePages { errno })?;
        // SAFETY: they were reserved for this configuration, and go when the heap goes, which is all that gets them; to
        // a caller that promises nothing it hands out nothing else that outlives it than addresses of objects.
        let Metadata { allocator: place, fixed, slab: slab_bytes, mut supply } =
            unsafe { ranges.parts::<P, C>(&engine, config.caches) };
        let allocator = place.write(PageAllocator::new(platform, &engine, fixed).map_err(HeapError::Config)?);
        supply.take(allocator, &ranges.memory)?;
        let memory = Memory { first: Pfn::new(0), base: ranges.memory.start(), pages, caches: config.caches };
        let secret = seed(memory.base);
        // SAFETY: the kernel has zeroed it. Frames are those of `memory`, mapped for as long as the heap, and
        // accessible before they are the engine's; the page allocator is the heap's own.
        let slab = unsafe { SlabAllocator::new(allocator, local, memory, secret, Storage::zeroed(slab_bytes)) }
            .expect("the storage is as large as was asked for, and the memory is aligned");
        slab.fail_without_slab();
        let heap =
            Heap { slab, online: 0.into(), returned: 0.into(), taken: 0.into(), supply: Locked::new(supply), ranges };
        heap.take_note(&heap.supply.lock());
        Ok(heap)
    }

    /// At least `size` bytes, aligned to 8; with the default policy to 16 from 9 bytes on, and to the size where that
    /// is a power of two up to a page.
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

    /// Gives back what [`malloc`](Self::malloc) gave.
    ///
    /// # Errors
    /// If it is not where an object begins; nothing is changed then.
    ///
    /// # Safety
    /// If it is an object, nobody uses it any more, and it is not free.
    #[inline(always)]
    pub unsafe fn free(&self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        // SAFETY: the caller promises the same of the object.
        unsafe { self.slab.kfree(object) }
    }

    /// The slab beneath, for all that a heap has no word of its own for.
    pub fn slab(&self) -> &SlabAllocator<'static, 'static, P, C> {
        &self.slab
    }

    /// Returns the heap's interface for one fast path, if its policy has that one.
    pub fn frontend<F: FastPath>(&self) -> Option<HeapFrontend<'_, C, F, P>> {
        self.slab.frontend().map(|frontend| HeapFrontend { heap: self, frontend })
    }

    /// The range that objects are in.
    pub fn memory(&self) -> &Reservation {
        &self.ranges.memory
    }

    /// Gives memory that is free back to the system, whole blocks of 2 MiB, up to so many bytes; returns the bytes.
    /// Costs a lock and a system call a block, in which no lock is held.
    pub fn give_back(&self, bytes: usize) -> usize {
        let mut given = 0;
        while given < bytes {
            // A page on a CPU's list is a hole in a block, and so is a slab that is kept for later.
            let block = supply::take_block(self.pages()).or_else(|| {
                self.slab.shrink_nodes();
                self.pages().drain_all_pages();
                supply::take_block(self.pages())
            });
            let Some(block) = block else { break };
            if supply::empty(self.pages(), &self.ranges.memory, block).is_err() {
                break;
            }
            let mut supply = self.supply.lock();
            supply.put(block);
            self.take_note(&supply);
            given += supply::BLOCK;
        }
        given
    }

    /// What the heap's memory is used for, in numbers of no one moment. Takes no lock.
    pub fn usage(&self) -> HeapUsage {
        let (online, returned) = (self.online.load(Relaxed), self.returned.load(Relaxed));
        let free: u64 = self.pages().zones().iter().map(Zone::free_pages).sum();
        HeapUsage { online, returned, free: (free * u64::from(PAGE_SIZE)) as usize }
    }

    /// Shows each size with what is in use. Costs a look at each page that came online.
    pub fn each_size(&self, visit: impl FnMut(&Cache, CacheUsage)) {
        let pages = self.online.load(Relaxed) / PAGE_SIZE as usize;
        self.slab.usage_before(Pfn::new(pages as u32), visit);
    }

    /// Writes how many free blocks of pages of each order there are, as `/proc/buddyinfo` does.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_free_blocks(&self, mut to: &mut dyn fmt::Write) -> fmt::Result {
        freehold::procfs::buddyinfo(self.pages(), &mut to)
    }

    /// Address of the number of bytes that came online, for readers outside of the process: a `usize`.
    pub fn online_address(&self) -> u64 {
        core::ptr::from_ref(&self.online).addr() as u64
    }

    fn take_note(&self, supply: &Supply) {
        let (online, returned) = supply.bytes();
        self.online.store(online, Relaxed);
        self.returned.store(returned, Relaxed);
    }

    fn pages(&self) -> &PageAllocator<'static, P> {
        // SAFETY: whoever has it here gives no page back that is not its own, and keeps nothing.
        unsafe { self.slab.pages() }
    }

    /// Brings memory online until the request is met or there is none left.
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
            // Somebody else may have brought some meanwhile.
            if self.taken.load(Acquire) == seen && supply.take(self.pages(), &self.ranges.memory).is_err() {
                drop(supply);
                // The last resort is a page for an object.
                self.slab.take_pages_without_slab();
                return self.slab.kmalloc(size, Gfp::KERNEL);
            }
            self.taken.fetch_add(1, Release);
            self.take_note(&supply);
        }
        Err(error)
    }
}

/// What the memory of a heap is used for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUsage {
    /// That the engine has ever had.
    pub online: usize,
    /// Of these, free, in pages of no slab: they may have memory.
    pub free: usize,
    /// Of these, given back to the system: they have none.
    pub returned: usize,
}

/// C's malloc and free on a heap, compiled for one fast path.
#[derive(Debug)]
pub struct HeapFrontend<'h, C, F, P: Platform + 'static = Process> {
    heap: &'h Heap<C, P>,
    frontend: Frontend<'h, 'static, 'static, P, C, F>,
}

impl<C: CpuLocal, F: FastPath, P: Platform + 'static> HeapFrontend<'_, C, F, P> {
    /// Memory as C's malloc gives it: null if there is none, an address of its own for no bytes.
    #[inline(always)]
    pub fn malloc(self, size: usize) -> *mut u8 {
        match self.frontend.alloc_fast(size) {
            Some(object) => object.as_ptr(),
            None => self.malloc_slow(size),
        }
    }

    /// Gives it back as C's free does: nothing for null, and an address that is no object's is reported to the
    /// platform.
    ///
    /// # Safety
    /// As for [`Heap::free`].
    #[inline(always)]
    pub unsafe fn free(self, object: *mut u8) {
        // SAFETY: the caller promises the same of the object.
        unsafe { self.frontend.free(object) }
    }

    /// Allocates after a miss of the fast path. This is one call at the end of `malloc`, which saves no register for
    /// it.
    #[cold]
    #[inline(never)]
    fn malloc_slow(self, size: usize) -> *mut u8 {
        // C wants an address of its own for no bytes, too.
        self.heap.malloc(size.max(1)).map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<C, F, P: Platform + 'static> Clone for HeapFrontend<'_, C, F, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, F, P: Platform + 'static> Copy for HeapFrontend<'_, C, F, P> {}

/// A number that nobody can guess, from the kernel; where it has none yet, or may not be asked, from where it has put
/// the heap.
pub(crate) fn seed(base: NonNull<u8>) -> u64 {
    let mut bytes = base.as_ptr().addr().to_ne_bytes();
    // A part of them may be there: what is not, stays as it is.
    let _filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}

/// Frames for so many bytes: whole sections, or blocks of the largest order where less than a section is asked for.
fn frames(bytes: usize) -> Result<u32, HeapError> {
    let unit = if bytes < SECTION { LARGEST_BLOCK } else { SECTION };
    let units = u32::try_from(bytes.div_ceil(unit).max(1)).ok();
    let frames = units.and_then(|units| units.checked_mul(unit as u32 / PAGE_SIZE));
    frames.ok_or(HeapError::Size { bytes })
}
