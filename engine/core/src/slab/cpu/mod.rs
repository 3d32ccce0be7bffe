//! CPU-local primitive: operations of a CPU on its own lists that no other code on that CPU can interrupt. A kernel or
//! a heap provides an implementation, or uses [`locked`]; allocation and free are built on it.
//!
//! A *section* is a few instructions that run on one CPU as if nothing else ran there: either all of them take effect,
//! ending in one store that publishes the result, or none does. In user space, restartable sequences implement
//! sections. In a kernel, disabled interrupts do, and a lock for each CPU works anywhere ([`section`]). Other CPUs do
//! run meanwhile. They may change the same words only by an exchange followed by [`fence`](CpuLocal::fence), after
//! which every section that could have read the old value has ended.
//!
//! Sections do four things, each on words that one store can write. *Pop* and *push* work on this CPU's list of a
//! cache. *Replace-if* changes any word that only sections on this CPU write. *Drain* lets another CPU take a list
//! ([`CpuLocal::drain`]).
//!
//! ```text
//! slots   CPU 0: words of cache 0, 1, ... 255, second words of cache 0, 1, ... 255 | CPU 1: ...
//! ```
//!
//! So the numbers of the CPU and the cache determine the address of a slot, and no memory of the cache is read for it.
//!
//! # Design
//!
//! A section publishes its result with one store, because that is the common ground of restartable sequences, disabled
//! interrupts and per-CPU locks. Everything that a CPU changes in a section therefore fits one word. Another CPU that
//! takes that word exchanges it and then fences the first CPU.
//!
//! The first words of all slots of a CPU are adjacent, eight caches per cache line, and the second words follow them,
//! because only `page-field` reads second words on its fast path.

#[cfg(all(test, not(loom)))]
pub(super) mod late;
pub mod locked;
pub mod section;
#[doc(hidden)]
pub mod sheaf;

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::address::{ObjectAddress, SlabAddress, SlabMask};
use super::bits::Bits;
use super::freelist::FixedLinks;
use super::id::CacheId;
use super::slab::Slab;
use super::word::EMPTY;
use crate::base::CpuId;
use crate::base::atomic::AtomicU64;
use crate::base::fault::{Fault, is_planted};

/// Maximum number of caches of an allocator. With this number, the words of a CPU fill one page, and a shift computes
/// their address. Loom's tests have a few caches only.
pub const CACHES_MAX: usize = if cfg!(loom) { 8 } else { 256 };
/// Bytes from the words of one CPU to those of the next.
pub const STRIDE: usize = size_of::<CpuSlots>();
/// Bytes from a slot's first word to its second word.
pub const PAIRED_OFFSET: usize = core::mem::offset_of!(CpuSlots, paired);

#[cfg(not(loom))]
const _: () = assert!(STRIDE == 4096, "the words of a CPU must fill a page");

/// Slots of one CPU: the first words of all slots, then the second words of all slots. Most policies use only the first
/// words on their fast path. These are close together, eight caches to a cache line, and the second words do not take
/// space between them.
#[derive(Debug)]
#[repr(C, align(64))]
#[doc(hidden)]
pub struct CpuSlots {
    main: [AtomicU64; CACHES_MAX],
    paired: [AtomicU64; CACHES_MAX],
}

impl CpuSlots {
    /// Creates the slots of a CPU that has no object, no slab and no sheaf. Under `sheaves` and `bitmap`, the first
    /// word must be replaced by a placeholder before the slot is used.
    pub fn empty() -> CpuSlots {
        CpuSlots {
            main: core::array::from_fn(|_| AtomicU64::new(EMPTY)),
            paired: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Returns the slot of a cache.
    pub fn slot(&self, cache: CacheId) -> Slot<'_> {
        Slot { main: &self.main[cache.index()], paired: &self.paired[cache.index()] }
    }
}

/// One CPU's part of one cache: two words, whose meaning depends on the cache's path.
///
/// ```text
///           page-field            tagged              sheaves            bitmap
/// main      list of objects       list of objects     end of the main    metadata of the CPU's
///                                                     sheaf              slab
/// paired    slab of that list     -                   spare sheaf        -
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Slot<'m> {
    /// Word that the fast path uses: a list ([`word`](super::word)), a place in a sheaf ([`Top`](sheaf::Top)), or the
    /// address of a slab's metadata.
    pub main: &'m AtomicU64,
    /// Second word: the address of a slab or a sheaf, or 0 for none.
    pub paired: &'m AtomicU64,
}

/// Slots of one cache on all CPUs.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Slots<'m> {
    all: NonNull<CpuSlots>,
    cache: CacheId,
    life: PhantomData<&'m CpuSlots>,
}

// SAFETY: `Slots` is a reference to slots, whose words are atomics, so it may be sent to another thread.
unsafe impl Send for Slots<'_> {}
// SAFETY: threads that share a `Slots` only share references to atomics.
unsafe impl Sync for Slots<'_> {}

impl<'m> Slots<'m> {
    /// Creates the slots of the cache `cache` from all slots of each CPU.
    ///
    /// # Safety
    /// There are slots for each CPU on which sections run. Their words are written only by sections and by drains. They
    /// are passed only to sections of the policy of that cache, with links and objects of that cache. For all of `'m`,
    /// the first word of each slot is valid for its policy:
    ///
    /// - a list whose lowest bit is clear consists of free objects of that cache, linked as the cache links them;
    /// - under `sheaves`, the word is the [`Top`](sheaf::Top) of a sheaf that no other code uses, and all objects up to
    ///   it are free objects of that cache; or it is the top of a sheaf without room;
    /// - under `bitmap`, the word is the address of the metadata of a slab of that cache that this CPU owns, and whose
    ///   bits are written as the slots' words are; or it is the address of a slab without free objects.
    #[inline(always)]
    pub unsafe fn new(all: &'m [CpuSlots], cache: CacheId) -> Slots<'m> {
        debug_assert!(!all.is_empty());
        // SAFETY: `all` is a slice, and the address of a slice is not null.
        Slots { all: unsafe { NonNull::new_unchecked(all.as_ptr().cast_mut()) }, cache, life: PhantomData }
    }

    /// Returns the address of the words of CPU 0. The words of CPU n follow n times [`STRIDE`] bytes later. The first
    /// word of this cache's slot is the one with the index [`place`](Self::place) among those of its CPU.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut CpuSlots {
        self.all.as_ptr()
    }

    /// Returns the cache's number.
    #[inline(always)]
    pub fn place(self) -> u64 {
        self.cache.index() as u64
    }

    /// Returns the address of the first word of CPU 0's slot.
    #[inline(always)]
    pub fn first(self) -> *mut AtomicU64 {
        // SAFETY: the slice is not empty, so CPU 0 has slots. It has CACHES_MAX of them, and a cache number is smaller
        // than that.
        unsafe { self.all.as_ptr().cast::<AtomicU64>().add(self.cache.index()) }
    }

    /// Returns the slot of a CPU.
    ///
    /// # Safety
    /// Sections run on this CPU, so there are slots for it.
    #[inline]
    pub unsafe fn slot(self, cpu: CpuId) -> Slot<'m> {
        // SAFETY: the caller promises that sections run on this CPU, and the caller of `new` promised slots for each
        // such CPU.
        unsafe { self.all.add(cpu.index()).as_ref() }.slot(self.cache)
    }
}

/// Object that is being freed, with its slab's metadata. The value owns the object.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct FreedObject<'m> {
    object: ObjectAddress,
    slab: &'m Slab,
    mask: SlabMask,
}

impl<'m> FreedObject<'m> {
    /// Creates the value for an object of `slab`, all of whose addresses agree in the bits of `mask`.
    ///
    /// # Safety
    /// The object was allocated from this slab and is not used any more. The value owns the object from now on. For a
    /// fast path of sheaves, which uses only the address of the object, the slab may be any.
    #[inline(always)]
    pub unsafe fn new(object: ObjectAddress, slab: &'m Slab, mask: SlabMask) -> FreedObject<'m> {
        FreedObject { object, slab, mask }
    }

    /// Returns the object's address.
    #[inline(always)]
    pub fn object(self) -> ObjectAddress {
        self.object
    }

    /// Returns the metadata of the object's slab.
    #[inline(always)]
    pub fn slab(self) -> &'m Slab {
        self.slab
    }

    /// Returns the mask of the address bits that identify the slab.
    #[inline(always)]
    pub fn mask(self) -> SlabMask {
        self.mask
    }

    /// Returns the address of the object's slab, which is the object's address, masked.
    #[inline(always)]
    pub fn slab_address(self) -> SlabAddress {
        self.object.slab(self.mask)
    }
}

/// Result of a push: whether the section took the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an object that was not taken is lost"]
#[doc(hidden)]
pub enum PushOutcome {
    /// The object was taken, and the section has ended.
    Done,
    /// The object needs a slow path. Nothing was changed.
    Refused,
}

/// Conditional replacement of a word that must be as it was read before.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Exchange<'m> {
    /// Word to replace. Only sections on one CPU, and drains, write it.
    pub word: &'m AtomicU64,
    /// Value that the word must have.
    pub from: u64,
    /// Value that the word gets if both words are as they were read.
    pub to: u64,
    /// Another word that must be as it was read, or the same word again.
    pub witness: &'m AtomicU64,
    /// Value that the witness must have.
    pub seen: u64,
}

impl<'m> Exchange<'m> {
    /// Creates an exchange that depends on the replaced word only.
    pub fn new(word: &'m AtomicU64, from: u64, to: u64) -> Exchange<'m> {
        Exchange { word, from, to, witness: word, seen: from }
    }

    /// Returns this exchange with the additional condition that `witness` has the value `seen`.
    pub fn with_witness(self, witness: &'m AtomicU64, seen: u64) -> Exchange<'m> {
        Exchange { witness, seen, ..self }
    }
}

/// Result of an [`Exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[doc(hidden)]
pub enum ExchangeOutcome {
    /// Both words were as they were read, and the word was replaced.
    Done,
    /// The word or the witness has changed since it was read.
    Changed,
    /// The caller does not run on that CPU any more.
    Moved,
}

/// Result of a [`fence`](CpuLocal::fence): whether all sections on a CPU that had begun have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after an unanswered fence, memory may still be in use on that CPU"]
pub enum FenceOutcome {
    /// Every section that had begun has ended.
    Ended,
    /// The CPU does not answer, so a section may never end. All that such a section may have read must stay as it is,
    /// and is leaked: [`check`](crate::slab::SlabAllocator::check) reports it.
    Unanswered,
}

/// CPU-local primitive. All functions may be called from anywhere, also from code that interrupts a section, such as a
/// signal handler or an interrupt handler.
///
/// # Safety
/// Each of `pop`, `push`, `push_paired`, `pop_sheaf`, `push_sheaf`, `pop_bits`, `push_bits` and `replace_if` is one
/// section. A section determines its CPU, then reads and changes the words of that CPU: those of its slots, of its main
/// sheaves, and of slabs that it owns. Between the first read and the one committing store, no other code on that CPU
/// executes any part of a section; otherwise the section has no effect. [`section`] is the reference for the effect of
/// each operation. Sections run only on CPUs below [`cpus`](Self::cpus), and callers pass no other CPU.
///
/// After `fence` returns [`FenceOutcome::Ended`], each section on that CPU that had begun before the call has ended,
/// and its store is visible to the caller. All later sections on that CPU see what the caller stored before the call.
pub unsafe trait CpuLocal {
    /// Returns the highest number of a CPU, plus one.
    fn cpus(&self) -> u16;

    /// Returns the CPU that runs the caller. The caller may be moved at once.
    fn cpu(&self) -> CpuId;

    /// Takes the first object off this CPU's list; returns `None` if the list has no object, which its lowest bit shows
    /// (see [`is_mark`](super::word::is_mark)).
    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress>;

    /// Puts an object on a list of its slab on this CPU. If the slot's list belongs to the same slab (the addresses
    /// agree in the bits of the mask), the object is put on that list. Otherwise it is put on the slab's own list,
    /// provided that this CPU owns the slab, that list is not empty, and the object is not the slab's last one in use.
    /// In all other cases the object is refused; with mangled links, an object that already is the first of the list is
    /// refused too.
    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome;

    /// Does what [`push`](Self::push) does, where the slot's second word names the slab of its list.
    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome;

    /// Takes an object out of this CPU's main sheaf; returns `None` if the sheaf is empty.
    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress>;

    /// Puts an object into this CPU's main sheaf. Refuses it if the sheaf is full, or if the object is already the last
    /// one in the sheaf.
    ///
    /// # Safety
    /// The object belongs to the caller, and was allocated from this cache.
    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome;

    /// Takes the first free object of the slab whose metadata this CPU's slot names. The free objects of that slab are
    /// bits of its `local`. Returns the address of the metadata and the object's place, or `None` if no bit is set.
    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)>;

    /// Sets an object's bit in its slab's `local`. Refuses the object if the bit is set already, or if the slab is
    /// neither the one that this CPU's slot names nor another slab that this CPU owns. A slab that the slot does not
    /// name must also have free objects already, and must not have all of its objects (`all`) free afterwards.
    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome;

    /// Replaces a word that only sections on `cpu`, and drains, write, if the caller runs on `cpu`, and the word and
    /// the witness have the expected values.
    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome;

    /// Waits until every section on `cpu` that began before this call has ended, provided that the CPU answers.
    fn fence(&self, cpu: CpuId) -> FenceOutcome;

    /// Returns whether a CPU did not answer its last fence and has not answered since. Its objects are left alone,
    /// since another fence would not be answered either, and anything taken before that fence would be leaked.
    fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Enters a region in which the caller cannot be moved to another CPU, as a preemptible kernel does around the two
    /// words of `page-field`. Sections do not need it; it exists to measure its cost.
    fn preempt_disable(&self) {}

    /// Leaves the region that `preempt_disable` entered.
    fn preempt_enable(&self) {}

    /// Takes the first word of another CPU's slot: a list or, under `sheaves`, the top of a sheaf. Returns `nothing` if
    /// the slot has that value already, or if the CPU does not answer the fence. Costs an exchange and a fence, again
    /// for each section that commits at the same time.
    ///
    /// The word is exchanged for `nothing`, a value onto which no section pushes ([`EMPTY`] for lists), and then the
    /// CPU is fenced. If the word still is `nothing` after the fence, the list belongs to the caller. Otherwise a
    /// section that had read the old list has committed over it, so the list still belongs to that CPU, and the drain
    /// starts again. If the CPU does not answer the fence, the list is leaked, since that CPU may still use it.
    ///
    /// Meanwhile the caller prevents other code from replacing a list without objects in the slot. Under `page-field`
    /// it has also cleared the second word before, and fenced.
    fn drain(&self, cpu: CpuId, slot: Slot<'_>, nothing: u64) -> u64 {
        loop {
            let list = slot.main.load(Acquire);
            if list == nothing {
                return nothing;
            }
            if slot.main.compare_exchange(list, nothing, AcqRel, Relaxed).is_err() {
                continue;
            }
            if !is_planted(Fault::DisownsUnfenced) && self.fence(cpu) == FenceOutcome::Unanswered {
                return nothing;
            }
            if slot.main.load(Acquire) == nothing || is_planted(Fault::DrainLooksOnce) {
                return list;
            }
        }
    }
}
