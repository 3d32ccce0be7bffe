//! Allocation of a given part of a pageblock that is free. The pageblock is isolated, all CPUs drain their lists of the
//! zone if necessary, and the rest of the pageblock gets its type back.

use freehold::base::MigrateType;

use super::map::{Map, Page};
use super::remote_frees::natural;
use super::zone::Zone;
use super::{Block, Reference};

impl Reference {
    /// Returns the first frames of the vacant blocks of an order, in pageblocks for ordinary requests.
    pub(crate) fn vacant(&self, order: u8) -> Vec<u32> {
        (0..self.map.end()).step_by(1 << order).filter(|&pfn| self.is_vacant((pfn, order))).collect()
    }

    fn is_vacant(&self, (pfn, order): Block) -> bool {
        let end = pfn + (1 << order);
        end <= self.map.end()
            && self.map.zone(pfn).is_some()
            && self.map.type_of(pfn).index() < MigrateType::PCP_COUNT
            && (pfn..end).all(|at| matches!(self.map.page(at), Page::Free | Page::Listed | Page::Stacked))
    }

    /// Allocates a vacant part of a pageblock. The pageblock has no owner afterwards.
    pub(crate) fn take_range(&mut self, (pfn, order): Block) {
        let zone = self.map.zone(pfn).expect("a vacant block is in a zone");
        let (start, end, kept) = (self.block_of(pfn), pfn + (1 << order), self.map.type_of(pfn));
        self.map.owned.cases.isolated += u64::from(self.map.owner(pfn).is_some());
        self.zones[zone].split_at_pageblocks(&mut self.map, start);
        self.zones[zone].retype(&mut self.map, start, MigrateType::Isolate);
        if (pfn..end).any(|pfn| self.map.page(pfn) != Page::Free) {
            (0..self.lists.len()).for_each(|cpu| self.drain_pages_zone(cpu, zone));
            self.relax();
        }
        let mut at = pfn;
        while at < end {
            at = self.zones[zone].cut(&mut self.map, at, end);
        }
        self.zones[zone].retype(&mut self.map, start, kept);
    }
}

impl Zone {
    /// Splits a free block that is larger than a pageblock into pageblocks.
    fn split_at_pageblocks(&mut self, map: &mut Map, start: u32) {
        let Some((head, order)) = map.free_around(start).filter(|&(_, order)| order > map.block) else { return };
        let (_, migratetype) = self.remove(map, head);
        for piece in (head..head + (1 << order)).step_by(1 << map.block) {
            self.insert(map, piece, map.block, migratetype, true);
        }
    }

    /// Cuts frames from `from` on, up to `end`, out of the free block that contains them. Returns the end of that
    /// block.
    fn cut(&mut self, map: &mut Map, from: u32, end: u32) -> u32 {
        let (head, order) = map.free_around(from).expect("a drained page must be in a free block");
        let behind = head + (1 << order);
        let (_, migratetype) = self.remove(map, head);
        for (pfn, order) in natural(head..from, 10).into_iter().chain(natural(end.min(behind)..behind, 10)) {
            self.insert(map, pfn, order, migratetype, false);
        }
        behind
    }
}
