//! Neighbouring pages that have an owner, of any number; and areas that are kept for such, lent out meanwhile.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::pages::engine;
use super::{Cpu, Error, Kernel, SpinLock};
use crate::base::{Gfp, Order, Pfn};
use crate::page::{CmaArea, CmaError};

/// Neighbouring pages, their owner's alone, mapped one after the other. Dropped, they are free.
pub struct Contig<H: Cpu> {
    range: Range<Pfn>,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> Kernel<H> {
    /// So many neighbouring pages, wherever they are:
    /// [`PageAllocator::alloc_contig_pages`](crate::page::PageAllocator::alloc_contig_pages).
    ///
    /// # Errors
    /// [`Error::Contig`] if there is no such range.
    pub fn alloc_contig_pages(&'static self, gfp: Gfp, pages: u32) -> Result<Contig<H>, Error> {
        let engine = self.ready()?;
        let start = engine.insist(gfp, || engine.pages.alloc_contig_pages(gfp, pages))?;
        Ok(Contig { range: start..start.offset(pages), hardware: PhantomData })
    }

    /// Exactly these pages:
    /// [`PageAllocator::alloc_contig_range`](crate::page::PageAllocator::alloc_contig_range).
    ///
    /// # Errors
    /// [`Error::Contig`] says which frame is in the way, and what it is.
    pub fn alloc_contig_range(&'static self, range: Range<Pfn>, gfp: Gfp) -> Result<Contig<H>, Error> {
        self.ready()?.pages.alloc_contig_range(range.clone(), gfp)?;
        Ok(Contig { range, hardware: PhantomData })
    }

    /// Keeps pageblocks for ranges, which are lent to movable requests meanwhile: frames that were
    /// [reserved](super::Boot::reserved) at boot, and are given up now. `order_per_bit` is the unit that the area hands
    /// out.
    ///
    /// # Errors
    /// [`Error::Cma`]; nothing has changed then.
    ///
    /// # Safety
    /// Nobody uses these frames, whatever they were reserved for.
    pub unsafe fn reserve_cma(&'static self, range: Range<Pfn>, order_per_bit: Order) -> Result<Cma<H>, Error> {
        let engine = self.ready()?;
        let pages = range.end.raw().saturating_sub(range.start.raw());
        let layout = CmaArea::<SpinLock<H>>::layout(pages, order_per_bit);
        let object = engine.slab.kmalloc(layout.size().max(1), Gfp::KERNEL)?;
        // SAFETY: the object is new, has as many bytes, and stays for as long as the area: for ever.
        let bitmap =
            unsafe { core::slice::from_raw_parts_mut(object.cast::<MaybeUninit<u8>>().as_ptr(), layout.size()) };
        match engine.pages.reserve_cma(range, order_per_bit, bitmap) {
            Ok(area) => Ok(Cma { area }),
            Err(error) => {
                // SAFETY: there is no area that would use it.
                let freed = unsafe { engine.slab.kfree(object) };
                debug_assert_eq!(freed, Ok(()), "what was just allocated can be freed");
                Err(CmaError::into(error))
            }
        }
    }
}

impl<H: Cpu> Contig<H> {
    /// Its frames.
    pub fn range(&self) -> Range<Pfn> {
        self.range.clone()
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
#[derive(Debug)]
pub struct Cma<H: Cpu> {
    area: CmaArea<'static, SpinLock<H>>,
}

impl<H: Cpu> Cma<H> {
    /// Neighbouring pages of the area, from a multiple of `align` frames on, in whole units.
    ///
    /// # Errors
    /// [`Error::Contig`] if no gap is large enough, or can be emptied.
    pub fn alloc(&self, pages: u32, align: u32, gfp: Gfp) -> Result<CmaPages<'_, H>, Error> {
        let pfn = engine::<H>().pages.cma_alloc(&self.area, pages, align, gfp)?;
        Ok(CmaPages { area: self, pfn, pages })
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

    /// Where that is mapped.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.pfn)
    }
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
