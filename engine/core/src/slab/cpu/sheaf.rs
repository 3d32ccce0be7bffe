//! Sheaf as sections use it: an array of free objects between two marks, and a word that is the position of its last
//! object.
//!
//! ```text
//!        len  capacity  BOTTOM  object  object  object  ...  CEILING
//! top    -----------------------------------^                            the last object, which a slot points to
//! ```
//!
//! The word is the address of the last object's place in the array. A pop reads the word and the object, and a push
//! reads the word and the places on both sides of it. No length is loaded and none is compared with a capacity: the
//! mark below the first place means that there is no object, and the mark above the last place means that there is no
//! room. `len` is written when a sheaf leaves a slot, for the code that gets the sheaf.
//!
//! linux: mm/slub.c:slab_sheaf
//!
//! # Design
//!
//! The slot's word is where a sheaf ends and not where it begins. An object is then two loads away from the slot, and a
//! section detects both ends of the sheaf by a value that it reads anyway. A sheaf is aligned to its size, so the word
//! also yields the sheaf. The slot follows from the cache's number alone, without a read of the cache's line. The chain
//! of loads from a freed object to its place in the sheaf is the byte of its page, the slot, and the place.
//!
//! The cost is that the word changes with each object. A CPU that takes another CPU's sheaf must read the word again
//! after its fence, as for a list, and a CPU that replaces a sheaf may have to retry.
//!
//! A pair of allocation and free of 64 bytes takes 10.3 ticks. With a length at the head of the array and the address
//! of the slots in the cache's line, which was the design before, it took 22.0 ticks (`printf 'PIN 1 0\nSAMPLE freehold
//! pair 64 10000 5\n' | freehold-mallocs --serve`, built in `dev/peer-mallocs` with fat LTO and one codegen unit, at
//! the two revisions).

use crate::slab::address::ObjectAddress;

/// Head of an array of free objects. The addresses of the objects follow, and then [`CEILING`](Sheaf::CEILING).
#[derive(Debug)]
#[repr(C)]
pub struct Sheaf {
    /// Number of objects in the sheaf, at most `capacity`. Meaningless while the sheaf is a main sheaf.
    pub len: u64,
    /// Number of objects that the sheaf has room for.
    pub capacity: u64,
    bottom: u64,
}

impl Sheaf {
    /// Offset of the first object's address, which follows the head.
    pub const OBJECTS_OFFSET: usize = size_of::<Sheaf>();
    /// Mark below the first object, which is not an object's address.
    pub const BOTTOM: u64 = 0;
    /// Mark above the last place, which is not an object's address.
    pub const CEILING: u64 = 1;

    /// Returns the head of an empty sheaf. A sheaf without room is the placeholder for a missing sheaf.
    pub const fn empty(capacity: u64) -> Sheaf {
        Sheaf { len: 0, capacity, bottom: Sheaf::BOTTOM }
    }

    /// Returns the bytes of memory that a sheaf of `capacity` objects occupies: a power of two, to which the memory is
    /// also aligned.
    #[inline]
    pub const fn bytes(capacity: u64) -> u64 {
        (Sheaf::OBJECTS_OFFSET as u64 + (capacity + 1) * Top::STEP).next_power_of_two()
    }
}

/// Address of the place of a sheaf's last object. Under `sheaves`, this is the first word of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Top(u64);

impl Top {
    /// Bytes from one place to the next.
    pub const STEP: u64 = size_of::<ObjectAddress>() as u64;

    /// Returns the top of the sheaf at address `sheaf` with `len` objects.
    #[inline]
    pub const fn new(sheaf: u64, len: u64) -> Top {
        Top(sheaf + Sheaf::OBJECTS_OFFSET as u64 - Top::STEP + len * Top::STEP)
    }

    /// Creates the top from a slot's word.
    #[inline(always)]
    pub const fn from_raw(word: u64) -> Top {
        Top(word)
    }

    /// Returns the slot's word.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the address of the sheaf, which has room for `capacity` objects and is aligned to its
    /// [`bytes`](Sheaf::bytes).
    #[inline]
    pub const fn sheaf(self, capacity: u64) -> u64 {
        self.0 & !(Sheaf::bytes(capacity) - 1)
    }

    /// Returns the number of objects in the sheaf.
    #[inline]
    pub const fn len(self, capacity: u64) -> u64 {
        (self.0 - Top::new(self.sheaf(capacity), 0).0) / Top::STEP
    }

    /// Returns the top after a push.
    #[inline(always)]
    pub const fn up(self) -> Top {
        Top(self.0 + Top::STEP)
    }

    /// Returns the top after a pop.
    #[inline(always)]
    pub const fn down(self) -> Top {
        Top(self.0 - Top::STEP)
    }

    /// Returns a pointer to the place.
    #[inline(always)]
    pub const fn place(self) -> *mut ObjectAddress {
        core::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// Placeholder in slots without a sheaf. It consists of the two marks without a place between them, so a section finds
/// neither an object nor room.
#[derive(Debug)]
#[repr(C)]
pub struct NoSheaf {
    head: Sheaf,
    ceiling: u64,
}

impl NoSheaf {
    /// Returns the word of a slot that has no sheaf.
    pub fn top(&self) -> Top {
        Top::new(core::ptr::from_ref(self).expose_provenance() as u64, 0)
    }
}

impl Default for NoSheaf {
    /// Creates the placeholder that all slots share.
    fn default() -> NoSheaf {
        NoSheaf { head: Sheaf::empty(0), ceiling: Sheaf::CEILING }
    }
}
