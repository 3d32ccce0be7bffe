//! How a kernel's memory becomes the allocator's: at boot, and later.
//!
//! ```text
//! map       usable frames, in pieces; frame 0 is none
//! carve     all metadata at once, from the end of the largest free piece
//! online    every piece of memory that is there, reserved or not, zone by zone
//! release   what is neither reserved nor metadata; the rest stays Reserved, and may be released later
//! ```
//!
//! Metadata comes to some 45 bytes a frame between the lowest and the highest, 1.1 % of 4 KiB pages: 12 for pages,
//! where there is memory, and 33 for objects, in holes too.
//!
//! linux: mm/mm_init.c, mm/memblock.c, mm/memory_hotplug.c:add_memory_resource

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
use crate::base::{NodeId, Pfn, ZoneKind};
use crate::page::{self, Config, MinFree, PageAllocator};
use crate::slab::{CacheFlags, Memory, SlabAllocator};

/// What a kernel says of its memory beside the map.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// What is added to a physical address for the address at which it is mapped; 0 where they are the same. A multiple
    /// of 4 MiB.
    pub direct_map: usize,
    /// Memory in use, in bytes: the kernel itself, its boot stack, the map. It stays Reserved.
    pub reserved: &'a [Range<u64>],
    /// The address up to which memory may be [added](Kernel::add_memory) later; 0 for none. Costs 33 bytes a frame,
    /// where there is a slab.
    pub end_max: u64,
    /// Where zone DMA ends, and DMA32: 16 MiB and 4 GiB, multiples of 4 MiB.
    pub dma_end: u64,
    /// The end of zone DMA32, likewise.
    pub dma32_end: u64,
    /// What secrets in free objects are made of: a number that is hard to guess.
    pub seed: u64,
    /// Checks that every cache makes, for a kernel with [`Cpu::SLAB_DEBUG`]. linux: slab_debug=
    pub slab_debug: CacheFlags,
}

impl Default for Boot<'_> {
    /// Addresses are physical ones, nothing is reserved, and zones are a PC's.
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

/// Where physical memory is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectMap {
    offset: usize,
    page_size: u32,
}

impl DirectMap {
    /// The address of a frame. Frame 0 is nobody's, so it is not null.
    pub(super) fn address(self, pfn: Pfn) -> NonNull<u8> {
        let address = self.to_virt(u64::from(pfn.raw()) * u64::from(self.page_size));
        NonNull::new(address).expect("no frame but frame 0 is mapped at address 0")
    }

    /// Where a physical address is mapped.
    pub(super) fn to_virt(self, physical: u64) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut((physical as usize).wrapping_add(self.offset))
    }

    /// The physical address of what is mapped there.
    pub(super) fn to_phys(self, address: *const u8) -> u64 {
        address.addr().wrapping_sub(self.offset) as u64
    }

    /// The frame that is mapped at an address; `None` if no frame begins there.
    pub(super) fn pfn(self, address: *const u8) -> Option<Pfn> {
        let (physical, page_size) = (self.to_phys(address), u64::from(self.page_size));
        if physical.is_multiple_of(page_size) { Pfn::from_u64(physical / page_size) } else { None }
    }

    /// So many bytes from a frame on.
    ///
    /// # Safety
    /// They are mapped, and nobody else's, for as long as they are borrowed.
    pub(super) unsafe fn bytes<'a>(self, pfn: Pfn, len: usize) -> &'a mut [MaybeUninit<u8>] {
        // SAFETY: the caller's promise; bytes that were never written are such values.
        unsafe { core::slice::from_raw_parts_mut(self.address(pfn).as_ptr().cast(), len) }
    }
}

/// Which zone a frame is in, by where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneLimits {
    ends: [Pfn; 2],
}

impl ZoneLimits {
    fn new(boot: &Boot<'_>, page_size: u32) -> ZoneLimits {
        let ends = [boot.dma_end, boot.dma32_end];
        ZoneLimits { ends: ends.map(|end| frame_at(end, page_size).unwrap_or(Pfn::END_MAX)) }
    }

    /// Frames cut at the borders of zones, from the lowest up.
    fn cut(self, frames: Range<Pfn>) -> impl Iterator<Item = page::Range> + Clone {
        let [dma, dma32] = self.ends;
        let zones =
            [(ZoneKind::Dma, Pfn::new(0)..dma), (ZoneKind::Dma32, dma..dma32), (ZoneKind::Normal, dma32..Pfn::END_MAX)];
        zones.into_iter().filter_map(move |(kind, zone)| {
            let (start, end) = (frames.start.max(zone.start), frames.end.min(zone.end));
            (start < end).then_some(page::Range { start, end, node: NodeId(0), kind })
        })
    }
}

/// Memory for metadata, cut off piece by piece.
struct Metadata {
    rest: &'static mut [MaybeUninit<u8>],
}

impl Metadata {
    /// What one of these needs.
    fn cut(&mut self, layout: Layout) -> &'static mut [MaybeUninit<u8>] {
        let memory = core::mem::take(&mut self.rest);
        let skip = memory.as_ptr().align_offset(layout.align());
        let (mine, rest) = memory[skip..].split_at_mut(layout.size());
        self.rest = rest;
        mine
    }
}

/// What becomes of the map, in frames: the plan that boot carries out.
struct Plan<'a, I> {
    map: MemoryMap<I>,
    boot: &'a Boot<'a>,
    zones: ZoneLimits,
    /// The largest free piece, which metadata comes from.
    largest: Range<Pfn>,
    /// The lowest usable frame, and the end of all that may come.
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

    /// All memory, cut at the borders of zones.
    fn memory(&self) -> impl Iterator<Item = page::Range> + use<'_, I> {
        self.map.pieces(Exclusions::default()).flat_map(|piece| self.zones.cut(piece))
    }

    /// Free frames, once metadata has its place.
    fn free(&self, metadata: Range<u64>) -> impl Iterator<Item = Range<Pfn>> + use<'_, I> {
        self.map.pieces(Exclusions { reserved: self.boot.reserved, metadata })
    }

    /// Bytes of all metadata.
    fn layout<H: Cpu>(&self, config: &Config<'_>) -> Layout {
        let mut layout = extended(parts::<H>(), config.metadata_layout::<KernelPlatform<H>>());
        let (geometry, mut known) = (config.geometry(), 0);
        for range in self.memory() {
            let sections = geometry.sections_of(&(range.start..range.end));
            layout = extended(layout, geometry.layout_of(sections.start.max(known)..sections.end));
            known = sections.end;
        }
        extended(layout, self.objects::<H>())
    }

    /// Where all metadata goes: to the end of the largest free piece.
    fn place<H: Cpu>(&self, config: &Config<'_>) -> Result<Range<Pfn>, SetupError> {
        let layout = self.layout::<H>(config);
        let needed = layout.size() as u64 + layout.align() as u64;
        let frames = needed.div_ceil(H::PAGE_SIZE.into());
        // What is left has the configuration's nodes meanwhile.
        let left = u64::from(pages(&self.largest))
            .checked_sub(frames)
            .filter(|left| left * u64::from(H::PAGE_SIZE) >= u64::from(H::CPUS))
            .ok_or_else(|| self.no_room::<H>(needed))?;
        Ok(self.largest.start.offset(left as u32)..self.largest.end)
    }

    /// Makes all memory known, and gives what is free to the free lists.
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

    /// Metadata of objects.
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
    Layout::array::<Part>(H::CPUS.into()).expect("128 bytes a CPU")
}

impl<H: Cpu> Kernel<H> {
    /// Sets the allocator up, which is the one that [`Cpu::kernel`] returns: from then on, all memory of the map that is
    /// usable and not reserved is its own. Called once, by the first CPU, before any other uses it. Costs a few steps a
    /// frame.
    ///
    /// The map's regions may be in any order, touch and overlap, and be cut anywhere in a page.
    ///
    /// # Errors
    /// See [`SetupError`].
    ///
    /// # Safety
    /// What the map says is usable is memory, and mapped, readable and writable, at [`Boot::direct_map`] from its
    /// address; [`Boot::reserved`] has all of it that is in use. All of that is so for ever. Until this returns, no
    /// other CPU, and no interrupt handler, uses the allocator.
    pub unsafe fn init(
        &'static self,
        map: impl IntoIterator<Item = Region, IntoIter: Clone>,
        boot: &Boot<'_>,
    ) -> Result<(), SetupError> {
        const {
            assert!(H::CPUS > 0, "a machine has a CPU");
            assert!(H::PAGE_SIZE.is_power_of_two() && H::PAGE_SIZE >= 4096, "a page is a power of two from 4 KiB up");
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
        // SAFETY: the caller promises the same, and the state is this call's.
        let done = Plan::new(map.into_iter(), boot, H::PAGE_SIZE).and_then(|plan| unsafe { self.carry_out(&plan) });
        if done.is_err() {
            self.parts.store(null_mut(), Release);
        }
        self.state.store(if done.is_ok() { READY } else { FRESH }, Release);
        done
    }

    /// # Safety
    /// As for [`init`](Self::init); and the engine is the caller's to write.
    unsafe fn carry_out<I: Iterator<Item = Region> + Clone>(
        &'static self,
        plan: &Plan<'_, I>,
    ) -> Result<(), SetupError> {
        let memory = DirectMap { offset: plan.boot.direct_map, page_size: H::PAGE_SIZE };
        let cpus = usize::from(H::CPUS);
        // SAFETY: the beginning of the largest free piece is nobody's until it is released, and then it is not used any
        // more.
        let scratch = unsafe { memory.bytes(plan.largest.start, cpus.min(plan.bytes_of::<H>(&plan.largest) as usize)) };
        let nodes = Carver::new(scratch).array(cpus, |_| NodeId(0)).ok_or_else(|| plan.no_room::<H>(cpus as u64))?;
        let config = Config {
            // The engine makes a copy.
            cpu_nodes: nodes,
            first: plan.first,
            end: plan.end,
            page_size: H::PAGE_SIZE,
            policy: H::POLICY,
            ..Config::default()
        };
        let place = plan.place::<H>(&config)?;
        // SAFETY: these frames are free and mapped, and nothing else is made of them: they are taken when frames are
        // released.
        let mut metadata = Metadata { rest: unsafe { memory.bytes(place.start, plan.bytes_of::<H>(&place) as usize) } };
        let parts = Carver::new(metadata.cut(parts::<H>())).array(cpus, |_| Part::default());
        self.parts.store(parts.expect("cut for as many").as_mut_ptr(), Release);
        let fixed = metadata.cut(config.metadata_layout::<KernelPlatform<H>>());
        let allocator = PageAllocator::new(KernelPlatform::new(), &config, fixed)?;
        let engine = self.engine.get().cast::<super::Engine<H>>();
        // SAFETY: the engine is ours to write, and stays where it is: it is a static's.
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
            // SAFETY: frames that are released, now or later, are mapped at that place, and nobody else's, as the
            // callers of `init` and `add_memory` promise; who gets at the page allocator promises to free nothing else
            // than its own.
            let slab = unsafe { SlabAllocator::with_debug(pages, IrqsOff::new(), objects, seed, slab_debug, storage) }?;
            // SAFETY: the engine is ours to write.
            unsafe { (&raw mut (*engine).slab).write(MaybeUninit::new(slab)) };
        }
        // SAFETY: as above; the page allocator was written before, and is only read.
        unsafe {
            (&raw mut (*engine).memory).write(memory);
            (&raw mut (*engine).zones).write(plan.zones);
        }
        Ok(())
    }

    /// Adds memory that was not there at boot, in whole pageblocks, below [`Boot::end_max`]; its own metadata, 1.1 % at
    /// most of each section of 128 MiB that is new, lies at its start. Returns how many frames are free by it. It goes
    /// again by [`PageAllocator::offline`](crate::page::PageAllocator::offline), but for the metadata, which stays.
    /// linux: mm/memory_hotplug.c:add_memory, memmap_on_memory
    ///
    /// # Errors
    /// See [`SetupError`]: [`Online`](SetupError::Online) if it is there already, or lies above what was said at boot.
    ///
    /// # Safety
    /// It is memory, and mapped as that of [`init`](Self::init), and nobody else's, for ever.
    pub unsafe fn add_memory(&'static self, range: Range<u64>) -> Result<u32, SetupError> {
        let engine = self.engine().ok_or(SetupError::NotSetUp)?;
        let bytes = u64::from(H::PAGE_SIZE) << engine.pages.map().pageblock_order().get();
        if let Some(address) = [range.start, range.end].into_iter().find(|address| !address.is_multiple_of(bytes)) {
            return Err(SetupError::Misaligned { address, bytes });
        }
        if range.start >= range.end {
            return Err(SetupError::Backwards { start: range.start, end: range.end });
        }
        let ends = frame_at(range.start, H::PAGE_SIZE).zip(frame_at(range.end, H::PAGE_SIZE));
        let (start, end) = ends.ok_or(SetupError::Online(page::OnlineError::Range))?;
        let frames = start..end;
        engine.expect_absent(&frames)?;
        let mut free = 0;
        for part in engine.zones.cut(frames) {
            // SAFETY: the caller promises the same of all of it.
            free += unsafe { engine.add(&part) }?;
        }
        engine.pages.set_up_watermarks(MinFree::BySize);
        Ok(free)
    }
}

impl<H: Cpu> super::Engine<H> {
    /// Refuses a range of which something is there: metadata is never taken back, so nothing that is in use may be
    /// overwritten with it.
    fn expect_absent(&self, frames: &Range<Pfn>) -> Result<(), SetupError> {
        for pfn in frames.start.up_to(frames.end) {
            if self.pages.map().try_frame(pfn).is_some_and(|frame| !frame.word().is_absent()) {
                return Err(page::OnlineError::Overlap { pfn }.into());
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Kernel::add_memory`].
    unsafe fn add(&'static self, range: &page::Range) -> Result<u32, SetupError> {
        let (layout, size) = (self.pages.online_layout(range), u64::from(H::PAGE_SIZE));
        let (needed, largest) = (layout.size() as u64, u64::from(range.end.raw() - range.start.raw()) * size);
        if needed > largest {
            return Err(SetupError::NoRoom { needed, largest });
        }
        // SAFETY: the caller's promise; the frames are released without those that hold the metadata.
        let metadata = unsafe { self.memory.bytes(range.start, layout.size()) };
        self.pages.online(range, metadata)?;
        let start = range.start.offset(needed.div_ceil(size) as u32);
        self.pages.release(start, range.end)?;
        Ok(range.end.raw() - start.raw())
    }
}

/// Number of the frame at a physical address, if frames have such numbers.
fn frame_at(address: u64, page_size: u32) -> Option<Pfn> {
    Pfn::from_u64(address / u64::from(page_size))
}

/// A layout with another one behind it.
fn extended(layout: Layout, more: Layout) -> Layout {
    let (sum, _) = layout.extend(more).expect("it is some hundredth of the memory that there is");
    sum
}
