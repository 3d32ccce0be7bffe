//! Addresses in the slab, by what begins there: numbers to the machine, and never to be mixed up.

/// Where an object begins. One that somebody gives back need not be: [`Hot::is_object`](super::hot::Hot::is_object)
/// says whether it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ObjectAddress(u64);

impl ObjectAddress {
    /// The object at an address.
    #[inline(always)]
    pub const fn new(address: u64) -> ObjectAddress {
        ObjectAddress(address)
    }

    /// The object that a pointer leads to, as its user has it.
    #[inline(always)]
    pub fn from_ptr(object: *mut u8) -> ObjectAddress {
        ObjectAddress(object.expose_provenance() as u64)
    }

    /// The address as a number, for packed words, links and reports.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Where its slab begins, in a cache of slabs with this mask.
    #[inline(always)]
    pub const fn slab(self, mask: SlabMask) -> SlabAddress {
        mask.slab_around(self.0)
    }

    /// The object's first byte, for those who may touch it.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// Where a slab begins, and so its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SlabAddress(u64);

impl SlabAddress {
    /// The slab at an address.
    #[inline(always)]
    pub const fn new(address: u64) -> SlabAddress {
        SlabAddress(address)
    }

    /// The address as a number, for packed words and links.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The bits in which all addresses of a slab agree, and those of no two slabs of a cache: all but the lowest. Kept as
/// the lowest, by which every free finds its place in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SlabMask {
    within: u64,
}

impl SlabMask {
    /// The mask of slabs of so many bytes, a power of two.
    #[inline(always)]
    pub const fn for_size(bytes: u64) -> SlabMask {
        debug_assert!(bytes.is_power_of_two());
        SlabMask { within: bytes - 1 }
    }

    /// The mask as a number, for sections in machine code.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        !self.within
    }

    /// Bytes of a slab.
    #[inline(always)]
    pub const fn slab_bytes(self) -> u64 {
        self.within + 1
    }

    /// Where the slab begins that an address, or a list, is of.
    #[inline(always)]
    pub const fn slab_around(self, address: u64) -> SlabAddress {
        SlabAddress(address & !self.within)
    }

    /// Bytes from the slab's beginning to an address in it.
    #[inline(always)]
    pub const fn offset_of(self, address: u64) -> u64 {
        address & self.within
    }

    /// Whether two addresses, or lists, are of one slab.
    #[inline(always)]
    pub const fn is_shared(self, one: u64, other: u64) -> bool {
        (one ^ other) & !self.within == 0
    }
}
