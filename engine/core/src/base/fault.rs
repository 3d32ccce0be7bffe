//! Deliberate faults in lock-free protocols, with which the loom tests show that they would detect such a fault.
//!
//! Only a build with `--cfg loom` can plant a fault, per thread. In other builds `is_planted` is a constant, and the
//! compiler removes all code of the faults.

use core::sync::atomic::Ordering;

/// A faulty step of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A claim reads the word in one step and writes it in another.
    ClaimInTwoSteps,
    /// A page leaves its range without the zone lock.
    LeavesRangeUnlocked,
    /// A push overwrites the top without checking for a concurrent push or take.
    PushOverwrites,
    /// A push to a closed stack does not report that the stack must be taken.
    PushForgetsClosed,
    /// A take reads the stack in one step and empties it in another.
    TakeInTwoSteps,
    /// A block, slab or object is pushed for another CPU without Release, so earlier writes may not be visible to that
    /// CPU.
    PushUnreleased,
    /// A stack, or the remote frees of a slab, are taken without Acquire, so earlier writes of the pushing CPUs may not
    /// be visible.
    TakeUnacquired,
    /// A claim is not ordered after the writes of the block's earlier owners.
    ClaimUnordered,
    /// A reference is taken or dropped without ordering among the holders of references.
    CountsUnordered,
    /// A drain ignores the stack.
    DrainLeavesStack,
    /// A free checks whether the owner is offline before it takes the owner's lock, instead of under the lock.
    FreeLooksEarly,
    /// A CPU goes offline, and its stack stays open.
    OfflineStaysOpen,
    /// Ownership of a pageblock is not ended.
    OwnerStays,
    /// Ownership ends, but the pageblock stays on the owner's list of fragments.
    FragmentStays,
    /// A whole pageblock is opened although a smaller block would be sufficient.
    OpensEarly,
    /// A drain of movable pages assumes that their pageblock still has that type.
    DrainTrustsList,
    /// A drain of a CPU's object list does not check whether a section has committed over the value that the drain
    /// stored.
    DrainLooksOnce,
    /// A CPU's slabs and its list are taken without waiting for the sections that have seen them.
    DisownsUnfenced,
    /// A CPU's main sheaf is replaced by a store instead of a section.
    ReplacesOutside,
    /// A sheaf stays with a CPU that went offline.
    KeepsOffline,
    /// Taking the remote frees of a slab clears the slab's queued bit.
    TakesQueue,
    /// The holder of a slab without an owner gives up its hold before the slab's list is written.
    LetsGoEarly,
    /// A CPU that queued a slab does not synchronize with the other CPUs that free into it.
    MeetsNobody,
    /// A push onto a closed stack of slabs is left to the holder of the lock.
    ClosedIsTried,
    /// The first free into a slab is published, and the slab is queued, without the lock in between.
    FreesUnlocked,
}

/// Returns the ordering of an atomic step; `Relaxed` if the fault is planted.
#[inline(always)]
pub(crate) fn ordered(fault: Fault, order: Ordering) -> Ordering {
    if is_planted(fault) { Ordering::Relaxed } else { order }
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

#[cfg(loom)]
pub use planting::{is_planted, plant};

#[cfg(loom)]
mod planting {
    extern crate std;

    use core::cell::Cell;

    use super::Fault;

    std::thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Plants a fault, or none, for all later protocol steps of this thread.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    /// Returns whether this thread has planted the fault.
    pub fn is_planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }
}
