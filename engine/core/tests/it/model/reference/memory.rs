//! What a zone remembers of compaction, and how its free pages lie: rule 10, suitability, index, deferral.

use super::Reference;
use super::map::Map;
use super::zone::Zone;
use freehold::base::{MigrateType, ZoneKind};
use freehold::policy::flags::AllocFlags;

/// A zone's memory of compaction.
#[derive(Default)]
pub(crate) struct Memory {
    /// Where the lower scanner goes on: for attempts that wait for nothing, and for others.
    pub sources: [Option<u32>; 2],
    /// Where the upper scanner goes on.
    pub targets: Option<u32>,
    /// Where scanners began when hints were last looked over; 0 before.
    pub first_source: u32,
    pub first_target: u32,
    /// The scanners met on behalf of a request.
    pub stale: bool,
    considered: u32,
    shift: u32,
    /// Compaction failed at this order and above.
    failed: Option<u8>,
}

impl Memory {
    /// Nothing below `pfn` is left to be moved.
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

    /// Counts an attempt; says whether it is passed over.
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

    /// Thousandths; -1000 if there is a block.
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

    /// Percent of the free pages that lie in blocks smaller than a pageblock.
    pub(crate) fn unusable(&self, block: u8) -> i64 {
        let pages: i64 = self.blocks_by_order().map(|(order, blocks)| blocks << order).sum();
        let large = self.blocks_by_order().filter(|&(order, _)| order >= usize::from(block));
        let usable: i64 = large.map(|(order, blocks)| blocks << order).sum();
        if pages == 0 { 0 } else { (pages - usable) * 100 / pages }
    }

    /// Whether there would be targets, with so many more pages free.
    pub(crate) fn has_room(&self, order: u8, highest: ZoneKind, extra: i64) -> bool {
        let mark = self.boost + if order > 3 { self.low } else { self.min } + (2 << order);
        self.watermark_ok(0, mark, highest, AllocFlags::CMA, extra)
    }

    pub(crate) fn is_suitable(&self, order: u8, highest: ZoneKind) -> bool {
        self.has_room(order, highest, 0) && self.is_in_pieces(order)
    }

    /// Whether a large block is missing because what is free lies in pieces.
    pub(crate) fn is_in_pieces(&self, order: u8) -> bool {
        order <= 3 || !(0..=500).contains(&self.fragmentation_index(order))
    }

    /// Looks over what is known of the zone's pageblocks, from both ends to the middle, if a request found all scanned.
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

    /// Whether there is no point in compacting for an order: `Some(true)` if it has a block already.
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

    /// Whether the lists have a block that such a request takes, or whose pageblock it takes over.
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
    /// How fragmented a node is, in percent.
    pub(crate) fn score(&self, node: u8) -> i64 {
        let zones: Vec<_> = self.zones.iter().filter(|zone| zone.node.0 == node && zone.populated).collect();
        let present: i64 = zones.iter().map(|zone| zone.present).sum();
        zones.iter().map(|zone| zone.present * zone.unusable(self.map.block) / (present + 1)).sum()
    }
}
