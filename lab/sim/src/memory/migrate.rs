//! Moving a page together with its owner's record: the promise [`Platform::migrate`].
//!
//! A page of a file keeps its position in its list if it stays on its node, and a page of a task keeps its entry. A
//! move is refused if the page is pinned, is under writeback (unless the request may wait for that), has changed its
//! owner or size meanwhile, or belongs to a holder that refers to it by address: a workload's own blocks, and kernel
//! objects.
//!
//! linux: mm/migrate.c:migrate_folio_unmap, migrate_folio_move
//!
//! [`Platform::migrate`]: freehold::platform::Platform::migrate

use std::ptr;

use freehold::base::{Gfp, Order};
use freehold::platform::{CompactEffort, Isolation, Migrated, Migration};

use super::Model;
use super::anonymous::{Contents, HUGE};
use super::frames::{List, Owner, Place};
use super::lists::End;

impl Model {
    /// Returns whether a block may be moved for a request: not a page of a file if the request must not call into a file
    /// system. No time passes. linux: mm/compaction.c:isolate_migratepages_block
    pub fn can_isolate(&self, isolation: &Isolation) -> bool {
        isolation.gfp.contains(Gfp::FS) || self.frames.owner(isolation.pfn).list().is_none()
    }

    /// Moves a block, or refuses to and counts the reason. No time passes.
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

    /// Moves a block of a known owner, if the block is still as the engine saw it.
    fn move_owned(&self, owner: Owner, migration: &Migration) -> bool {
        // In this model, a block above order 0 is always one compound page.
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
        // Compaction stays within a zone; pages of a range that is vacated may move to another node.
        if ptr::eq(here, there) {
            here.lists.replace(&self.frames, migration.from, migration.to);
        } else {
            self.change_node(list, migration);
        }
        true
    }

    /// Moves a page to the head of the other node's list. A page under writeback is clean there at once. Its completion
    /// time stays with the old node, since a node keeps completion times without their pages. From then on, each write
    /// of the old node ends when the write before it is due.
    fn change_node(&self, list: List, migration: &Migration) {
        let owner = self.node_at(migration.from).lists.remove(&self.frames, migration.from);
        let list = if list == List::Writeback { List::InactiveFile } else { list };
        self.node_at(migration.to).lists.add(&self.frames, migration.to, owner.with_list(list), End::Head);
    }
}
