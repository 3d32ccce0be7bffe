//! Stack of slabs that wait for a CPU or a node: pushed without a lock, and taken as a whole.
//!
//! One word holds the first slab's frame and the number of slabs, so a CPU that pushes a slab knows how many wait. A
//! CPU that takes slabs takes all of them, so the word is never compared with a value that may have recurred meanwhile
//! (ABA). The stack of an offline CPU is closed. A push onto a closed stack still succeeds, but the caller must then
//! move the slabs to the node.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::map::SlabMap;
use crate::base::Pfn;
use crate::base::atomic::AtomicU64;
use crate::base::fault::{Fault, ordered};

const NIL: u32 = u32::MAX;
const EMPTY: u64 = NIL as u64;
const CLOSED: u64 = 1 << 63;

/// Stack of slabs that other CPUs push without a lock.
#[derive(Debug)]
pub(super) struct Stack(AtomicU64);

impl Stack {
    /// Creates an empty, open stack.
    pub(super) fn new() -> Stack {
        Stack(AtomicU64::new(EMPTY))
    }

    /// Pushes a slab that the caller holds, and returns the number of slabs on the stack. Returns `None` if the stack
    /// is closed; the caller must then move the slabs to the node.
    pub(super) fn push(&self, map: &SlabMap<'_>, pfn: Pfn) -> Option<u32> {
        let slab = map.slab(pfn);
        // Loom remembers one access of an atomic: if the word were read first, loom would not try the orders in which
        // another CPU races with the exchange.
        let mut top = if cfg!(loom) { EMPTY } else { self.0.load(Relaxed) };
        loop {
            slab.next.store(top as u32, Relaxed);
            let count = len(top) + 1;
            let pushed = top & CLOSED | u64::from(count) << 32 | u64::from(pfn.raw());
            match self.0.compare_exchange_weak(top, pushed, ordered(Fault::PushUnreleased, AcqRel), Relaxed) {
                Ok(_) => return (top & CLOSED == 0).then_some(count),
                Err(now) => top = now,
            }
        }
    }

    /// Takes all slabs off the stack. The iterator yields the slab that was pushed last first.
    pub(super) fn take<'m>(&self, map: SlabMap<'m>) -> impl Iterator<Item = Pfn> + use<'m> {
        let mut top = self.0.load(Relaxed);
        // Most stacks are empty. A load does not take the cache line from the CPUs that push.
        while top as u32 != NIL {
            let order = ordered(Fault::TakeUnacquired, AcqRel);
            match self.0.compare_exchange_weak(top, top & CLOSED | EMPTY, order, Relaxed) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        let mut next = top as u32;
        core::iter::from_fn(move || {
            let pfn = (next != NIL).then(|| Pfn::new(next))?;
            // The link is read before the slab is yielded, since the caller may put the slab on a list, which
            // overwrites the link.
            next = map.slab(pfn).next.load(Relaxed);
            Some(pfn)
        })
    }

    /// Returns the slabs on the stack, for consistency checks while no other code runs.
    pub(super) fn iter<'m>(&self, map: SlabMap<'m>) -> impl Iterator<Item = Pfn> + use<'m> {
        let mut next = self.0.load(Acquire) as u32;
        core::iter::from_fn(move || {
            let pfn = (next != NIL).then(|| Pfn::new(next))?;
            next = map.slab(pfn).next.load(Relaxed);
            Some(pfn)
        })
    }

    /// Returns whether the stack is closed: a CPU that pushes a slab must then move it to the node itself.
    pub(super) fn is_closed(&self) -> bool {
        self.0.load(Acquire) & CLOSED != 0
    }

    /// Closes the stack. From now on a CPU that pushes a slab must move it to the node itself.
    pub(super) fn close(&self) {
        self.0.fetch_or(CLOSED, AcqRel);
    }

    /// Opens the stack. From now on its CPU takes the slabs that are pushed.
    pub(super) fn open(&self) {
        self.0.fetch_and(!CLOSED, AcqRel);
    }
}

fn len(top: u64) -> u32 {
    ((top & !CLOSED) >> 32) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::map::tests::with_map;
    use super::*;

    #[test]
    fn push_to_a_closed_slab_stack_returns_none() {
        with_map(0, |map| {
            let stack = Stack::new();
            assert_eq!([1, 5, 3].map(|pfn| stack.push(&map, Pfn::new(pfn))), [Some(1), Some(2), Some(3)]);
            assert!(stack.iter(map).eq([3, 5, 1].map(Pfn::new)), "an iteration does not see all slabs");
            stack.close();
            assert_eq!((stack.push(&map, Pfn::new(7)), stack.is_closed()), (None, true));
            assert!(stack.take(map).eq([7, 3, 5, 1].map(Pfn::new)), "slabs are lost or in the wrong order");
            assert_eq!(
                (stack.push(&map, Pfn::new(2)), stack.is_closed()),
                (None, true),
                "taking all slabs opened the stack"
            );
            stack.open();
            assert_eq!((stack.push(&map, Pfn::new(4)), stack.is_closed()), (Some(2), false));
        });
    }
}
