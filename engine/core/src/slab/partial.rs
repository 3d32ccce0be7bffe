//! Slabs with free objects that a CPU or a node holds: a list under a lock, and a stack in front of it.
//!
//! The CPU that frees the first object of a slab pushes the slab onto the stack, without a lock. A CPU that needs a
//! slab takes the lock and moves all slabs from the stack to the list. The owner word of a listed slab also names the
//! list and its cache. So one load determines whether a slab is on a given list, even if its pages were used for
//! something else meanwhile. A listed slab may be counted:
//!
//! - as *wholly free*, once it was found to be so. It stays wholly free until it is taken off the list, since a CPU
//!   allocates from no listed slab except its current one, which is not counted;
//! - as *waiting*, on a CPU's list, if other CPUs freed into it. Waiting slabs are the last on the list, so they are
//!   found at once when there are too many.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::id::CacheId;
use super::map::SlabMap;
use super::slab::{Owner, Slab};
use super::stack::Stack;
use crate::base::lock::{Guard, Locked, Rank, Ranked};
use crate::base::{Pfn, RawLock};

const NIL: u32 = u32::MAX;
/// Bit of the owner word: the slab is on a list.
const LISTED: u64 = 1 << 16;
/// Bit of the owner word: the slab is counted as wholly free.
const COUNTED: u64 = 1 << 17;
/// Bit of the owner word: the slab is counted as waiting.
const WAITING: u64 = 1 << 18;
/// First bit of the number of the list's cache in the owner word.
const CACHE_SHIFT: u32 = 24;

/// Kind of holder of a list, which determines the lock's rank.
pub(super) trait Holder {
    /// Rank of the list's lock among all locks.
    const RANK: Rank;
}

/// Marker type for lists of CPUs.
#[derive(Debug)]
pub(super) struct CpuPartial;
/// Marker type for lists of nodes.
#[derive(Debug)]
pub(super) struct NodePartial;

impl Holder for CpuPartial {
    const RANK: Rank = Rank::SlabCpu;
}

impl Holder for NodePartial {
    const RANK: Rank = Rank::SlabNode;
}

/// List and stack of slabs of one cache that have free objects.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Partial<L, H> {
    /// Slabs that other CPUs pushed, and that are not on the list yet.
    pub stack: Stack,
    list: Locked<L, List<H>>,
}

impl<L: RawLock, H: Holder> Partial<L, H> {
    /// Creates an empty list and stack of a cache for an owner.
    pub(super) fn new(cache: CacheId, owner: Owner) -> Partial<L, H> {
        let place = owner.raw() | LISTED | u64::from(cache.get()) << CACHE_SHIFT;
        let list = List { head: NIL, tail: NIL, len: 0, free: 0, waiting: 0, place, holder: PhantomData };
        Partial { stack: Stack::new(), list: Locked::new(list) }
    }

    /// Waits for the list's lock and takes it.
    pub(super) fn lock(&self) -> Guard<'_, L, List<H>> {
        self.list.lock()
    }

    /// Takes the list's lock, unless another caller has it.
    pub(super) fn try_lock(&self) -> Option<Guard<'_, L, List<H>>> {
        self.list.try_lock()
    }
}

/// Slabs with free objects, linked through their metadata, under one lock.
#[derive(Debug)]
pub(super) struct List<H> {
    head: u32,
    tail: u32,
    len: u32,
    free: u32,
    waiting: u32,
    /// Owner word of a slab on this list, without the bits that count the slab.
    place: u64,
    holder: PhantomData<H>,
}

impl<H: Holder> Ranked for List<H> {
    const RANK: Rank = H::RANK;
}

impl<H> List<H> {
    /// Returns the number of slabs on the list.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of slabs that are counted as wholly free.
    pub(super) fn wholly_free(&self) -> u32 {
        self.free
    }

    /// Returns the number of slabs that are counted as waiting.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Returns the first frame of the list's first slab, or `None` if the list is empty.
    pub(super) fn first(&self) -> Option<Pfn> {
        (self.head != NIL).then(|| Pfn::new(self.head))
    }

    /// Returns the first frame of the list's last slab, which is a waiting one if there is any, or `None` if the list
    /// is empty.
    pub(super) fn last(&self) -> Option<Pfn> {
        (self.tail != NIL).then(|| Pfn::new(self.tail))
    }

    /// Returns the first frame of the slab that follows a listed one, or `None` behind the last.
    pub(super) fn after(&self, map: SlabMap<'_>, pfn: Pfn) -> Option<Pfn> {
        let next = map.slab(pfn).next.load(Relaxed);
        (next != NIL).then(|| Pfn::new(next))
    }

    /// Returns whether a slab is on this list. The slab's pages may have been given back.
    pub(super) fn has(&self, slab: &Slab) -> bool {
        slab.owner.load(Acquire) & !(COUNTED | WAITING) == self.place
    }

    /// Puts a slab that the caller holds at the front of the list.
    pub(super) fn push(&mut self, map: SlabMap<'_>, pfn: Pfn) {
        let first = self.head;
        self.join(map, NIL, pfn.raw());
        self.join(map, pfn.raw(), first);
        self.note_listed(map.slab(pfn));
    }

    /// Puts a slab that the caller holds, and that other CPUs freed into, at the end of the list.
    pub(super) fn push_waiting(&mut self, map: SlabMap<'_>, pfn: Pfn) {
        let last = self.tail;
        self.join(map, last, pfn.raw());
        self.join(map, pfn.raw(), NIL);
        self.note_listed(map.slab(pfn));
        self.waiting += 1;
        mark(map.slab(pfn), WAITING);
    }

    /// Takes a slab off the list. The caller holds it afterwards.
    pub(super) fn remove(&mut self, map: SlabMap<'_>, pfn: Pfn) {
        let slab = map.slab(pfn);
        debug_assert!(self.has(slab), "the slab is not on this list");
        self.join(map, slab.prev.load(Relaxed), slab.next.load(Relaxed));
        let word = slab.owner.load(Relaxed);
        self.len -= 1;
        self.free -= u32::from(word & COUNTED != 0);
        self.waiting -= u32::from(word & WAITING != 0);
        slab.owner.store(Owner::from_raw(word).raw(), Relaxed);
    }

    /// Counts a listed slab as wholly free, unless it is already counted.
    pub(super) fn count_free(&mut self, slab: &Slab) {
        self.free += u32::from(!is_counted_free(slab));
        mark(slab, COUNTED);
    }

    /// Returns whether the list's counts match its slabs, and the waiting slabs are the last. For consistency checks.
    pub(super) fn is_counted(&self, map: SlabMap<'_>) -> bool {
        let before = self.iter(map).take_while(|&pfn| !is_counted_waiting(map.slab(pfn))).count() as u32;
        let (free, waiting) = (self.count(map, is_counted_free), self.count(map, is_counted_waiting));
        let len = self.iter(map).count() as u32;
        (len, free, waiting, before) == (self.len, self.free, self.waiting, self.len - self.waiting)
    }

    fn count(&self, map: SlabMap<'_>, is_counted: fn(&Slab) -> bool) -> u32 {
        self.iter(map).filter(|&pfn| is_counted(map.slab(pfn))).count() as u32
    }

    /// Counts and marks a slab that was just linked.
    fn note_listed(&mut self, slab: &Slab) {
        self.len += 1;
        mark(slab, self.place);
        debug_assert!(self.has(slab), "the slab is not on its owner's list");
    }

    /// Makes two slabs neighbours. NIL is the end of the list on either side.
    fn join(&mut self, map: SlabMap<'_>, before: u32, after: u32) {
        match before {
            NIL => self.head = after,
            before => map.slab(Pfn::new(before)).next.store(after, Relaxed),
        }
        match after {
            NIL => self.tail = before,
            after => map.slab(Pfn::new(after)).prev.store(before, Relaxed),
        }
    }

    /// Returns the slabs on the list, first to last.
    pub(super) fn iter<'m>(&self, map: SlabMap<'m>) -> impl Iterator<Item = Pfn> + use<'m, H> {
        let mut next = self.head;
        core::iter::from_fn(move || {
            let pfn = (next != NIL).then(|| Pfn::new(next))?;
            next = map.slab(pfn).next.load(Relaxed);
            Some(pfn)
        })
    }
}

/// Returns whether a listed slab is counted as wholly free.
pub(super) fn is_counted_free(slab: &Slab) -> bool {
    slab.owner.load(Relaxed) & COUNTED != 0
}

/// Returns whether a listed slab is counted as waiting.
pub(super) fn is_counted_waiting(slab: &Slab) -> bool {
    slab.owner.load(Relaxed) & WAITING != 0
}

fn mark(slab: &Slab, bits: u64) {
    slab.owner.store(slab.owner.load(Relaxed) | bits, Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::map::tests::with_map;
    use super::*;
    use crate::platform::host::CheckedSpinLock;

    /// Creates a list of three slabs, of which one is wholly free and another one waits, and calls `spoil` on it.
    /// Returns whether the counts still match.
    fn is_counted_after(spoil: fn(&mut List<CpuPartial>, SlabMap<'_>)) -> bool {
        with_map(0, |map| {
            let partial = Partial::<CheckedSpinLock, CpuPartial>::new(CacheId::new(3), Owner::Node);
            let mut list = partial.lock();
            list.push_waiting(map, Pfn::new(0));
            [1, 2].into_iter().for_each(|pfn| list.push(map, Pfn::new(pfn)));
            list.count_free(map.slab(Pfn::new(1)));
            assert_eq!((list.len(), list.wholly_free(), list.waiting()), (3, 1, 1));
            spoil(&mut list, map);
            list.is_counted(map)
        })
    }

    fn put_waiting_first(list: &mut List<CpuPartial>, map: SlabMap<'_>) {
        list.remove(map, Pfn::new(0));
        list.push(map, Pfn::new(0));
        list.waiting += 1;
        mark(map.slab(Pfn::new(0)), WAITING);
    }

    #[test]
    fn wrong_partial_list_counts_are_detected() {
        assert!(is_counted_after(|_, _| ()), "an unchanged list is not counted correctly");
        assert!(is_counted_after(|list, map| list.remove(map, Pfn::new(1))), "a removed slab is still counted");
        assert!(!is_counted_after(|list, _| list.len += 1));
        assert!(!is_counted_after(|list, _| list.free -= 1));
        assert!(!is_counted_after(|list, _| list.waiting -= 1));
        assert!(!is_counted_after(|_, map| mark(map.slab(Pfn::new(2)), COUNTED)));
        assert!(!is_counted_after(put_waiting_first), "waiting slabs at the front are not noticed");
    }
}
