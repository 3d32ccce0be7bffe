//! Quick searches: the free lists know where free pages are, so ask them before scanning.
//!
//! For a source, a pageblock near the lower scanner that is free in part already is emptied with fewer moves. For a
//! target, a free block near the upper scanner saves the scan of what lies before it. A search looks at a few dozen
//! blocks at most, fewer after each one in vain, and turns the lists over so that the next one finds others.
//!
//! linux: mm/compaction.c:fast_find_migrateblock, fast_isolate_freepages, fast_isolate_around

use super::run::Run;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::Platform;
use crate::policy::compaction::{self, CLUSTER};

/// What a run remembers of its quick searches.
#[derive(Debug, Default)]
pub(super) struct Quick {
    /// Those in vain, since the last that was not.
    failures: u32,
    /// The lowest source found, until the scanner has gone back there.
    lowest: Option<Pfn>,
    /// Where the last target was found; the next search begins there.
    order: Option<Order>,
}

impl Quick {
    /// Blocks that one quick search may look at.
    fn limit(&self) -> u32 {
        (CLUSTER >> self.failures.min(31)) + 1
    }
}

impl<P: Platform> Run<'_, '_, P> {
    /// A pageblock near the scanner that is free in part, by the free lists of the larger orders; `None` if it goes on
    /// where it stands.
    pub(super) fn quick_source(&mut self) -> Option<Pfn> {
        // Whoever heeds no hints wants smaller blocks, or none.
        let order = self.aim.order.filter(|&order| order > Order::COSTLY)?;
        let (start, _) = self.zone.span();
        let at_start = self.source == start;
        let is_new_block = at_start || self.source.is_aligned(self.pageblock_order());
        if !is_new_block || self.finishing.is_some() || !self.searches_quickly() {
            return None;
        }
        // At the start of a zone half of what is between the scanners may be chosen from, later an eighth: what is
        // chosen must not have been a target.
        let gap = self.target.raw().saturating_sub(self.source.raw());
        let before = self.block_of(self.source.offset(if at_start { gap / 2 } else { gap / 8 }));
        let found = self.search_sources(order, before);
        match found {
            Some(pfn) => {
                self.quick.failures = 0;
                self.quick.lowest = Some(self.quick.lowest.map_or(pfn, |lowest| lowest.min(pfn)));
            }
            None => self.quick.failures += 1,
        }
        // In vain, the scanner goes back, once, to the lowest block that was chosen.
        found.or_else(|| self.quick.lowest.take()).map(|pfn| self.block_of(pfn).max(start))
    }

    /// Whether the run empties whichever pageblock is the easiest.
    fn searches_quickly(&self) -> bool {
        compaction::searches_quickly(self.allocator.policy.compaction.sources, self.source_facts())
    }

    /// A free movable block of an order below `order`, in a pageblock before `before` that is not passed over.
    fn search_sources(&mut self, order: Order, before: Pfn) -> Option<Pfn> {
        let limit = self.quick.limit();
        let mut looked = 0;
        let mut locked = self.allocator.lock_zone(self.zone);
        let map = locked.map;
        let found = Order::COSTLY.to(order.down()?).rev().find_map(|order| {
            let list = locked.areas.area(order).list(MigrateType::Movable);
            let mut at_hand = list.iter(&map).take((limit - looked) as usize).inspect(|_| looked += 1);
            at_hand.find(|&pfn| pfn < before && !map.pageblock(pfn).is_skipped())
        });
        if let Some(pfn) = found {
            locked.move_to_tail(pfn, MigrateType::Movable);
        }
        self.scan.sources += looked;
        found
    }

    /// Takes a free block near the upper scanner, and what else is free in its pageblock, by the free lists; takes
    /// nothing if there is none.
    pub(super) fn quick_targets(&mut self, needed: u32) {
        let Some(largest) = self.aim.order.and_then(Order::down) else { return };
        let first = self.quick.order.unwrap_or(largest).min(largest);
        let gap = self.target.raw().saturating_sub(self.source.raw());
        let above = |part: u32| self.block_of(Pfn::new(self.target.raw() - part));
        let reach = Reach { wanted: above(gap / 4), least: above(gap / 2) };
        let mut limit = self.quick.limit();
        for order in Order::ZERO.to(first).rev().chain(first.to(largest).rev().filter(|&order| order > first)) {
            match self.search_targets(order, reach, &mut limit) {
                Search::Found(pfn) => {
                    self.quick.failures = 0;
                    self.quick.order = Some(order);
                    return self.take_around(pfn, needed);
                }
                Search::TooLow => return,
                Search::Nothing => {}
            }
        }
        self.quick.failures += 1;
    }

    /// Takes a free block of this order from the upper part of what lies between the scanners: the first that is found
    /// in the uppermost quarter, or else the highest in the upper half. The more was looked at in vain, the less is looked at
    /// from then on.
    fn search_targets(&mut self, order: Order, reach: Reach, limit: &mut u32) -> Search {
        let mut locked = self.allocator.lock_zone(self.zone);
        let map = locked.map;
        let (mut looked, mut last, mut best) = (0, None, None);
        for pfn in locked.areas.area(order).list(MigrateType::Movable).iter_back(&map) {
            (looked, last) = (looked + 1, Some(pfn));
            if pfn >= reach.wanted {
                best = Some(pfn);
                break;
            }
            if pfn >= reach.least && best.is_none_or(|best| best < pfn) {
                best = Some(pfn);
                *limit /= 2;
            }
            if looked >= *limit {
                *limit = (*limit / 2).max(1);
                break;
            }
        }
        self.scan.targets += looked;
        let Some(turned) = best.or(last) else { return Search::Nothing };
        locked.areas.rotate_to(&map, turned);
        let Some(pfn) = best else { return Search::Nothing };
        if !locked.take_target(pfn) {
            return Search::TooLow;
        }
        self.targets.put(&map, pfn, order);
        self.scan.isolated += order.pages();
        Search::Found(pfn)
    }

    /// Takes the free blocks around one that was found, unless there is enough, or the run does not wait for anything.
    fn take_around(&mut self, pfn: Pfn, needed: u32) {
        if self.targets.pages() >= needed || self.aim.is_optimistic() {
            return;
        }
        let block = self.block_of(pfn);
        let end = block.offset(self.pageblock_order().pages());
        let (stopped, _) = self.take_free_blocks(block..end, needed, 1);
        if stopped == end {
            self.allocator.map.pageblock(block).pass_over();
        }
    }
}

/// Where in the zone a target may lie.
#[derive(Clone, Copy)]
struct Reach {
    /// From this frame on, any free block will do.
    wanted: Pfn,
    /// From here on the highest will.
    least: Pfn,
}

/// What a search of a list brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    Found(Pfn),
    Nothing,
    /// The zone has too little free memory to lose more.
    TooLow,
}
