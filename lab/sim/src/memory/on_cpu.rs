//! A workload's operations on memory that other code can move or reclaim: files, mappings, shrinkable objects.
//!
//! Requests use the kernel's flags. Pages that are read ahead give up easily; only the page that a reader waits for is
//! worth an effort. A fault in an empty range requests a huge page, first on its own node with little effort, and falls
//! back to a small page. A fault costs as much as its allocation; clearing pages is not charged.
//!
//! On an executor without a memory model, pages of files stay allocated until the run ends, and mappings never get a
//! page.
//!
//! linux: mm/readahead.c:page_cache_ra_unbounded, mm/memory.c:do_anonymous_page,
//! mm/huge_memory.c:do_huge_pmd_anonymous_page, mm/mempolicy.c:alloc_pages_mpol_noprof

use freehold::base::{Gfp, Order, Pfn};

use super::anonymous::{Contents, FaultOutcome, HUGE, Mapping, RANGE_PAGES, Shape};
use super::cache::Content;
use super::frames::{Owner, Place};
use super::{Advice, Defrag, Model};
use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;

/// Flags of readahead. linux: include/linux/pagemap.h:readahead_gfp_mask
const READ_AHEAD: Gfp = Gfp::HIGHUSER_MOVABLE.union(Gfp::NORETRY).union(Gfp::NOWARN);
/// Number of random frames that are tried to find one of the page cache.
const DRAWS: u32 = 8;
/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;

impl<X: Executor> Cpu<'_, '_, X> {
    /// Reads `pages` pages of files that are not in the page cache. When readahead gets no page, allocates that one
    /// page with full effort and reads no further.
    pub fn read_file(&mut self, pages: u32) {
        for _ in 0..pages {
            if let Some(block) = self.alloc(READ_AHEAD, Order::ZERO) {
                self.cache(block);
                continue;
            }
            // Readahead ends here; the reader waits for this page.
            if let Some(block) = self.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO) {
                self.cache(block);
            }
            return;
        }
    }

    /// Adds a block to the machine's page cache, from which reclaim frees.
    pub fn cache(&mut self, block: Block) {
        let Some(model) = self.model() else { return self.keep(block) };
        let content =
            if self.is_one_of_thousand(model.parameters.dirty_permille) { Content::Dirty } else { Content::Clean };
        model.add_file(block.pfn, block.order, content);
        self.pin_some(model, block.pfn);
    }

    /// Uses a random page of the page cache again. Does nothing if none of `DRAWS` random frames is in the page
    /// cache.
    pub fn use_cached(&mut self) {
        let Some(model) = self.model() else { return };
        for _ in 0..DRAWS {
            let frame = self.rng().u32(0..model.frames.len());
            if model.use_file(Pfn::new(frame)) {
                return;
            }
        }
    }

    /// Gives a block full of reclaimable kernel objects to the shrinkers.
    pub fn shrinkable(&mut self, block: Block) {
        let Some(model) = self.model() else { return self.keep(block) };
        let objects = model.parameters.objects_per_page.max(1) << block.order.get();
        model.node_at(block.pfn).slabs.add(&model.frames, block.pfn, block.order, objects);
    }

    /// Maps memory for a task: addresses only, until faults populate pages. If all range numbers are in use, faults in
    /// the ranges without a number fail.
    pub fn map(&mut self, pages: u32) -> Mapping {
        let Some(model) = self.model() else { return Mapping::default() };
        let is_advised = self.rng().u32(0..100) < model.thp().madvised_percent;
        let ends = (0..pages.div_ceil(RANGE_PAGES)).map(|range| (range + 1) * RANGE_PAGES);
        let ranges = ends.map_while(|end| model.ranges.map(Shape { is_advised, is_whole: end <= pages })).collect();
        Mapping { ranges, pages }
    }

    /// Touches a page of a task's memory.
    pub fn fault(&mut self, mapping: &mut Mapping, page: u32) -> FaultOutcome {
        let Some((model, place)) = self.model().zip(mapping.place(page)) else { return FaultOutcome::Failed };
        if model.ranges.has(place) {
            return FaultOutcome::Present;
        }
        model.counters.pgfault.add(1);
        if mapping.is_whole(page) && model.ranges.contents(place.range) == Contents::Empty {
            match self.fault_huge(model, place) {
                FaultOutcome::Failed => {}
                found => return found,
            }
        }
        self.fault_small(model, place)
    }

    /// Unmaps a mapping, and frees all its pages.
    pub fn unmap(&mut self, mapping: Mapping) {
        let Some(model) = self.model() else { return };
        let from = self.number();
        for range in mapping.ranges {
            self.free_gathered(|blocks| {
                model.ranges.empty(range, |pfn, order| {
                    model.frames.disown(pfn);
                    blocks.push(Block { pfn, order, from });
                });
                model.ranges.unmap(range);
            });
        }
    }

    /// Tries to allocate a huge page; returns [`FaultOutcome::Failed`] if the fault must use a small page.
    fn fault_huge(&mut self, model: &Model, place: Place) -> FaultOutcome {
        let Some(gfp) = huge_gfp(model, model.ranges.shape(place.range).is_advised) else {
            return FaultOutcome::Failed;
        };
        let Some(block) = self.alloc_huge(gfp) else {
            model.counters.thp_fault_fallback.add(1);
            return FaultOutcome::Failed;
        };
        if !model.ranges.fill_huge(place.range, block.pfn) {
            self.free(block);
            return FaultOutcome::Present;
        }
        model.counters.thp_fault_alloc.add(1);
        model.frames.set_owner(block.pfn, Owner::task(Place { page: 0, ..place }));
        self.pin_some(model, block.pfn);
        FaultOutcome::Huge
    }

    /// Allocates a huge page on this node with little effort. If that fails and `gfp` permits direct reclaim, tries all
    /// nodes with the effort that `gfp` permits.
    fn alloc_huge(&mut self, gfp: Gfp) -> Option<Block> {
        let near = self.alloc(gfp | Gfp::THISNODE | Gfp::NORETRY, HUGE);
        if near.is_some() || !gfp.contains(Gfp::DIRECT_RECLAIM) {
            return near;
        }
        self.alloc(gfp, HUGE)
    }

    fn fault_small(&mut self, model: &Model, place: Place) -> FaultOutcome {
        let Some(block) = self.alloc(Gfp::HIGHUSER_MOVABLE | Gfp::ZERO, Order::ZERO) else {
            return FaultOutcome::Failed;
        };
        if !model.ranges.fill(place, block.pfn) {
            self.free(block);
            return FaultOutcome::Present;
        }
        model.frames.set_owner(block.pfn, Owner::task(place));
        self.pin_some(model, block.pfn);
        FaultOutcome::Small
    }

    /// Pins a newly allocated page with the configured probability.
    fn pin_some(&mut self, model: &Model, pfn: Pfn) {
        if self.is_one_of_thousand(model.parameters.pinned_permille) {
            model.pins.pin(&model.frames, pfn, self.now() + model.parameters.pin_ms * PS_PER_MS);
        }
    }

    fn is_one_of_thousand(&mut self, permille: u32) -> bool {
        permille > 0 && self.rng().u32(0..1000) < permille
    }
}

/// Returns the flags of a fault's request for a huge page; `None` if it makes no such request.
fn huge_gfp(model: &Model, is_advised: bool) -> Option<Gfp> {
    let thp = model.thp();
    let is_enabled = match thp.enabled {
        Advice::Always => true,
        Advice::Madvise => is_advised,
        Advice::Never => false,
    };
    let more = match (thp.defrag, is_advised) {
        (Defrag::Always, true) | (Defrag::DeferMadvise | Defrag::Madvise, true) => Gfp::DIRECT_RECLAIM,
        (Defrag::Always, false) => Gfp::DIRECT_RECLAIM | Gfp::NORETRY,
        (Defrag::Defer, _) | (Defrag::DeferMadvise, false) => Gfp::KSWAPD_RECLAIM,
        (Defrag::Madvise, false) | (Defrag::Never, _) => Gfp::empty(),
    };
    is_enabled.then_some(Gfp::TRANSHUGE_LIGHT | more)
}
