//! Compaction's memory of a zone, and measures of its free memory: rule 10, suitability, index, deferral.

use super::Reference;
use super::map::Map;
use super::zone::Zone;
use freehold::base::{MigrateType, ZoneKind};
use freehold::policy::flags::AllocFlags;

/// Compaction's memory of a zone.
#[derive(Default)]
pub(crate) struct Memory {
    /// Positions at which the source scanner continues: for async runs, and for others.
    pub sources: [Option<u32>; 2],
    /// Position at which the target scanner continues.
    pub targets: Option<u32>,
    /// Positions of the scanners after the last review of the hints; 0 before the first one.
    pub first_source: u32,
    pub first_target: u32,
    /// Set when the scanners met in a run for a request.
    pub stale: bool,
    considered: u32,
    shift: u32,
    /// Lowest order at which compaction failed.
    failed: Option<u8>,
}

impl Memory {
    /// Records that no movable page is left below `pfn`.
    pub(crate) fn note_source(&mut self, pfn: u32, waits: bool) {
        let places = if waits { 2 } else { 1 };
        for place in &mut self.sources[..places] {
            *place = Some(place.map_or(pfn, |now| now.max(pfn)));
        }
    }

    pub(crate) fn begin_anew(&mut self) {
        (self.sources, self.targets) = ([None; 2], None);
    }

    fn has_failed_at(&self, order: u8) -> bool {
        self.failed.is_some_and(|failed| order >= failed)
    }

    /// Counts an attempt. Returns whether it is deferred.
    pub(crate) fn is_deferred(&mut self, order: u8) -> bool {
        if !self.has_failed_at(order) {
            return false;
        }
        self.considered = (self.considered + 1).min(1 << self.shift);
        self.considered < 1 << self.shift
    }

    pub(crate) fn defer(&mut self, order: u8) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(6);
        self.failed = Some(self.failed.map_or(order, |failed| failed.min(order)));
    }

    pub(crate) fn succeed(&mut self, order: u8) {
        if self.has_failed_at(order) {
            self.failed = Some(order + 1);
        }
    }

    pub(crate) fn serve(&mut self, order: u8) {
        (self.considered, self.shift) = (0, 0);
        self.succeed(order);
    }

    fn is_restarting(&self, order: u8) -> bool {
        self.has_failed_at(order) && self.shift == 6 && self.considered >= 64
    }
}

impl Zone {
    fn blocks_by_order(&self) -> impl Iterator<Item = (usize, i64)> {
        self.lists.iter().enumerate().map(|(order, lists)| (order, lists.iter().map(|list| list.len() as i64).sum()))
    }

    /// Returns the fragmentation index in thousandths, or -1000 if a block of the order is free.
    fn fragmentation_index(&self, order: u8) -> i64 {
        let order = usize::from(order);
        let blocks: i64 = self.blocks_by_order().map(|(_, blocks)| blocks).sum();
        let pages: i64 = self.blocks_by_order().map(|(order, blocks)| blocks << order).sum();
        if blocks == 0 {
            return 0;
        }
        if self.blocks_by_order().any(|(at, blocks)| at >= order && blocks > 0) {
            return -1000;
        }
        1000 - (1000 + pages * 1000 / (1 << order)) / blocks
    }

    /// Returns the percentage of free pages that are in blocks smaller than a pageblock.
    pub(crate) fn unusable(&self, block: u8) -> i64 {
        let pages: i64 = self.blocks_by_order().map(|(order, blocks)| blocks << order).sum();
        let large = self.blocks_by_order().filter(|&(order, _)| order >= usize::from(block));
        let usable: i64 = large.map(|(order, blocks)| blocks << order).sum();
        if pages == 0 { 0 } else { (pages - usable) * 100 / pages }
    }

    /// Returns whether there are enough free pages for targets, if `extra` more pages were free.
    pub(crate) fn has_room(&self, order: u8, highest: ZoneKind, extra: i64) -> bool {
        let mark = self.boost + if order > 3 { self.low } else { self.min } + (2 << order);
        self.watermark_ok(0, mark, highest, AllocFlags::CMA, extra)
    }

    pub(crate) fn is_suitable(&self, order: u8, highest: ZoneKind) -> bool {
        self.has_room(order, highest, 0) && self.is_in_pieces(order)
    }

    /// Returns whether a block is missing because of fragmentation and not because of a lack of memory. Always true for
    /// orders up to 3.
    pub(crate) fn is_in_pieces(&self, order: u8) -> bool {
        order <= 3 || !(0..=500).contains(&self.fragmentation_index(order))
    }

    /// Reviews the skip hints of the zone's pageblocks, from both ends to the middle, if a run for a request has
    /// scanned the whole zone.
    pub(crate) fn look_over_hints(&mut self, map: &mut Map) {
        if !std::mem::take(&mut self.memory.stale) {
            return;
        }
        let size = 1_u32 << map.block;
        let (mut low, mut high) = (self.span.start, self.span.end - 1);
        let (mut sources, mut targets) = (None, None);
        while low < high {
            if map.clears_hint(self.index, low, true, sources.is_some()) {
                sources = sources.or(Some(low));
            }
            if map.clears_hint(self.index, high, targets.is_some(), true) {
                targets = targets.or(Some(high));
            }
            low += size;
            high = high.saturating_sub(size);
        }
        self.memory.first_source = sources.unwrap_or(self.memory.first_source);
        self.memory.first_target = targets.unwrap_or(self.memory.first_target);
        let (source, target) = sources.zip(targets).unwrap_or((low, high));
        (self.memory.sources, self.memory.targets) = ([Some(source); 2], Some(target));
    }

    /// Returns the reason why compaction for an order is unnecessary: `Some(true)` if a block is available,
    /// `Some(false)` if compaction cannot help, `None` if it is necessary.
    pub(crate) fn needs_no_compaction(
        &mut self,
        map: &mut Map,
        order: u8,
        highest: ZoneKind,
        flags: AllocFlags,
        room: AllocFlags,
    ) -> Option<bool> {
        let mark = self.mark(flags & (AllocFlags::WMARK_LOW | AllocFlags::WMARK_HIGH));
        if self.watermark_ok(order, mark, highest, flags, 0) {
            return Some(true);
        }
        if !self.watermark_ok(0, mark + (2 << order), highest, room, 0) && room.is_empty() {
            return Some(false);
        }
        if !self.is_suitable(order, highest) {
            return Some(false);
        }
        if self.memory.is_restarting(order) {
            self.look_over_hints(map);
        }
        None
    }

    /// Returns whether the free lists have a block that such a request may take or claim.
    pub(crate) fn offers(&self, map: &Map, order: u8, migratetype: MigrateType, grouping_off: bool) -> bool {
        use MigrateType::{Cma, Movable, Reclaimable, Unmovable};
        (order..=10).any(|at| {
            let claims = at >= map.block / 2 || migratetype != Movable || grouping_off;
            self.has_block(at, migratetype)
                || migratetype == Movable && self.has_block(at, Cma)
                || claims && [Unmovable, Movable, Reclaimable].into_iter().any(|other| self.has_block(at, other))
        })
    }
}

impl Reference {
    /// Returns the fragmentation score of a node, in percent.
    pub(crate) fn score(&self, node: u8) -> i64 {
        let zones: Vec<_> = self.zones.iter().filter(|zone| zone.node.0 == node && zone.populated).collect();
        let present: i64 = zones.iter().map(|zone| zone.present).sum();
        zones.iter().map(|zone| zone.present * zone.unusable(self.map.block) / (present + 1)).sum()
    }
}
