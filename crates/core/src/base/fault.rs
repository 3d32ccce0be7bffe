//! Faults planted on purpose: how the tests of protocols without a lock show that they would find one.
//!
//! Only a build with `--cfg loom` can plant any, for the scenes that a thread runs. In every other build the question
//! is answered when the crate is compiled, and nothing of it is left.

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
    /// A drain does not look at the stack.
    DrainLeavesStack,
    /// A free looks whether the owner is offline before it has the owner's lock, not under it.
    FreeLooksEarly,
    /// A CPU goes offline, and its stack stays open.
    OfflineStaysOpen,
    /// The end of ownership is forgotten.
    OwnerStays,
    /// A drain of a CPU's list of objects does not look whether a section has committed over its mark.
    DrainLooksOnce,
    /// A CPU's slabs and its list are taken, and nobody waits for the sections that have seen them.
    DisownsUnfenced,
    /// Taking what was freed into a slab from elsewhere forgets that the slab is queued.
    TakesQueue,
    /// The holder of a slab that nobody owns lets go of it before its list is written.
    LetsGoEarly,
    /// A push onto a closed stack of slabs is left to the holder of the lock.
    ClosedIsTried,
    /// The first free into a slab is published, and the slab queued without the lock in between.
    FreesUnlocked,
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
