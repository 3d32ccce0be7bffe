//! Damage on purpose (feature `damage`, which no release has): how the tests show that what should notice damage does.
//!
//! Everything here writes what only the engine may write. Nothing is checked, and nothing that follows is promised,
//! but that no memory other than the metadata is touched.
//!
//! | file | what it writes |
//! |---|---|
//! | `frames` | words and links of frames, pageblocks, the table of sections |
//! | `zones` | free lists, counters and hints of a zone, its span and marks |
//! | `cpus` | a CPU's lists, its stack, its blocks owned in part |
//! | `tasks` | background tasks, what somebody waits for, areas |

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

/// The way to an allocator's inside.
pub struct Damage<'a, 'm, P: Platform>(&'a PageAllocator<'m, P>);

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// The door by which tests spoil the allocator's state.
    pub fn damage(&self) -> Damage<'_, 'm, P> {
        Damage(self)
    }
}

impl<P: Platform> Damage<'_, '_, P> {
    /// Stores a state into a frame's word, without any check.
    pub fn set_state(&self, pfn: Pfn, state: State) {
        self.0.map.frame(pfn).plant_word(Word::from_state(state));
    }

    /// Writes what a pageblock is for, without a word to its lists.
    pub fn set_migratetype(&self, pfn: Pfn, migratetype: MigrateType) {
        self.set_pageblock(pfn, Field::MigrateType, migratetype as u32);
    }

    /// The same, with what its zone counts of such pageblocks, and as often isolated as fits.
    pub fn retype(&self, pfn: Pfn, migratetype: MigrateType) {
        let (zone, pages) = (self.0.zone_of(pfn), i64::from(self.0.map.pageblock_order().pages()));
        zone.count_pageblock(self.0.map.pageblock(pfn).migratetype(), -pages);
        zone.count_pageblock(migratetype, pages);
        self.set_migratetype(pfn, migratetype);
        self.set_pageblock(pfn, Field::Isolations, u32::from(migratetype == MigrateType::Isolate));
    }

    /// Writes the owner of a pageblock.
    pub fn set_owner(&self, pfn: Pfn, owner: Option<CpuId>) {
        self.set_pageblock(pfn, Field::Owner, owner.map_or(0, |cpu| u32::from(cpu.0) + 1));
    }

    /// Counts one more range that isolates a pageblock.
    pub fn add_isolation(&self, pfn: Pfn) {
        self.set_pageblock(pfn, Field::Isolations, u32::from(self.0.map.pageblock(pfn).isolations()) + 1);
    }

    /// Counts one range less that isolates a pageblock.
    pub fn drop_isolation(&self, pfn: Pfn) {
        self.set_pageblock(pfn, Field::Isolations, u32::from(self.0.map.pageblock(pfn).isolations()) - 1);
    }

    /// Writes a zone's watermark boost, in pages.
    pub fn set_boost(&self, node: NodeId, kind: ZoneKind, pages: u64) {
        self.0.zone(node, kind).set_boost(pages);
    }

    /// Sets a flag of a zone, whatever the zone's counters say.
    pub fn set_flag(&self, node: NodeId, kind: ZoneKind, flag: ZoneFlag) {
        self.0.zone(node, kind).set(flag);
    }

    /// Puts the limit of a CPU's lists where it starts, and forgets what was freed lately.
    pub fn forget_frees(&self, cpu: CpuId, node: NodeId, kind: ZoneKind) {
        let mut lists = self.0.pcp_at(cpu, self.0.zone(node, kind)).lock();
        let high = lists.limits().high_min;
        lists.resume_at(high);
    }
}
