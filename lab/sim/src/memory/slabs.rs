//! Kernel objects that shrinkers free, such as inodes and directory entries.
//!
//! Real shrinkers free objects in the order of their age, which is unrelated to the block they are on. So each scan
//! frees random objects from all blocks. A block is freed only with its last object, so most blocks are freed at the
//! very end. Free room on a block is not reused. Scan work that is less than a batch is carried over to the next scan.
//!
//! linux: mm/shrinker.c:do_shrink_slab

use std::cell::{Cell, RefCell};

use freehold::base::{Order, Pfn};

use super::frames::{Frames, Owner};

/// Objects that are scanned together. linux: mm/shrinker.c:SHRINK_BATCH
const BATCH: u64 = 128;
/// Factor on the number of objects shifted right by the priority: 4 divided by the default number of seeks.
/// linux: include/linux/shrinker.h:DEFAULT_SEEKS
const PRESSURE: u64 = 2;

/// Blocks of reclaimable objects of a node.
#[derive(Default)]
pub(super) struct Slabs {
    /// Blocks in no particular order, so that one can be drawn at random.
    blocks: RefCell<Vec<Pfn>>,
    objects: Cell<u64>,
    pages: Cell<u64>,
    /// Number of objects carried over to the next scan.
    deferred: Cell<u64>,
}

impl Slabs {
    /// Returns the number of pages of all blocks.
    pub(super) fn pages(&self) -> u64 {
        self.pages.get()
    }

    /// Adds a block that is full of objects.
    pub(super) fn add(&self, frames: &Frames, pfn: Pfn, order: Order, objects: u32) {
        frames.set_owner(pfn, Owner::slab(order, objects));
        self.blocks.borrow_mut().push(pfn);
        self.objects.set(self.objects.get() + u64::from(objects));
        self.pages.set(self.pages.get() + u64::from(order.pages()));
    }

    /// Returns the number of objects to scan when a node is shrunk at this priority, and carries the rest over.
    pub(super) fn due(&self, priority: u8) -> u64 {
        let objects = self.objects.get();
        let wanted = self.deferred.get() + (objects >> priority) * PRESSURE;
        let due = wanted.min(2 * objects) / BATCH * BATCH;
        self.deferred.set((wanted - due).min(2 * objects));
        due.min(objects)
    }

    /// Frees one random object, if there is one. If it was the last object of its block, returns the block, which the
    /// caller must free; otherwise returns `None`.
    pub(super) fn give_up_one(&self, frames: &Frames, rng: &mut fastrand::Rng) -> Option<(Pfn, Order)> {
        let mut blocks = self.blocks.borrow_mut();
        if blocks.is_empty() {
            return None;
        }
        let index = rng.usize(0..blocks.len());
        let pfn = blocks[index];
        let owner = frames.owner(pfn);
        let (objects, order) = owner.objects().zip(owner.order()).expect("the owner of this block is a slab");
        self.objects.set(self.objects.get() - 1);
        if objects > 1 {
            frames.set_owner(pfn, Owner::slab(order, objects - 1));
            return None;
        }
        blocks.swap_remove(index);
        frames.disown(pfn);
        self.pages.set(self.pages.get() - u64::from(order.pages()));
        Some((pfn, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slab_blocks_are_freed_late_with_their_last_object() {
        let (slabs, frames) = (Slabs::default(), Frames::new(256));
        let mut rng = fastrand::Rng::with_seed(1);
        (0..64).for_each(|at| slabs.add(&frames, Pfn::new(at * 4), Order::new(2), 8));
        assert_eq!(slabs.pages(), 256);
        let gone: Vec<usize> = (0..64 * 8).filter(|_| slabs.give_up_one(&frames, &mut rng).is_some()).collect();
        assert_eq!((gone.len(), slabs.pages()), (64, 0));
        assert!(gone[8] > 64, "the first blocks go when most objects have gone: {gone:?}");
        assert_eq!(slabs.give_up_one(&frames, &mut rng), None);
    }

    #[test]
    fn shrinker_work_below_a_batch_is_deferred() {
        let (slabs, frames) = (Slabs::default(), Frames::new(64));
        (0..64).for_each(|at| slabs.add(&frames, Pfn::new(at), Order::ZERO, 21));
        let due: Vec<u64> = (0..4).map(|_| slabs.due(5)).collect();
        assert_eq!(due, [0, 128, 0, 128], "84 each time");
        assert_eq!(slabs.due(0), 64 * 21, "never more than there are");
    }
}
