//! Quick searches: searches of the free lists for sources and targets, which come before a scan of frames.
//!
//! For a source, a pageblock near the lower scanner that is already partly free can be emptied with fewer moves. For a
//! target, a free block near the upper scanner saves the scan of the frames before it. A search for sources reads at
//! most 33 blocks; a search for targets reads at most 16 of each order, or as many as half the pages of a pageblock at
//! the start of a scan. Apart from that start, both read fewer after each failed search. A search rotates the lists, so
//! that the next search finds other blocks.
//!
//! linux: mm/compaction.c:fast_find_migrateblock, fast_isolate_freepages, fast_isolate_around

use super::run::Run;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::Platform;
use crate::platform::probe::Compactor;
use crate::policy::compaction;

/// Mask of all types, for queries about the free lists of an order.
const EVERY_TYPE: u8 = u8::MAX;

/// Start of a scan for sources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanStart {
    /// The scanner's position, or the first pageblock after it that is not skipped by a hint.
    AtScanner,
    /// The start of this pageblock, which a quick search has chosen.
    Chosen(Pfn),
}

impl<P: Platform> Run<'_, '_, P> {
    /// Searches the free lists of the orders from 3 up to below the wanted one for a pageblock near the scanner that is
    /// partly free. Only a run for a costly order searches, at the start of a pageblock, and only if the policy lets
    /// it, it respects hints, and it does not finish a pageblock. If the search finds none, the scanner returns, once
    /// per run, to the lowest block that was chosen in this way. linux: mm/compaction.c:fast_find_migrateblock
    pub(super) fn fast_find_migrateblock(&mut self) -> ScanStart {
        // Only runs for a costly order search. A run that ignores hints is for a smaller order or none.
        let Some(order) = self.aim.order.filter(|&order| order > Order::COSTLY) else { return ScanStart::AtScanner };
        let (start, _) = self.zone.span();
        let at_start = self.source == start;
        let is_new_block = at_start || self.source.is_aligned(self.pageblock_order());
        if !is_new_block || self.aim.ignores_hints() || self.finishing.is_some() || !self.searches_quickly() {
            return ScanStart::AtScanner;
        }
        // At the start of a zone the search may choose from half of the range between the scanners, later from an
        // eighth. The limit avoids pageblocks that served as targets.
        let gap = self.target.raw().saturating_sub(self.source.raw());
        let before = self.block_of(self.source.offset(if at_start { gap / 2 } else { gap / 8 }));
        if let Some(pfn) = self.search_sources(order, before) {
            self.fast_search.failures = 0;
            self.fast_search.return_point.note(pfn);
            return ScanStart::Chosen(self.block_of(pfn).max(start));
        }
        self.fast_search.failures += 1;
        self.source = self.fast_search.return_point.take().unwrap_or(self.source);
        ScanStart::AtScanner
    }

    /// Returns whether the policy lets this run choose the pageblock that is easiest to empty.
    fn searches_quickly(&self) -> bool {
        compaction::searches_quickly(self.allocator.rules().compaction.sources, self.source_facts())
    }

    /// Returns a free movable block of an order from 3 up to below `order` that is before `before`, in a pageblock
    /// without a skip hint.
    fn search_sources(&mut self, order: Order, before: Pfn) -> Option<Pfn> {
        let mut left = self.fast_search.limit();
        Order::COSTLY.to(order.down()?).rev().find_map(|order| self.search_sources_of(order, before, &mut left))
    }

    /// Searches the free list of one order, reading at most `left` blocks. The list is rotated, so that later searches
    /// read these blocks last.
    fn search_sources_of(&mut self, order: Order, before: Pfn, left: &mut u32) -> Option<Pfn> {
        if *left == 0 || !self.zone.has_block_at(order, EVERY_TYPE) {
            return None;
        }
        let mut locked = self.allocator.lock_zone(self.zone);
        let map = locked.map;
        let (mut last, mut found) = (None, None);
        for pfn in locked.areas.area(order).list(MigrateType::Movable).iter(&map) {
            self.scan.sources += 1;
            if *left == 0 {
                last = Some(pfn);
                break;
            }
            *left -= 1;
            if pfn < before && !map.pageblock(pfn).is_skipped() {
                (last, found) = (Some(pfn), Some(pfn));
                break;
            }
        }
        if let Some(last) = last {
            locked.areas.rotate_past(&map, last);
        }
        found
    }

    /// Searches the free lists for a block near the upper scanner, and takes it and, if more than its pages are needed,
    /// the other free blocks of its pageblock. The search is deep at the start of a scan, and shallow later. If a
    /// shallow search fails, nothing is taken; if a deep one fails, the scanner may move
    /// ([`enter_at`](Self::enter_at)). linux: mm/compaction.c:fast_isolate_freepages
    pub(super) fn fast_isolate_freepages(&mut self, needed: u32) {
        let Some(largest) = self.aim.order.and_then(Order::down) else { return };
        let mut search = Search::new(self);
        let first = self.fast_search.order.unwrap_or(largest).min(largest);
        self.fast_search.order = Some(first);
        let mut orders = Order::ZERO.to(first).rev().chain(first.to(largest).rev().filter(|&order| order > first));
        let found = orders.find_map(|order| self.search_targets(order, &mut search));
        let around = match found {
            Some(Hit::Taken(pfn)) => Some(pfn),
            Some(Hit::TooLow) | None => {
                self.fast_search.turn(first, largest);
                self.fast_search.failures += 1;
                self.enter_at(&search)
            }
        };
        if let Some(highest) = search.highest {
            let last = self.last_block();
            self.zone.compaction.note_searched(highest, self.below(highest), last);
        }
        if let Some(pfn) = around {
            self.fast_isolate_around(pfn, needed);
        }
    }

    /// Moves the scanner of targets after a deep search has failed; does nothing after a shallow search. The new
    /// position is the highest pageblock in which a free block was seen, if that is in the upper half of the range
    /// between the scanners. Otherwise a direct compaction moves the scanner half-way to the scanner of sources, if
    /// that frame exists. Returns the pageblock whose free blocks are to be taken at once: the highest pageblock without
    /// a further check, or the half-way pageblock if it is suitable as a target.
    fn enter_at(&mut self, search: &Search) -> Option<Pfn> {
        if search.depth == Depth::Shallow {
            return None;
        }
        if let Some(highest) = search.highest.filter(|&highest| highest >= search.least) {
            self.target = highest;
            return Some(highest);
        }
        if self.aim.by != Compactor::Direct || self.allocator.map.try_frame(search.least).is_none() {
            return None;
        }
        self.target = search.least;
        self.suits_as_target(search.least).then_some(search.least)
    }

    /// Takes a free block of this order from the upper part of the range between the scanners: the first block found in
    /// the uppermost quarter, or else the highest block in the upper half. The limit of blocks to read is halved at
    /// each better block of the upper half, and for the next order if it was reached. Returns `None` if there is no
    /// block in the upper half.
    fn search_targets(&mut self, order: Order, search: &mut Search) -> Option<Hit> {
        if !self.zone.has_block_at(order, EVERY_TYPE) {
            return None;
        }
        let mut locked = self.allocator.lock_zone(self.zone);
        let map = locked.map;
        let (mut looked, mut last, mut best, mut is_preferred) = (0, None, None, false);
        for pfn in locked.areas.area(order).list(MigrateType::Movable).iter_back(&map) {
            (looked, last) = (looked + 1, Some(pfn));
            search.highest = search.highest.max(Some(pfn.align_down(map.pageblock_order()).max(search.start)));
            is_preferred = pfn >= search.wanted;
            if is_preferred {
                best = last;
                break;
            }
            if pfn >= search.least && best.is_none_or(|best| best < pfn) {
                best = last;
                search.limit /= 2;
            }
            if looked >= search.limit {
                break;
            }
        }
        self.scan.targets += looked;
        if is_preferred {
            self.fast_search.failures = 0;
            self.fast_search.order = Some(order);
        } else if looked >= search.limit {
            search.limit = (search.limit / 2).max(1);
        }
        locked.areas.rotate_to(&map, best.or(last)?);
        let pfn = best?;
        if !locked.isolate_free_page(pfn) {
            return Some(Hit::TooLow);
        }
        self.targets.put(&map, pfn, order);
        self.scan.isolated += order.pages();
        self.scan.targets += order.pages() - 1;
        Some(Hit::Taken(pfn))
    }

    /// Takes the free blocks in the pageblock of a block that was found, unless there are enough targets or the run is
    /// optimistic. linux: mm/compaction.c:fast_isolate_around
    fn fast_isolate_around(&mut self, pfn: Pfn, needed: u32) {
        if self.targets.pages() >= needed || self.aim.is_optimistic() {
            return;
        }
        let block = self.block_of(pfn);
        let end = block.offset(self.pageblock_order().pages());
        let (stopped, _) = self.isolate_freepages_block(block..end, needed, 1);
        if stopped == end {
            self.allocator.map.pageblock(block).set_skip();
        }
    }
}

/// A search of the free lists for a target.
struct Search {
    /// Frame from which on any free block is accepted.
    wanted: Pfn,
    /// Frame from which on the highest free block is accepted.
    least: Pfn,
    /// First frame of the zone.
    start: Pfn,
    /// Maximum number of blocks to read of the next order.
    limit: u32,
    depth: Depth,
    /// Highest pageblock in which a free block was seen.
    highest: Option<Pfn>,
}

/// Cost class of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The scanner is at its first position, which is worth a long search.
    Deep,
    Shallow,
}

impl Search {
    fn new<P: Platform>(run: &Run<'_, '_, P>) -> Search {
        let gap = run.target.raw().saturating_sub(run.source.raw());
        let depth = if run.zone.compaction.is_at_first_target(run.target) { Depth::Deep } else { Depth::Shallow };
        let limit = match depth {
            Depth::Deep => run.pageblock_order().pages() / 2,
            Depth::Shallow => (run.fast_search.limit() / 2).max(1),
        };
        let (start, _) = run.zone.span();
        let wanted = run.block_of(Pfn::new(run.target.raw() - gap / 4));
        let least = run.block_of(Pfn::new(run.target.raw() - gap / 2));
        Search { wanted, least, start, limit, depth, highest: None }
    }
}

/// Result of a search for targets that found a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hit {
    /// The free block, which the run has taken.
    Taken(Pfn),
    /// The zone is too near its min watermark to lose the block.
    TooLow,
}
