//! Faults planted on purpose: how the tests of protocols without a lock show that they would find one.
//!
//! Only a build with `--cfg loom` can plant any, for the scenes that a thread runs. In every other build the question
//! is answered when the crate is compiled, and nothing of it is left.

use core::sync::atomic::Ordering;

/// A step of a protocol, done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A claim looks at the word in one step, and writes it in another.
    ClaimInTwoSteps,
    /// A page leaves its range without the zone lock.
    LeavesRangeUnlocked,
    /// A push does not look whether anybody pushed or took meanwhile.
    PushOverwrites,
    /// A push onto a closed stack does not say that the stack must be taken.
    PushForgetsClosed,
    /// A take looks at the stack in one step, and empties it in another.
    TakeInTwoSteps,
    /// What is pushed for another CPU is published without what was written before.
    PushUnreleased,
    /// What others pushed is taken without what they wrote before.
    TakeUnacquired,
    /// A claim does not see what those did who had the block before.
    ClaimUnordered,
    /// A reference is counted or dropped without an order among those who have one.
    CountsUnordered,
    /// A drain does not look at the stack.
    DrainLeavesStack,
    /// A free looks whether the owner is offline before it has the owner's lock, not under it.
    FreeLooksEarly,
    /// A CPU goes offline, and its stack stays open.
    OfflineStaysOpen,
    /// The end of ownership is forgotten.
    OwnerStays,
    /// Ownership ends, and the owner still means to call the pageblock back.
    FragmentStays,
    /// A whole pageblock is opened although something smaller would do.
    OpensEarly,
    /// A drain of movable pages takes their pageblock for one of that type still.
    DrainTrustsList,
    /// A drain of a CPU's list of objects does not look whether a section has committed over its mark.
    DrainLooksOnce,
    /// A CPU's slabs and its list are taken, and nobody waits for the sections that have seen them.
    DisownsUnfenced,
    /// A CPU's main sheaf is replaced by a store, not by a section.
    ReplacesOutside,
    /// A sheaf is left to a CPU that went offline.
    KeepsOffline,
    /// Taking what was freed into a slab from elsewhere forgets that the slab is queued.
    TakesQueue,
    /// The holder of a slab that nobody owns lets go of it before its list is written.
    LetsGoEarly,
    /// A CPU that queued a slab does not take its turn among those that free into it.
    MeetsNobody,
    /// A push onto a closed stack of slabs is left to the holder of the lock.
    ClosedIsTried,
    /// The first free into a slab is published, and the slab queued without the lock in between.
    FreesUnlocked,
}

/// The order of an atomic step; none where this is planted.
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

    /// From now on this thread's scenes have this fault, or none.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    /// Whether this thread's scenes have this fault.
    pub fn is_planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }
}
