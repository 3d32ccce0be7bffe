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
//!
//! If a mapping of the program is where memory or its tables should come next, the supply skips frames: memory comes
//! online behind that mapping, and the frames between stay absent in the engine, without memory and without metadata.
//! If the mapping blocks other metadata, that metadata continues behind it, or moves. A returned block whose addresses
//! were unmapped, and are in use by a mapping of the program now, is set aside.

use core::mem::MaybeUninit;

use freehold::PageAllocator;
use freehold::base::lock::{Rank, Ranked};
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{MinFree, Mobility, Range};
use freehold::platform::Platform;
use freehold::slab::TablePlaces;
use rustix::io::Errno;

use super::ranges::{Ranges, SupplyStorage, choose_stack, entries_of, grow, slab_place};
use super::returned::{Entry, HUGE, LEAST, PageBlock, ReturnedBlocks};
use super::{HeapConfig, HeapError, PAGE_SIZE, SECTION_PAGES, page_bytes};
use crate::os::budget::MemoryBudget;
use crate::os::holes::find_behind;
use crate::os::mmap::{HugePages, Reservation, page_size};

/// Pages that come online first. Later steps are multiples of this number.
const STEP_PAGES: u32 = HUGE.pages();
/// Most pages that come online in one step: 16 MiB.
const STEP_MAX: u32 = 8 * STEP_PAGES;
/// Divisor of the pages online that gives the size of the next step.
const STEP_SHARE: u32 = 16;

/// Bytes of the smallest block that is returned.
const LEAST_BYTES: usize = page_bytes(LEAST.pages());

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
    /// End of the metadata of sections that have frames online: an offset in the range of the page allocator's
    /// metadata.
    sections_end: usize,
    tables: TablePlaces,
    returned: ReturnedBlocks,
    /// Range of the entries of `returned`.
    stack: Reservation,
    /// Frames before `next` that were skipped.
    skipped: u32,
    huge_pages: HugePages,
    /// Budget of the memory that is online and not returned, and of its metadata.
    budget: &'static MemoryBudget,
}

/// Rank of the supply's lock: it is taken before all locks under which memory comes online.
impl Ranked for Supply {
    const RANK: Rank = Rank::SlabNode;
}

impl Supply {
    /// Creates a supply of frames before `end`, none of which is online.
    ///
    /// # Safety
    /// The storage is split off from the metadata of this heap, which the supply does not outlive.
    pub(super) unsafe fn new(storage: SupplyStorage, end: Pfn, config: &HeapConfig) -> Supply {
        let SupplyStorage { sections, sections_start, tables, stack } = storage;
        // SAFETY: the range is new and belongs to the supply, which accesses its entries as long as it exists.
        let returned = ReturnedBlocks::new(unsafe { entries_of(&stack) });
        Supply {
            next: Pfn::new(0),
            end,
            sections,
            sections_end: sections_start,
            tables,
            returned,
            stack,
            skipped: 0,
            huge_pages: config.huge_pages,
            budget: config.budget,
        }
    }

    /// Returns the bytes that have come online, and those of them that are returned.
    pub(super) fn bytes(&self) -> (usize, usize) {
        (page_bytes(self.pages_online(self.next)), self.returned.bytes())
    }

    /// Returns the bytes of the range before the first frame that has never been online, with those of skipped frames.
    pub(super) fn end_bytes(&self) -> usize {
        page_bytes(self.next.raw())
    }

    /// Returns the range of the stack of returned blocks.
    #[cfg(test)]
    pub(super) fn stack(&self) -> &Reservation {
        &self.stack
    }

    /// Returns the number of frames online when all frames before `end` are, except for those that were skipped.
    fn pages_online(&self, end: Pfn) -> u32 {
        end.raw() - self.skipped
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
        if self.take_returned(pages, ranges)? == 0 && self.bring_online(pages, ranges)? == Onlined::Returned {
            self.take_returned(pages, ranges)?;
        }
        Ok(())
    }

    /// Gives the engine the most recently returned blocks, until it has 2 MiB or no such block is left. Blocks whose
    /// addresses are in use are set aside. Returns the number of pages.
    ///
    /// # Errors
    /// If the system or the budget refuses the first of the other blocks.
    fn take_returned<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
    ) -> Result<u32, HeapError> {
        let mut taken = 0;
        while taken < HUGE.pages()
            && let Some(block) = self.returned.pop()
        {
            match self.take_block_back(pages, ranges, block) {
                Ok(count) => taken += count,
                Err(error) if error.is_blocked() => self.returned.set_aside(block),
                Err(error) => {
                    self.returned.push(block);
                    return if taken > 0 { Ok(taken) } else { Err(error) };
                }
            }
        }
        Ok(taken)
    }

    /// Gives the engine a returned block, or as much of it as the budget allows; the rest stays returned. Returns the
    /// number of pages.
    ///
    /// # Errors
    /// If the system or the budget refuses the block, or its addresses are in use.
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
            unsafe { ranges.memory.unmap_part(offset_of(block), block.bytes()) }.is_ok()
        });
    }

    /// Maps a returned block if it was unmapped.
    fn map_again(&self, ranges: &Ranges, block: PageBlock) -> Result<(), HeapError> {
        if block.is_mapped {
            return Ok(());
        }
        let bytes = block.bytes();
        ranges.memory.map_part(offset_of(block), bytes).map_err(|errno| HeapError::Reserve { bytes, errno })?;
        let _advised = ranges.memory.advise_part(self.huge_pages, offset_of(block), bytes);
        Ok(())
    }

    /// Brings memory online that was never used. The engine gets all of it at once if the budget allows that; otherwise
    /// the memory is recorded as returned.
    fn bring_online<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
    ) -> Result<Onlined, HeapError> {
        let step = (self.pages_online(self.next) / STEP_SHARE).next_multiple_of(STEP_PAGES).clamp(STEP_PAGES, STEP_MAX);
        // With little memory left, a smaller step may succeed.
        let range = self.map(pages, ranges, step).or_else(|error| match step {
            STEP_PAGES => Err(error),
            _ => self.map(pages, ranges, STEP_PAGES),
        });
        let range = range.or_else(|error| self.map_behind(pages, ranges, error))?;
        let layout = pages.online_layout(&range);
        let sections = core::mem::take(&mut self.sections);
        let (mine, rest) = sections.split_at_mut(layout.size().min(sections.len()));
        self.sections = rest;
        self.sections_end += mine.len();
        // SAFETY: the bytes are new anonymous memory, which the kernel has zeroed, and no part of them was used before.
        let storage = unsafe { freehold::base::carve::Storage::zeroed(mine) };
        pages.online_in(&range, storage).map_err(HeapError::Online)?;
        self.next = range.end;
        let bytes = page_bytes(range.end.raw() - range.start.raw());
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
        self.grow_sections(ranges, pages.online_layout(&range).size())?;
        self.grow_charged(&ranges.slab, slab_place(&self.tables, end.raw()))?;
        self.grow_stack(ReturnedBlocks::entries(self.pages_online(end)) * size_of::<Entry>())?;
        self.make_kinds_writable(ranges, end)?;
        grow(&ranges.memory, page_bytes(end.raw()))?;
        // A kernel without huge pages was reported when the heap was created.
        let (from, bytes) = (page_bytes(start), page_bytes(end.raw() - start));
        let _advised = ranges.memory.advise_part(self.huge_pages, from, bytes);
        Ok(range)
    }

    /// Maps one step as [`map`](Self::map) does, behind the mappings that block the way. Costs about four system calls
    /// for each place that is tried ([`find_behind`]).
    ///
    /// # Errors
    /// `error`, if it has another reason than a blocked way. Another error if there is no such place.
    #[cold]
    fn map_behind<P: Platform>(
        &mut self,
        pages: &PageAllocator<'static, P>,
        ranges: &Ranges,
        error: HeapError,
    ) -> Result<Range, HeapError> {
        if !error.is_blocked() {
            return Err(error);
        }
        let bytes = page_bytes(STEP_PAGES);
        let from = self.next.raw();
        let place = find_behind(from, self.end.raw(), |first| ranges.probe(&self.tables, first..first + STEP_PAGES));
        place
            .and_then(|frame| {
                ranges.skip_to(&self.tables, frame)?;
                self.skipped += frame - from;
                self.next = Pfn::new(frame);
                Ok(())
            })
            .map_err(|errno| HeapError::Reserve { bytes, errno })?;
        self.map(pages, ranges, STEP_PAGES)
    }

    /// Maps metadata of sections. If another mapping is in the way, the metadata of this and all later sections is
    /// behind that mapping.
    fn grow_sections(&mut self, ranges: &Ranges, bytes: usize) -> Result<(), HeapError> {
        match self.grow_charged(&ranges.pages, self.sections_end + bytes) {
            Err(error) if error.is_blocked() => {
                self.skip_sections(ranges, bytes).map_err(|errno| HeapError::Reserve { bytes, errno })?;
                self.grow_charged(&ranges.pages, self.sections_end + bytes)
            }
            result => result,
        }
    }

    /// Continues the metadata of sections behind the mappings that block its way, where `bytes` bytes can be mapped.
    #[cold]
    fn skip_sections(&mut self, ranges: &Ranges, bytes: usize) -> Result<(), Errno> {
        const PAGE: usize = PAGE_SIZE as usize;
        let [from, end] = [ranges.pages.mapped(), ranges.pages.bytes() - bytes].map(|offset| (offset / PAGE) as u32);
        let page =
            find_behind(from, end, |page| ranges.pages.probe(page as usize * PAGE, page as usize * PAGE + bytes))?;
        let offset = page as usize * PAGE;
        ranges.pages.skip_to(offset)?;
        let sections = core::mem::take(&mut self.sections);
        self.sections = sections.split_at_mut(offset - self.sections_end).1;
        self.sections_end = offset;
        Ok(())
    }

    /// Maps entries of the stack of returned blocks. If another mapping is in the way, the stack moves to other
    /// addresses; only the holder of the supply's lock has its address.
    fn grow_stack(&mut self, end: usize) -> Result<(), HeapError> {
        match self.grow_charged(&self.stack, end) {
            Err(error) if error.is_blocked() => {
                let stack = choose_stack(self.stack.bytes())?;
                self.grow_charged(&stack, end)?;
                // SAFETY: the range is new, has no other user, and is kept as long as its entries are in use.
                self.returned.move_to(unsafe { entries_of(&stack) });
                self.budget.release(self.stack.mapped());
                self.stack = stack;
                Ok(())
            }
            result => result,
        }
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
    page_bytes(block.first.raw())
}
