//! Neighbouring pages that have an owner, of any number; and areas that are kept for such, lent out meanwhile.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::pages::{engine, physical};
use super::{Cpu, Error, Kernel, SpinLock};
use crate::base::{Gfp, MigrateType, Order, Pfn};
use crate::page::{CmaArea, CmaError};

/// Neighbouring pages, their owner's alone, mapped one after the other. Dropped, they are free. They never move.
pub struct Contig<H: Cpu> {
    range: Range<Pfn>,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> Kernel<H> {
    /// So many neighbouring pages, wherever they are, all zeros with [`Gfp::ZERO`]:
    /// [`PageAllocator::alloc_contig_pages`](crate::page::PageAllocator::alloc_contig_pages) says how they are aligned.
    ///
    /// # Errors
    /// [`Error::Contig`] if there is no such range.
    pub fn alloc_contig_pages(&'static self, gfp: Gfp, pages: u32) -> Result<Contig<H>, Error> {
        let (engine, gfp) = (self.ready()?, pinned(gfp));
        let at_first = engine.pages.alloc_contig_pages(gfp, pages);
        let start =
            at_first.or_else(|error| engine.again(gfp, error, &|| engine.pages.alloc_contig_pages(gfp, pages)))?;
        Ok(Contig::new(start..start.offset(pages), gfp))
    }

    /// Exactly these pages, all zeros with [`Gfp::ZERO`]:
    /// [`PageAllocator::alloc_contig_range`](crate::page::PageAllocator::alloc_contig_range).
    ///
    /// # Errors
    /// [`Error::Contig`] says which frame is in the way, and what it is.
    pub fn alloc_contig_range(&'static self, range: Range<Pfn>, gfp: Gfp) -> Result<Contig<H>, Error> {
        self.ready()?.pages.alloc_contig_range(range.clone(), pinned(gfp))?;
        Ok(Contig::new(range, gfp))
    }

    /// Keeps pageblocks for ranges, which are lent to movable requests meanwhile: frames that were
    /// [reserved](super::Boot::reserved) at boot, and are given up now. `order_per_bit` is the unit that the area hands
    /// out.
    ///
    /// # Errors
    /// [`Error::Cma`], or [`Error::NoCaches`] where there are none for the area's own words; nothing has changed then.
    ///
    /// # Safety
    /// Nobody uses these frames, whatever they were reserved for.
    pub unsafe fn reserve_cma(&'static self, range: Range<Pfn>, order_per_bit: Order) -> Result<Cma<H>, Error> {
        let engine = self.ready()?;
        let pages = range.end.raw().saturating_sub(range.start.raw());
        let layout = CmaArea::<SpinLock<H>>::layout(pages, order_per_bit);
        let slab = engine.slab().ok_or(Error::NoCaches)?;
        let object = slab.kmalloc(layout.size().max(1), Gfp::KERNEL)?;
        // SAFETY: the object is new, has as many bytes, and stays for as long as the area: for ever.
        let bitmap =
            unsafe { core::slice::from_raw_parts_mut(object.cast::<MaybeUninit<u8>>().as_ptr(), layout.size()) };
        match engine.pages.reserve_cma(range, order_per_bit, bitmap) {
            Ok(area) => Ok(Cma { area }),
            Err(error) => {
                // SAFETY: there is no area that would use it.
                let freed = unsafe { slab.kfree(object) };
                debug_assert_eq!(freed, Ok(()), "what was just allocated can be freed");
                Err(CmaError::into(error))
            }
        }
    }
}

impl<H: Cpu> Contig<H> {
    fn new(range: Range<Pfn>, gfp: Gfp) -> Contig<H> {
        let mut pages = Contig { range, hardware: PhantomData };
        if gfp.contains(Gfp::ZERO) {
            pages.as_uninit().fill(MaybeUninit::new(0));
        }
        pages
    }

    /// Its frames.
    pub fn range(&self) -> Range<Pfn> {
        self.range.clone()
    }

    /// Its physical address: what a device is told.
    pub fn physical(&self) -> u64 {
        physical::<H>(self.range.start)
    }

    /// Its bytes.
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: they are mapped one after the other, and this value's alone.
        unsafe { engine::<H>().memory.bytes(self.range.start, bytes_of::<H>(&self.range)) }
    }

    /// Returns the frames, for a kernel that keeps them in another way: as a device's address and a number of pages, for
    /// example. They stay allocated, and where they are.
    pub fn into_raw(self) -> Range<Pfn> {
        core::mem::ManuallyDrop::new(self).range.clone()
    }

    /// The pages again.
    ///
    /// # Safety
    /// They are what [`into_raw`](Self::into_raw) gave, once.
    pub unsafe fn from_raw(range: Range<Pfn>) -> Contig<H> {
        Contig { range, hardware: PhantomData }
    }

    /// Where its first page is mapped.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.range.start)
    }
}

impl<H: Cpu> Drop for Contig<H> {
    fn drop(&mut self) {
        let freed = engine::<H>().pages.free_contig_range(self.range.clone());
        debug_assert_eq!(freed, Ok(()), "an owned range is its owner's to free");
    }
}

impl<H: Cpu> fmt::Debug for Contig<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Contig").field(&self.range).finish()
    }
}

/// A CMA area. What it has handed out borrows it. linux: mm/cma.c
pub struct Cma<H: Cpu> {
    area: CmaArea<'static, SpinLock<H>>,
}

impl<H: Cpu> Cma<H> {
    /// Neighbouring pages of the area, from a multiple of `align` frames on, in whole units; all zeros with
    /// [`Gfp::ZERO`].
    ///
    /// # Errors
    /// [`Error::Contig`] if no gap is large enough, or can be emptied.
    pub fn alloc(&self, pages: u32, align: u32, gfp: Gfp) -> Result<CmaPages<'_, H>, Error> {
        let pfn = engine::<H>().pages.cma_alloc(&self.area, pages, align, pinned(gfp))?;
        let mut taken = CmaPages { area: self, pfn, pages };
        if gfp.contains(Gfp::ZERO) {
            taken.as_uninit().fill(MaybeUninit::new(0));
        }
        Ok(taken)
    }

    /// Its frames.
    pub fn range(&self) -> Range<Pfn> {
        self.area.range()
    }

    /// Pages that it has handed out.
    pub fn allocated(&self) -> u32 {
        self.area.allocated()
    }
}

impl<H: Cpu> fmt::Debug for Cma<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cma").field(&self.range()).finish()
    }
}

/// Pages of a CMA area, their owner's alone. Dropped, they are the area's again.
pub struct CmaPages<'a, H: Cpu> {
    area: &'a Cma<H>,
    pfn: Pfn,
    pages: u32,
}

impl<H: Cpu> CmaPages<'_, H> {
    /// Its first frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Its physical address: what a device is told.
    pub fn physical(&self) -> u64 {
        physical::<H>(self.pfn)
    }

    /// Where that is mapped.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.pfn)
    }

    /// Its bytes.
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: they are mapped one after the other, and this value's alone.
        unsafe { engine::<H>().memory.bytes(self.pfn, bytes_of::<H>(&(self.pfn..self.pfn.offset(self.pages)))) }
    }
}

/// The flags for pages that never move: those of a range have an owner who knows where they are. A kernel has no zone
/// Movable, so the zones stay the same; flags that contradict each other stay as they are, and are refused.
fn pinned(gfp: Gfp) -> Gfp {
    if gfp.migratetype() == Some(MigrateType::Movable) { gfp - Gfp::MOVABLE } else { gfp }
}

fn bytes_of<H: Cpu>(range: &Range<Pfn>) -> usize {
    (range.end.raw() - range.start.raw()) as usize * H::PAGE_SIZE as usize
}

impl<H: Cpu> Drop for CmaPages<'_, H> {
    fn drop(&mut self) {
        let freed = engine::<H>().pages.cma_release(&self.area.area, self.pfn, self.pages);
        debug_assert_eq!(freed, Ok(()), "pages of an area are their owner's to free");
    }
}

impl<H: Cpu> fmt::Debug for CmaPages<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmaPages").field("pfn", &self.pfn).field("pages", &self.pages).finish()
    }
}
