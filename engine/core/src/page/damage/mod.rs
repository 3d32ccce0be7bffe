//! Deliberate damage (feature `damage`, which no release has), with which tests show that the checks detect damage.
//!
//! All of these methods write state that only the engine may write. Values are not checked. Nothing is guaranteed
//! afterwards, except that no memory other than the metadata is touched.
//!
//! | file | state that it damages |
//! |---|---|
//! | `frames` | words and links of frames, pageblocks, the section table |
//! | `zones` | free lists, counters and hints of a zone, its span and watermarks |
//! | `cpus` | a CPU's lists, its stack, its fragments |
//! | `tasks` | background tasks, the block that a compaction run waits for, CMA areas |

mod cpus;
mod frames;
mod tasks;
mod zones;

pub use crate::base::memmap::SectionPart;
pub use crate::base::pageblock::Field;
pub use crate::page::zone::ZoneCounter;

use super::allocator::PageAllocator;
use crate::base::word::Word;
use crate::base::{CpuId, MigrateType, NodeId, Pfn, State, ZoneKind};
use crate::page::zone::ZoneFlag;
use crate::platform::Platform;

/// Access to the private state of an allocator.
pub struct Damage<'a, 'm, P: Platform>(&'a PageAllocator<'m, P>);

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Returns access to the allocator's private state, for tests that damage it.
    pub fn damage(&self) -> Damage<'_, 'm, P> {
        Damage(self)
    }
}

impl<P: Platform> Damage<'_, '_, P> {
    /// Stores a state in a frame's word, without any check.
    pub fn set_state(&self, pfn: Pfn, state: State) {
        self.0.map.frame(pfn).plant_word(Word::from_state(state));
    }

    /// Stores the type of a pageblock, without moving its free blocks to other lists.
    pub fn set_migratetype(&self, pfn: Pfn, migratetype: MigrateType) {
        self.set_pageblock(pfn, Field::MigrateType, migratetype as u32);
    }

    /// Stores the type of a pageblock like [`set_migratetype`](Self::set_migratetype), updates the zone's counts of
    /// such pageblocks, and sets its count of isolations to fit the type.
    pub fn retype(&self, pfn: Pfn, migratetype: MigrateType) {
        let (zone, pages) = (self.0.zone_of(pfn), i64::from(self.0.map.pageblock_order().pages()));
        zone.count_pageblock(self.0.map.pageblock(pfn).migratetype(), -pages);
        zone.count_pageblock(migratetype, pages);
        self.set_migratetype(pfn, migratetype);
        self.set_pageblock(pfn, Field::Isolations, u32::from(migratetype == MigrateType::Isolate));
    }

    /// Stores the owner of a pageblock.
    pub fn set_owner(&self, pfn: Pfn, owner: Option<CpuId>) {
        self.set_pageblock(pfn, Field::Owner, owner.map_or(0, |cpu| u32::from(cpu.0) + 1));
    }

    /// Adds one to the number of ranges that isolate a pageblock.
    pub fn add_isolation(&self, pfn: Pfn) {
        self.set_pageblock(pfn, Field::Isolations, u32::from(self.0.map.pageblock(pfn).isolations()) + 1);
    }

    /// Subtracts one from the number of ranges that isolate a pageblock.
    pub fn drop_isolation(&self, pfn: Pfn) {
        self.set_pageblock(pfn, Field::Isolations, u32::from(self.0.map.pageblock(pfn).isolations()) - 1);
    }

    /// Stores a zone's watermark boost, in pages.
    pub fn set_boost(&self, node: NodeId, kind: ZoneKind, pages: u64) {
        self.0.zone(node, kind).set_boost(pages);
    }

    /// Sets a flag of a zone, regardless of the zone's counters.
    pub fn set_flag(&self, node: NodeId, kind: ZoneKind, flag: ZoneFlag) {
        self.0.zone(node, kind).set(flag);
    }

    /// Sets the limit of a CPU's lists to its lower bound, and resets the history of recent frees.
    pub fn forget_frees(&self, cpu: CpuId, node: NodeId, kind: ZoneKind) {
        let mut lists = self.0.pcp_at(cpu, self.0.zone(node, kind)).lock();
        let high = lists.limits().high_min;
        lists.resume_at(high);
    }
}
