//! One slab's metadata, out of band: 32 bytes for each page, of which those of a slab's first page are used.
//!
//! ```text
//! local    the list of what its owner freed, and the objects in use     sections on the owner's CPU; else the slab's
//! holder remote   the list of what others freed, its length, `queued`          anybody, by compare and swap
//! next, prev                                                            the list or the stack that the slab is on
//! owner    the CPU that owns it, or NOBODY; and where it is             the slab's holder
//! ```
//!
//! A slab's *holder* is the CPU that has the lock of the list it is on, or took it off a list or a stack and did not
//! put it on another yet, or made it. A CPU that owns a slab holds its objects only: as long as `owner` says so, a
//! section on that CPU may change `local`. So an owner is made by a section on that CPU
//! ([`CpuLocal::replace_if`](super::cpu::CpuLocal)), and unmade by a store after which no section that read the old one
//! runs any more.
//!
//! *Queued* means: the owner, or the node, has the slab on a list or a stack, or some CPU is about to push it there. A
//! CPU that frees into a slab that is not queued sets the bit and, having set it, pushes the slab. That one bit decides
//! between a free on the owner's CPU and a free elsewhere which of the two pushes it.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::address::{ObjectAddress, SlabAddress};
use super::freelist::{Chain, Links, set_freepointer};
use super::word::{Local, Remote, end_mark};
use crate::base::CpuId;
use crate::base::atomic::{AtomicU32, AtomicU64};
use crate::base::fault::{Fault, is_planted, ordered};

/// Metadata of one page; that of a slab's first page stands for the slab.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(C, align(32)))]
#[cfg_attr(loom, repr(C, align(256)))]
pub struct Slab {
    pub(super) local: AtomicU64,
    pub(super) remote: AtomicU64,
    pub(super) owner: AtomicU64,
    pub(super) next: AtomicU32,
    pub(super) prev: AtomicU32,
}

const _: () = assert!(size_of::<Slab>() == Slab::SIZE, "slab metadata has 32 bytes a page");

impl Slab {
    /// Bytes of metadata a page; loom's atomics are larger.
    pub const SIZE: usize = if cfg!(loom) { 256 } else { 32 };
    /// Where [`local`](Self) lies, for sections in machine code.
    pub const LOCAL_OFFSET: usize = core::mem::offset_of!(Slab, local);
    /// Where the owner lies: a CPU's number in 16 bits.
    pub const OWNER_OFFSET: usize = core::mem::offset_of!(Slab, owner);

    /// Metadata of a page that is in no slab.
    pub fn unused() -> Slab {
        let slab = Slab::zeros();
        slab.owner.store(Owner::Node.raw(), Relaxed);
        slab
    }

    /// Metadata of a page that was in no slab yet; nobody asks for its owner.
    pub(super) fn zeros() -> Slab {
        Slab {
            local: AtomicU64::new(0),
            remote: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            next: AtomicU32::new(0),
            prev: AtomicU32::new(0),
        }
    }

    /// A copy of a slab's metadata from the words that it has in memory: of another process, say.
    pub fn from_words([local, remote, owner, _lists]: [u64; 4]) -> Slab {
        let slab = Slab::zeros();
        slab.local.store(local, Relaxed);
        slab.remote.store(remote, Relaxed);
        slab.owner.store(owner, Relaxed);
        slab
    }

    /// The CPU that owns it, if one does.
    #[inline]
    pub fn owner(&self) -> Owner {
        Owner::from_raw(self.owner.load(Acquire))
    }

    /// Its own list. Means something to its owner's sections, and to the slab's holder while nobody owns it.
    #[inline]
    pub fn local(&self) -> Local {
        Local::from_raw(self.local.load(Acquire))
    }

    /// What was freed from elsewhere.
    #[inline]
    pub fn remote(&self) -> Remote {
        Remote::from_raw(self.remote.load(Acquire))
    }

    /// Frees objects of this slab from wherever one is: one atomic step. Says what the word became and whether the
    /// caller must queue the slab now.
    pub(super) fn push_remote<L: Links>(&self, chain: Chain, last: ObjectAddress, links: L) -> (Remote, Queue) {
        // Loom remembers one access of an atomic: after a look it would not see what the swap races with.
        let mut seen = if cfg!(loom) { 0 } else { self.remote.load(Relaxed) };
        loop {
            let before = Remote::from_raw(seen);
            // SAFETY: the last object of a chain that the caller holds.
            unsafe { set_freepointer(last, before.list(last.get()), links) };
            let after = before.with_freed(chain.head, chain.len).queued();
            let order = ordered(Fault::PushUnreleased, AcqRel);
            match self.remote.compare_exchange_weak(seen, after.raw(), order, Relaxed) {
                Ok(_) if before.is_queued() => return (after, Queue::IsQueued),
                Ok(_) => return (after, Queue::Push),
                Err(now) => seen = now,
            }
        }
    }

    /// Says that the slab will be queued, as [`push_remote`](Self::push_remote) does.
    pub(super) fn queue(&self) -> Queue {
        let before = self.remote.fetch_or(Remote::from_raw(0).queued().raw(), AcqRel);
        if Remote::from_raw(before).is_queued() { Queue::IsQueued } else { Queue::Push }
    }

    /// Takes what was freed from elsewhere; the slab stays queued if it is.
    pub fn take_remote(&self, base: SlabAddress) -> Chain {
        let mut seen = self.remote.load(ordered(Fault::TakeUnacquired, Acquire));
        loop {
            let before = Remote::from_raw(seen);
            if before.is_empty() {
                return Chain::empty(base);
            }
            let emptied = if is_planted(Fault::TakesQueue) { Remote::empty(base) } else { before.emptied(base) };
            let order = ordered(Fault::TakeUnacquired, AcqRel);
            match self.remote.compare_exchange_weak(seen, emptied.raw(), order, Acquire) {
                Ok(_) => return Chain { head: before.list(base.get()), len: before.len() },
                Err(now) => seen = now,
            }
        }
    }

    /// The same by the slab's owner, which took it off where it was queued: it is not queued any more, so the CPU that
    /// frees next queues it.
    pub fn take_remote_unqueued(&self, base: SlabAddress) -> Chain {
        let before =
            Remote::from_raw(self.remote.swap(Remote::empty(base).raw(), ordered(Fault::TakeUnacquired, AcqRel)));
        Chain { head: before.list(base.get()), len: before.len() }
    }

    /// Takes a turn among the CPUs that free from elsewhere, and changes nothing: what was freed before is seen from
    /// now on, and a CPU that frees later sees what the caller wrote. A look would not do: both could miss the other.
    pub(super) fn meet_remote(&self) {
        if !is_planted(Fault::MeetsNobody) {
            self.remote.fetch_or(0, AcqRel);
        }
    }

    /// Lets go of a slab that the caller holds and that nobody owns, if nothing is free in it: it is not queued any
    /// more. `false` if something was freed since.
    pub(super) fn unqueue(&self, base: SlabAddress) -> bool {
        let none = Remote::empty(base);
        self.remote.compare_exchange(none.queued().raw(), none.raw(), AcqRel, Relaxed).is_ok()
    }

    /// Makes a slab of it, whose objects are all in use until they are listed, queued by name.
    pub(super) fn init(&self, base: SlabAddress, objects: u16) {
        self.set_local(Local::new(end_mark(base), objects));
        self.begin_remote(Remote::empty(base).queued().raw());
        self.owner.store(Owner::Node.raw(), Release);
    }

    /// The word of others of a new slab. Exchanged, not stored: the CPU that pushed the slab that was here before may
    /// take its turn ([`meet_remote`](Self::meet_remote)) at the same moment, and loom, other than a machine, lets that
    /// undo a store.
    pub(super) fn begin_remote(&self, word: u64) {
        self.remote.swap(word, Relaxed);
    }

    /// Writes its own list. The caller holds the slab, and nobody owns it.
    pub(super) fn set_local(&self, local: Local) {
        self.local.store(local.raw(), Release);
    }

    /// Clears the owner of a slab that is on no list; the caller holds it. Sections on the former owner's CPU that
    /// began before may still think otherwise.
    pub(super) fn disown(&self) {
        self.owner.store(Owner::Node.raw(), Release);
    }
}

/// The owner of a slab: a CPU or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Sections on this CPU free into it.
    Cpu(CpuId),
    /// The slab belongs to its node: every CPU frees into it remotely.
    Node,
}

impl Owner {
    /// Bits of the word that name the owner; those above say where the slab is ([`partial`](super::partial)).
    const MASK: u64 = u16::MAX as u64;

    /// The owner as it stands in the slab's word.
    #[inline]
    pub const fn raw(self) -> u64 {
        match self {
            Owner::Cpu(cpu) => cpu.0 as u64,
            Owner::Node => u16::MAX as u64,
        }
    }

    #[inline]
    pub(super) const fn from_raw(raw: u64) -> Owner {
        if raw & Owner::MASK == Owner::Node.raw() { Owner::Node } else { Owner::Cpu(CpuId(raw as u16)) }
    }
}

/// Whether the CPU that freed into a slab has to queue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a slab that nobody queues is lost"]
pub enum Queue {
    /// It is queued, or somebody is about to do it.
    IsQueued,
    /// It was not; the caller pushes it onto its owner's stack.
    Push,
}
