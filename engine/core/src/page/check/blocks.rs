//! Check of all pageblocks: each one separately, and the counts of reserved and CMA pageblocks per zone.

use super::{Violation, ZONES_MAX};
use crate::base::pageblock::{NO_ZONE, Pageblock};
use crate::base::{MigrateType, Pfn};
use crate::page::allocator::PageAllocator;
use crate::platform::Platform;

impl<P: Platform> PageAllocator<'_, P> {
    /// Checks every pageblock separately.
    pub(super) fn check_pageblocks(&self) -> Result<(), Violation> {
        self.map.pageblocks().try_for_each(|block| self.check_pageblock(block, self.map.pageblock(block)))
    }

    fn check_pageblock(&self, pfn: Pfn, block: &Pageblock) -> Result<(), Violation> {
        if block.zone() != NO_ZONE && usize::from(block.zone()) >= self.zones.len() {
            return Err(Violation::Zone { pfn, zone: block.zone() });
        }
        let migratetype = block.try_migratetype().ok_or(Violation::Type { pfn })?;
        let isolations = block.isolations();
        if (isolations > 0) != (migratetype == MigrateType::Isolate) {
            return Err(Violation::Isolation { pfn, isolations, migratetype });
        }
        if isolations > 0 && block.try_kept().is_none_or(|kept| kept == MigrateType::Isolate) {
            return Err(Violation::Type { pfn });
        }
        let may_be_owned = migratetype.is_mergeable() && block.zone() != NO_ZONE;
        let is_right = match block.owner() {
            Some(owner) => may_be_owned && owner.0 < self.cpus(),
            None => !block.is_listed(),
        };
        if !is_right {
            return Err(Violation::Owner { pfn });
        }
        if block.is_opened_early() { Err(Violation::OpenedEarly { pfn }) } else { Ok(()) }
    }

    /// Returns the numbers of pageblocks in the high-atomic reserve and in CMA areas, by zone.
    pub(super) fn special_blocks(&self) -> [[u32; 2]; ZONES_MAX] {
        let mut blocks = [[0; 2]; ZONES_MAX];
        for pageblock in self.map.pageblocks().map(|block| self.map.pageblock(block)) {
            let Some([reserved, cma]) = blocks.get_mut(usize::from(pageblock.zone())) else { continue };
            match pageblock.lasting_migratetype() {
                MigrateType::HighAtomic => *reserved += 1,
                MigrateType::Cma => *cma += 1,
                _ => {}
            }
        }
        blocks
    }
}
