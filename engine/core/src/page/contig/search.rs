//! Allocation of a range of a given size, anywhere in the zones that the request may use.

use core::ops::Range;

use super::alloc::RangeRequest;
use super::range::Purpose;
use crate::base::{Gfp, Order, Pfn};
use crate::page::allocator::PageAllocator;
use crate::page::error::{ContigError, RangeError};
use crate::platform::{Platform, Request};

impl<P: Platform> PageAllocator<'_, P> {
    /// Allocates contiguous pages near the calling CPU: the first range that can be emptied, of the nearest zone that
    /// has one. The range starts at a multiple of its size, or of the largest power of two below its size. Its blocks
    /// and the cost are those of [`alloc_contig_range`](Self::alloc_contig_range). Skipping a range that cannot be
    /// emptied costs up to one step per frame.
    ///
    /// # Errors
    /// [`ContigError::NoRange`] if there is no such range; [`ContigError::Flags`]; [`ContigError::Range`] for a size of
    /// zero, or with [`Gfp::COMP`] a size that is not a power of two.
    pub fn alloc_contig_pages(&self, gfp: Gfp, pages: u32) -> Result<Pfn, ContigError> {
        self.find_range(pages, RangeRequest { gfp, refs: 1, purpose: Purpose::General })
    }

    /// Allocates pages like [`alloc_contig_pages`](Self::alloc_contig_pages), but without references, like
    /// [`alloc_contig_frozen_range`](Self::alloc_contig_frozen_range).
    ///
    /// # Errors
    /// See [`alloc_contig_pages`](Self::alloc_contig_pages).
    pub fn alloc_contig_frozen_pages(&self, gfp: Gfp, pages: u32) -> Result<Pfn, ContigError> {
        self.find_range(pages, RangeRequest { gfp, refs: 0, purpose: Purpose::General })
    }

    fn find_range(&self, pages: u32, wanted: RangeRequest) -> Result<Pfn, ContigError> {
        let RangeRequest { gfp, .. } = wanted;
        let (migratetype, highest) = self.resolve_gfp(gfp).ok_or(ContigError::Flags)?;
        if pages == 0 {
            return Err(RangeError::Empty { start: Pfn::new(0) }.into());
        }
        if gfp.contains(Gfp::COMP) && !pages.is_power_of_two() {
            return Err(RangeError::PowerOfTwo { pages }.into());
        }
        let node = self.node_of(self.platform.cpu());
        let request = Request { gfp, order: Order::ZERO, migratetype, node, highest };
        let found = self.zones_for(&request).find_map(|zone| {
            let (start, end) = zone.span();
            self.find_between(start..end, pages, wanted)
        });
        found.ok_or(ContigError::NoRange)
    }

    /// Allocates the first range between two frames that can be emptied.
    fn find_between(&self, span: Range<Pfn>, pages: u32, wanted: RangeRequest) -> Option<Pfn> {
        let step = u64::from(1_u32 << pages.ilog2());
        let mut at = u64::from(span.start.raw()).next_multiple_of(step);
        while at + u64::from(pages) <= u64::from(span.end.raw()) {
            let start = Pfn::from_u64(at)?;
            match self.alloc_range(&(start..start.offset(pages)), wanted) {
                Ok(()) => return Some(start),
                // The search continues after the frame in the way, which may be the head of a block that starts before
                // the range.
                Err(error) => {
                    let past = error.pfn().map_or(0, |pfn| u64::from(pfn.raw() + 1).next_multiple_of(step));
                    at = (at + step).max(past);
                }
            }
        }
        None
    }
}
