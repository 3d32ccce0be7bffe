//! Allocation and free of many single pages in one call.
//!
//! An allocation uses the calling CPU's lists of one zone. A free uses the batched free of `contig` for adjacent pages,
//! if the policy frees in batches.
//!
//! linux: mm/page_alloc.c:alloc_pages_bulk_noprof

use super::alloc::Holder;
use super::allocator::PageAllocator;
use super::contig::Terms;
use super::error::FreeError;
use super::zone::BlockRequest;
use crate::base::{Gfp, Order, Pfn};
use crate::platform::{Platform, Request};
use crate::policy::ContigPolicy;
use crate::policy::flags::AllocFlags;

impl<P: Platform> PageAllocator<'_, P> {
    /// Stores single pages, each with one reference, in `into`, and returns the number of pages stored. It is 0 if the
    /// flags contradict each other or there is no memory.
    ///
    /// The pages come from the first zone of the nearest node that stays above its low watermark, as many as the
    /// calling CPU's list for this zone yields, refills included. If that gives no page, or `into` has room for one
    /// only, one page is requested like [`alloc_pages`](Self::alloc_pages), with every effort that the flags allow.
    ///
    /// Cost: one hold of the CPU's list lock for all pages, and one of the zone lock for each refill.
    pub fn alloc_pages_bulk(&self, gfp: Gfp, into: &mut [Pfn]) -> usize {
        let node = self.node_of(self.platform.cpu());
        let Some((migratetype, highest)) = self.resolve_gfp(gfp) else { return 0 };
        let request = Request { gfp, order: Order::ZERO, migratetype, node, highest };
        let flags = self.fast_flags(&request);
        let wanted = BlockRequest { order: Order::ZERO, migratetype: request.migratetype, flags };
        let word = Holder::CALLER.word(gfp, Order::ZERO);
        let mut near = self.zones_for(&request).peekable();
        let nearest = near.peek().map(|zone| zone.node());
        let mut on_nearest = near.take_while(|zone| Some(zone.node()) == nearest);
        let zone = on_nearest.find(|zone| {
            let mark = zone.mark(AllocFlags::WMARK_LOW) + into.len() as u64;
            zone.watermark_fast(Order::ZERO, mark, request.highest, flags)
        });
        let taken = match zone {
            Some(zone) if into.len() > 1 => self.rmqueue_pcplist_batch(zone, wanted, word, into),
            _ => 0,
        };
        match into.get_mut(taken) {
            Some(slot) if taken == 0 => self.alloc_pages(gfp, Order::ZERO).map_or(0, |pfn| {
                *slot = pfn;
                1
            }),
            _ => taken,
        }
    }

    /// Drops the caller's reference to each of these single pages. Every page is tried; the first error is returned.
    ///
    /// If the policy frees in batches, pages that are adjacent both in the slice and in memory are freed together. For
    /// a sorted slice of adjacent pages, the cost is that of [`free_contig_range`](Self::free_contig_range).
    ///
    /// # Errors
    /// See [`FreeError`].
    pub fn free_pages_bulk(&self, pages: &[Pfn]) -> Result<(), FreeError> {
        match self.rules().contig {
            ContigPolicy::OneByOne => self.free_singly(pages),
            ContigPolicy::Batched => {
                let runs = pages.chunk_by(|page, next| Pfn::from_u64(u64::from(page.raw()) + 1) == Some(*next));
                runs.map(|run| self.free_neighbours(run)).fold(Ok(()), Result::and)
            }
        }
    }

    fn free_singly(&self, pages: &[Pfn]) -> Result<(), FreeError> {
        pages.iter().map(|&pfn| self.free_pages(pfn, Order::ZERO)).fold(Ok(()), Result::and)
    }

    fn free_neighbours(&self, run: &[Pfn]) -> Result<(), FreeError> {
        match run {
            [first, .., last] => {
                let range = *first..last.offset(1);
                let is_one = self.zone_of_range(&range).is_ok();
                if is_one { self.free_each(range, Terms::PAGES) } else { self.free_singly(run) }
            }
            _ => self.free_singly(run),
        }
    }
}
