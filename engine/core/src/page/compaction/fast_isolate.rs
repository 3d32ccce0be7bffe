//! FastSearch searches: the free lists know where free pages are, so ask them before scanning.
//!
//! For a source, a pageblock near the lower scanner that is free in part already is emptied with fewer moves. For a
//! target, a free block near the upper scanner saves the scan of what lies before it. A search looks at a few dozen
//! blocks at most, fewer after each one in vain, and turns the lists over so that the next one finds others.
//!
//! linux: mm/compaction.c:fast_find_migrateblock, fast_isolate_freepages, fast_isolate_around

use super::run::Run;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::Platform;
use crate::platform::probe::Compactor;
use crate::policy::compaction;

/// Blocks of any type, as the lists are asked for them.
const EVERY_TYPE: u8 = u8::MAX;

/// Where a scan of sources goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanStart {
    /// Where the scanner stands, or at the first pageblock after it that hints do not pass over.
    AtScanner,
    /// In this pageblock, which a quick search has chosen.
    Chosen(Pfn),
}

impl<P: Platform> Run<'_, '_, P> {
    /// Finds a pageblock near the scanner that is partly free, by the free lists of the larger orders. If there is
    /// none, the scanner goes back, once, to the lowest block that was chosen so. linux:
    /// mm/compaction.c:fast_find_migrateblock
    pub(super) fn fast_find_migrateblock(&mut self) -> ScanStart {
        // Whoever heeds no hints wants smaller blocks, or none.
        let Some(order) = self.aim.order.filter(|&order| order > Order::COSTLY) else { return ScanStart::AtScanner };
        let (start, _) = self.zone.span();
        let at_start = self.source == start;
        let is_new_block = at_start || self.source.is_aligned(self.pageblock_order());
        if !is_new_block || self.aim.ignores_hints() || self.finishing.is_some() || !self.searches_quickly() {
            return ScanStart::AtScanner;
        }
        // At the start of a zone half of what is between the scanners may be chosen from, later an eighth: what is
        // chosen must not have been a target.
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

    /// Whether the run empties whichever pageblock is the easiest.
    fn searches_quickly(&self) -> bool {
        compaction::searches_quickly(self.allocator.rules().compaction.sources, self.source_facts())
    }

    /// A free movable block of an order below `order`, in a pageblock before `before` that is not passed over.
    fn search_sources(&mut self, order: Order, before: Pfn) -> Option<Pfn> {
        let mut left = self.fast_search.limit();
        Order::COSTLY.to(order.down()?).rev().find_map(|order| self.search_sources_of(order, before, &mut left))
    }

    /// The same at one order, among as many blocks as are left. What was looked at is looked at last from then on.
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

    /// Takes a free block near the upper scanner, and what else is free in its pageblock, by the free lists; takes
    /// nothing if there is none. At the start of a scan the search is deep, and ends where free blocks are in any case.
    /// linux: mm/compaction.c:fast_isolate_freepages
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

    /// Where the scanner of targets begins after a deep search in vain: at the highest free block that was seen, or,
    /// for a request, half-way to the scanner of sources. The pageblock whose free blocks are taken at once, if it
    /// suits.
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

    /// Takes a free block of this order from the upper part of what lies between the scanners: the first that is found
    /// in the uppermost quarter, or else the highest in the upper half. The more was looked at in vain, the less is
    /// looked at from then on.
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

    /// Takes the free blocks around one that was found, unless there is enough, or the run does not wait for anything.
    /// linux: mm/compaction.c:fast_isolate_around
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
    /// From this frame on, any free block will do.
    wanted: Pfn,
    /// From here on the highest will.
    least: Pfn,
    /// Start of the zone.
    start: Pfn,
    /// Blocks of one order that are looked at.
    limit: u32,
    depth: Depth,
    /// The highest pageblock in which a free block was seen.
    highest: Option<Pfn>,
}

/// How much a search may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The scanner has not begun: where it begins is worth a long look.
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

/// What ended a search for targets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hit {
    /// A free block, in hand now.
    Taken(Pfn),
    /// One that the zone cannot spare.
    TooLow,
}
