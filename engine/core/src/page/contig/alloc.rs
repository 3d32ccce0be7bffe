//! Allocation of a range by its frame numbers: exactly these frames are allocated, or none.

use core::ops::Range;

use super::range::Purpose;
use crate::base::{Gfp, Order, Pfn};
use crate::page::alloc::Holder;
use crate::page::allocator::PageAllocator;
use crate::page::error::{ContigError, RangeError};
use crate::platform::Platform;

/// State that the frames of a range get after they were taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeRequest {
    pub(super) gfp: Gfp,
    /// References on each block of the range.
    pub(super) refs: u32,
    pub(super) purpose: Purpose,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Allocates exactly these frames, as single pages with one reference each. With [`Gfp::COMP`] the size must be a
    /// power of two and the range must be aligned to it. The range then becomes one compound block, or several blocks
    /// of [`Order::MAX`] if it is larger.
    ///
    /// Movable blocks in the range are moved by [`Platform::migrate`]; the flags determine what may be done to allocate
    /// the new places. Cost: a few steps per frame, two holds of the zone lock per pageblock, and the migrations.
    ///
    /// # Errors
    /// See [`ContigError`], which names the frame that prevents the allocation and its state.
    pub fn alloc_contig_range(&self, range: Range<Pfn>, gfp: Gfp) -> Result<(), ContigError> {
        self.alloc_range(&range, RangeRequest { gfp, refs: 1, purpose: Purpose::General })
    }

    /// Allocates a range like [`alloc_contig_range`](Self::alloc_contig_range), but without references, as the largest
    /// blocks that fit. Any part of the range can be freed with
    /// [`free_contig_frozen_range`](Self::free_contig_frozen_range).
    ///
    /// # Errors
    /// See [`alloc_contig_range`](Self::alloc_contig_range).
    pub fn alloc_contig_frozen_range(&self, range: Range<Pfn>, gfp: Gfp) -> Result<(), ContigError> {
        self.alloc_range(&range, RangeRequest { gfp, refs: 0, purpose: Purpose::General })
    }

    fn alloc_range(&self, range: &Range<Pfn>, wanted: RangeRequest) -> Result<(), ContigError> {
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

    /// Makes allocated blocks of frames that are on no list and in no block.
    pub(super) fn prep_blocks(&self, range: &Range<Pfn>, wanted: RangeRequest) {
        if wanted.refs == 0 || wanted.gfp.contains(Gfp::COMP) {
            let blocks = range.start.blocks_up_to(range.end, Order::MAX);
            blocks.for_each(|(pfn, order)| self.map.frame(pfn).set(Holder::many(wanted.refs).word(wanted.gfp, order)));
        } else {
            let page = self.word_in_range(Holder::many(wanted.refs).word(wanted.gfp, Order::ZERO));
            self.map.frames(range).flatten().for_each(|frame| frame.set(page));
        }
    }
}

/// Refuses a range whose size is not a power of two, or which is not aligned to its size.
fn expect_natural(range: &Range<Pfn>) -> Result<(), RangeError> {
    let pages = range.end.raw() - range.start.raw();
    if !pages.is_power_of_two() {
        return Err(RangeError::PowerOfTwo { pages });
    }
    let aligned = range.start.raw().is_multiple_of(pages);
    if aligned { Ok(()) } else { Err(RangeError::Misaligned { pfn: range.start, pages }) }
}
