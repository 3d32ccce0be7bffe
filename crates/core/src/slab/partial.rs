//! Slabs that have free objects, as a CPU or a node holds them: a list under a lock, and a stack before it.
//!
//! Who frees the first object of a slab pushes the slab onto the stack, without a lock. Who needs a slab takes the lock
//! and *brings home* what is on the stack. A slab on the list is marked with the place it is at, and, once it was found to be
//! wholly free, as counted among those: it stays wholly free until it is taken off, since allocations come from a CPU's
//! list only.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::map::SlabMap;
use super::slab::Slab;
use super::stack::Stack;
use crate::base::lock::{Guard, Locked, Rank, Ranked};
use crate::base::{Pfn, RawLock};

const NIL: u32 = u32::MAX;
/// Bit of the owner's word: on a list.
const LISTED: u64 = 1 << 16;
/// Bit of the owner's word: counted as wholly free.
const COUNTED: u64 = 1 << 17;

/// Whose slabs: decides the lock's rank.
pub trait Holder {
    /// See [`Rank`].
    const RANK: Rank;
}

/// A CPU's.
#[derive(Debug)]
pub struct OfCpu;
/// A node's.
#[derive(Debug)]
pub struct OfNode;

impl Holder for OfCpu {
    const RANK: Rank = Rank::SlabCpu;
}

impl Holder for OfNode {
    const RANK: Rank = Rank::SlabNode;
}

/// Slabs with free objects of one cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Partial<L, H> {
    /// Slabs on their way here.
    pub stack: Stack,
    list: Locked<L, List<H>>,
}

impl<L: RawLock, H: Holder> Partial<L, H> {
    /// None.
    pub fn new() -> Partial<L, H> {
        let list = List { head: NIL, tail: NIL, len: 0, free: 0, holder: PhantomData };
        Partial { stack: Stack::new(), list: Locked::new(list) }
    }

    /// The list; waits for its lock.
    pub fn lock(&self) -> Guard<'_, L, List<H>> {
        self.list.lock()
    }

    /// The list, unless somebody has it.
    pub fn try_lock(&self) -> Option<Guard<'_, L, List<H>>> {
        self.list.try_lock()
    }
}

/// The list.
#[derive(Debug)]
pub struct List<H> {
    head: u32,
    tail: u32,
    len: u32,
    free: u32,
    holder: PhantomData<H>,
}

impl<H: Holder> Ranked for List<H> {
    const RANK: Rank = H::RANK;
}

impl<H> List<H> {
    /// Slabs on it.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Those of them that were counted as wholly free.
    pub fn wholly_free(&self) -> u32 {
        self.free
    }

    /// The first slab.
    pub fn first(&self) -> Option<Pfn> {
        (self.head != NIL).then(|| Pfn::new(self.head))
    }

    /// Whether a slab is on a list; to be asked about a list that it can be on only.
    pub fn has(&self, slab: &Slab) -> bool {
        slab.owner.load(Acquire) & LISTED != 0
    }

    /// Puts a slab first that the caller holds.
    pub fn push(&mut self, map: SlabMap<'_>, pfn: Pfn) {
        let slab = map.slab(pfn);
        slab.next.store(self.head, Relaxed);
        slab.prev.store(NIL, Relaxed);
        match self.first() {
            Some(first) => map.slab(first).prev.store(pfn.raw(), Relaxed),
            None => self.tail = pfn.raw(),
        }
        self.head = pfn.raw();
        self.len += 1;
        mark(slab, LISTED);
    }

    /// Takes a slab off, which the caller then holds.
    pub fn remove(&mut self, map: SlabMap<'_>, pfn: Pfn) {
        let slab = map.slab(pfn);
        let (next, prev) = (slab.next.load(Relaxed), slab.prev.load(Relaxed));
        match prev {
            NIL => self.head = next,
            prev => map.slab(Pfn::new(prev)).next.store(next, Relaxed),
        }
        match next {
            NIL => self.tail = prev,
            next => map.slab(Pfn::new(next)).prev.store(prev, Relaxed),
        }
        self.len -= 1;
        self.free -= u32::from(slab.owner.load(Relaxed) & COUNTED != 0);
        unmark(slab, LISTED | COUNTED);
    }

    /// Counts a listed slab as wholly free.
    pub fn count_free(&mut self, slab: &Slab) {
        self.free += u32::from(slab.owner.load(Relaxed) & COUNTED == 0);
        mark(slab, COUNTED);
    }

    /// The slabs on it, first to last.
    pub fn iter<'m>(&self, map: SlabMap<'m>) -> impl Iterator<Item = Pfn> + use<'m, H> {
        let mut next = self.head;
        core::iter::from_fn(move || {
            let pfn = (next != NIL).then(|| Pfn::new(next))?;
            next = map.slab(pfn).next.load(Relaxed);
            Some(pfn)
        })
    }
}

fn mark(slab: &Slab, bits: u64) {
    slab.owner.store(slab.owner.load(Relaxed) | bits, Relaxed);
}

fn unmark(slab: &Slab, bits: u64) {
    slab.owner.store(slab.owner.load(Relaxed) & !bits, Relaxed);
}
