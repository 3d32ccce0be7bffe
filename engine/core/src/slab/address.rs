//! Addresses of objects and slabs as distinct types. To the machine all of them are numbers; the types keep them from
//! being mixed up.

/// Address of an object's first byte. An address that a caller frees need not be one:
/// [`Hot::is_object`](super::hot::Hot::is_object) checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ObjectAddress(u64);

impl ObjectAddress {
    /// Creates the address of an object.
    #[inline(always)]
    pub const fn new(address: u64) -> ObjectAddress {
        ObjectAddress(address)
    }

    /// Returns the address of the object that a user's pointer refers to.
    #[inline(always)]
    pub fn from_ptr(object: *mut u8) -> ObjectAddress {
        ObjectAddress(object.expose_provenance() as u64)
    }

    /// Returns the address as a number, for packed words, links and reports.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the start of the object's slab, in a cache whose slabs have this mask.
    #[inline(always)]
    pub const fn slab(self, mask: SlabMask) -> SlabAddress {
        mask.slab_around(self.0)
    }

    /// Returns a pointer to the object's first byte, for callers that may access it.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// Address of a slab's first byte, and so of its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SlabAddress(u64);

impl SlabAddress {
    /// Creates the address of a slab.
    #[inline(always)]
    pub const fn new(address: u64) -> SlabAddress {
        SlabAddress(address)
    }

    /// Returns the address as a number, for packed words and links.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Mask of the address bits that identify a slab: all bits above those of an offset within a slab. All addresses in one
/// slab agree in these bits, and addresses in different slabs of a cache do not. The stored value is the complement,
/// since every free computes the object's offset in its slab with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SlabMask {
    within: u64,
}

impl SlabMask {
    /// Creates the mask of slabs of `bytes` bytes, a power of two.
    #[inline(always)]
    pub const fn for_size(bytes: u64) -> SlabMask {
        debug_assert!(bytes.is_power_of_two());
        SlabMask { within: bytes - 1 }
    }

    /// Returns the mask as a number, for sections in machine code.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        !self.within
    }

    /// Returns the bytes of a slab.
    #[inline(always)]
    pub const fn slab_bytes(self) -> u64 {
        self.within + 1
    }

    /// Returns the start of the slab that contains an address or to which a list belongs.
    #[inline(always)]
    pub const fn slab_around(self, address: u64) -> SlabAddress {
        SlabAddress(address & !self.within)
    }

    /// Returns the offset of an address from the start of its slab.
    #[inline(always)]
    pub const fn offset_of(self, address: u64) -> u64 {
        address & self.within
    }

    /// Returns whether two addresses or lists belong to one slab.
    #[inline(always)]
    pub const fn is_shared(self, one: u64, other: u64) -> bool {
        (one ^ other) & !self.within == 0
    }
}
