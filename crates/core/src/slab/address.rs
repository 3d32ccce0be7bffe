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
    pub fn of(object: *mut u8) -> ObjectAddress {
        ObjectAddress(object.expose_provenance() as u64)
    }

    /// The address as a number, for packed words, links and reports.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The object's first byte, for those who may touch it.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}
