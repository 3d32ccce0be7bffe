//! Owned ranges of neighbouring pages, of any length, and CMA areas, which reserve memory for such ranges and lend it
//! out meanwhile.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use super::pages::{engine, physical};
use super::{Cpu, Error, Kernel, SpinLock};
use crate::base::{Gfp, MigrateType, Order, Pfn};
use crate::page::{CmaArea, CmaError, Placement};

/// An owned range of neighbouring pages, mapped contiguously. The range is freed on drop and never moves.
pub struct Contig<H: Cpu> {
    range: Range<Pfn>,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> Kernel<H> {
    /// Allocates a range of `pages` neighbouring pages at any place, zeroed with [`Gfp::ZERO`].
    ///
    /// # Errors
    /// [`Error::Contig`] if no such range can be emptied, or if the flags or the number of pages are invalid.
    pub fn alloc_contig_pages(&'static self, gfp: Gfp, pages: u32) -> Result<Contig<H>, Error> {
        self.alloc_contig_pages_at(gfp, pages, Placement::ANYWHERE)
    }

    /// Allocates a range like [`alloc_contig_pages`](Self::alloc_contig_pages), at a place with the given alignment and
    /// below the given frame. [`placement`](Self::placement) computes both for a device.
    /// [`PageAllocator::alloc_contig_pages`](crate::page::PageAllocator::alloc_contig_pages) documents the cost.
    ///
    /// # Errors
    /// See [`alloc_contig_pages`](Self::alloc_contig_pages); also if the alignment is not a power of two.
    pub fn alloc_contig_pages_at(&'static self, gfp: Gfp, pages: u32, place: Placement) -> Result<Contig<H>, Error> {
        let (engine, gfp) = (self.ready()?, pinned(gfp));
        let mut retry = engine.retry(gfp);
        let start = loop {
            match engine.pages.alloc_contig_pages(gfp, pages, place) {
                Err(error) if engine.has_zone_of(pages) && retry.free_idle_once(error.into()) => {}
                answer => break answer?,
            }
        };
        Ok(Contig::new(start..start.offset(pages), gfp))
    }

    /// Returns the placement of memory for a device: the physical address is a multiple of `align` bytes, and no
    /// address exceeds `mask`. linux: include/linux/dma-mapping.h:DMA_BIT_MASK
    ///
    /// # Panics
    /// If `align` is not a power of two. An alignment of 2^32 pages or more makes the request fail.
    pub fn placement(align: u64, mask: u64) -> Placement {
        assert!(align.is_power_of_two(), "an alignment is a power of two, and {align} is not");
        let page = u64::from(H::PAGE_SIZE);
        let frames = u32::try_from(align.div_ceil(page)).unwrap_or(u32::MAX);
        let end =
            u32::try_from(mask / page + u64::from(mask % page == page - 1)).map_or(Placement::ANYWHERE.end, Pfn::new);
        Placement::aligned(frames).below(end)
    }

    /// Allocates exactly this range of pages, zeroed with [`Gfp::ZERO`]; see
    /// [`PageAllocator::alloc_contig_range`](crate::page::PageAllocator::alloc_contig_range).
    ///
    /// # Errors
    /// [`Error::Contig`] with the frame that is in the way and its state, or if the range or the flags are invalid.
    pub fn alloc_contig_range(&'static self, range: Range<Pfn>, gfp: Gfp) -> Result<Contig<H>, Error> {
        self.ready()?.pages.alloc_contig_range(range.clone(), pinned(gfp))?;
        Ok(Contig::new(range, gfp))
    }

    /// Turns pageblocks into a CMA area, which is reserved for ranges and lent to movable requests meanwhile. The
    /// frames were [reserved](super::Boot::reserved) at boot. `order_per_bit` is the unit in which the area is
    /// allocated.
    ///
    /// # Errors
    /// [`Error::Cma`]; [`Error::NoCaches`] if there is no slab to hold the area's bitmap, or [`Error::Object`] if the
    /// slab has no memory for it. Nothing has changed then.
    ///
    /// # Safety
    /// The frames are no longer used for the purpose for which they were reserved.
    pub unsafe fn reserve_cma(&'static self, range: Range<Pfn>, order_per_bit: Order) -> Result<Cma<H>, Error> {
        let engine = self.ready()?;
        let pages = range.end.raw().saturating_sub(range.start.raw());
        let layout = CmaArea::<SpinLock<H>>::layout(pages, order_per_bit);
        let slab = engine.slab().ok_or(Error::NoCaches)?;
        let object = slab.kmalloc(layout.size().max(1), Gfp::KERNEL)?;
        // SAFETY: `object` is a new allocation of at least `layout.size()` bytes. It is exclusive to the area and is
        // freed only below, if there is no area.
        let bitmap =
            unsafe { core::slice::from_raw_parts_mut(object.cast::<MaybeUninit<u8>>().as_ptr(), layout.size()) };
        match engine.pages.reserve_cma(range, order_per_bit, bitmap) {
            Ok(area) => Ok(Cma { area }),
            Err(error) => {
                // SAFETY: `kmalloc` returned `object` above, and no area exists that would use it.
                let freed = unsafe { slab.kfree(object) };
                debug_assert_eq!(freed, Ok(()), "the free of an object that was just allocated failed");
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

    /// Returns the frames of the range.
    pub fn range(&self) -> Range<Pfn> {
        self.range.clone()
    }

    /// Returns the physical address of the range, as a device needs it.
    pub fn physical(&self) -> u64 {
        physical::<H>(self.range.start)
    }

    /// Returns the bytes of the range.
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the frames of the range are mapped contiguously, and this handle owns them; it is borrowed mutably.
        unsafe { engine::<H>().memory.bytes(self.range.start, bytes_of::<H>(&self.range)) }
    }

    /// Releases the handle and returns the frames, for a kernel that keeps the range in another form, for example as a
    /// device's address and a number of pages. The pages stay allocated and do not move.
    pub fn into_raw(self) -> Range<Pfn> {
        core::mem::ManuallyDrop::new(self).range.clone()
    }

    /// Creates a handle from the frames of an earlier one.
    ///
    /// # Safety
    /// [`into_raw`](Self::into_raw) returned these frames, and this function is called only once for them.
    pub unsafe fn from_raw(range: Range<Pfn>) -> Contig<H> {
        Contig { range, hardware: PhantomData }
    }

    /// Returns the virtual address of the first page.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.range.start)
    }
}

impl<H: Cpu> Drop for Contig<H> {
    fn drop(&mut self) {
        let freed = engine::<H>().pages.free_contig_range(self.range.clone());
        debug_assert_eq!(freed, Ok(()), "the free of an owned range failed");
    }
}

impl<H: Cpu> fmt::Debug for Contig<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Contig").field(&self.range).finish()
    }
}

/// A CMA area. The ranges that it has allocated borrow it. linux: mm/cma.c
pub struct Cma<H: Cpu> {
    area: CmaArea<'static, SpinLock<H>>,
}

impl<H: Cpu> Cma<H> {
    /// Allocates neighbouring pages of the area, starting at a multiple of `align` frames and rounded up to whole
    /// units; zeroed with [`Gfp::ZERO`].
    ///
    /// # Errors
    /// [`Error::Contig`] if no gap is large enough or none can be emptied, or if the number of pages, the alignment or
    /// the flags are invalid.
    pub fn alloc(&self, pages: u32, align: u32, gfp: Gfp) -> Result<CmaPages<'_, H>, Error> {
        let pfn = engine::<H>().pages.cma_alloc(&self.area, pages, align, pinned(gfp))?;
        let mut taken = CmaPages { area: self, pfn, pages };
        if gfp.contains(Gfp::ZERO) {
            taken.as_uninit().fill(MaybeUninit::new(0));
        }
        Ok(taken)
    }

    /// Returns the frames of the area.
    pub fn range(&self) -> Range<Pfn> {
        self.area.range()
    }

    /// Returns the number of allocated pages.
    pub fn allocated(&self) -> u32 {
        self.area.allocated()
    }
}

impl<H: Cpu> fmt::Debug for Cma<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cma").field(&self.range()).finish()
    }
}

/// Owned pages of a CMA area. Dropping them returns them to the area.
pub struct CmaPages<'a, H: Cpu> {
    area: &'a Cma<H>,
    pfn: Pfn,
    pages: u32,
}

impl<H: Cpu> CmaPages<'_, H> {
    /// Returns the first frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Returns the physical address of the pages, as a device needs it.
    pub fn physical(&self) -> u64 {
        physical::<H>(self.pfn)
    }

    /// Returns the virtual address of the first page.
    pub fn as_ptr(&self) -> NonNull<u8> {
        engine::<H>().memory.address(self.pfn)
    }

    /// Returns the bytes of the pages.
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the pages are mapped contiguously, and this handle owns them; it is borrowed mutably.
        unsafe { engine::<H>().memory.bytes(self.pfn, bytes_of::<H>(&(self.pfn..self.pfn.offset(self.pages)))) }
    }
}

/// Removes [`Gfp::MOVABLE`], since pages of a range never move: their owner knows their addresses. A kernel has no zone
/// Movable, so the allowed zones do not change. Flags that contradict each other stay as they are and are refused
/// later.
fn pinned(gfp: Gfp) -> Gfp {
    if gfp.migratetype() == Some(MigrateType::Movable) { gfp - Gfp::MOVABLE } else { gfp }
}

fn bytes_of<H: Cpu>(range: &Range<Pfn>) -> usize {
    (range.end.raw() - range.start.raw()) as usize * H::PAGE_SIZE as usize
}

impl<H: Cpu> Drop for CmaPages<'_, H> {
    fn drop(&mut self) {
        let freed = engine::<H>().pages.cma_release(&self.area.area, self.pfn, self.pages);
        debug_assert_eq!(freed, Ok(()), "the free of pages of a CMA area failed");
    }
}

impl<H: Cpu> fmt::Debug for CmaPages<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmaPages").field("pfn", &self.pfn).field("pages", &self.pages).finish()
    }
}
