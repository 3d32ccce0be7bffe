//! Return of idle pageblocks of the high-atomic reserve: the library's own rule, in addition to rule 8.

use freehold::base::{MigrateType, NodeId};
use freehold::policy::HighAtomicPolicy;

use MigrateType::{HighAtomic, Movable};

use super::Reference;
use super::map::Map;
use super::zone::Zone;
use crate::model::runner::Sabotage;

impl Reference {
    /// Returns idle pageblocks in every zone of the node that has a reserve. Runs twice a second, before kcompactd's
    /// timer work.
    pub(crate) fn give_back_reserve(&mut self, node: NodeId) {
        if self.rival != HighAtomicPolicy::GiveBack || self.mistake == Sabotage::KeepIdle {
            return;
        }
        let zones = self.zones.iter_mut().filter(|zone| zone.node == node && zone.reserved_highatomic > 0);
        zones.for_each(|zone| zone.give_back_idle(&mut self.map));
    }
}

impl Zone {
    /// Returns half of the pages that were idle, in whole pageblocks, but never the last pageblock of the reserve.
    fn give_back_idle(&mut self, map: &mut Map) {
        let block = 1_i64 << map.block;
        let idle = std::mem::replace(&mut self.idle_highatomic, self.free[HighAtomic.index()]);
        if idle < block {
            return;
        }
        let mut blocks = ((idle / 2 + block - 1) / block).min(self.reserved_highatomic / block - 1);
        while blocks > 0
            && let Some(pfn) =
                (map.block..=10).find_map(|o| self.lists[usize::from(o)][HighAtomic.index()].front().copied())
        {
            self.give_back(map, pfn);
            blocks -= 1;
        }
    }

    /// Makes the first pageblock of a free block of the reserve movable, and merges it with its buddies.
    fn give_back(&mut self, map: &mut Map, pfn: u32) {
        let (order, _) = self.remove(map, pfn);
        for piece in (pfn..pfn + (1 << order)).step_by(1 << map.block) {
            self.insert(map, piece, map.block, HighAtomic, true);
        }
        let (mut pfn, mut order) = (pfn, map.block);
        self.unreserve_at(map, (pfn, order), Movable);
        self.remove(map, pfn);
        while order < 10 && self.free_buddy(map, pfn ^ 1 << order, order) == Some(Movable) {
            self.remove(map, pfn ^ 1 << order);
            (pfn, order) = (pfn & !(1 << order), order + 1);
        }
        self.insert(map, pfn, order, Movable, true);
    }
}
