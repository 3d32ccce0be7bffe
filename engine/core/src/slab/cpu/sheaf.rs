//! A sheaf as sections see it: an array of free objects between two marks, and the one word that says how full it is.
//!
//! ```text
//!        len  capacity  BOTTOM  object  object  object  ...  CEILING
//! top    -----------------------------------^                            the last object: what a slot says
//! ```
//!
//! The word is the address of the last object's place, so a pop reads the word and the object, and a push the word and
//! what lies on both sides of it. There is no length to look up, and none to compare with a capacity: what lies below
//! the first object's place says that there is none, and what lies above the last place that there is no room. `len` is
//! written when a sheaf leaves a slot, for whoever has it then.
//!
//! linux: mm/slub.c:slab_sheaf

use crate::slab::address::ObjectAddress;

/// The head of an array of free objects; their addresses follow, and [`CEILING`](Sheaf::CEILING).
#[derive(Debug)]
#[repr(C)]
pub struct Sheaf {
    /// Number of objects in it, at most `capacity`. Of a main sheaf it says nothing.
    pub len: u64,
    /// Number of objects that it has room for.
    pub capacity: u64,
    bottom: u64,
}

impl Sheaf {
    /// Offset of the first object's address: the addresses follow the head.
    pub const OBJECTS_OFFSET: usize = size_of::<Sheaf>();
    /// What stands below the first object: no object's address.
    pub const BOTTOM: u64 = 0;
    /// What stands above the last place: no object's address either.
    pub const CEILING: u64 = 1;

    /// Nothing in it. One without room stands for none.
    pub const fn empty(capacity: u64) -> Sheaf {
        Sheaf { len: 0, capacity, bottom: Sheaf::BOTTOM }
    }

    /// Bytes of memory, a power of two and aligned to it, in which a sheaf of so many objects lies.
    #[inline]
    pub const fn bytes(capacity: u64) -> u64 {
        (Sheaf::OBJECTS_OFFSET as u64 + (capacity + 1) * Top::STEP).next_power_of_two()
    }
}

/// Where the last object of a sheaf has its place: the word of a slot under `sheaves`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Top(u64);

impl Top {
    /// From one place to the next.
    pub const STEP: u64 = size_of::<ObjectAddress>() as u64;

    /// Of a sheaf at an address, in which are so many objects.
    #[inline]
    pub const fn new(sheaf: u64, len: u64) -> Top {
        Top(sheaf + Sheaf::OBJECTS_OFFSET as u64 - Top::STEP + len * Top::STEP)
    }

    /// What a slot says.
    #[inline(always)]
    pub const fn from_raw(word: u64) -> Top {
        Top(word)
    }

    /// As a slot says it.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The sheaf, if it has room for so many objects, and lies in [`bytes`](Sheaf::bytes) of memory.
    #[inline]
    pub const fn sheaf(self, capacity: u64) -> u64 {
        self.0 & !(Sheaf::bytes(capacity) - 1)
    }

    /// How many objects are in that sheaf.
    #[inline]
    pub const fn len(self, capacity: u64) -> u64 {
        (self.0 - Top::new(self.sheaf(capacity), 0).0) / Top::STEP
    }

    /// After a push.
    #[inline(always)]
    pub const fn up(self) -> Top {
        Top(self.0 + Top::STEP)
    }

    /// After a pop.
    #[inline(always)]
    pub const fn down(self) -> Top {
        Top(self.0 - Top::STEP)
    }

    /// The place itself.
    #[inline(always)]
    pub const fn place(self) -> *mut ObjectAddress {
        core::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// What stands in a slot for a sheaf that is not there: the mark below nothing, and the mark above it, so that a
/// section finds no object, and no room.
#[derive(Debug)]
#[repr(C)]
pub struct NoSheaf {
    head: Sheaf,
    ceiling: u64,
}

impl NoSheaf {
    /// What a slot says that has none.
    pub fn top(&self) -> Top {
        Top::new(core::ptr::from_ref(self).expose_provenance() as u64, 0)
    }
}

impl Default for NoSheaf {
    /// One for all slots.
    fn default() -> NoSheaf {
        NoSheaf { head: Sheaf::empty(0), ceiling: Sheaf::CEILING }
    }
}
