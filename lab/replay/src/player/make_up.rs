//! Memory for recorded blocks that the engine refuses: the task gets single pages instead.
//!
//! A task seldom stops when a block is refused. It requested the block with little effort, and now requests smaller
//! blocks with the flags of its caller. The replay requests single pages with those flags ([`caller_flags`]). A request
//! for a single page that may reclaim and retry does not fail in a kernel, so it is repeated without watermarks before it
//! counts as out of memory.

use freehold::base::{CpuId, Gfp, Order, Pfn};
use freehold::page::AllocError;

use super::super::identity::Tenant;
use super::super::schedule::Answer;
use super::super::{ProbeCounts, ReclaimMode};
use super::Player;
use super::serve::MEMALLOC;

impl Player<'_, '_> {
    /// Repeats a refused request without watermarks, if the recorded kernel served it and it might have reclaimed.
    /// Under [`ReclaimMode::Recorded`], recorded reclaim cannot respond to a shortage in the engine, as the recorded
    /// kernel's reclaim did. Under [`ReclaimMode::Model`], only blocks up to order 3 are requested again, because the
    /// kernel retries those. A request that still fails lacks a free block.
    pub(super) fn ask_below_watermark(&mut self, gfp: Gfp, order: Order) -> Answer {
        let is_decided_anew = self.options.reclaim == ReclaimMode::Model;
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || (is_decided_anew && order > Order::COSTLY) {
            return Err(AllocError::OutOfMemory);
        }
        let served = self.ask_as(MEMALLOC, gfp - Gfp::NOMEMALLOC, order);
        self.tally.below_watermark += u64::from(served.is_ok());
        served
    }

    /// Allocates single pages in place of a block that the engine refused to a request with these flags. Returns the
    /// number of pages that could not be allocated either.
    pub(super) fn make_up(&mut self, tenants: impl Iterator<Item = Tenant>, gfp: Gfp, cpu: CpuId) -> u64 {
        self.tally.made_up += 1;
        let (single, taken, mut missing) = (caller_flags(gfp), self.blocks_taken(), 0);
        for tenant in tenants {
            let page = self.engine.alloc_pages(single, Order::ZERO);
            match page.or_else(|_| self.ask_below_watermark(single, Order::ZERO)) {
                Ok(pfn) => self.set_page(tenant, pfn, gfp, cpu),
                Err(_) => missing += 1,
            }
        }
        self.tally.made_up_blocks += self.blocks_taken() - taken;
        missing
    }

    /// Maps one tenant to a page of the engine that was allocated for a request with these flags.
    pub(super) fn set_page(&self, tenant: Tenant, pfn: Pfn, gfp: Gfp, cpu: CpuId) {
        self.memory().identity.set_one(tenant, pfn, cpu);
        self.note_mapping(tenant, 1, gfp);
    }

    /// Counts pages that could not be allocated for a task's request. If the request may reclaim, the memory has run
    /// out, and the first time of this is recorded. Any other request fails while memory is left, as in a kernel.
    pub(super) fn miss(&mut self, pages: u64, gfp: Gfp, time: u64, task: u32) {
        self.tally.unbacked += pages;
        if pages > 0 && caller_flags(gfp).contains(Gfp::DIRECT_RECLAIM) {
            self.out_of_memory.get_or_insert((time, task, 0)).2 += pages;
        }
    }

    fn blocks_taken(&self) -> u64 {
        self.engine.platform().probe_counts().zone_locked_blocks
    }
}

/// Returns the flags with which the caller of a refused request requests a single page.
///
/// Attempts at a large block are made without retries, and some also without reclaim. The attempt of a slab has lost
/// both flags for reclaim, which its caller had. A huge page is replaced by an ordinary page of a user, which may come
/// from any node. A request that wakes kswapd and does not reclaim may have a caller that cannot wait, so it gains
/// nothing. linux: mm/slub.c:allocate_slab, mm/filemap.c:__filemap_get_folio, mm/memory.c:do_anonymous_page
fn caller_flags(gfp: Gfp) -> Gfp {
    let reclaim = Gfp::DIRECT_RECLAIM | Gfp::KSWAPD_RECLAIM;
    let is_attempt = gfp.contains(Gfp::NOMEMALLOC);
    let single = gfp - (Gfp::COMP | Gfp::NORETRY | Gfp::NOMEMALLOC);
    match gfp.contains(Gfp::MOVABLE) {
        true if is_attempt => (single - Gfp::THISNODE) | reclaim,
        false if is_attempt && !gfp.intersects(reclaim | Gfp::HIGH) => single | reclaim,
        _ => single,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single_page(bits: u32) -> u32 {
        caller_flags(Gfp::from_bits_retain(bits)).bits()
    }

    #[test]
    fn refused_attempts_become_requests_of_their_callers() {
        assert_eq!(single_page(0xd_20c0), 0x2cc0, "a slab with a smaller minimum, from GFP_KERNEL");
        assert_eq!(single_page(0x3d_24ca), 0x10_2cca, "the first request of a huge-page fault");
        assert_eq!(single_page(0x1c_20ca), 0x10_2cca, "a huge-page fault that does not reclaim");
        assert_eq!(single_page(0x15_2c4a), 0x10_2c4a, "page cache of a filesystem");
    }

    #[test]
    fn callers_that_cannot_wait_gain_nothing() {
        assert_eq!(single_page(0x2800), 0x2800, "GFP_NOWAIT");
        assert_eq!(single_page(0xd_2820), 0x2820, "a fragment for GFP_ATOMIC");
        assert_eq!(single_page(0x5_28c0), 0x28c0, "data of a socket");
    }
}
