//! Ranges to be freed: allocates neighbouring pages in three forms, and times the loops that free them.

use std::ops::Range;

use freehold::base::{Gfp, Order, Pfn};
use freehold::page::Placement;
use freehold_timing::clock::Sample;
use freehold_timing::clock::time;

use super::cold;
use crate::engine::Engine;

/// Pages of a large range, as freed at once in the author's test.
pub(super) const LARGE_PAGES: u32 = 16_384;
/// Order of a huge page.
pub(super) const HUGE: Order = Order::new(9);

/// Form of a range's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MadeOf {
    /// Single pages with one reference each.
    Pages,
    /// Single pages without references.
    FrozenPages,
    /// The largest blocks that fit, without references.
    FrozenBlocks,
}

impl MadeOf {
    /// Allocates a range of `pages` pages, which must be a multiple of the largest block.
    pub(super) fn allocate(self, engine: &Engine<'_>, pages: u32) -> Range<Pfn> {
        let place = Placement::aligned(Order::MAX.pages());
        let start = match self {
            MadeOf::Pages => engine.alloc_contig_pages(Gfp::KERNEL, pages, place),
            MadeOf::FrozenPages | MadeOf::FrozenBlocks => engine.alloc_contig_frozen_pages(Gfp::KERNEL, pages, place),
        };
        let start = start.expect("free memory suffices");
        let range = start..start.offset(pages);
        if self == MadeOf::FrozenPages {
            for (block, order) in start.blocks_up_to(range.end, Order::MAX) {
                engine.split_page(block, order).expect("the block is allocated");
            }
        }
        range
    }

    /// Frees such a range.
    pub(super) fn free(self, engine: &Engine<'_>, range: Range<Pfn>) {
        let freed = match self {
            MadeOf::Pages => engine.free_contig_range(range),
            MadeOf::FrozenPages | MadeOf::FrozenBlocks => engine.free_contig_frozen_range(range),
        };
        freed.expect("the range is allocated");
    }
}

/// Times frees of large ranges, one after the other.
pub(super) fn free_large(engine: &Engine<'_>, ranges: u64, made_of: MadeOf) -> Sample {
    (0..ranges)
        .map(|_| {
            let range = made_of.allocate(engine, LARGE_PAGES);
            time(1, || made_of.free(engine, range))
        })
        .sum()
}

/// Times frees of large ranges whose metadata is no longer in the caches.
pub(super) fn free_large_cold(engine: &Engine<'_>, ranges: u64, made_of: MadeOf) -> Sample {
    (0..ranges)
        .map(|_| {
            let range = made_of.allocate(engine, LARGE_PAGES);
            cold::fill_caches();
            time(1, || made_of.free(engine, range))
        })
        .sum()
}

/// Times frees of huge pages that were split into frozen single pages.
pub(super) fn free_huge(engine: &Engine<'_>, ranges: u64) -> Sample {
    let blocks: Vec<_> = (0..ranges)
        .map(|_| {
            let block = engine.alloc_frozen_pages(Gfp::KERNEL, HUGE).expect("free memory suffices");
            engine.split_page(block, HUGE).expect("the block is allocated");
            block..block.offset(HUGE.pages())
        })
        .collect();
    time(ranges, || blocks.into_iter().for_each(|block| MadeOf::FrozenPages.free(engine, block)))
}

/// Times the author's loop: a huge page is allocated, split, and freed as a range.
pub(super) fn author_loop(engine: &Engine<'_>, loops: u64) -> Sample {
    time(loops, || {
        for _ in 0..loops {
            let block = engine.alloc_pages(Gfp::KERNEL, HUGE).expect("free memory suffices");
            engine.split_page(block, HUGE).expect("the block is allocated");
            MadeOf::Pages.free(engine, block..block.offset(HUGE.pages()));
        }
    })
}
