//! Supply of pages for a heap: memory comes online from the system, and free blocks are returned to it.
//!
//! ```text
//! never used --- bring online --> in the engine --- give back --> returned
//!                                      ^                             |
//!                                      +----------- take ------------+
//! ```
//!
//! *Returned* blocks have no memory. The engine sees them as allocated, so that it does not hand them out. When the
//! engine runs out of pages, it gets the most recently returned blocks back before memory that was never used.
//!
//! # Design
//!
//! A free block is taken off the zone as an allocation, returned to the system with no lock held, and put on a separate
//! list. So no state of a frame means "returned", and no mapping is split. A slab that is kept for later use makes a
//! hole in a block. If no block of 2 MiB is whole, the wholly free slabs of the nodes are therefore freed first.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use freehold::PageAllocator;
use freehold::base::lock::{Rank, Ranked};
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, Range};
use freehold::platform::Platform;
use freehold::slab::{CpuLocal, SlabAllocator};
use rustix::io::Errno;

use super::returned::{Entry, HUGE, PageBlock, ReturnedBlocks};
use super::{HeapError, LARGEST_BLOCK, PAGE_SIZE, SECTION_PAGES};
use crate::os::cpus::cpu_count;
use crate::os::mmap::Reservation;

/// Pages that come online first. Later steps are multiples of this number.
const STEP_PAGES: u32 = HUGE.pages();
/// Most pages that come online in one step: 16 MiB.
const STEP_MAX: u32 = 8 * STEP_PAGES;
/// Divisor of the pages online that gives the size of the next step.
const STEP_SHARE: u32 = 16;

/// Address ranges of a heap. Both are unmapped when the heap is dropped.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Memory for objects and blocks of pages; accessible up to where it has come online.
    pub memory: Reservation,
    /// The engine's metadata, divided as described by [`Parts`].
    pub metadata: Reservation,
}

/// Layout of the metadata: offsets of the start and the end of each part.
#[derive(Clone, Copy, Debug)]
struct Parts {
    whole: Layout,
    /// Metadata of the page allocator for the whole range. The page allocator itself is at offset 0.
    fixed: (usize, usize),
    /// Metadata of the page allocator for each section.
    sections: (usize, usize),
    /// Metadata of the slab allocator.
    slab: (usize, usize),
    /// List of returned blocks.
    returned: (usize, usize),
}

impl Parts {
    fn plan<P: Platform + 'static, C: CpuLocal>(engine: &Config<'_>, caches: u16) -> Parts {
        let pages = engine.end.raw();
        let mut whole = Layout::new::<PageAllocator<'static, P>>();
        let fixed = append(&mut whole, engine.metadata_layout::<P>());
        let sections = append(&mut whole, engine.online_layout(&(engine.first..engine.end)));
        let slab_layout = SlabAllocator::<P, C>::layout(pages, PAGE_SIZE, cpu_count(), engine.nodes, caches);
        let slab = append(&mut whole, slab_layout);
        let returned_layout =
            Layout::array::<Entry>(ReturnedBlocks::entries(pages)).expect("an entry per block fits the address space");
        let returned = append(&mut whole, returned_layout);
        Parts { whole, fixed, sections, slab, returned }
    }
}

/// Appends a part to a layout, and returns the offsets of the part's start and end.
fn append(whole: &mut Layout, part: Layout) -> (usize, usize) {
    let (sum, offset) = whole.extend(part).expect("metadata of 16 TiB fits the address space");
    *whole = sum;
    (offset, offset + part.size())
}

/// Parts of a heap's metadata, each of which is used once.
pub(super) struct Metadata<P: Platform + 'static> {
    pub allocator: &'static mut MaybeUninit<PageAllocator<'static, P>>,
    pub fixed: &'static mut [MaybeUninit<u8>],
    pub slab: &'static mut [MaybeUninit<u8>],
    pub supply: Supply,
}

impl Ranges {
    pub(super) fn reserve<P: Platform + 'static, C: CpuLocal>(
        engine: &Config<'_>,
        caches: u16,
    ) -> Result<Ranges, HeapError> {
        let bytes = engine.end.raw() as usize * PAGE_SIZE as usize;
        let whole = Parts::plan::<P, C>(engine, caches).whole;
        let memory = Reservation::inaccessible(bytes, LARGEST_BLOCK);
        let metadata = Reservation::new(whole.size(), whole.align());
        Ok(Ranges {
            memory: memory.map_err(|errno| HeapError::Reserve { bytes, errno })?,
            metadata: metadata.map_err(|errno| HeapError::Reserve { bytes: whole.size(), errno })?,
        })
    }

    /// Splits the metadata into its parts.
    ///
    /// # Safety
    /// The ranges were reserved for this configuration, they outlive all use of the parts, and the function is called
    /// once.
    pub(super) unsafe fn parts<P: Platform + 'static, C: CpuLocal>(
        &self,
        engine: &Config<'_>,
        caches: u16,
    ) -> Metadata<P> {
        let parts = Parts::plan::<P, C>(engine, caches);
        let start = self.metadata.start();
        // SAFETY: the reservation has the layout of `parts`, and the caller promises that it outlives their use and
        // that they are split off once. The page allocator is at the start, with the alignment of the whole, and zeroed
        // bytes are valid entries.
        let (allocator, returned) = unsafe {
            let entries = start.add(parts.returned.0).cast::<Entry>();
            let count = (parts.returned.1 - parts.returned.0) / size_of::<Entry>();
            (start.cast().as_mut(), NonNull::slice_from_raw_parts(entries, count).as_mut())
        };
        // SAFETY: the parts are inside the reservation and do not overlap, and the caller promises exclusive access to
        // them.
        let [fixed, sections, slab] =
            unsafe { [parts.fixed, parts.sections, parts.slab].map(|part| bytes_of(start, part)) };
        let returned = ReturnedBlocks::new(returned);
        let supply = Supply { next: Pfn::new(0), end: engine.end, sections, returned };
        Metadata { allocator, fixed, slab, supply }
    }
}

/// Returns the bytes of a part of the range that begins at `start`.
///
/// # Safety
/// The part is inside the range, and the caller has exclusive access to it for `'m`.
unsafe fn bytes_of<'m>(start: NonNull<u8>, (from, to): (usize, usize)) -> &'m mut [MaybeUninit<u8>] {
    // SAFETY: the caller promises that the part is inside the range and that it has exclusive access to it.
    unsafe { core::slice::from_raw_parts_mut(start.add(from).cast::<MaybeUninit<u8>>().as_ptr(), to - from) }
}

/// Memory of a heap that the engine cannot hand out at present.
#[derive(Debug)]
pub(super) struct Supply {
    /// First frame that has never been online.
    next: Pfn,
    end: Pfn,
    /// Metadata of all sections that have no frame online.
    sections: &'static mut [MaybeUninit<u8>],
    returned: ReturnedBlocks,
}

/// Rank of the supply's lock: it is taken before all locks under which memory comes online.
impl Ranked for Supply {
    const RANK: Rank = Rank::SlabNode;
}

impl Supply {
    /// Returns the bytes that have come online, and those of them that are returned.
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.next.raw() as usize * PAGE_SIZE as usize, self.returned.bytes())
    }

    /// Gives the engine more memory: returned blocks of 2 MiB together if there are any, or else memory that was never
    /// used.
    ///
    /// # Errors
    /// If no memory is left, or the system refuses it.
    pub(super) fn take<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        memory: &Reservation,
    ) -> Result<(), HeapError> {
        let mut taken = 0;
        while taken < HUGE.pages()
            && let Some(block) = self.returned.pop()
        {
            let freed = pages.free_pages(block.first, block.order);
            debug_assert!(freed.is_ok(), "the free of a returned block failed");
            taken += block.order.pages();
        }
        if taken > 0 { Ok(()) } else { self.bring_online(pages, memory) }
    }

    /// Records a block as returned.
    pub(super) fn put(&mut self, block: PageBlock) {
        self.returned.push(block);
    }

    fn bring_online<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        memory: &Reservation,
    ) -> Result<(), HeapError> {
        let start = self.next.raw();
        let step = (start / STEP_SHARE).next_multiple_of(STEP_PAGES).clamp(STEP_PAGES, STEP_MAX);
        // A step ends at the end of a section, because a section's metadata is set up with the first of its frames.
        let end = (start + step).min((start + 1).next_multiple_of(SECTION_PAGES)).min(self.end.raw());
        let range = Range { start: self.next, end: Pfn::new(end), node: NodeId(0), kind: ZoneKind::Normal };
        let [offset, bytes] = [start, end - start].map(|pages| pages as usize * PAGE_SIZE as usize);
        if bytes > 0 {
            memory.commit(offset, bytes).map_err(|errno| HeapError::Reserve { bytes, errno })?;
        }
        let layout = pages.online_layout(&range);
        let sections = core::mem::take(&mut self.sections);
        let (mine, rest) = sections.split_at_mut(layout.size().min(sections.len()));
        self.sections = rest;
        // SAFETY: the bytes are new anonymous memory, which the kernel has zeroed, and no part of them was used before.
        let storage = unsafe { freehold::base::carve::Storage::zeroed(mine) };
        pages.online_in(&range, storage).map_err(HeapError::Online)?;
        self.next = range.end;
        pages.release(range.start, range.end).map_err(HeapError::Online)?;
        pages.set_up_watermarks(MinFree::BySize);
        Ok(())
    }
}

/// Takes a free block of an order from the engine; returns `None` if there is none.
pub(super) fn take_block<P: Platform>(pages: &PageAllocator<'static, P>, order: Order) -> Option<PageBlock> {
    let types = [Gfp::KERNEL, Gfp::KERNEL.union(Gfp::RECLAIMABLE), Gfp::KERNEL.union(Gfp::MOVABLE)];
    let first = types.into_iter().find_map(|gfp| pages.isolate_free_page_near(Pfn::new(0), order, gfp))?;
    Some(PageBlock { first, order })
}

/// Returns the memory of a block that was taken from the engine to the system.
///
/// # Errors
/// If the system refuses; the block is freed to the engine then.
pub(super) fn empty<P: Platform>(
    pages: &PageAllocator<'static, P>,
    memory: &Reservation,
    block: PageBlock,
) -> Result<(), Errno> {
    let offset = block.first.raw() as usize * PAGE_SIZE as usize;
    // SAFETY: the block is allocated to this function's caller, and no other code has its address.
    let emptied = unsafe { memory.give_back(offset, block.bytes()) };
    if emptied.is_err() {
        let freed = pages.free_pages(block.first, block.order);
        debug_assert!(freed.is_ok(), "the free of an allocated block failed");
    }
    emptied
}
