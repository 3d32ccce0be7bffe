//! Pageblocks out of circulation, under the zone lock: what is free in them, or becomes so, serves nobody.
//!
//! linux: mm/page_isolation.c:set_migratetype_isolate, unset_migratetype_isolate

use super::free_area::End;
use super::locked::LockedZone;
use crate::base::{MigrateType, Order, Pfn};
use crate::platform::Platform;

impl<P: Platform> LockedZone<'_, '_, P> {
    /// Takes a pageblock out of circulation; `false` if too many have already.
    pub(in crate::page) fn isolate_pageblock(&mut self, block: Pfn) -> bool {
        let pageblock = self.map.pageblock(block);
        match pageblock.isolations() {
            u8::MAX => return false,
            0 => {
                let old = pageblock.migratetype();
                pageblock.add_isolation();
                self.split_at_pageblocks(block);
                self.retype_block(block, old, MigrateType::Isolate);
            }
            _ => pageblock.add_isolation(),
        }
        true
    }

    /// Puts a pageblock back into circulation, unless others still isolate it.
    pub(in crate::page) fn rejoin_pageblock(&mut self, block: Pfn) {
        let pageblock = self.map.pageblock(block);
        debug_assert!(
            usize::from(pageblock.zone()) == self.zone.index(),
            "isolation: pageblock {block} is zone {}'s, isolated in zone {}",
            pageblock.zone(),
            self.zone.index()
        );
        pageblock.drop_isolation();
        if pageblock.isolations() > 0 {
            return;
        }
        let kept = pageblock.lasting_migratetype();
        self.split_at_pageblocks(block);
        self.retype_block(block, MigrateType::Isolate, kept);
        if self.map.frame(block).word().is_zone_free_of(self.pageblock_order()) {
            self.merge_alike(block);
        }
    }

    /// Splits the free block around a pageblock, if it is larger, so that each pageblock of it can have its own type.
    pub(super) fn split_at_pageblocks(&mut self, block: Pfn) {
        let around = self.pageblock_order().to(Order::MAX).skip(1).map(|order| (block.align_down(order), order));
        let larger = around.into_iter().find(|&(head, order)| self.map.frame(head).word().is_zone_free_of(order));
        let Some((head, order)) = larger else { return };
        let (_, migratetype) = self.unlink(head);
        for (piece, order) in head.blocks_up_to(head.offset(order.pages()), self.pageblock_order()) {
            self.link(piece, order, migratetype, End::Tail);
        }
    }
}
