//! The allocator of a kernel: from the hardware interface up to `Box::new`.
//!
//! ```
//! # extern crate std;
//! use freehold::base::{Gfp, Order};
//! use freehold::kernel::{Boot, Cpu, Heap, Kernel, Promises, Region};
//!
//! struct Hw;
//! // SAFETY: there is one CPU, and no interrupt.
//! unsafe impl Cpu for Hw {
//!     const CPUS: u16 = 1;
//!     fn kernel() -> &'static Kernel<Hw> { &KERNEL }
//!     fn id() -> u16 { 0 }
//!     fn irq_save() -> usize { 0 }
//!     fn irq_restore(_: usize) {}
//!     fn call(_: u16) {}
//! }
//! impl Promises for Hw {}
//! static KERNEL: Kernel<Hw> = Kernel::new();
//! static HEAP: Heap<Hw> = Heap::new(); // #[global_allocator], in a kernel
//!
//! # let memory = std::alloc::Layout::from_size_align(32 << 20, 4 << 20).unwrap();
//! # let memory = unsafe { std::alloc::alloc(memory) } as usize;
//! let map = [Region::usable(0, 32 << 20), Region::reserved(0xa_0000, 0x6_0000)];
//! let boot = Boot { direct_map: memory, reserved: &[0x10_0000..0x18_0000], ..Boot::default() };
//! // SAFETY: the memory is mapped at that offset and has no other user; the part in use is reserved.
//! unsafe { KERNEL.init(map, &boot) }?;
//! let mut page = KERNEL.alloc_pages(Gfp::KERNEL | Gfp::ZERO, Order::ZERO).expect("there is memory");
//! page.as_uninit()[0].write(1);
//! # Ok::<(), freehold::kernel::SetupError>(())
//! ```
//!
//! A kernel implements two traits: [`Cpu`] describes its machine, and [`Promises`] holds optional callbacks for memory
//! that it can give up or move. This module supplies the rest. Its parts, in the order in which they depend on each
//! other:
//!
//! ```text
//! ram       a memory map in any order: which frames are usable
//! boot      carves the metadata, brings frames online zone by zone, releases the free ones
//! hotplug   adds memory later
//! calls     cross-CPU calls: a CPU waits for another's sections, and answers calls while it waits
//! lock      a spin lock that answers calls while it spins; `section`: a few instructions that nothing interrupts
//! heap      Rust's global allocator; `cache` objects, `pages` blocks, `contig` ranges and CMA: owned, freed on drop
//! stats     numbers of managed, free and cached pages
//! ```
//!
//! Before [`Kernel::init`] has succeeded, requests fail with [`Error::NotSetUp`] and the heap returns null. Only the
//! `Kernel` that [`Cpu::kernel`] returns can be set up. [`rules`] lists which functions may be called in which context.
//!
//! # Invalid frees
//!
//! A free that is detected as invalid is refused and changes nothing. [`Promises::slab_error`] receives a report of
//! each refusal, in debug and release builds, for [`Kernel::kfree`], [`Heap`] and the caches of [`SlabOf`]. The handles
//! [`Pages`], [`Contig`], [`CmaPages`] and [`Object`] cannot be freed twice.
//!
//! By default the slab makes only the checks that have no cost. The checks of `slab_debug=F`
//! ([`CacheFlags::SANITY`](crate::slab::CacheFlags::SANITY)) detect more. [`Cpu::SLAB_DEBUG`] compiles them in, which
//! adds about 9 KiB of code, and [`Boot::slab_debug`] enables them. The table shows 1000 frees of each kind under the
//! default policy, printed by `cargo run --profile dist -p freehold --example wrong_frees`:
//!
//! | a free of | by default | with `slab_debug=F` |
//! |---|---|---|
//! | an address outside of the slab | 1000 refused | 1000 refused |
//! | an address inside an object, or with a wrong alignment | 1000 refused | 1000 refused |
//! | an object twice in a row, on one CPU | 1000 refused | 1000 refused |
//! | an object twice, another between; the CPU's objects go back to their slabs before they are requested again | accepted, 1000 reported then | 1000 refused |
//! | an object twice, another between | **accepted: 1000 objects were given to two owners** | 1000 refused |
//! | an object smaller than a 64th of a page twice, another between | **accepted: 1000 objects were given to two owners** | 1000 refused |
//!
//! An object that was allocated again between its two frees belongs to its new owner. No check detects the second free
//! by the old owner.
//!
//! The cost of the checks, from the same program on a shared host (minimum of 400 rounds):
//!
//! | `slab_debug` | an object of 256 bytes and back | memory for an object of 256 bytes |
//! |---|---|---|
//! | none | 3 ns | 275 bytes |
//! | `F` (sanity) | 1.8 µs | 524 bytes |
//! | `FZ` (and red zones) | 2.5 µs | 786 bytes |
//! | `FZPU` (and poison, and the last users) | 2.7 µs | 786 bytes |
//!
//! # Design
//!
//! A kernel implements five functions of [`Cpu`]: the number of the running CPU, interrupts off, interrupts restored,
//! an interrupt to another CPU, and the place of the allocator. The last one is a function of the trait because a lock
//! is created without a reference to its kernel, and it must answer calls while it spins. Locks, sections, the heap and
//! the handles therefore find their kernel through their type, and none of them stores a pointer to it.

mod boot;
mod cache;
mod calls;
mod contig;
mod cpu;
mod error;
mod heap;
mod hotplug;
mod lock;
mod pages;
mod platform;
mod ram;
mod reclaim;
mod retry;
pub mod rules;
mod section;
mod stats;

pub use boot::Boot;
pub use cache::{Cache, Object};
pub use contig::{Cma, CmaPages, Contig};
pub use cpu::{Cpu, Promises};
pub use error::{Error, SetupError};
pub use heap::Heap;
pub use lock::SpinLock;
pub use pages::Pages;
pub use platform::KernelPlatform;
pub use ram::{Region, RegionKind};
pub use section::{IrqsOff, Section};
pub use stats::Stats;

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8};

use boot::{DirectMap, ZoneLimits};
use calls::Part;

use crate::base::{CpuId, Gfp, Order, Pfn};
use crate::page::PageAllocator;
use crate::platform::FreePages;
use crate::platform::report::SlabBug;
use crate::slab::{ObjectFreeError, SlabAllocator};

/// Page allocator of a kernel.
pub type PagesOf<H> = PageAllocator<'static, KernelPlatform<H>>;
/// Slab allocator of a kernel.
pub type SlabOf<H> = SlabAllocator<'static, 'static, KernelPlatform<H>, IrqsOff<H>>;

/// State before [`Kernel::init`].
const FRESH: u8 = 0;
/// State while a CPU runs [`Kernel::init`].
const BEGUN: u8 = 1;
/// State after [`Kernel::init`] has succeeded.
const READY: u8 = 2;

/// A kernel's allocator: a static that is empty until [`init`](Self::init).
///
/// All methods except [`init`](Self::init) may be called from any CPU concurrently.
pub struct Kernel<H: Cpu> {
    state: AtomicU8,
    /// Array of the CPUs' parts; null before it is carved.
    parts: AtomicPtr<Part>,
    /// Whether callbacks have found memory; debug builds only ([`Heap`] reads it).
    callbacks_worked: CallbacksWorked,
    /// Written by the CPU that moved the state to `BEGUN`; read by all CPUs once the state is `READY`.
    engine: UnsafeCell<MaybeUninit<Engine<H>>>,
}

/// Callers for which callbacks have found memory.
struct CallbacksWorked {
    with_irqs_on: AtomicBool,
    with_irqs_off: AtomicBool,
}

/// Contents of a kernel's allocator after set-up.
struct Engine<H: Cpu> {
    pages: PagesOf<H>,
    /// Initialized if [`Cpu::CACHES`] is not 0.
    slab: MaybeUninit<SlabOf<H>>,
    memory: DirectMap,
    zones: ZoneLimits,
    /// Frames that may be online now or later: from the lowest one at boot up to the end of memory or, if that is
    /// higher, [`Boot::end_max`].
    span: Range<Pfn>,
}

// SAFETY: only the CPU that moved the state from `FRESH` to `BEGUN` writes the engine, and other CPUs read it only
// after they have loaded `READY` with Acquire. A shared engine may be used from any CPU, because its locks exclude the
// others.
unsafe impl<H: Cpu> Sync for Kernel<H> {}

impl<H: Cpu> fmt::Debug for Kernel<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Implements `Debug` for types that print only their name, whether or not the hardware type implements it.
macro_rules! debug_by_name {
    ($($name:ident)*) => { $(
        impl<H: Cpu> fmt::Debug for $name<H> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )* };
}
debug_by_name!(Heap IrqsOff KernelPlatform Section);

/// Frees the pages that a callback gives up, and counts them for the engine.
///
/// Pages are freed by value, so only a block's owner can free it, and only once. A kernel that keeps its pages by frame
/// number first turns them into [`Pages`] with [`Pages::from_raw`].
pub struct PageSink<'a, H: Cpu> {
    pages: &'a dyn FreePages,
    hardware: PhantomData<fn() -> H>,
}

impl<'a, H: Cpu> PageSink<'a, H> {
    pub(super) fn new(pages: &'a dyn FreePages) -> PageSink<'a, H> {
        PageSink { pages, hardware: PhantomData }
    }

    /// Frees a block and counts it. Pages that are dropped inside a callback are freed as well but are not counted as
    /// its work.
    pub fn free(&self, pages: Pages<H>) {
        let pages = ManuallyDrop::new(pages);
        self.pages.free_pages(pages.pfn(), pages.order());
    }

    /// Returns whether the zones for which kswapd reclaims have enough free pages plus a margin. Always `false` if a
    /// request reclaims, or if kswapd reclaims for a block above order 0. linux: mm/vmscan.c:should_abort_scan
    pub fn has_enough(&self) -> bool {
        self.pages.has_enough()
    }
}

impl<H: Cpu> fmt::Debug for PageSink<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageSink")
    }
}

impl<H: Cpu> Default for Kernel<H> {
    fn default() -> Kernel<H> {
        Kernel::new()
    }
}

impl<H: Cpu> Kernel<H> {
    /// Creates a kernel allocator that is not set up.
    pub const fn new() -> Kernel<H> {
        Kernel {
            state: AtomicU8::new(FRESH),
            parts: AtomicPtr::new(null_mut()),
            callbacks_worked: CallbacksWorked {
                with_irqs_on: AtomicBool::new(false),
                with_irqs_off: AtomicBool::new(false),
            },
            engine: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns the engine, or `None` before it is set up.
    #[inline(always)]
    fn engine(&'static self) -> Option<&'static Engine<H>> {
        // SAFETY: the engine was written before `READY` was stored with Release, and nothing writes it after that.
        (self.state.load(Acquire) == READY).then(|| unsafe { (*self.engine.get()).assume_init_ref() })
    }

    fn ready(&'static self) -> Result<&'static Engine<H>, Error> {
        self.engine().ok_or(Error::NotSetUp)
    }

    /// Returns the part of a CPU below [`Cpu::CPUS`], or `None` before the parts are carved.
    #[inline(always)]
    fn part(&self, cpu: CpuId) -> Option<&'static Part> {
        let parts = NonNull::new(self.parts.load(Acquire))?;
        debug_assert!(cpu.0 < H::CPUS);
        // SAFETY: before the pointer was stored, an array of `H::CPUS` parts was carved there that lives forever, and
        // the CPU's number is below `H::CPUS`.
        Some(unsafe { parts.add(cpu.index()).as_ref() })
    }

    /// Returns the part of a CPU for callers that run only once the engine exists.
    #[inline(always)]
    fn expect_part(&self, cpu: CpuId) -> &'static Part {
        self.part(cpu).expect("the allocator is not set up, or `Cpu::kernel` does not return the one that is")
    }

    /// Returns the page allocator, for operations that this type does not offer, or `None` before [`init`](Self::init).
    ///
    /// # Safety
    /// The caller frees through it only what it allocated through it, does not unpin a block that has a handle, and
    /// releases only frames that are not in use. A
    /// block that the caller requests with [`Gfp::MOVABLE`] has no handle that pins it, so [`Promises::migrate`]
    /// decides where the block is.
    pub unsafe fn pages(&'static self) -> Option<&'static PagesOf<H>> {
        self.engine().map(|engine| &engine.pages)
    }

    /// Returns the slab allocator, or `None` before [`init`](Self::init) or if [`Cpu::CACHES`] is 0.
    pub fn slab(&'static self) -> Option<&'static SlabOf<H>> {
        self.engine().and_then(Engine::slab)
    }

    /// Allocates a block of pages that is freed on drop. The block comes from the nearest zones that the flags allow
    /// ([`Gfp::DMA`], [`Gfp::DMA32`]) and is zeroed with [`Gfp::ZERO`]. Costs as much as
    /// [`PageAllocator::alloc_pages`](crate::page::PageAllocator::alloc_pages). If no block is found and the flags
    /// allow reclaim, idle objects are freed and the request is repeated once.
    ///
    /// The block does not move while the handle exists, even with [`Gfp::MOVABLE`]; see [`Pages`].
    ///
    /// # Errors
    /// [`Error::Pages`] if no such block is free, or if the flags contradict each other.
    #[inline]
    pub fn alloc_pages(&'static self, gfp: Gfp, order: Order) -> Result<Pages<H>, Error> {
        let engine = self.ready()?;
        let at_first = engine.pages.alloc_pinned_pages(gfp, order);
        let pfn = at_first.or_else(|error| engine.alloc_pages_again(gfp, order, error))?;
        let mut pages = Pages::new(pfn, order);
        if gfp.contains(Gfp::ZERO) {
            pages.as_uninit().fill(MaybeUninit::new(0));
        }
        Ok(pages)
    }

    /// Allocates memory by size, aligned as [`SlabAllocator::kmalloc`] documents. With [`Gfp::DMA`] or [`Gfp::DMA32`]
    /// the memory is a block of whole pages from that zone.
    ///
    /// # Errors
    /// [`Error::Object`] if memory is exhausted or the size exceeds the largest block of pages; [`Error::NoCaches`] if
    /// [`Cpu::CACHES`] is 0.
    #[inline]
    #[track_caller]
    pub fn kmalloc(&'static self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, Error> {
        let engine = self.ready()?;
        let slab = engine.slab().ok_or(Error::NoCaches)?;
        match slab.kmalloc(size, gfp) {
            Ok(object) => Ok(object),
            Err(error) => Ok(engine.kmalloc_again(size, gfp, error)?),
        }
    }

    /// Frees memory that [`kmalloc`](Self::kmalloc) returned.
    ///
    /// # Errors
    /// If the address is not the start of an object or block, or if the object is detected as free or, with
    /// [`Cpu::SLAB_DEBUG`], as damaged. Nothing is freed then, and [`Promises::slab_error`] has received a report.
    ///
    /// # Safety
    /// As for [`SlabAllocator::kfree`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn kfree(&'static self, object: NonNull<u8>) -> Result<(), ObjectFreeError> {
        let Some(slab) = self.slab() else {
            heap::report_refused::<H>(SlabBug::Foreign, object.as_ptr());
            return Err(ObjectFreeError::Foreign { address: object.as_ptr().addr() as u64 });
        };
        // SAFETY: this function's safety contract is that of `SlabAllocator::kfree`.
        unsafe { slab.kfree(object) }
    }

    /// Returns the virtual address of a physical one, which is [`Boot::direct_map`] higher. `None` before
    /// [`init`](Self::init), and for an address outside of the memory that is online.
    pub fn phys_to_virt(&'static self, physical: u64) -> Option<NonNull<u8>> {
        let engine = self.engine().filter(|engine| engine.has_memory_at(physical))?;
        NonNull::new(engine.memory.to_virt(physical))
    }

    /// Returns the physical address that is mapped at a virtual one. `None` before [`init`](Self::init), and for an
    /// address outside of the direct map of the memory that is online.
    pub fn virt_to_phys(&'static self, address: *const u8) -> Option<u64> {
        let engine = self.engine()?;
        Some(engine.memory.to_phys(address)).filter(|&physical| engine.has_memory_at(physical))
    }

    /// Frees idle memory: slabs without objects in use, objects that CPUs cache, and the CPUs' page lists. Waits for
    /// the sections of the CPUs: each cache costs what [`KmemCache::shrink`](crate::slab::KmemCache::shrink) costs,
    /// under the default policy one fence for each CPU that has a main sheaf. Does nothing before [`init`](Self::init).
    pub fn shrink(&'static self) {
        if let Some(engine) = self.engine() {
            engine.shrink();
        }
    }

    /// Takes the pages and objects that a CPU caches away from it, after the CPU has stopped. When the CPU runs again,
    /// the kernel calls [`cpu_online`](Self::cpu_online).
    ///
    /// # Panics
    /// If no such CPU exists.
    ///
    /// # Safety
    /// The CPU does not run, and does not use the allocator again before [`cpu_online`](Self::cpu_online).
    pub unsafe fn cpu_dead(&'static self, cpu: CpuId) {
        let Some(engine) = self.engine() else { return };
        engine.pages.expect_cpu(cpu);
        self.expect_part(cpu).go_down();
        engine.slab().inspect(|slab| slab.cpu_dead(cpu));
        engine.pages.cpu_dead(cpu);
    }

    /// Lets a CPU that runs again cache objects and pages. Not needed when a CPU starts for the first time.
    ///
    /// # Panics
    /// If no such CPU exists.
    pub fn cpu_online(&'static self, cpu: CpuId) {
        if let Some(engine) = self.engine() {
            engine.slab().inspect(|slab| slab.cpu_online(cpu));
            engine.pages.cpu_online(cpu);
        }
    }
}

impl<H: Cpu> Engine<H> {
    /// Returns the slab allocator, or `None` if `H::CACHES` is 0. In this case the compiler removes all code for it.
    #[inline(always)]
    fn slab(&self) -> Option<&SlabOf<H>> {
        // SAFETY: a reference to an engine exists only after set-up, and set-up writes the slab if `H::CACHES` is not
        // 0.
        (H::CACHES > 0).then(|| unsafe { self.slab.assume_init_ref() })
    }

    #[cold]
    #[inline(never)]
    fn shrink(&self) {
        self.slab().inspect(|slab| slab.shrink());
        self.pages.drain_all_pages();
    }
}
