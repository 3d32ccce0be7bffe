//! Metadata of slabs, kept outside the slabs: 32 bytes for each page. A slab uses the metadata of its first page.
//!
//! ```text
//! field       content                                                written by
//! local       own list: objects that the owner freed; objects in use sections on the owner's CPU, else the holder
//! remote      list of remote frees, its length, `queued`             any CPU, by compare-and-exchange
//! next, prev  links of the list or stack that the slab is on         the holder of the list's lock or of the slab
//! owner       the owning CPU, or none; the list that the slab is on  the slab's holder
//! ```
//!
//! Each slab has a *holder*. While the slab is on a list, this is the CPU that has the list's lock, if any. Otherwise
//! it is the CPU that made the slab, or that took it off a list or a stack and has not put it on another yet. A CPU
//! that owns a slab does not hold the slab by that, but only its objects: as long as `owner` names a CPU, sections on
//! that CPU may change `local`. Therefore a CPU becomes the owner by a section on that CPU
//! ([`CpuLocal::replace_if`](super::cpu::CpuLocal)). It stops being the owner by a store and a fence, after which no
//! section that read the old owner runs any more.
//!
//! A slab is *queued* if its owner or its node has it on a list or a stack, or if some CPU is about to push it there. A
//! CPU that frees into a slab that is not queued sets the bit and then pushes the slab. If a free on the owner's CPU
//! and a remote free happen at the same time, this bit decides which of the two CPUs pushes the slab.
//!
//! # Design
//!
//! Only a holder returns a slab to the page allocator.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::address::{ObjectAddress, SlabAddress};
use super::freelist::{Chain, Links, set_freepointer};
use super::word::{Local, Remote, end_mark};
use crate::base::CpuId;
use crate::base::atomic::{AtomicU32, AtomicU64};
use crate::base::fault::{Fault, is_planted, ordered};

/// Metadata of one page. The metadata of a slab's first page describes the whole slab.
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

const _: () = assert!(size_of::<Slab>() == Slab::SIZE, "the metadata of a slab must have 32 bytes per page");

impl Slab {
    /// Bytes of metadata for each page. Loom's atomics are larger.
    pub const SIZE: usize = if cfg!(loom) { 256 } else { 32 };
    /// Offset of [`local`](Self), for sections in machine code.
    pub const LOCAL_OFFSET: usize = core::mem::offset_of!(Slab, local);
    /// Offset of the owner, which is a CPU's number in 16 bits.
    pub const OWNER_OFFSET: usize = core::mem::offset_of!(Slab, owner);

    /// Creates the metadata of a page that is in no slab.
    pub fn unused() -> Slab {
        let slab = Slab::zeros();
        slab.owner.store(Owner::Node.raw(), Relaxed);
        slab
    }

    /// Creates the metadata of a page that has not been in a slab yet. All bytes are zero; the owner is not read before
    /// the page becomes a slab.
    pub(super) fn zeros() -> Slab {
        Slab {
            local: AtomicU64::new(0),
            remote: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            next: AtomicU32::new(0),
            prev: AtomicU32::new(0),
        }
    }

    /// Copies a slab's metadata from its words in memory, for example those of another process.
    pub fn from_words([local, remote, owner, _lists]: [u64; 4]) -> Slab {
        let slab = Slab::zeros();
        slab.local.store(local, Relaxed);
        slab.remote.store(remote, Relaxed);
        slab.owner.store(owner, Relaxed);
        slab
    }

    /// Returns the CPU that owns the slab, if there is one.
    #[inline]
    pub fn owner(&self) -> Owner {
        Owner::from_raw(self.owner.load(Acquire))
    }

    /// Returns the slab's own list. The value is meaningful to sections of the slab's owner, and to the holder while
    /// the slab has no owner.
    #[inline]
    pub fn local(&self) -> Local {
        Local::from_raw(self.local.load(Acquire))
    }

    /// Returns the word of remote frees.
    #[inline]
    pub fn remote(&self) -> Remote {
        Remote::from_raw(self.remote.load(Acquire))
    }

    /// Frees objects of this slab from any CPU, by one atomic step. Returns the new word, and whether the caller must
    /// queue the slab now.
    pub(super) fn push_remote<L: Links>(&self, chain: Chain, last: ObjectAddress, links: L) -> (Remote, Queue) {
        // Loom remembers one access of an atomic: if the word were read first, loom would not try the orders in which
        // another CPU races with the exchange.
        let mut seen = if cfg!(loom) { 0 } else { self.remote.load(Relaxed) };
        loop {
            let before = Remote::from_raw(seen);
            // SAFETY: `last` is the last object of a chain that the caller owns, so it is free and no other CPU uses
            // it.
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

    /// Marks the slab as queued, as [`push_remote`](Self::push_remote) does. Returns whether the caller must put the
    /// slab on a list or stack now.
    pub(super) fn queue(&self) -> Queue {
        let before = self.remote.fetch_or(Remote::from_raw(0).queued().raw(), AcqRel);
        if Remote::from_raw(before).is_queued() { Queue::IsQueued } else { Queue::Push }
    }

    /// Takes all remote frees. A queued slab stays queued.
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

    /// Takes all remote frees on behalf of the slab's owner, which has taken the slab off its list. The slab is not
    /// queued any more, so the next CPU that frees into it queues it.
    pub fn take_remote_unqueued(&self, base: SlabAddress) -> Chain {
        let before =
            Remote::from_raw(self.remote.swap(Remote::empty(base).raw(), ordered(Fault::TakeUnacquired, AcqRel)));
        Chain { head: before.list(base.get()), len: before.len() }
    }

    /// Synchronizes with the CPUs that free remotely, by an atomic step that changes nothing. Frees that happened
    /// before are visible from now on, and a CPU that frees later sees the caller's writes. A load is not enough: each
    /// of the two CPUs could miss the other's write.
    pub(super) fn meet_remote(&self) {
        if !is_planted(Fault::MeetsNobody) {
            self.remote.fetch_or(0, AcqRel);
        }
    }

    /// Gives up the hold of a slab that has no owner and whose own list is empty: the slab is not queued any more.
    /// Returns `false` if there are remote frees; the slab stays queued then, and the caller still holds it.
    pub(super) fn unqueue(&self, base: SlabAddress) -> bool {
        let none = Remote::empty(base);
        self.remote.compare_exchange(none.queued().raw(), none.raw(), AcqRel, Relaxed).is_ok()
    }

    /// Turns a page into a slab. All objects count as in use until they are put on the list. The slab is marked as
    /// queued, but is on no list.
    pub(super) fn init(&self, base: SlabAddress, objects: u16) {
        self.set_local(Local::new(end_mark(base), objects));
        self.begin_remote(Remote::empty(base).queued().raw());
        self.owner.store(Owner::Node.raw(), Release);
    }

    /// Sets the word of remote frees of a new slab. The word is exchanged, not stored: the CPU that pushed the previous
    /// slab of these pages may run [`meet_remote`](Self::meet_remote) at the same moment. In loom's model, unlike on a
    /// machine, that step could undo a store.
    pub(super) fn begin_remote(&self, word: u64) {
        self.remote.swap(word, Relaxed);
    }

    /// Writes the slab's own list. The caller holds the slab, and the slab has no owner.
    pub(super) fn set_local(&self, local: Local) {
        self.local.store(local.raw(), Release);
    }

    /// Clears the owner of a slab that is on no list and that the caller holds. Sections on the former owner's CPU that
    /// began before may still have read the former owner.
    pub(super) fn disown(&self) {
        self.owner.store(Owner::Node.raw(), Release);
    }
}

/// Owner of a slab: a CPU, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Sections on this CPU free into the slab.
    Cpu(CpuId),
    /// The slab belongs to its node: every CPU frees into it remotely.
    Node,
}

impl Owner {
    /// Bits of the owner word that name the owner. The bits above name the list that the slab is on
    /// ([`partial`](super::partial)).
    const MASK: u64 = u16::MAX as u64;

    /// Returns the owner's representation in the slab's word.
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

/// Result of a free into a slab: whether the caller must queue the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a slab that the caller does not queue is lost"]
pub enum Queue {
    /// The slab is queued, or another CPU is about to push it.
    IsQueued,
    /// The slab was not queued. The caller holds it now, and puts it on a stack or list of its owner or node.
    Push,
}
