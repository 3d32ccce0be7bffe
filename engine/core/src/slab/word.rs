//! The packed words of the slab: what one store can publish.
//!
//! ```text
//! list     a CPU's list          address of its first object, or, with bit 0 set, an address inside the slab that the
//!                                list ran out in (its end mark), or EMPTY: no slab at all
//! local    a slab's own list     bits 0..48 the list as above, bits 48..64 the objects in use, less one
//! remote   frees from elsewhere  bits 0..48 the list, bits 48..63 its length, bit 63 whether the slab is queued
//! ```
//!
//! A list ends not in null but in a pointer into its own slab with the lowest bit set. So a list always says which slab
//! it belongs to, even when nothing is left on it, and one word is all that a fast path needs. A packed word has the
//! lower 48 bits of an address; the upper ones are those of any address nearby: the memory crosses no multiple of 256
//! TiB.

use super::address::{ObjectAddress, SlabAddress};

/// The lowest bit of an address that is no object.
pub const MARK: u64 = 1;
/// A list of no slab: what a CPU begins with, and what a drain leaves.
pub const EMPTY: u64 = MARK;
/// Most objects in a slab. linux: mm/slub.c:MAX_OBJS_PER_PAGE
pub const OBJECTS_MAX: u16 = 0x7fff;
/// Where the upper part of a packed word begins.
pub const UPPER: u32 = 48;

const QUEUED: u64 = 1 << 63;
const ONE: u64 = 1 << UPPER;

/// The list that a slab's objects end in.
#[inline]
pub const fn end_mark(slab: SlabAddress) -> u64 {
    slab.get() | MARK
}

/// Whether there is no object on a list.
#[inline]
pub const fn is_mark(list: u64) -> bool {
    list & MARK != 0
}

/// The first object of a list, if there is one on it.
#[inline(always)]
pub const fn first_object(list: u64) -> Option<ObjectAddress> {
    if is_mark(list) { None } else { Some(ObjectAddress::new(list)) }
}

/// The address in the lower part of a packed word, the upper bits being those of another one.
#[inline]
const fn address(word: u64, near: u64) -> u64 {
    near & !(ONE - 1) | lower(word)
}

#[inline]
const fn lower(address: u64) -> u64 {
    address & (ONE - 1)
}

/// What a slab keeps itself: the objects that its owner freed, and how many are in use, those that were freed from
/// elsewhere among them. One less is stored, so that a subtraction borrows when the last one is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local(u64);

impl Local {
    /// A list, and so many objects that are not on it.
    #[inline]
    pub const fn new(list: u64, used: u16) -> Local {
        Local(lower(list) | (used.wrapping_sub(1) as u64) << UPPER)
    }

    /// The value that a word stands for, as it was read.
    #[inline]
    pub const fn from_raw(raw: u64) -> Local {
        Local(raw)
    }

    /// The word that stands for it, as it is stored.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// First object of the list, or the mark that ends it, in memory around an address.
    #[inline]
    pub const fn list(self, near: u64) -> u64 {
        address(self.0, near)
    }

    /// Whether there is no object on the list.
    #[inline]
    pub const fn is_mark(self) -> bool {
        is_mark(self.0)
    }

    /// Number of the slab's objects that are not on the list.
    #[inline]
    pub const fn used(self) -> u16 {
        ((self.0 >> UPPER) as u16).wrapping_add(1)
    }

    /// The same after an object was put at the head.
    #[inline]
    pub const fn with_freed(self, object: ObjectAddress) -> Local {
        Local::new(object.get(), self.used() - 1)
    }
}

/// What was freed from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote(u64);

impl Remote {
    /// The value that a word stands for, as it was read.
    #[inline]
    pub const fn from_raw(raw: u64) -> Remote {
        Remote(raw)
    }

    /// The word that stands for it, as it is stored.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Nothing, in this slab; not queued.
    #[inline]
    pub const fn empty(slab: SlabAddress) -> Remote {
        Remote(lower(end_mark(slab)))
    }

    /// First object of the list, or the mark that ends it, in memory around an address.
    #[inline]
    pub const fn list(self, near: u64) -> u64 {
        address(self.0, near)
    }

    /// Whether there is no object on the list.
    #[inline]
    pub const fn is_mark(self) -> bool {
        is_mark(self.0)
    }

    /// Number of objects on the list.
    #[inline]
    pub const fn len(self) -> u16 {
        (self.0 >> UPPER) as u16 & OBJECTS_MAX
    }

    /// Whether the list has no object.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the slab's owner, or the node, has the slab where it will find it.
    #[inline]
    pub const fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Queued, and as before otherwise.
    #[inline]
    pub const fn queued(self) -> Remote {
        Remote(self.0 | QUEUED)
    }

    /// Emptied, and queued or not as before.
    #[inline]
    pub const fn emptied(self, slab: SlabAddress) -> Remote {
        Remote(self.0 & QUEUED | Remote::empty(slab).0)
    }

    /// With `len` more objects, the first of which is `head`.
    #[inline]
    pub const fn with_freed(self, head: u64, len: u16) -> Remote {
        Remote(self.0 & QUEUED | lower(head) | (self.len() as u64 + len as u64) << UPPER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLAB: SlabAddress = SlabAddress::new(0x7f12_3456_8000);
    /// In the upper half of addresses on a PC, and in that of an ARM, whose lower 48 bits begin with any.
    const KERNEL_SLABS: [SlabAddress; 3] = [
        SlabAddress::new(0xffff_8881_2345_8000),
        SlabAddress::new(0xffff_0000_4000_8000),
        SlabAddress::new(0xff11_0001_2345_8000),
    ];

    #[test]
    fn addresses_keep_their_upper_bits() {
        for slab in KERNEL_SLABS.into_iter().chain([SLAB]) {
            let local = Local::new(end_mark(slab), 512);
            assert_eq!((local.list(slab.get()), local.used()), (end_mark(slab), 512));
            let freed = local.with_freed(ObjectAddress::new(slab.get() + 64));
            assert_eq!((freed.list(slab.get() + 64), freed.used()), (slab.get() + 64, 511));
        }
    }

    #[test]
    fn a_remote_word_counts_and_keeps_its_bit() {
        let none = Remote::empty(SLAB);
        assert!(none.is_mark() && none.is_empty() && !none.is_queued());
        let some = none.queued().with_freed(SLAB.get() + 8, 3).with_freed(SLAB.get() + 16, 1);
        assert_eq!((some.list(SLAB.get()), some.len(), some.is_queued()), (SLAB.get() + 16, 4, true));
        assert_eq!(some.emptied(SLAB), none.queued());
        let most = none.queued().with_freed(SLAB.get() + 8, OBJECTS_MAX);
        assert_eq!((most.len(), most.is_queued()), (OBJECTS_MAX, true), "as many as a slab can have");
    }

    #[test]
    fn a_mark_is_no_object() {
        assert!(is_mark(EMPTY) && is_mark(end_mark(SLAB)) && !is_mark(SLAB.get()));
    }
}
