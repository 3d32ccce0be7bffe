//! Packed words of the slab, each of which one store can publish.
//!
//! ```text
//! list     a CPU's list          the address of its first object; or, with bit 0 set, an address inside the slab whose
//!                                objects the list has used up (its end mark); or EMPTY, for no slab
//! local    a slab's own list     bits 0..48 the list as above, bits 48..64 the number of objects in use, minus one
//! remote   remote frees          bits 0..48 the list, bits 48..63 its length, bit 63 whether the slab is queued
//! ```
//!
//! A list does not end in null, but in a pointer into its own slab with the lowest bit set. So even an empty list
//! identifies its slab, and a fast path needs one word only. A packed word has the lower 48 bits of an address. The
//! upper bits are those of any other address of the memory, since the memory crosses no multiple of 256 TiB.
//!
//! # Design
//!
//! The upper 16 bits of an address are those of the object or slab that the reader already has. So the memory may be
//! anywhere, in either half of the address space, on processors with four or five levels of page tables, as long as it
//! crosses no multiple of 256 TiB. A sign extension of bit 47 would exclude the addresses at which ARM kernels run.

use super::address::{ObjectAddress, SlabAddress};

/// Lowest bit of an address, set in marks and clear in objects' addresses.
pub const MARK: u64 = 1;
/// List that belongs to no slab: the initial value, and the value after a drain.
pub const EMPTY: u64 = MARK;
/// Maximum number of objects in a slab. linux: mm/slub.c:MAX_OBJS_PER_PAGE
pub const OBJECTS_MAX: u16 = 0x7fff;
/// First bit of the upper part of a packed word.
pub const UPPER: u32 = 48;

const QUEUED: u64 = 1 << 63;
const ONE: u64 = 1 << UPPER;

/// Returns the end mark of lists of a slab's objects.
#[inline]
pub const fn end_mark(slab: SlabAddress) -> u64 {
    slab.get() | MARK
}

/// Returns whether a list has no object: its value is an end mark or [`EMPTY`].
#[inline]
pub const fn is_mark(list: u64) -> bool {
    list & MARK != 0
}

/// Returns the first object of a list, if there is one.
#[inline(always)]
pub const fn first_object(list: u64) -> Option<ObjectAddress> {
    if is_mark(list) { None } else { Some(ObjectAddress::new(list)) }
}

/// Returns the address in the lower part of a packed word, with the upper bits of the address `near`.
#[inline]
const fn address(word: u64, near: u64) -> u64 {
    near & !(ONE - 1) | lower(word)
}

#[inline]
const fn lower(address: u64) -> u64 {
    address & (ONE - 1)
}

/// Word of a slab's own list: the objects that the owner freed, and the number of objects in use. Objects that were
/// freed remotely, or are in a CPU's slot or a sheaf, count as in use. The number is stored minus one, so that the
/// subtraction borrows when the last object is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local(u64);

impl Local {
    /// Packs a list and the number of objects that are not on it.
    #[inline]
    pub const fn new(list: u64, used: u16) -> Local {
        Local(lower(list) | (used.wrapping_sub(1) as u64) << UPPER)
    }

    /// Creates the value from a word that was read.
    #[inline]
    pub const fn from_raw(raw: u64) -> Local {
        Local(raw)
    }

    /// Returns the word to store.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the first object of the list, or its end mark. `near` is an address in the same memory.
    #[inline]
    pub const fn list(self, near: u64) -> u64 {
        address(self.0, near)
    }

    /// Returns whether the list has no object.
    #[inline]
    pub const fn is_mark(self) -> bool {
        is_mark(self.0)
    }

    /// Returns the number of the slab's objects that are not on the list.
    #[inline]
    pub const fn used(self) -> u16 {
        ((self.0 >> UPPER) as u16).wrapping_add(1)
    }

    /// Returns the word after `object` was put at the head of the list.
    #[inline]
    pub const fn with_freed(self, object: ObjectAddress) -> Local {
        Local::new(object.get(), self.used() - 1)
    }
}

/// Word of a slab's remote frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote(u64);

impl Remote {
    /// Creates the value from a word that was read.
    #[inline]
    pub const fn from_raw(raw: u64) -> Remote {
        Remote(raw)
    }

    /// Returns the word to store.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the word of a slab without remote frees that is not queued.
    #[inline]
    pub const fn empty(slab: SlabAddress) -> Remote {
        Remote(lower(end_mark(slab)))
    }

    /// Returns the first object of the list, or its end mark. `near` is an address in the same memory.
    #[inline]
    pub const fn list(self, near: u64) -> u64 {
        address(self.0, near)
    }

    /// Returns the number of objects on the list.
    #[inline]
    pub const fn len(self) -> u16 {
        (self.0 >> UPPER) as u16 & OBJECTS_MAX
    }

    /// Returns whether the length of the list is 0.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether the slab is queued: its owner or node has it on a list or a stack, or a CPU is about to push it
    /// there.
    #[inline]
    pub const fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Returns this word with the queued bit set.
    #[inline]
    pub const fn queued(self) -> Remote {
        Remote(self.0 | QUEUED)
    }

    /// Returns this word without objects. The queued bit is unchanged.
    #[inline]
    pub const fn emptied(self, slab: SlabAddress) -> Remote {
        Remote(self.0 & QUEUED | Remote::empty(slab).0)
    }

    /// Returns this word with `len` more objects, the first of which is `head`.
    #[inline]
    pub const fn with_freed(self, head: u64, len: u16) -> Remote {
        Remote(self.0 & QUEUED | lower(head) | (self.len() as u64 + len as u64) << UPPER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLAB: SlabAddress = SlabAddress::new(0x7f12_3456_8000);
    /// Addresses in the upper half of the address space on x86-64 and on ARM, where the lower 48 bits may begin with
    /// either bit.
    const KERNEL_SLABS: [SlabAddress; 3] = [
        SlabAddress::new(0xffff_8881_2345_8000),
        SlabAddress::new(0xffff_0000_4000_8000),
        SlabAddress::new(0xff11_0001_2345_8000),
    ];

    #[test]
    fn local_word_keeps_upper_address_bits() {
        for slab in KERNEL_SLABS.into_iter().chain([SLAB]) {
            let local = Local::new(end_mark(slab), 512);
            assert_eq!((local.list(slab.get()), local.used()), (end_mark(slab), 512));
            let freed = local.with_freed(ObjectAddress::new(slab.get() + 64));
            assert_eq!((freed.list(slab.get() + 64), freed.used()), (slab.get() + 64, 511));
        }
    }

    #[test]
    fn remote_word_counts_objects_and_keeps_queued() {
        let none = Remote::empty(SLAB);
        assert_eq!(none.list(SLAB.get()), end_mark(SLAB));
        assert!(none.is_empty() && !none.is_queued());
        let some = none.queued().with_freed(SLAB.get() + 8, 3).with_freed(SLAB.get() + 16, 1);
        assert_eq!((some.list(SLAB.get()), some.len(), some.is_queued()), (SLAB.get() + 16, 4, true));
        assert_eq!(some.emptied(SLAB), none.queued());
        let most = none.queued().with_freed(SLAB.get() + 8, OBJECTS_MAX);
        assert_eq!((most.len(), most.is_queued()), (OBJECTS_MAX, true), "the count does not fit the objects of a slab");
    }

    #[test]
    fn end_mark_is_not_an_object() {
        assert!(is_mark(EMPTY) && is_mark(end_mark(SLAB)) && !is_mark(SLAB.get()));
    }
}
