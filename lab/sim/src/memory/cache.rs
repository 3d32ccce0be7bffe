//! The page cache: pages join the inactive list at its head, are used again, and are written back.
//!
//! A page that was read counts as used once. A second use activates it. A share of the pages is dirty when reclaim
//! scans them. They are written back, for a constant time, and then moved to the tail of the inactive list, so that the
//! next scan frees them. (On a real machine flushers write most pages long before; such pages count as clean here.)
//!
//! linux: mm/filemap.c:filemap_add_folio, mm/swap.c:folio_mark_accessed, folio_rotate_reclaimable

use freehold::base::{Order, Pfn};

use super::frames::{List, Owner};
use super::lists::End;
use super::{Model, Node};

/// State of a page when it joins the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Read, and unchanged.
    Clean,
    /// Read, and changed.
    Dirty,
}

impl Model {
    /// Adds a block to the page cache.
    pub fn add_file(&self, pfn: Pfn, order: Order, content: Content) {
        let owner = Owner::file(List::InactiveFile, order).referenced();
        let owner = if content == Content::Dirty { owner.dirty() } else { owner };
        self.node_at(pfn).lists.add(&self.frames, pfn, owner, End::Head);
    }

    /// Marks a block of the page cache as used, and activates it at the second use. Returns `false` if the frame is not
    /// the head of a block in the page cache.
    pub fn use_file(&self, pfn: Pfn) -> bool {
        let owner = self.frames.owner(pfn);
        let Some(list) = owner.list() else { return false };
        if list == List::InactiveFile && owner.is_referenced() {
            self.activate(pfn);
            self.frames.set_owner(pfn, self.frames.owner(pfn).unreferenced());
        } else {
            self.frames.set_owner(pfn, owner.referenced());
        }
        true
    }

    /// Moves a block to the head of the active list.
    fn activate(&self, pfn: Pfn) {
        let lists = &self.node_at(pfn).lists;
        let owner = lists.remove(&self.frames, pfn);
        lists.add(&self.frames, pfn, owner.with_list(List::ActiveFile), End::Head);
        self.counters.pgactivate.add(owner.order().map_or(1, |order| u64::from(order.pages())));
    }

    /// Starts writeback of a dirty block, which is complete at `due`.
    pub(super) fn write(&self, node: &Node, pfn: Pfn, due: u64) {
        let owner = node.lists.remove(&self.frames, pfn);
        node.lists.add(&self.frames, pfn, owner.clean().with_list(List::Writeback), End::Head);
        node.written.borrow_mut().push_back(due);
        self.counters.vmscan_write.add(1);
    }

    /// Moves blocks whose writeback is complete to the tail of the inactive list.
    pub(super) fn finish_writes(&self, node: &Node, now: u64) {
        let mut written = node.written.borrow_mut();
        while written.front().is_some_and(|&due| due <= now)
            && let Some(pfn) = node.lists.oldest(List::Writeback)
        {
            written.pop_front();
            let owner = node.lists.remove(&self.frames, pfn);
            node.lists.add(&self.frames, pfn, owner.with_list(List::InactiveFile), End::Tail);
            self.counters.pgrotated.add(1);
        }
    }
}
