//! The allocator of a kernel, from what its machine can do to `Box::new`.
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
//! // SAFETY: the memory is there, at that distance, and nobody else's; what is in use of it is reserved.
//! unsafe { KERNEL.init(map, &boot) }?;
//! let mut page = KERNEL.alloc_pages(Gfp::KERNEL | Gfp::ZERO, Order::ZERO).expect("there is memory");
//! page.as_uninit()[0].write(1);
//! # Ok::<(), freehold::kernel::SetupError>(())
//! ```
//!
//! A kernel says what its machine can do ([`Cpu`]), and may promise something of its memory ([`Promises`]). The rest is
//! here:
//!
//! ```text
//! ram       a memory map in any order: which frames are usable
//! boot      metadata carved out of them; zones by address; what is left is free. Memory that comes later
//! calls     CPUs wait for each other's sections, and answer while they wait
//! lock      a spin lock that does so; section: a CPU to oneself for a few instructions
//! heap      Rust's allocator; `cache` objects of a type, `pages` blocks, `contig` ranges and CMA: each owned, freed by drop
//! stats     how much is free
//! ```
//!
//! Before [`Kernel::init`], and on a kernel that was never set up, requests fail with [`Error::NotSetUp`], and the heap
//! gives null. A `Kernel` that is not the one of [`Cpu::kernel`] cannot be set up. What may be called where is said in
//! [`rules`].
//!
//! # Frees that are wrong
//!
//! A free of an object is refused if it is noticed to be wrong; nothing is changed then. [`Promises::slab_error`] hears
//! of each refusal, in debug and release builds, whether [`Kernel::kfree`], [`Heap`] or a cache of
//! [`SlabOf`] refused it. Handles ([`Pages`], [`Contig`], [`CmaPages`], [`Object`]) cannot be freed twice.
//!
//! The default build notices what costs nothing to notice. The checks of `slab_debug=F`
//! ([`CacheFlags::SANITY`](crate::slab::CacheFlags::SANITY)) notice more: [`Cpu::SLAB_DEBUG`] has them in the program,
//! some 9 KiB of code, and [`Boot::slab_debug`] turns them on. Of 1000 frees each, under the default policy, from
//! `cargo run --profile dist -p freehold --example wrong_frees`:
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
//! An object that was requested again between its two frees belongs to its new owner. No check notices that its old
//! owner frees it.
//!
//! The price of the checks, from the same program on a shared host (the least of 400 rounds):
//!
//! | `slab_debug` | an object of 256 bytes and back | memory for an object of 256 bytes |
//! |---|---|---|
//! | none | 3 ns | 275 bytes |
//! | `F` (sanity) | 1.8 µs | 524 bytes |
//! | `FZ` (and red zones) | 2.5 µs | 786 bytes |
//! | `FZPU` (and poison, and the last users) | 2.7 µs | 786 bytes |

mod boot;
mod cache;
mod calls;
mod contig;
mod cpu;
mod error;
mod heap;
mod lock;
mod pages;
mod platform;
mod ram;
mod reclaim;
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
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicPtr, AtomicU8};

use boot::{DirectMap, ZoneLimits};
use calls::Part;
use reclaim::ReclaimScope;

use crate::base::{CpuId, Gfp, Order};
use crate::page::PageAllocator;
use crate::platform::FreePages;
use crate::platform::report::SlabBug;
use crate::slab::{ObjectFreeError, SlabAllocator};

/// The page allocator of a kernel.
pub type PagesOf<H> = PageAllocator<'static, KernelPlatform<H>>;
/// The slab of a kernel.
pub type SlabOf<H> = SlabAllocator<'static, 'static, KernelPlatform<H>, IrqsOff<H>>;

/// Nobody has set it up.
const FRESH: u8 = 0;
/// Some CPU is at it.
const BEGUN: u8 = 1;
/// It can be used.
const READY: u8 = 2;

/// A kernel's allocator: a static, empty until [`init`](Self::init).
///
/// All methods may be called from any CPU at once.
pub struct Kernel<H: Cpu> {
    state: AtomicU8,
    /// Where the parts of its CPUs begin.
    parts: AtomicPtr<Part>,
    /// Written by whoever has begun, read by all once it is ready.
    engine: UnsafeCell<MaybeUninit<Engine<H>>>,
}

/// What a kernel is once it is set up.
struct Engine<H: Cpu> {
    pages: PagesOf<H>,
    /// Written where there are numbers for caches.
    slab: MaybeUninit<SlabOf<H>>,
    memory: DirectMap,
    zones: ZoneLimits,
}

// SAFETY: only the CPU that has moved the state from fresh to begun writes the engine, and others read it once the
// state is ready. An engine may be used from any CPU: its locks exclude CPUs.
unsafe impl<H: Cpu> Sync for Kernel<H> {}

impl<H: Cpu> fmt::Debug for Kernel<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A type that says nothing of its own, whatever its hardware can say.
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

/// Takes back the pages that a callback frees, and counts them for the engine.
///
/// Pages are freed by value: a block can be freed by its owner only, and once. A kernel that keeps its pages by number
/// first makes a [`Pages`] of them ([`Pages::from_raw`]).
pub struct PageSink<'a, H: Cpu> {
    pages: &'a dyn FreePages,
    hardware: PhantomData<fn() -> H>,
}

impl<'a, H: Cpu> PageSink<'a, H> {
    pub(super) fn new(pages: &'a dyn FreePages) -> PageSink<'a, H> {
        PageSink { pages, hardware: PhantomData }
    }

    /// Frees a block. Pages that are dropped inside a callback are free as well, but do not count as its work.
    pub fn free(&self, pages: Pages<H>) {
        let pages = ManuallyDrop::new(pages);
        self.pages.free_pages(pages.pfn(), pages.order());
    }

    /// Whether the zones for which kswapd reclaims have enough by now, and some to spare; always `false` in a request's
    /// own reclaim. linux: mm/vmscan.c:should_abort_scan
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
    /// One that is not set up.
    pub const fn new() -> Kernel<H> {
        Kernel {
            state: AtomicU8::new(FRESH),
            parts: AtomicPtr::new(null_mut()),
            engine: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The engine, once it is set up.
    #[inline(always)]
    fn engine(&'static self) -> Option<&'static Engine<H>> {
        // SAFETY: it was written before the state was, and nobody writes it any more.
        (self.state.load(Acquire) == READY).then(|| unsafe { (*self.engine.get()).assume_init_ref() })
    }

    fn ready(&'static self) -> Result<&'static Engine<H>, Error> {
        self.engine().ok_or(Error::NotSetUp)
    }

    /// The part of a CPU below [`Cpu::CPUS`], once there is one.
    #[inline(always)]
    fn part(&self, cpu: CpuId) -> Option<&'static Part> {
        let parts = NonNull::new(self.parts.load(Acquire))?;
        debug_assert!(cpu.0 < H::CPUS);
        // SAFETY: they were carved for as many CPUs, for ever, before the pointer was stored.
        Some(unsafe { parts.add(cpu.index()).as_ref() })
    }

    /// The same where the engine is in use, so that there is one.
    #[inline(always)]
    fn expect_part(&self, cpu: CpuId) -> &'static Part {
        self.part(cpu).expect("`Cpu::kernel` is the kernel whose allocator is used")
    }

    /// The page allocator, for all that a kernel has no word of its own for; nothing before [`init`](Self::init).
    ///
    /// # Safety
    /// Through it the caller gives back only what it got from it, and releases only frames that are not in use. A block
    /// that it requests with [`Gfp::MOVABLE`] has no handle that pins it, so [`Promises::migrate`] decides where the
    /// block is.
    pub unsafe fn pages(&'static self) -> Option<&'static PagesOf<H>> {
        self.engine().map(|engine| &engine.pages)
    }

    /// The slab, likewise; nothing where [`Cpu::CACHES`] is 0.
    pub fn slab(&'static self) -> Option<&'static SlabOf<H>> {
        self.engine().and_then(Engine::slab)
    }

    /// A block of pages, which frees itself: near this CPU, from the zones that the flags allow ([`Gfp::DMA`],
    /// [`Gfp::DMA32`]), all zeros with [`Gfp::ZERO`]. Costs what
    /// [`PageAllocator::alloc_pages`](crate::page::PageAllocator::alloc_pages) does. Where that finds nothing, and the
    /// flags allow reclaim, idle objects are given back once.
    ///
    /// The block does not move while the handle exists, even with [`Gfp::MOVABLE`]: see [`Pages`].
    ///
    /// # Errors
    /// [`Error::Pages`] if there is no such block, or the flags contradict each other.
    #[inline]
    pub fn alloc_pages(&'static self, gfp: Gfp, order: Order) -> Result<Pages<H>, Error> {
        let engine = self.ready()?;
        let at_first = engine.pages.alloc_pinned_pages(gfp, order);
        let pfn =
            at_first.or_else(|error| engine.again(gfp, error, &|| engine.pages.alloc_pinned_pages(gfp, order)))?;
        let mut pages = Pages::new(pfn, order);
        if gfp.contains(Gfp::ZERO) {
            pages.as_uninit().fill(MaybeUninit::new(0));
        }
        Ok(pages)
    }

    /// Memory by size: [`SlabAllocator::kmalloc`] says how it is aligned. With [`Gfp::DMA`] or [`Gfp::DMA32`] it is
    /// whole pages of such a zone.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no memory, or no block of pages is that large; [`Error::NoCaches`] where
    /// [`Cpu::CACHES`] is 0.
    #[inline]
    #[track_caller]
    pub fn kmalloc(&'static self, size: usize, gfp: Gfp) -> Result<NonNull<u8>, Error> {
        let engine = self.ready()?;
        let slab = engine.slab().ok_or(Error::NoCaches)?;
        let object = slab.kmalloc(size, gfp);
        Ok(object.or_else(|error| engine.again(gfp, error, &|| slab.kmalloc(size, gfp)))?)
    }

    /// Gives back what [`kmalloc`](Self::kmalloc) gave.
    ///
    /// # Errors
    /// If it is not where an object or a block begins, or is noticed to be free; nothing is changed then, and
    /// [`Promises::slab_error`] has heard of it.
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
        // SAFETY: the caller promises the same of the object.
        unsafe { slab.kfree(object) }
    }

    /// Where a physical address is mapped: [`Boot::direct_map`] from it. Null before [`init`](Self::init).
    pub fn phys_to_virt(&'static self, physical: u64) -> *mut u8 {
        self.engine().map_or(null_mut(), |engine| engine.memory.to_virt(physical))
    }

    /// The physical address of what is mapped there; 0 before [`init`](Self::init).
    pub fn virt_to_phys(&'static self, address: *const u8) -> u64 {
        self.engine().map_or(0, |engine| engine.memory.to_phys(address))
    }

    /// Gives back what lies idle: slabs without objects in use, what CPUs have of them, and CPUs' page lists. Waits for
    /// every CPU's sections, a fence for each cache and CPU.
    pub fn shrink(&'static self) {
        if let Some(engine) = self.engine() {
            engine.shrink();
        }
    }

    /// Takes its pages and objects from a CPU that does not run any more. When it runs again, it says so by
    /// [`cpu_online`](Self::cpu_online).
    ///
    /// # Panics
    /// If there is no such CPU.
    ///
    /// # Safety
    /// It does not run, and does not use the allocator again before [`cpu_online`](Self::cpu_online).
    pub unsafe fn cpu_dead(&'static self, cpu: CpuId) {
        let Some(engine) = self.engine() else { return };
        engine.pages.expect_cpu(cpu);
        self.expect_part(cpu).go_down();
        engine.slab().inspect(|slab| slab.cpu_dead(cpu));
        engine.pages.cpu_dead(cpu);
    }

    /// Lets a CPU that runs again keep objects. A CPU that comes up for the first time need not say so.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn cpu_online(&'static self, cpu: CpuId) {
        if let Some(engine) = self.engine() {
            engine.slab().inspect(|slab| slab.cpu_online(cpu));
            engine.pages.cpu_online(cpu);
        }
    }
}

impl<H: Cpu> Engine<H> {
    /// Where there is none, no code of it is in the program.
    #[inline(always)]
    fn slab(&self) -> Option<&SlabOf<H>> {
        // SAFETY: an engine is only seen once it is set up, and then its slab is, where there are numbers for caches.
        (H::CACHES > 0).then(|| unsafe { self.slab.assume_init_ref() })
    }

    /// Asks once more after idle objects have been given back, if the flags allow that and the caller is in no callback
    /// that reclaims; otherwise returns the error. With interrupts off no CPU is waited for: it may be waiting for this
    /// one, in a way that the engine does not know.
    #[cold]
    #[inline(never)]
    fn again<T, E>(&self, gfp: Gfp, error: E, ask: &dyn Fn() -> Result<T, E>) -> Result<T, E> {
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || ReclaimScope::<H>::is_entered() {
            return Err(error);
        }
        if H::CPUS > 1 && H::irqs_disabled() == Some(true) {
            self.slab().inspect(|slab| slab.shrink_nodes());
            self.pages.drain_all_pages();
        } else {
            self.shrink();
        }
        ask()
    }

    #[cold]
    #[inline(never)]
    fn shrink(&self) {
        self.slab().inspect(|slab| slab.shrink());
        self.pages.drain_all_pages();
    }
}
