//! A page moves, and its owner's record with it: the promise [`Platform::migrate`].
//!
//! A page of a file keeps its place in its list, that of a task its entry. Refused is what is pinned, what is being
//! written (unless the request may wait for that), what changed its owner or size meanwhile, and what somebody holds by
//! its address: a workload's own blocks, and kernel objects.
//!
//! linux: mm/migrate.c:migrate_folio_unmap, migrate_folio_move
//!
//! [`Platform::migrate`]: freehold::platform::Platform::migrate

use std::ptr;

use freehold::base::Order;
use freehold::platform::{CompactEffort, Migrated, Migration};

use super::Model;
use super::anonymous::{Contents, HUGE};
use super::frames::{List, Owner, Place};
use super::lists::End;

impl Model {
    /// Moves a block, or refuses to; no time passes.
    pub fn migrate(&self, migration: &Migration, now: u64) -> Migrated {
        self.pins.expire(&self.frames, now);
        self.finish_writes(self.node_at(migration.from), now);
        let owner = self.frames.owner(migration.from);
        let is_written = owner.list() == Some(List::Writeback) && migration.effort != CompactEffort::SyncFull;
        let refused = if owner.is_pinned() {
            &self.counters.refused_pinned
        } else if is_written {
            &self.counters.refused_writeback
        } else if self.move_owned(owner, migration) {
            return Migrated::Moved;
        } else {
            &self.counters.refused_held
        };
        refused.add(1);
        Migrated::Refused
    }

    /// Moves what the model knows the owner of, if the block is still what the engine saw.
    fn move_owned(&self, owner: Owner, migration: &Migration) -> bool {
        // Whoever gets more than a page here gets it in one piece.
        let is_whole = migration.compound == (migration.order > Order::ZERO) && migration.refs == 1;
        match (owner.place(), owner.list()) {
            (Some(place), _) if is_whole => self.move_task_page(place, migration),
            (None, Some(list)) if is_whole => self.move_file(list, owner, migration),
            _ => false,
        }
    }

    fn move_task_page(&self, place: Place, migration: &Migration) -> bool {
        let is_huge = matches!(self.ranges.contents(place.range), Contents::Huge(_));
        let order = if is_huge { HUGE } else { Order::ZERO };
        let is_moved = order == migration.order && self.ranges.replace(place, migration.from, migration.to);
        if is_moved {
            self.frames.disown(migration.from);
            self.frames.set_owner(migration.to, Owner::task(place));
        }
        is_moved
    }

    fn move_file(&self, list: List, owner: Owner, migration: &Migration) -> bool {
        let (here, there) = (self.node_at(migration.from), self.node_at(migration.to));
        if owner.order() != Some(migration.order) {
            return false;
        }
        // Compaction stays within a zone; pages of a range that is vacated may go to another node.
        if ptr::eq(here, there) {
            here.lists.replace(&self.frames, migration.from, migration.to);
        } else {
            self.change_node(list, migration);
        }
        true
    }

    /// Moves a page to the head of the other node's list. One that is being written is clean there at once; from then
    /// on each write of its old node ends when the one before it is due, since a node keeps times of writes, not their
    /// pages.
    fn change_node(&self, list: List, migration: &Migration) {
        let owner = self.node_at(migration.from).lists.remove(&self.frames, migration.from);
        let list = if list == List::Writeback { List::InactiveFile } else { list };
        self.node_at(migration.to).lists.add(&self.frames, migration.to, owner.with_list(list), End::Head);
    }
}
