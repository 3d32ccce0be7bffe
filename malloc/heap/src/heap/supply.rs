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
//!
//! All memory except that which is returned is charged to a [budget](crate::os::budget). If a budget is nearly used up,
//! the engine gets a part of a block, in pieces of 32 KiB, and the rest of the block counts as returned.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use freehold::PageAllocator;
use freehold::base::lock::{Rank, Ranked};
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, Mobility, Range};
use freehold::platform::Platform;
use freehold::slab::slab::Slab;
use freehold::slab::{CpuLocal, SlabAllocator, TablePlaces};
use rustix::io::Errno;

use super::returned::{Entry, HUGE, LEAST, PageBlock, ReturnedBlocks};
use super::{HeapConfig, HeapError, LARGEST_BLOCK, PAGE_SIZE, SECTION_PAGES};
use crate::os::budget::MemoryBudget;
use crate::os::cpus::cpu_count;
use crate::os::mmap::{HugePages, Region, Reservation, page_size};

/// Pages that come online first. Later steps are multiples of this number.
const STEP_PAGES: u32 = HUGE.pages();
/// Most pages that come online in one step: 16 MiB.
const STEP_MAX: u32 = 8 * STEP_PAGES;
/// Divisor of the pages online that gives the size of the next step.
const STEP_SHARE: u32 = 16;

/// Bytes of the smallest block that is returned.
const LEAST_BYTES: usize = LEAST.pages() as usize * PAGE_SIZE as usize;

/// Address ranges of a heap, each mapped up to where it is used. They are unmapped when the heap is dropped.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Memory for objects and blocks of pages.
    pub memory: Reservation,
    /// Metadata of the page allocator: the allocator itself, its fixed part, and a part for each section in use.
    pages: Reservation,
    /// Metadata of the slab allocator. Its last table grows with the memory. The table before it can be read from the
    /// beginning, and becomes writable with the memory.
    slab: Reservation,
    /// List of returned blocks.
    returned: Reservation,
}

/// Layout of the metadata.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// The page allocator, its fixed part and its sections, with the offsets of the latter two.
    pages: Layout,
    fixed: usize,
    sections: usize,
    slab: Layout,
    tables: TablePlaces,
    returned: Layout,
}

impl Parts {
    fn plan<P: Platform + 'static, C: CpuLocal>(engine: &Config<'_>, caches: u16) -> Parts {
        let end = engine.end.raw();
        let (pages, fixed) = append(Layout::new::<PageAllocator<'static, P>>(), engine.metadata_layout::<P>());
        let (pages, sections) = append(pages, engine.online_layout(&(engine.first..engine.end)));
        let (cpus, nodes) = (cpu_count(), engine.nodes);
        let returned = Layout::array::<Entry>(ReturnedBlocks::entries(end));
        Parts {
            pages,
            fixed,
            sections,
            slab: SlabAllocator::<P, C>::layout(end, PAGE_SIZE, cpus, nodes, caches),
            tables: SlabAllocator::<P, C>::table_places(end, PAGE_SIZE, cpus, nodes, caches),
            returned: returned.expect("an entry per block fits the address space"),
        }
    }
}

/// Appends a part to a layout, and returns the whole with the offset of the part's start.
fn append(before: Layout, part: Layout) -> (Layout, usize) {
    before.extend(part).expect("metadata of 16 TiB fits the address space")
}

/// Parts of a heap's metadata, each of which is used once.
pub(super) struct Metadata<P: Platform + 'static> {
    pub allocator: &'static mut MaybeUninit<PageAllocator<'static, P>>,
    pub fixed: &'static mut [MaybeUninit<u8>],
    pub slab: &'static mut [MaybeUninit<u8>],
    pub supply: Supply,
}

impl Ranges {
    pub(super) fn choose<P: Platform + 'static, C: CpuLocal>(
        engine: &Config<'_>,
        caches: u16,
    ) -> Result<Ranges, HeapError> {
        let Parts { pages, slab, returned, .. } = Parts::plan::<P, C>(engine, caches);
        let memory = Layout::from_size_align(engine.end.raw() as usize * PAGE_SIZE as usize, LARGEST_BLOCK);
        Ok(Ranges {
            memory: choose_range(memory.expect("16 TiB fit the address space"), Region::Lower)?,
            pages: choose_range(pages, Region::Middle)?,
            slab: choose_range(slab, Region::Middle)?,
            returned: choose_range(returned, Region::Middle)?,
        })
    }

    /// Maps the metadata that every heap uses, and splits the metadata into its parts. The parts extend beyond what is
    /// mapped. Neither the engine nor the supply accesses metadata of memory that has not come online, except for the
    /// kinds of pages, which can be read.
    ///
    /// # Errors
    /// If the system or a limit of the process does not allow the memory.
    ///
    /// # Safety
    /// The ranges were chosen for this configuration, they outlive all use of the parts, and the function is called
    /// once.
    pub(super) unsafe fn parts<P: Platform + 'static, C: CpuLocal>(
        &self,
        engine: &Config<'_>,
        config: &HeapConfig,
    ) -> Result<Metadata<P>, HeapError> {
        let Parts { pages, fixed, sections, slab, tables, returned } = Parts::plan::<P, C>(engine, config.caches);
        grow(&self.pages, sections)?;
        grow(&self.slab, tables.kinds)?;
        let kinds = (tables.slabs / page_size()) * page_size();
        self.slab.grow_read_only(kinds).map_err(|errno| HeapError::Reserve { bytes: kinds, errno })?;
        // SAFETY: the ranges have the layouts of `parts`, and the caller promises that they outlive the use of the
        // parts, and that these are split off once. They do not overlap. The page allocator is at the start of its
        // range, with the alignment of the whole, and zeroed bytes are valid entries.
        unsafe {
            let entries = self.returned.start().cast::<Entry>();
            let count = returned.size() / size_of::<Entry>();
            let supply = Supply {
                next: Pfn::new(0),
                end: engine.end,
                sections: bytes_of(self.pages.start(), (sections, pages.size())),
                sections_end: sections,
                tables,
                returned: ReturnedBlocks::new(NonNull::slice_from_raw_parts(entries, count).as_mut()),
                huge_pages: config.huge_pages,
                budget: config.budget,
            };
            Ok(Metadata {
                allocator: self.pages.start().cast().as_mut(),
                fixed: bytes_of(self.pages.start(), (fixed, sections)),
                slab: bytes_of(self.slab.start(), (0, slab.size())),
                supply,
            })
        }
    }
}

/// Chooses addresses for a range of this size and alignment.
fn choose_range(layout: Layout, region: Region) -> Result<Reservation, HeapError> {
    let bytes = layout.size();
    Reservation::growing(bytes, layout.align(), region).map_err(|errno| HeapError::Reserve { bytes, errno })
}

/// Maps a range up to an offset.
fn grow(range: &Reservation, end: usize) -> Result<(), HeapError> {
    range.grow(end).map_err(|errno| HeapError::Reserve { bytes: end, errno })
}

/// Returns the bytes of a part of the range that begins at `start`.
///
/// # Safety
/// The part is inside the range, and the caller has exclusive access to it for `'m`.
unsafe fn bytes_of<'m>(start: NonNull<u8>, (from, to): (usize, usize)) -> &'m mut [MaybeUninit<u8>] {
    // SAFETY: the caller promises that the part is inside the range and that it has exclusive access to it.
    unsafe { core::slice::from_raw_parts_mut(start.add(from).cast::<MaybeUninit<u8>>().as_ptr(), to - from) }
}

/// Place of memory that has just come online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Onlined {
    /// The engine has it.
    Released,
    /// Recorded as returned, because the budget does not allow all of it.
    Returned,
}

/// Memory of a heap that the engine cannot hand out at present.
#[derive(Debug)]
pub(super) struct Supply {
    /// First frame that has never been online.
    next: Pfn,
    end: Pfn,
    /// Metadata of all sections that have no frame online.
    sections: &'static mut [MaybeUninit<u8>],
    /// Offset of the end of the metadata of sections that have frames online, in the range of the page allocator's.
    sections_end: usize,
    tables: TablePlaces,
    returned: ReturnedBlocks,
    huge_pages: HugePages,
    /// Budget of the memory that is online and not returned, and of its metadata.
    budget: &'static MemoryBudget,
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
    /// If no memory is left, or the system or the budget refuses it.
    pub(super) fn take<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
    ) -> Result<(), HeapError> {
        if self.returned.bytes() > 0 || self.bring_online(pages, ranges)? == Onlined::Returned {
            return self.take_returned(pages, ranges);
        }
        Ok(())
    }

    /// Gives the engine the most recently returned blocks, until it has 2 MiB or no such block is left.
    ///
    /// # Errors
    /// If the system or the budget refuses the first of them.
    fn take_returned<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
    ) -> Result<(), HeapError> {
        let mut taken = 0;
        while taken < HUGE.pages()
            && let Some(block) = self.returned.pop()
        {
            match self.take_block_back(pages, ranges, block) {
                Ok(count) => taken += count,
                Err(_) if taken > 0 => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the engine a returned block, or as much of it as the budget allows; the rest stays returned. Returns the
    /// number of pages.
    ///
    /// # Errors
    /// If the system or the budget refuses the block, which then stays returned.
    fn take_block_back<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
        block: PageBlock,
    ) -> Result<u32, HeapError> {
        let bytes = self.budget.charge_part(block.bytes(), LEAST_BYTES);
        let mapped = if bytes > 0 { self.map_again(ranges, block) } else { Err(over_budget(block.bytes())) };
        if let Err(error) = mapped {
            self.budget.release(bytes);
            self.returned.push(block);
            return Err(error);
        }
        if bytes == block.bytes() {
            free_block(pages, block.first, block.order);
        } else {
            self.split(pages, block, bytes);
        }
        Ok((bytes / PAGE_SIZE as usize) as u32)
    }

    /// Splits a mapped block into its smallest pieces. Frees the first `bytes` bytes to the engine, and records the
    /// other pieces as returned.
    fn split<P: Platform>(&mut self, pages: &PageAllocator<'static, P>, block: PageBlock, bytes: usize) {
        let split = pages.split_to(block.first, block.order, LEAST);
        debug_assert!(split.is_ok(), "the split of an allocated block failed");
        for offset in (0..block.order.pages()).step_by(LEAST.pages() as usize) {
            let first = block.first.offset(offset);
            if (offset as usize) < bytes / PAGE_SIZE as usize {
                free_block(pages, first, LEAST);
            } else {
                self.returned.push(PageBlock { first, order: LEAST, is_mapped: true });
            }
        }
    }

    /// Records a block as returned.
    pub(super) fn put(&mut self, block: PageBlock) {
        self.budget.release(block.bytes());
        self.returned.push(block);
    }

    /// Unmaps the returned blocks of 2 MiB, so that their addresses do not count against the process's limit.
    pub(super) fn unmap_returned(&mut self, ranges: &Ranges) {
        self.returned.unmap_whole(|block| {
            // SAFETY: the block has no contents, and no other code has its address until it is mapped again.
            unsafe { ranges.memory.unmap_hole(offset_of(block), block.bytes()) }.is_ok()
        });
    }

    /// Maps a returned block if it was unmapped.
    fn map_again(&self, ranges: &Ranges, block: PageBlock) -> Result<(), HeapError> {
        if block.is_mapped {
            return Ok(());
        }
        let bytes = block.bytes();
        ranges.memory.map_hole(offset_of(block), bytes).map_err(|errno| HeapError::Reserve { bytes, errno })?;
        let _advised = ranges.memory.advise(self.huge_pages);
        Ok(())
    }

    /// Brings memory online that was never used. The engine gets all of it at once if the budget allows that; otherwise
    /// the memory is recorded as returned.
    fn bring_online<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
    ) -> Result<Onlined, HeapError> {
        let start = self.next.raw();
        let step = (start / STEP_SHARE).next_multiple_of(STEP_PAGES).clamp(STEP_PAGES, STEP_MAX);
        // With little memory left, a smaller step may succeed.
        let range = self.map(pages, ranges, step).or_else(|error| match step {
            STEP_PAGES => Err(error),
            _ => self.map(pages, ranges, STEP_PAGES),
        })?;
        let layout = pages.online_layout(&range);
        let sections = core::mem::take(&mut self.sections);
        let (mine, rest) = sections.split_at_mut(layout.size().min(sections.len()));
        self.sections = rest;
        self.sections_end += mine.len();
        // SAFETY: the bytes are new anonymous memory, which the kernel has zeroed, and no part of them was used before.
        let storage = unsafe { freehold::base::carve::Storage::zeroed(mine) };
        pages.online_in(&range, storage).map_err(HeapError::Online)?;
        self.next = range.end;
        let bytes = (range.end.raw() - range.start.raw()) as usize * PAGE_SIZE as usize;
        let onlined = if self.budget.charge(bytes).is_ok() {
            pages.release(range.start, range.end).map_err(HeapError::Online)?;
            Onlined::Released
        } else {
            self.return_unused(pages, &range)?;
            Onlined::Returned
        };
        pages.set_up_watermarks(MinFree::BySize);
        Ok(onlined)
    }

    /// Records memory that has just come online as returned, without giving it to the engine. The first block is taken
    /// first.
    fn return_unused<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        range: &Range,
    ) -> Result<(), HeapError> {
        for first in (range.start.raw()..range.end.raw()).step_by(HUGE.pages() as usize).rev() {
            let block = PageBlock { first: Pfn::new(first), order: HUGE, is_mapped: true };
            pages.adopt(block.first, HUGE, Mobility::Fixed).map_err(HeapError::Online)?;
            self.returned.push(block);
        }
        Ok(())
    }

    /// Maps up to `step` pages and makes their metadata writable. Returns their frames.
    fn map<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
        step: u32,
    ) -> Result<Range, HeapError> {
        let start = self.next.raw();
        // A step ends at the end of a section, because a section's metadata is set up with the first of its frames.
        let end = Pfn::new((start + step).min((start + 1).next_multiple_of(SECTION_PAGES)).min(self.end.raw()));
        let range = Range { start: self.next, end, node: NodeId(0), kind: ZoneKind::Normal };
        self.grow_charged(&ranges.pages, self.sections_end + pages.online_layout(&range).size())?;
        self.grow_charged(&ranges.slab, self.tables.slabs + (1 + end.raw() as usize) * Slab::SIZE)?;
        self.grow_charged(&ranges.returned, ReturnedBlocks::entries(end.raw()) * size_of::<Entry>())?;
        self.make_kinds_writable(ranges, end)?;
        grow(&ranges.memory, end.raw() as usize * PAGE_SIZE as usize)?;
        // A kernel without huge pages was reported when the heap was created.
        let _advised = ranges.memory.advise(self.huge_pages);
        Ok(range)
    }

    /// Maps a range of metadata up to an offset, and charges what is mapped.
    fn grow_charged(&self, range: &Reservation, end: usize) -> Result<(), HeapError> {
        let bytes = range.growth(end);
        self.budget.charge(bytes).map_err(|errno| HeapError::Reserve { bytes, errno })?;
        grow(range, end).inspect_err(|_| self.budget.release(bytes))
    }

    /// Makes the kinds of all frames before `end` writable, which are bytes.
    fn make_kinds_writable(&self, ranges: &Ranges, end: Pfn) -> Result<(), HeapError> {
        let page = page_size();
        let from = (self.tables.kinds + self.next.raw() as usize) / page * page;
        let bytes = (self.tables.kinds + end.raw() as usize).next_multiple_of(page) - from;
        ranges.slab.commit(from, bytes).map_err(|errno| HeapError::Reserve { bytes, errno })
    }
}

/// Takes a free block of an order from the engine; returns `None` if there is none.
pub(super) fn take_block<P: Platform>(pages: &PageAllocator<'static, P>, order: Order) -> Option<PageBlock> {
    let types = [Gfp::KERNEL, Gfp::KERNEL.union(Gfp::RECLAIMABLE), Gfp::KERNEL.union(Gfp::MOVABLE)];
    let first = types.into_iter().find_map(|gfp| pages.isolate_free_page_near(Pfn::new(0), order, gfp))?;
    Some(PageBlock { first, order, is_mapped: true })
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
    // SAFETY: the block is allocated to this function's caller, and no other code has its address.
    let emptied = unsafe { memory.give_back(offset_of(block), block.bytes()) };
    if emptied.is_err() {
        free_block(pages, block.first, block.order);
    }
    emptied
}

/// Frees an allocated block to the engine.
fn free_block<P: Platform>(pages: &PageAllocator<'static, P>, first: Pfn, order: Order) {
    let freed = pages.free_pages(first, order);
    debug_assert!(freed.is_ok(), "the free of an allocated block failed");
}

/// Returns the error for memory that the budget does not allow.
fn over_budget(bytes: usize) -> HeapError {
    HeapError::Reserve { bytes, errno: Errno::NOMEM }
}

/// Returns the offset of a block in the range of the heap's memory.
fn offset_of(block: PageBlock) -> usize {
    block.first.raw() as usize * PAGE_SIZE as usize
}
