//! A range by name: exactly these frames are allocated, or none.

use core::ops::Range;

use super::range::Purpose;
use crate::base::{Gfp, Order, Pfn};
use crate::page::alloc::fresh;
use crate::page::allocator::PageAllocator;
use crate::page::error::{ContigError, RangeError};
use crate::platform::Platform;

/// What a range becomes once it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeRequest {
    pub(super) gfp: Gfp,
    /// References on each of its blocks.
    pub(super) refs: u32,
    pub(super) purpose: Purpose,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Allocates exactly these frames, as single pages with one reference each; with [`Gfp::COMP`], which wants a
    /// naturally aligned power of two, as one compound block, or as several of [`Order::MAX`] if it is larger than
    /// that.
    ///
    /// Movable blocks in the way are moved by [`Platform::migrate`]; the flags say what may be done for the new
    /// places. Cost: a few steps a frame, two holds of the zone lock a pageblock, and the moves.
    ///
    /// # Errors
    /// See [`ContigError`]: which frame stood in the way, and what it is.
    pub fn alloc_contig_range(&self, range: Range<Pfn>, gfp: Gfp) -> Result<(), ContigError> {
        self.alloc_range(&range, RangeRequest { gfp, refs: 1, purpose: Purpose::General })
    }

    /// As [`alloc_contig_range`](Self::alloc_contig_range), without references: the largest blocks that fit. Any part
    /// of the range can be freed with [`free_contig_frozen_range`](Self::free_contig_frozen_range).
    ///
    /// # Errors
    /// As there.
    pub fn alloc_contig_frozen_range(&self, range: Range<Pfn>, gfp: Gfp) -> Result<(), ContigError> {
        self.alloc_range(&range, RangeRequest { gfp, refs: 0, purpose: Purpose::General })
    }

    pub(super) fn alloc_range(&self, range: &Range<Pfn>, wanted: RangeRequest) -> Result<(), ContigError> {
        let RangeRequest { gfp, purpose, .. } = wanted;
        self.resolve_gfp(gfp).ok_or(ContigError::Flags)?;
        let zone = self.zone_of_range(range)?;
        if gfp.contains(Gfp::COMP) {
            expect_natural(range)?;
        }
        self.expect_movable(range, purpose)?;
        let isolation = self.start_isolate_page_range(zone, range)?;
        let taken =
            self.alloc_contig_migrate_range(zone, range, gfp, || self.isolate_freepages_range(zone, range, purpose))?;
        self.prep_blocks(range, wanted);
        taken.keep_all();
        drop(isolation);
        Ok(())
    }

    /// Makes allocated blocks of frames that are on no list and inside no block.
    fn prep_blocks(&self, range: &Range<Pfn>, wanted: RangeRequest) {
        if wanted.refs == 0 || wanted.gfp.contains(Gfp::COMP) {
            let blocks = range.start.blocks_up_to(range.end, Order::MAX);
            blocks.for_each(|(pfn, order)| self.map.frame(pfn).set(fresh(wanted.gfp, order).with_refs(wanted.refs)));
        } else {
            let page = self.word_in_range(fresh(wanted.gfp, Order::ZERO).with_refs(wanted.refs));
            self.map.frames(range).flatten().for_each(|frame| frame.set(page));
        }
    }
}

/// Refuses what cannot be one block, of whatever order.
fn expect_natural(range: &Range<Pfn>) -> Result<(), RangeError> {
    let pages = range.end.raw() - range.start.raw();
    if !pages.is_power_of_two() {
        return Err(RangeError::PowerOfTwo { pages });
    }
    let aligned = range.start.raw().is_multiple_of(pages);
    if aligned { Ok(()) } else { Err(RangeError::Misaligned { pfn: range.start, pages }) }
}
