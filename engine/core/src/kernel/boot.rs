//! Hands a kernel's memory to its allocator at boot. The steps, in order:
//!
//! ```text
//! map       reads the map as pieces of usable frames, without frame 0
//! carve     cuts all metadata in one step from the end of the largest free piece
//! online    brings every piece of memory online zone by zone, reserved or not
//! release   frees the frames that are neither reserved nor metadata; the others stay Reserved until they are released
//! ```
//!
//! Metadata takes about 45 bytes per frame, 1.1 % of 4 KiB pages: 12 of the page allocator and 33 of the slab. It is
//! paid for sections of 128 MiB that have memory, and not for holes between them. Under `slab.objects=bitmap` the
//! slab's part is paid in holes too.
//!
//! linux: mm/mm_init.c, mm/memblock.c

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::calls::Part;
use super::pages::{largest_block, physical};
use super::ram::{Exclusions, MemoryMap, Region};
use super::{BEGUN, Cpu, FRESH, IrqsOff, Kernel, KernelPlatform, PagesOf, READY, SetupError, SlabOf};
use crate::base::carve::Carver;
use crate::base::memmap::Geometry;
use crate::base::{NodeId, Pfn, ZoneKind};
use crate::page::{self, Config, MinFree, PageAllocator};
use crate::slab::{CacheFlags, Memory, SlabAllocator, has_sections, layout_of_sections};

/// A kernel's boot parameters besides its memory map.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// Offset from a physical address to the virtual address where it is mapped; 0 for an identity mapping. A multiple
    /// of the largest block, 4 MiB with pages of 4 KiB.
    pub direct_map: usize,
    /// Ranges of memory in use, in bytes: the kernel image, its boot stack, the memory map. They stay Reserved.
    pub reserved: &'a [Range<u64>],
    /// End address of memory that may be [added](Kernel::add_memory) later, in bytes; 0 for none. Each section of 128
    /// MiB between the first usable frame and this address costs 32 bytes at boot, or 24 without a slab. The rest of
    /// the metadata is placed in the memory itself when it is added. Under `slab.objects=bitmap` the slab has its
    /// metadata from the start: 33 bytes for each 4 KiB up to this address.
    pub end_max: u64,
    /// End address of zone DMA, by default 16 MiB; a multiple of 4 MiB.
    pub dma_end: u64,
    /// End address of zone DMA32, by default 4 GiB; a multiple of 4 MiB. The zone is empty if this is not above
    /// `dma_end`.
    pub dma32_end: u64,
    /// Number from which the secrets in free objects are derived; it should be hard to guess.
    pub seed: u64,
    /// Checks that every cache makes; other than empty only with [`Cpu::SLAB_DEBUG`]. linux: slab_debug=
    pub slab_debug: CacheFlags,
}

impl Default for Boot<'_> {
    /// Parameters for an identity mapping, nothing reserved, and the zones of a PC.
    fn default() -> Self {
        Boot {
            direct_map: 0,
            reserved: &[],
            end_max: 0,
            dma_end: 16 << 20,
            dma32_end: 4 << 30,
            seed: 0,
            slab_debug: CacheFlags::empty(),
        }
    }
}

/// Mapping of physical memory at a constant offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectMap {
    offset: usize,
    page_size: u32,
}

impl DirectMap {
    /// Returns the virtual address of a frame. It is never null, because frame 0 is never used.
    pub(super) fn address(self, pfn: Pfn) -> NonNull<u8> {
        let address = self.to_virt(u64::from(pfn.raw()) * u64::from(self.page_size));
        NonNull::new(address).expect("only frame 0 may be mapped at address 0")
    }

    /// Returns whether memory that is aligned physically is aligned to `align` bytes at its virtual address as well.
    pub(super) fn keeps_alignment(self, align: usize) -> bool {
        self.offset.is_multiple_of(align)
    }

    /// Returns the virtual address of a physical one.
    pub(super) fn to_virt(self, physical: u64) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut((physical as usize).wrapping_add(self.offset))
    }

    /// Returns the physical address that is mapped at a virtual one.
    pub(super) fn to_phys(self, address: *const u8) -> u64 {
        address.addr().wrapping_sub(self.offset) as u64
    }

    /// Returns the frame that is mapped at a virtual address; `None` if no frame with a valid number begins there.
    pub(super) fn pfn(self, address: *const u8) -> Option<Pfn> {
        let (physical, page_size) = (self.to_phys(address), u64::from(self.page_size));
        if physical.is_multiple_of(page_size) { Pfn::from_u64(physical / page_size) } else { None }
    }

    /// Returns `len` bytes from the start of a frame.
    ///
    /// # Safety
    /// The bytes are mapped, and nothing else accesses them during `'a`.
    pub(super) unsafe fn bytes<'a>(self, pfn: Pfn, len: usize) -> &'a mut [MaybeUninit<u8>] {
        // SAFETY: the caller promises that the bytes are mapped and exclusive to it, and `MaybeUninit<u8>` admits any
        // contents.
        unsafe { core::slice::from_raw_parts_mut(self.address(pfn).as_ptr().cast(), len) }
    }
}

/// End frames of zones DMA and DMA32, which decide a frame's zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneLimits {
    ends: [Pfn; 2],
}

impl ZoneLimits {
    fn new(boot: &Boot<'_>, page_size: u32) -> ZoneLimits {
        let ends = [boot.dma_end, boot.dma32_end.max(boot.dma_end)];
        ZoneLimits { ends: ends.map(|end| frame_at(end, page_size).unwrap_or(Pfn::END_MAX)) }
    }

    /// Cuts a range of frames at the zones' limits, from the lowest frame up.
    pub(super) fn cut(self, frames: Range<Pfn>) -> impl Iterator<Item = page::Range> {
        let (mut start, last) = (frames.start, frames.end.min(Pfn::END_MAX));
        core::iter::from_fn(move || {
            let (kind, zone_end) = self.zone_at(start);
            let part = page::Range { start, end: zone_end.min(last), node: NodeId(0), kind };
            start = part.end;
            (part.start < part.end).then_some(part)
        })
    }

    /// Returns the kind and the end of the zone that a frame belongs to.
    fn zone_at(self, pfn: Pfn) -> (ZoneKind, Pfn) {
        match self.ends {
            [dma, _] if pfn < dma => (ZoneKind::Dma, dma),
            [_, dma32] if pfn < dma32 => (ZoneKind::Dma32, dma32),
            _ => (ZoneKind::Normal, Pfn::END_MAX),
        }
    }
}

/// Memory for metadata, consumed from its start.
pub(super) struct Metadata {
    pub(super) rest: &'static mut [MaybeUninit<u8>],
}

impl Metadata {
    /// Cuts off a piece of this layout, after padding for its alignment.
    pub(super) fn cut(&mut self, layout: Layout) -> &'static mut [MaybeUninit<u8>] {
        let memory = core::mem::take(&mut self.rest);
        let skip = memory.as_ptr().align_offset(layout.align());
        let (mine, rest) = memory[skip..].split_at_mut(layout.size());
        self.rest = rest;
        mine
    }
}

/// Plan of the boot: the memory map in frames, the limits of the zones, the free piece from which the metadata is cut,
/// and the first frame and the end of memory.
struct Plan<'a, I> {
    map: MemoryMap<I>,
    boot: &'a Boot<'a>,
    zones: ZoneLimits,
    /// Largest free piece, which the metadata is cut from.
    largest: Range<Pfn>,
    /// Lowest frame that the map calls usable. `end` is the end of all memory, including what may be added later.
    first: Pfn,
    end: Pfn,
}

impl<'a, I: Iterator<Item = Region> + Clone> Plan<'a, I> {
    fn new(regions: I, boot: &'a Boot<'a>, page_size: u32) -> Result<Plan<'a, I>, SetupError> {
        let map = MemoryMap::new(regions, page_size);
        if let Some(Region { start, end, .. }) = map.backwards() {
            return Err(SetupError::Backwards { start, end });
        }
        if let Some(&Range { start, end }) = boot.reserved.iter().find(|range| range.start > range.end) {
            return Err(SetupError::Backwards { start, end });
        }
        let largest = map
            .pieces(Exclusions { reserved: boot.reserved, ..Exclusions::default() })
            .max_by_key(pages)
            .ok_or(SetupError::NoMemory)?;
        let (mut first, mut last) = (largest.start, largest.end);
        for piece in map.pieces(Exclusions::default()) {
            (first, last) = (first.min(piece.start), last.max(piece.end));
        }
        let later = Pfn::from_u64(boot.end_max / u64::from(page_size)).unwrap_or(Pfn::END_MAX).min(Pfn::END_MAX);
        let zones = ZoneLimits::new(boot, page_size);
        Ok(Plan { map, boot, zones, largest, first, end: last.max(later) })
    }

    /// Returns all memory, cut at the zones' limits.
    fn memory(&self) -> impl Iterator<Item = page::Range> + use<'_, I> {
        self.map.pieces(Exclusions::default()).flat_map(|piece| self.zones.cut(piece))
    }

    /// Returns the free frames without those of the metadata.
    fn free(&self, metadata: Range<u64>) -> impl Iterator<Item = Range<Pfn>> + use<'_, I> {
        self.map.pieces(Exclusions { reserved: self.boot.reserved, metadata })
    }

    /// Returns the layout of all metadata.
    fn layout<H: Cpu>(&self, config: &Config<'_>) -> Layout {
        let mut layout = extended(parts::<H>(), config.metadata_layout::<KernelPlatform<H>>());
        let (geometry, mut known) = (config.geometry(), 0);
        for range in self.memory() {
            let sections = geometry.sections_of(&(range.start..range.end));
            layout = extended(layout, geometry.layout_of(sections.start.max(known)..sections.end));
            known = sections.end;
        }
        let layout = extended(layout, self.objects::<H>());
        self.slab_sections::<H>(geometry).fold(layout, extended)
    }

    /// Returns the layouts of the slab's metadata for each piece of memory.
    fn slab_sections<H: Cpu>(&self, geometry: Geometry) -> impl Iterator<Item = Layout> {
        let mut known = 0;
        let is_paid = H::CACHES > 0 && has_sections::<KernelPlatform<H>>();
        self.memory().filter(move |_| is_paid).map(move |range| {
            let sections = geometry.sections_of(&(range.start..range.end));
            let new = sections.start.max(known)..sections.end;
            known = sections.end;
            layout_of_sections(geometry, H::PAGE_SIZE, new)
        })
    }

    /// Returns the frames for the metadata: the end of the largest free piece.
    ///
    /// # Errors
    /// [`SetupError::NoRoom`] if the largest free piece is too small.
    fn place<H: Cpu>(&self, config: &Config<'_>) -> Result<Range<Pfn>, SetupError> {
        let layout = self.layout::<H>(config);
        let needed = layout.size() as u64 + layout.align() as u64;
        let frames = needed.div_ceil(H::PAGE_SIZE.into());
        // The remaining frames must hold one byte per CPU: the configuration's array of nodes is there during set-up.
        let left = u64::from(pages(&self.largest))
            .checked_sub(frames)
            .filter(|left| left * u64::from(H::PAGE_SIZE) >= u64::from(H::CPUS))
            .ok_or_else(|| self.no_room::<H>(needed))?;
        Ok(self.largest.start.offset(left as u32)..self.largest.end)
    }

    /// Brings all memory online, releases the free frames, and sets the watermarks.
    ///
    /// # Errors
    /// If a range does not come online.
    fn hand_over<H: Cpu>(
        &self,
        pages: &'static PagesOf<H>,
        metadata: &mut Metadata,
        place: &Range<Pfn>,
    ) -> Result<(), SetupError> {
        for range in self.memory() {
            pages.online(&range, metadata.cut(pages.online_layout(&range)))?;
        }
        for frames in self.free(physical::<H>(place.start)..physical::<H>(place.end)) {
            pages.release(frames.start, frames.end)?;
        }
        pages.set_up_watermarks(MinFree::BySize);
        Ok(())
    }

    fn bytes_of<H: Cpu>(&self, frames: &Range<Pfn>) -> u64 {
        u64::from(pages(frames)) * u64::from(H::PAGE_SIZE)
    }

    fn no_room<H: Cpu>(&self, needed: u64) -> SetupError {
        SetupError::NoRoom { needed, largest: self.bytes_of::<H>(&self.largest) }
    }

    /// Returns the layout of the slab's metadata.
    fn objects<H: Cpu>(&self) -> Layout {
        if H::CACHES == 0 {
            return Layout::new::<()>();
        }
        SlabOf::<H>::layout(self.end.raw() - self.first.raw(), H::PAGE_SIZE, H::CPUS, 1, H::CACHES)
    }
}

fn pages(frames: &Range<Pfn>) -> u32 {
    frames.end.raw() - frames.start.raw()
}

fn parts<H: Cpu>() -> Layout {
    Layout::array::<Part>(H::CPUS.into()).expect("128 bytes for each of at most 65535 CPUs fit the address space")
}

impl<H: Cpu> Kernel<H> {
    /// Sets up the allocator that [`Cpu::kernel`] returns. From then on it owns all memory of the map that is usable
    /// and not reserved. Call it once, on the first CPU, before any other CPU uses the allocator. Costs a few steps per
    /// frame.
    ///
    /// The regions of the map may be in any order, touch, overlap, and begin or end anywhere in a page.
    ///
    /// # Errors
    /// See [`SetupError`].
    ///
    /// # Safety
    /// All usable regions of the map are memory, which is mapped readable and writable at [`Boot::direct_map`] above
    /// its physical address. [`Boot::reserved`] contains all of it that is in use. Both stay true forever. Until this
    /// function returns, no other CPU and no interrupt handler uses the allocator.
    pub unsafe fn init(
        &'static self,
        map: impl IntoIterator<Item = Region, IntoIter: Clone>,
        boot: &Boot<'_>,
    ) -> Result<(), SetupError> {
        const {
            assert!(H::CPUS > 0, "`Cpu::CPUS` must be at least 1");
            assert!(
                H::PAGE_SIZE.is_power_of_two() && H::PAGE_SIZE >= 4096,
                "`Cpu::PAGE_SIZE` must be a power of two of at least 4096"
            );
        }
        if !H::SLAB_DEBUG && !boot.slab_debug.is_empty() {
            return Err(SetupError::NoSlabDebug);
        }
        if !core::ptr::eq(self, H::kernel()) {
            return Err(SetupError::NotTheKernel);
        }
        let largest = largest_block::<H>();
        if !boot.direct_map.is_multiple_of(largest) {
            return Err(SetupError::DirectMap { largest });
        }
        self.state.compare_exchange(FRESH, BEGUN, Acquire, Relaxed).map_err(|_| SetupError::Twice)?;
        // SAFETY: the caller fulfils the contract of `init`, and this call alone has moved the state from `FRESH` to
        // `BEGUN`, so only it writes the engine.
        let done = Plan::new(map.into_iter(), boot, H::PAGE_SIZE).and_then(|plan| unsafe { self.carry_out(&plan) });
        if done.is_err() {
            self.parts.store(null_mut(), Release);
        }
        self.state.store(if done.is_ok() { READY } else { FRESH }, Release);
        done
    }

    /// # Safety
    /// As for [`init`](Self::init); and no other code accesses the engine during the call.
    unsafe fn carry_out<I: Iterator<Item = Region> + Clone>(
        &'static self,
        plan: &Plan<'_, I>,
    ) -> Result<(), SetupError> {
        let memory = DirectMap { offset: plan.boot.direct_map, page_size: H::PAGE_SIZE };
        let cpus = usize::from(H::CPUS);
        // SAFETY: the frames at the start of the largest free piece are mapped and unused until they are released, and
        // `nodes` is not used after that.
        let scratch = unsafe { memory.bytes(plan.largest.start, cpus.min(plan.bytes_of::<H>(&plan.largest) as usize)) };
        let nodes = Carver::new(scratch).array(cpus, |_| NodeId(0)).ok_or_else(|| plan.no_room::<H>(cpus as u64))?;
        let config = Config {
            // `PageAllocator::new` copies the array.
            cpu_nodes: nodes,
            first: plan.first,
            end: plan.end,
            page_size: H::PAGE_SIZE,
            policy: H::POLICY,
            ..Config::default()
        };
        let place = plan.place::<H>(&config)?;
        // SAFETY: these frames are free and mapped, and have no other use: `hand_over` excludes them when it releases
        // frames.
        let mut metadata = Metadata { rest: unsafe { memory.bytes(place.start, plan.bytes_of::<H>(&place) as usize) } };
        let parts = Carver::new(metadata.cut(parts::<H>())).array(cpus, |_| Part::default());
        self.parts.store(parts.expect("the memory was cut for this number of CPUs").as_mut_ptr(), Release);
        let fixed = metadata.cut(config.metadata_layout::<KernelPlatform<H>>());
        let allocator = PageAllocator::new(KernelPlatform::new(), &config, fixed)?;
        let engine = self.engine.get().cast::<super::Engine<H>>();
        // SAFETY: `engine` points into the static `self`, so it is valid forever, and the caller promises that no other
        // code accesses it. The reference is made after the field is initialized.
        let pages: &'static PagesOf<H> = unsafe {
            (&raw mut (*engine).pages).write(allocator);
            &(*engine).pages
        };
        plan.hand_over(pages, &mut metadata, &place)?;
        if H::CACHES > 0 {
            let storage = metadata.cut(plan.objects::<H>());
            let objects = Memory {
                first: plan.first,
                base: memory.address(plan.first),
                pages: plan.end.raw() - plan.first.raw(),
                caches: H::CACHES,
            };
            let Boot { seed, slab_debug, .. } = *plan.boot;
            // SAFETY: frames that are released, now or later, are mapped from `base` on and have no other user, as the
            // callers of `init` and `add_memory` promise. Callers of the unsafe method `pages` promise to free only
            // what they allocated.
            let slab = unsafe { SlabAllocator::with_debug(pages, IrqsOff::new(), objects, seed, slab_debug, storage) }?;
            for page::Range { start, end, .. } in plan.memory() {
                slab.online(&(start..end), metadata.cut(slab.online_layout(&(start..end))))?;
            }
            // SAFETY: `engine` is valid for writes, and no reference to its field `slab` exists yet.
            unsafe { (&raw mut (*engine).slab).write(MaybeUninit::new(slab)) };
        }
        // SAFETY: `engine` is valid for writes, and no reference to these three fields exists yet. The one reference
        // into the engine is to `pages`, which is not written here.
        unsafe {
            (&raw mut (*engine).memory).write(memory);
            (&raw mut (*engine).zones).write(plan.zones);
            (&raw mut (*engine).span).write(plan.first..plan.end);
        }
        Ok(())
    }
}

/// Returns the number of the frame at a physical address, or `None` if it exceeds the largest frame number.
pub(super) fn frame_at(address: u64, page_size: u32) -> Option<Pfn> {
    Pfn::from_u64(address / u64::from(page_size))
}

/// Returns the layout of the first with the second behind it.
pub(super) fn extended(layout: Layout, more: Layout) -> Layout {
    let (sum, _) = layout.extend(more).expect("metadata is a small part of the address space");
    sum
}
