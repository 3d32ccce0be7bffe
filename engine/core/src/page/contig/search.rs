//! Allocation of a range of a given size, anywhere in the zones that the request may use.

use core::ops::Range;

use super::alloc::RangeRequest;
use super::range::Purpose;
use super::scan::Scan;
use crate::base::{Gfp, Order, Pfn};
use crate::page::allocator::PageAllocator;
use crate::page::error::{ContigError, RangeError};
use crate::page::zone::Zone;
use crate::platform::{Platform, Request};

/// Constraints on the position of a range. For an exact position, see
/// [`alloc_contig_range`](PageAllocator::alloc_contig_range).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The number of the first frame is a multiple of this power of two.
    pub align: u32,
    /// Exclusive end: the range has no frame at or above it, for a device that cannot address more memory.
    pub end: Pfn,
}

impl Placement {
    /// Any position.
    pub const ANYWHERE: Placement = Placement { align: 1, end: Pfn::new(u32::MAX) };

    /// Returns the constraint that the first frame is a multiple of `frames`, a power of two.
    pub const fn aligned(frames: u32) -> Placement {
        Placement { align: frames, ..Placement::ANYWHERE }
    }

    /// Returns these constraints with another end.
    pub const fn below(self, end: Pfn) -> Placement {
        Placement { end, ..self }
    }
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Allocates contiguous pages near the calling CPU: the first range that can be emptied and meets the constraints,
    /// of the nearest zone that has one. With [`Gfp::COMP`] the size must be a power of two, and the range is
    /// aligned to it. The range is divided into blocks as by [`alloc_contig_range`](Self::alloc_contig_range).
    ///
    /// Cost, for each zone that is searched, up to the end of the range that is found:
    ///
    /// - a check of each pageblock and of each block;
    /// - for each pageblock two holds of the zone lock, and at most two drains of all per-CPU lists;
    /// - for each new place that turns out to be in an isolated pageblock another drain;
    /// - for each movable block in the way at most one call of [`Platform::migrate`];
    /// - for each range that fails one hold of the zone lock, or up to six if blocks change during the search; none if
    ///   the check of blocks refuses it.
    ///
    /// # Errors
    /// [`ContigError::NoRange`] if there is no such range; [`ContigError::Flags`]; [`ContigError::Range`] if the size
    /// is zero, if the alignment is not a power of two, or, with [`Gfp::COMP`], if the size is not one.
    pub fn alloc_contig_pages(&self, gfp: Gfp, pages: u32, place: Placement) -> Result<Pfn, ContigError> {
        self.find_range(pages, place, RangeRequest { gfp, refs: 1, purpose: Purpose::General })
    }

    /// Allocates pages like [`alloc_contig_pages`](Self::alloc_contig_pages), but without references, like
    /// [`alloc_contig_frozen_range`](Self::alloc_contig_frozen_range).
    ///
    /// # Errors
    /// See [`alloc_contig_pages`](Self::alloc_contig_pages).
    pub fn alloc_contig_frozen_pages(&self, gfp: Gfp, pages: u32, place: Placement) -> Result<Pfn, ContigError> {
        self.find_range(pages, place, RangeRequest { gfp, refs: 0, purpose: Purpose::General })
    }

    fn find_range(&self, pages: u32, mut place: Placement, wanted: RangeRequest) -> Result<Pfn, ContigError> {
        let RangeRequest { gfp, .. } = wanted;
        let (migratetype, highest) = self.resolve_gfp(gfp).ok_or(ContigError::Flags)?;
        if pages == 0 {
            return Err(RangeError::Empty { start: Pfn::new(0) }.into());
        }
        let powers = if gfp.contains(Gfp::COMP) { [place.align, pages] } else { [place.align; 2] };
        if let Some(pages) = powers.into_iter().find(|frames| !frames.is_power_of_two()) {
            return Err(RangeError::PowerOfTwo { pages }.into());
        }
        place.align = powers[0].max(powers[1]);
        let node = self.node_of(self.platform.cpu());
        let request = Request { gfp, order: Order::ZERO, migratetype, node, highest };
        let found = self.zones_for(&request).find_map(|zone| self.find_in_zone(zone, pages, place, wanted));
        found.ok_or(ContigError::NoRange)
    }

    /// Allocates the first range of a zone that can be emptied.
    fn find_in_zone(&self, zone: &Zone<P::Lock>, pages: u32, place: Placement, wanted: RangeRequest) -> Option<Pfn> {
        let (start, end) = zone.span();
        let (mut from, end) = (start, end.min(place.end));
        let mut scan = Scan::new(self, zone, start, wanted);
        loop {
            let range = first_range(from, pages, place.align).filter(|range| range.end <= end)?;
            match scan.alloc(&range) {
                Ok(()) => return Some(range.start),
                Err(past) => from = past,
            }
        }
    }
}

/// Returns the first range at or after a frame whose start is a multiple of `align`.
fn first_range(from: Pfn, pages: u32, align: u32) -> Option<Range<Pfn>> {
    let start = from.raw().checked_next_multiple_of(align)?;
    Some(Pfn::new(start)..Pfn::new(start.checked_add(pages)?))
}
