//! What a CPU does to its own lists without anybody else: the CPU-local primitive.
//!
//! A *section* is a few instructions that run on one CPU as if nothing else did on that CPU: either all of it happened
//! there, ending in one store that publishes it, or nothing did. Restartable sequences do that in user space,
//! interrupts that are off do it in a kernel, and a lock for each CPU does it anywhere
//! ([`section`]). Other CPUs do run meanwhile: what they may do to the same words is an exchange and
//! [`fence`](CpuLocal::fence), after which every section that could have read the old value is over.
//!
//! Four things are done in sections, on words that fit in one store: *pop* and *push* on this CPU's list of a cache,
//! *replace-if* on any word that only this CPU's sections write, and *drain*, by which another CPU takes a list
//! ([`CpuLocal::drain`]).
//!
//! ```text
//! slots   CPU 0: words of cache 0, 1, ... 255, second words of cache 0, 1, ... 255 | CPU 1: ...
//! ```
//!
//! So a slot is found by its CPU's and its cache's number, and nothing of the cache is read for it.

#[cfg(all(test, not(loom)))]
pub(super) mod late;
pub mod locked;
pub mod section;
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

/// Most caches of an allocator: with it a CPU's words fill a page, and are found by a shift. A few in loom's shrunken
/// world.
pub const CACHES_MAX: usize = if cfg!(loom) { 8 } else { 256 };
/// Bytes from the words of one CPU to those of the next.
pub const STRIDE: usize = size_of::<CpuSlots>();
/// Bytes from a slot's first word to the second.
pub const PAIRED_OFFSET: usize = core::mem::offset_of!(CpuSlots, paired);

#[cfg(not(loom))]
const _: () = assert!(STRIDE == 4096, "a CPU's words fill a page");

/// One CPU's slots, cache by cache: the first ones of all slots, and then the second ones. So what the fast path of
/// most policies uses lies close, eight caches to a line, and the second words, of which it needs none, are in nobody's
/// way.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct CpuSlots {
    main: [AtomicU64; CACHES_MAX],
    paired: [AtomicU64; CACHES_MAX],
}

impl CpuSlots {
    /// Slots of a CPU that has no object, no slab and no sheaf.
    pub fn empty() -> CpuSlots {
        CpuSlots {
            main: core::array::from_fn(|_| AtomicU64::new(EMPTY)),
            paired: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The slot of a cache.
    pub fn slot(&self, cache: CacheId) -> Slot<'_> {
        Slot { main: &self.main[cache.index()], paired: &self.paired[cache.index()] }
    }
}

/// One CPU's part of one cache: two words, whose meaning depends on the cache's path.
///
/// ```text
///           page-field            tagged              sheaves            bitmap
/// main      a list of objects     a list of objects   its main sheaf's    metadata of its slab
///                                                    last object
/// paired    slab of that list     -                   its spare sheaf    -
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slot<'m> {
    /// What the fast path uses: a list ([`word`](super::word)), a place in a sheaf ([`Top`](sheaf::Top)), or the
    /// address of a slab's metadata.
    pub main: &'m AtomicU64,
    /// The word paired with it: the address of a slab or of a sheaf; 0 for none.
    pub paired: &'m AtomicU64,
}

/// The slots of one cache on all CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'m> {
    all: NonNull<CpuSlots>,
    cache: CacheId,
    life: PhantomData<&'m CpuSlots>,
}

// SAFETY: it is a reference to slots, whose words are atomics.
unsafe impl Send for Slots<'_> {}
// SAFETY: threads that share it share references to atomics only.
unsafe impl Sync for Slots<'_> {}

impl<'m> Slots<'m> {
    /// The slots of the cache `cache`, of all those of each CPU.
    ///
    /// # Safety
    /// There are slots for each CPU on which sections run. Their words are written by sections, and by drains, only.
    /// They are given to sections of that cache's policy only, with its links and its objects. What their first word
    /// says, for `'m`:
    ///
    /// - a list that is not a mark is of free objects of that cache, linked as the cache links them;
    /// - under `sheaves`, it is the [`Top`](sheaf::Top) of a sheaf that nobody else has, in which all up to it are free
    ///   objects of that cache; or of one without room;
    /// - under `bitmap`, it is the address of the metadata of a slab of that cache that this CPU owns, and whose bits
    ///   are written as the slots' words are; or of a slab without free objects.
    #[inline(always)]
    pub unsafe fn new(all: &'m [CpuSlots], cache: CacheId) -> Slots<'m> {
        debug_assert!(!all.is_empty());
        // SAFETY: the address of a slice is not null.
        Slots { all: unsafe { NonNull::new_unchecked(all.as_ptr().cast_mut()) }, cache, life: PhantomData }
    }

    /// The words of CPU 0; those of CPU n are n times [`STRIDE`] bytes after them. A slot's first word is the
    /// [`place`](Self::place)-th of its CPU's.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut CpuSlots {
        self.all.as_ptr()
    }

    /// The cache's number.
    #[inline(always)]
    pub fn place(self) -> u64 {
        self.cache.index() as u64
    }

    /// The first word of CPU 0's slot.
    #[inline(always)]
    pub fn first(self) -> *mut AtomicU64 {
        // SAFETY: there is a CPU 0, and it has CACHES_MAX slots, more than a byte can say.
        unsafe { self.all.as_ptr().cast::<AtomicU64>().add(self.cache.index()) }
    }

    /// The slot of a CPU.
    ///
    /// # Safety
    /// There are slots for it: sections run on it.
    #[inline]
    pub unsafe fn slot(self, cpu: CpuId) -> Slot<'m> {
        // SAFETY: `new` asks for the words of each CPU on which sections run.
        unsafe { self.all.add(cpu.index()).as_ref() }.slot(self.cache)
    }
}

/// An object that is being freed, with its slab's metadata. The value owns the object.
#[derive(Clone, Copy, Debug)]
pub struct FreedObject<'m> {
    object: ObjectAddress,
    slab: &'m Slab,
    mask: SlabMask,
}

impl<'m> FreedObject<'m> {
    /// An object of `slab`, whose addresses are those that agree in the bits of `mask`.
    ///
    /// # Safety
    /// The object is allocated, from this slab, and nobody uses it any more: the value owns it.
    #[inline(always)]
    pub unsafe fn new(object: ObjectAddress, slab: &'m Slab, mask: SlabMask) -> FreedObject<'m> {
        FreedObject { object, slab, mask }
    }

    /// Where the object begins.
    #[inline(always)]
    pub fn object(self) -> ObjectAddress {
        self.object
    }

    /// Metadata of the object's slab.
    #[inline(always)]
    pub fn slab(self) -> &'m Slab {
        self.slab
    }

    /// The bits in which addresses of its slab agree.
    #[inline(always)]
    pub fn mask(self) -> SlabMask {
        self.mask
    }

    /// Address of the object's slab: its own, masked.
    #[inline(always)]
    pub fn slab_address(self) -> SlabAddress {
        self.object.slab(self.mask)
    }
}

/// Result of a push: whether the section took the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an object that was not taken would be lost"]
pub enum PushOutcome {
    /// The object was taken; the section is over.
    Done,
    /// It is not for a fast path; nothing was changed.
    Refused,
}

/// A word to be changed if it is as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'m> {
    /// The word. Only sections on one CPU, and drains, write it.
    pub word: &'m AtomicU64,
    /// The value that the word must have.
    pub from: u64,
    /// The value that the word gets if all is as it was seen.
    pub to: u64,
    /// Another word that must be as it was seen, or the same one again.
    pub witness: &'m AtomicU64,
    /// The value that the witness must have.
    pub seen: u64,
}

impl<'m> Exchange<'m> {
    /// An exchange that depends on its own word only.
    pub fn new(word: &'m AtomicU64, from: u64, to: u64) -> Exchange<'m> {
        Exchange { word, from, to, witness: word, seen: from }
    }

    /// The same, made only if another word has this value too.
    pub fn with_witness(self, witness: &'m AtomicU64, seen: u64) -> Exchange<'m> {
        Exchange { witness, seen, ..self }
    }
}

/// Result of an [`Exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ExchangeOutcome {
    /// Both words were as they were seen, and the word was replaced.
    Done,
    /// It, or the witness, is not as it was seen.
    Changed,
    /// The caller does not run on that CPU any more.
    Moved,
}

/// Result of a [`fence`](CpuLocal::fence): whether the sections on a CPU that had begun have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what an unanswered fence guards may be in use on that CPU"]
pub enum FenceOutcome {
    /// Each one that had begun has ended.
    Ended,
    /// The CPU does not answer: one may be under way for ever. What it may know stays as it is, and is lost:
    /// [`check`](crate::slab::SlabAllocator::check) says so.
    Unanswered,
}

/// The CPU-local primitive. All of it may be called from anywhere, also from code that interrupts a section: a signal,
/// an interrupt.
///
/// # Safety
/// Each of `pop`, `push`, `push_paired`, `pop_sheaf`, `push_sheaf`, `pop_bits`, `push_bits` and `replace_if` is one
/// section: it reads the CPU, reads and changes the words of that CPU (of its slots, its main sheaves, and slabs that
/// it owns), and between its first read and its one committing store nothing else that runs on that CPU executes any
/// part of a section; or none of it happened. What [`portable`](section) does in a section says what each must do.
/// Sections run on CPUs below [`cpus`](Self::cpus) only, and no other is named. After `fence` says
/// [`FenceOutcome::Ended`], each section on that CPU that had begun before the call has ended, its store is visible to
/// the caller, and what the caller stored before is visible to all later ones.
pub unsafe trait CpuLocal {
    /// One more than the highest number that a CPU has.
    fn cpus(&self) -> u16;

    /// The CPU that runs the caller, which may be moved at once.
    fn cpu(&self) -> CpuId;

    /// Takes the first object off this CPU's list; nothing if that is a mark.
    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress>;

    /// Puts an object where its slab's objects go on this CPU: onto the slot's list if that is of the same slab (the
    /// addresses agree in the bits of the mask), else onto the slab's own list if this CPU owns the slab, and the list
    /// is not empty, and this is not the last object in use.
    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome;

    /// The same where the slot's second word says of which slab its list is.
    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome;

    /// Takes an object out of this CPU's main sheaf; nothing if that is empty.
    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress>;

    /// Puts an object into this CPU's main sheaf, unless that is full, or the object is the last one in it.
    ///
    /// # Safety
    /// The object belongs to the caller, and was allocated from this cache.
    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome;

    /// Takes the first free object of the slab whose metadata this CPU's slot names, where free objects are bits of
    /// the slab's `local`: the metadata's address, and the object's place; nothing if no bit is set.
    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)>;

    /// Sets an object's bit, which must be clear: of the slab that this CPU's slot names, or of another one that this
    /// CPU owns, which must have free objects, but not `all` of them then.
    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome;

    /// Changes a word that only sections on `cpu` write.
    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome;

    /// Waits until no section on `cpu` runs that began before, if that CPU answers.
    fn fence(&self, cpu: CpuId) -> FenceOutcome;

    /// Whether a CPU did not answer its last fence, and has not since: what it has is left to it, since another fence
    /// would not be answered either, and what was taken before it would be lost.
    fn is_out_of_reach(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Enters a region in which the caller cannot be moved to another CPU, as a preemptible kernel does around the
    /// two words of `page-field`: what that costs, for the comparison. Sections do not need it.
    fn preempt_disable(&self) {}

    /// Leaves the region that `preempt_disable` entered.
    fn preempt_enable(&self) {}

    /// Takes the list of another CPU's slot, or the mark that is there: the word is exchanged for `nothing`, onto which
    /// no section pushes ([`EMPTY`] for lists); after a fence it either still is that, and the list is the caller's, or
    /// an owner that had read the old list has committed over it, and the list is still the owner's: then again. If the
    /// CPU does not answer the fence, the list is nobody's: what it may be looking at is lost.
    ///
    /// The caller keeps everybody else from replacing a mark in the slot meanwhile, and under `page-field` has cleared
    /// the second word before, and fenced.
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
