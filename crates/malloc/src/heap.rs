//! The engine with everything it needs of a process: a heap.
//!
//! One address range is reserved for all objects there may ever be; the engine's metadata lies outside of it, in ranges
//! of its own. Memory comes online in sections of 128 MiB: the first at once, each further one when a request finds
//! nothing. A heap takes no memory from anybody but the kernel, so that a program's malloc can be one.

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

use freehold::PageAllocator;
use freehold::base::carve::Storage;
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, ConfigError, MinFree, OnlineError, Range};
use freehold::platform::Platform;
use freehold::policy::Policy;
use freehold::slab::path::{Front, Way};
use freehold::slab::{CpuLocal, Memory, ObjectError, ObjectFreeError, SlabAllocator};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::os::cpus::cpu_count;
use crate::os::mmap::{HugePages, Reservation};
use crate::os::platform::{CurrentCpuOfProcess, LockedCpus, Process, locked};
use crate::os::rseq::{Rseq, Unavailable};

/// Frames that come online together: 128 MiB.
const STEP_PAGES: u32 = 1 << 15;
/// Bytes of such a section: the least that a heap has.
pub(crate) const SECTION: usize = STEP_PAGES as usize * PAGE_SIZE as usize;
/// Bytes of the largest block of pages.
pub(crate) const LARGEST_BLOCK: usize = (PAGE_SIZE as usize) << Order::MAX.get();
/// Every CPU that there may be is of one node.
static ONE_NODE: [NodeId; u16::MAX as usize] = [NodeId(0); u16::MAX as usize];
/// Bytes of a page of the engine, whatever those of the machine are.
const PAGE_SIZE: u32 = 4096;

/// Size, pages and policy of a heap that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct HeapConfig {
    /// Bytes that objects may ever take, rounded up to sections.
    pub bytes: usize,
    /// The engine's policy, for pages and for objects.
    pub policy: Policy,
    /// What the kernel should back it with.
    pub huge_pages: HugePages,
}

impl Default for HeapConfig {
    /// 16 GiB at most, the default policy, pages as the system is set.
    fn default() -> HeapConfig {
        HeapConfig { bytes: 16 << 30, policy: Policy::default(), huge_pages: HugePages::default() }
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
    offline: Mutex<Offline>,
    /// The last field, so that it is dropped after all that refers to it.
    ranges: Ranges,
}

/// The address ranges of a heap; all go with it.
#[derive(Debug)]
struct Ranges {
    /// Memory that objects and blocks lie in.
    memory: Reservation,
    /// The page allocator itself, and what it has of the whole.
    allocator: Reservation,
    fixed: Reservation,
    /// The page allocator's metadata of each section.
    sections: Reservation,
    /// The slab's own arrays and metadata.
    slab: Reservation,
}

/// Memory of the heap that is not online yet, with its metadata.
#[derive(Debug)]
struct Offline {
    next: Pfn,
    end: Pfn,
    /// For all sections from `next` on.
    metadata: &'static mut [MaybeUninit<u8>],
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
        let locks = locked(cpus, current).map_err(|errno| HeapError::Reserve { bytes: cpus.into(), errno })?;
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
        let ranges = Ranges::reserve::<P, C>(&engine)?;
        ranges.memory.advise(config.huge_pages).map_err(|errno| HeapError::HugePages { errno })?;
        // SAFETY: the ranges go when the heap goes, which is all that gets their bytes, each of them once, and as
        // zeros; to a caller that promises nothing it hands out nothing else that outlives it than addresses of
        // objects.
        let (place, fixed, sections, storage) = unsafe {
            let place = &mut *ranges.allocator.start().cast::<MaybeUninit<PageAllocator<'static, P>>>().as_ptr();
            let storage = Storage::zeroed(ranges.slab.as_bytes());
            (place, ranges.fixed.as_bytes(), ranges.sections.as_bytes(), storage)
        };
        let allocator = place.write(PageAllocator::new(platform, &engine, fixed).map_err(HeapError::Config)?);
        let mut offline = Offline { next: Pfn::new(0), end: engine.end, metadata: sections };
        offline.bring_online(allocator)?;
        let memory = Memory { first: Pfn::new(0), base: ranges.memory.start(), pages };
        let seed = seed(memory.base);
        // SAFETY: frames are those of `memory`, mapped for as long as the heap; the page allocator is the heap's own.
        let slab = unsafe { SlabAllocator::new(allocator, local, memory, seed, storage) };
        let slab = slab.expect("the storage is as large as was asked for, and the memory is aligned");
        slab.fail_without_slab();
        Ok(Heap { slab, offline: Mutex::new(offline), ranges })
    }

    /// At least `size` bytes, aligned to 8; with the default policy to 16 from 9 bytes on, and to the size where that is
    /// a power of two up to a page.
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

    /// The heap through one way, if that is the way of its policy.
    pub fn front<W: Way>(&self) -> Option<HeapFront<'_, C, W, P>> {
        self.slab.front().map(|front| HeapFront { heap: self, front })
    }

    /// The range that objects are in.
    pub fn memory(&self) -> &Reservation {
        &self.ranges.memory
    }

    /// Brings memory online until the request is met or there is none left.
    #[cold]
    #[inline(never)]
    fn malloc_with_more(&self, size: usize, error: ObjectError) -> Result<NonNull<u8>, ObjectError> {
        let mut error = error;
        while matches!(error, ObjectError::Pages(_)) {
            let mut offline = self.offline.lock().unwrap_or_else(PoisonError::into_inner);
            // Somebody else may have brought some while we waited.
            match self.slab.kmalloc(size, Gfp::KERNEL) {
                Ok(object) => return Ok(object),
                Err(again) => error = again,
            }
            // SAFETY: gives nothing back, and keeps nothing.
            let pages = unsafe { self.slab.pages() };
            if offline.bring_online(pages).is_err() {
                // The last resort is a page for an object.
                self.slab.take_pages_without_slab();
                return self.slab.kmalloc(size, Gfp::KERNEL);
            }
        }
        Err(error)
    }
}

/// A heap through one way: C's malloc and free, in which nothing is decided.
#[derive(Debug)]
pub struct HeapFront<'h, C, W, P: Platform + 'static = Process> {
    heap: &'h Heap<C, P>,
    front: Front<'h, 'static, 'static, P, C, W>,
}

impl<C: CpuLocal, W: Way, P: Platform + 'static> HeapFront<'_, C, W, P> {
    /// Memory as C's malloc gives it: null if there is none, an address of its own for no bytes.
    #[inline(always)]
    pub fn malloc(self, size: usize) -> *mut u8 {
        match self.front.at_hand(size) {
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
        unsafe { self.front.free(object) }
    }

    /// All that comes after an empty hand, in one call at the end of `malloc`, which keeps nothing for it.
    #[cold]
    #[inline(never)]
    fn malloc_slow(self, size: usize) -> *mut u8 {
        // C wants an address of its own for no bytes, too.
        self.heap.malloc(size.max(1)).map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<C, W, P: Platform + 'static> Clone for HeapFront<'_, C, W, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, W, P: Platform + 'static> Copy for HeapFront<'_, C, W, P> {}

impl Ranges {
    fn reserve<P: Platform + 'static, C: CpuLocal>(engine: &Config<'_>) -> Result<Ranges, HeapError> {
        let pages = engine.end.raw();
        let reserve = |layout: Layout, count: usize| {
            let bytes = layout.size() * count;
            Reservation::new(bytes, layout.align()).map_err(|errno| HeapError::Reserve { bytes, errno })
        };
        let memory =
            Layout::from_size_align(pages as usize * PAGE_SIZE as usize, LARGEST_BLOCK).expect("16 TiB at most");
        Ok(Ranges {
            memory: reserve(memory, 1)?,
            allocator: reserve(Layout::new::<PageAllocator<'static, P>>(), 1)?,
            fixed: reserve(engine.metadata_layout::<P>(), 1)?,
            sections: reserve(engine.online_layout(&(engine.first..engine.end)), 1)?,
            slab: reserve(SlabAllocator::<P, C>::layout(pages, PAGE_SIZE, cpu_count(), engine.nodes), 1)?,
        })
    }
}

impl Offline {
    /// One section more, all of it free.
    ///
    /// # Errors
    /// If there is none.
    fn bring_online<P: Platform + 'static>(&mut self, pages: &PageAllocator<'static, P>) -> Result<(), HeapError> {
        let end = Pfn::new((self.next.raw() + STEP_PAGES).min(self.end.raw()));
        let range = Range { start: self.next, end, node: NodeId(0), kind: ZoneKind::Normal };
        let layout = pages.online_layout(&range);
        let metadata = core::mem::take(&mut self.metadata);
        let (mine, rest) = metadata.split_at_mut(layout.size().min(metadata.len()));
        self.metadata = rest;
        pages.online(&range, mine).map_err(HeapError::Online)?;
        self.next = end;
        pages.release(range.start, range.end).map_err(HeapError::Online)?;
        pages.set_up_watermarks(MinFree::BySize);
        Ok(())
    }
}

/// A number that nobody can guess, from the kernel; where it has none yet, or may not be asked, from where it has put
/// the heap.
fn seed(base: NonNull<u8>) -> u64 {
    let mut bytes = base.as_ptr().addr().to_ne_bytes();
    // A part of them may be there: what is not, stays as it is.
    let _filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}

/// Frames for so many bytes, in whole sections.
fn frames(bytes: usize) -> Result<u32, HeapError> {
    let sections = bytes.div_ceil(SECTION).max(1);
    let frames = u32::try_from(sections).ok().and_then(|sections| sections.checked_mul(STEP_PAGES));
    frames.ok_or(HeapError::Size { bytes })
}
