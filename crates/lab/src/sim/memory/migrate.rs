//! A page moves, and its owner's record with it: the promise [`Platform::migrate`].
//!
//! A page of a file keeps its place in its list, that of a task its entry. Refused is what is pinned, what is being
//! written (unless the request may wait for that), what changed its owner or size meanwhile, and what somebody holds by
//! its address: a workload's own blocks, and kernel objects.
//!
//! linux: mm/migrate.c:migrate_folio_unmap, migrate_folio_move
//!
//! [`Platform::migrate`]: freehold::platform::Platform::migrate

use freehold::base::Order;
use freehold::platform::{CompactEffort, Migrated, Migration};

use super::Model;
use super::anonymous::Contents;
use super::frames::{Owner, Place};
use super::lists::List;

impl Model {
    /// Moves a block, or refuses to; no time passes.
    pub fn migrate(&self, migration: &Migration, now: u64) -> Migrated {
        self.pins.expire(&self.frames, now);
        let owner = self.frames.owner(migration.from);
        if owner.is_pinned() || migration.refs != 1 {
            return Migrated::Refused;
        }
        let is_moved = match (owner.place(), owner.list()) {
            (Some(place), _) => self.move_task_page(place, migration),
            (None, Some(list)) => self.move_file(list, owner, migration),
            (None, None) => false,
        };
        if is_moved { Migrated::Moved } else { Migrated::Refused }
    }

    fn move_task_page(&self, place: Place, migration: &Migration) -> bool {
        let is_huge = matches!(self.ranges.contents(place.range), Contents::Huge(_));
        let order = if is_huge { super::anonymous::HUGE } else { Order::ZERO };
        let is_moved = order == migration.order && self.ranges.replace(place, migration.from, migration.to);
        if is_moved {
            self.frames.disown(migration.from);
            self.frames.set_owner(migration.to, Owner::task(place));
        }
        is_moved
    }

    fn move_file(&self, list: List, owner: Owner, migration: &Migration) -> bool {
        let is_busy = list == List::Writeback && migration.effort != CompactEffort::SyncFull;
        let is_movable = !is_busy && owner.order() == Some(migration.order);
        if is_movable {
            // Its list is that of its node. Compaction stays within a zone; a range's pages may go to another node.
            if std::ptr::eq(self.node_at(migration.from), self.node_at(migration.to)) {
                self.node_at(migration.from).lists.replace(&self.frames, migration.from, migration.to);
            } else {
                self.change_node(list, migration);
            }
        }
        is_movable
    }

    /// Moves a page to the head of the other node's list.
    fn change_node(&self, list: List, migration: &Migration) {
        let owner = self.node_at(migration.from).lists.remove(&self.frames, migration.from);
        let list = if list == List::Writeback { List::InactiveFile } else { list };
        self.node_at(migration.to).lists.add(&self.frames, migration.to, owner.on(list), super::lists::End::Head);
    }
}
