//! Links inside free objects. Besides this module, only zeroing, debugging and sheaves write to the memory that the
//! slab allocator manages.
//!
//! A free object on a list holds the address of the next free object, or its slab's end mark, at a fixed offset. The
//! link may be mangled with a secret of the cache and with the link's own address. Then a stray write into a free
//! object cannot choose the object that is allocated next. linux: mm/slub.c:freelist_ptr_encode

use super::address::{ObjectAddress, SlabAddress};
use super::word::{end_mark, first_object};

/// Offset and encoding of links. The trait is sealed, since decoded links are dereferenced without a check.
pub trait Links: Copy + sealed::Sealed {
    /// Returns the offset of the link from the object's start in bytes, a multiple of eight.
    fn offset(self) -> u64;

    /// Encodes the link `value` that is stored at the address `place`, or decodes it: the function is its own inverse.
    fn mangle(self, place: u64, value: u64) -> u64;
}

/// Seal for traits whose implementations by other crates could make memory unsound.
pub(super) mod sealed {
    /// Prevents other crates from implementing the traits of fast paths and links.
    pub trait Sealed {}
}

/// Links whose encoding is known to machine code: those of fast paths.
pub trait FixedLinks: Links {
    /// True if links are mangled with a secret.
    const MANGLED: bool;

    /// Creates the links of a cache, given their offset and the cache's secret.
    fn new(offset: u64, secret: u64) -> Self;

    /// Returns the cache's secret, or 0 for links that are not mangled.
    fn secret(self) -> u64;
}

/// Links that hold the next object's address as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Bytes from the object's start to its link.
    pub offset: u64,
}

impl sealed::Sealed for Plain {}

impl Links for Plain {
    #[inline(always)]
    fn offset(self) -> u64 {
        self.offset
    }

    #[inline(always)]
    fn mangle(self, _: u64, value: u64) -> u64 {
        value
    }
}

impl FixedLinks for Plain {
    const MANGLED: bool = false;

    #[inline(always)]
    fn new(offset: u64, _: u64) -> Plain {
        Plain { offset }
    }

    #[inline(always)]
    fn secret(self) -> u64 {
        0
    }
}

/// Links that are meaningless without the secret. The next object's address is combined by exclusive or with the
/// secret, and with the address of the link in reverse byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mangled {
    /// Bytes from the object's start to its link.
    pub offset: u64,
    /// Secret of the cache, with which links are mixed.
    pub secret: u64,
}

impl sealed::Sealed for Mangled {}

impl Links for Mangled {
    #[inline(always)]
    fn offset(self) -> u64 {
        self.offset
    }

    #[inline(always)]
    fn mangle(self, place: u64, value: u64) -> u64 {
        value ^ self.secret ^ place.swap_bytes()
    }
}

impl FixedLinks for Mangled {
    const MANGLED: bool = true;

    #[inline(always)]
    fn new(offset: u64, secret: u64) -> Mangled {
        Mangled { offset, secret }
    }

    #[inline(always)]
    fn secret(self) -> u64 {
        self.secret
    }
}

/// Links of a cache for slow paths, which support both encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLinks {
    /// Unencoded links: [`Plain`].
    Plain(Plain),
    /// Links mixed with a secret: [`Mangled`].
    Mangled(Mangled),
}

impl sealed::Sealed for CacheLinks {}

impl Links for CacheLinks {
    fn offset(self) -> u64 {
        match self {
            CacheLinks::Plain(links) => links.offset,
            CacheLinks::Mangled(links) => links.offset,
        }
    }

    fn mangle(self, place: u64, value: u64) -> u64 {
        match self {
            CacheLinks::Plain(links) => links.mangle(place, value),
            CacheLinks::Mangled(links) => links.mangle(place, value),
        }
    }
}

/// Returns the link of a free object: the next object of its list, or the end mark. linux: mm/slub.c:get_freepointer
///
/// # Safety
/// `object` is a free object of a cache with these links, and no other code uses it.
#[inline(always)]
pub unsafe fn get_freepointer<L: Links>(object: ObjectAddress, links: L) -> u64 {
    let place = object.get() + links.offset();
    // SAFETY: the caller promises that the object is free and its own. The link is within the object and aligned to its
    // 8 bytes.
    links.mangle(place, unsafe { (place as *const u64).read() })
}

/// Links a free object to the list `next`. linux: mm/slub.c:set_freepointer
///
/// # Safety
/// As for [`get_freepointer`].
#[inline(always)]
pub unsafe fn set_freepointer<L: Links>(object: ObjectAddress, next: u64, links: L) {
    let place = object.get() + links.offset();
    // SAFETY: the caller promises that the object is free and its own. The link is within the object and aligned to its
    // 8 bytes.
    unsafe { (place as *mut u64).write(links.mangle(place, next)) }
}

/// Linked free objects of one slab, owned by the holder of this value.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping the chain loses its objects"]
pub struct Chain {
    /// First object, or the slab's end mark.
    pub head: u64,
    /// Number of objects in the chain.
    pub len: u16,
}

impl Chain {
    /// Returns an empty chain of the slab at this address.
    pub const fn empty(slab: SlabAddress) -> Chain {
        Chain { head: end_mark(slab), len: 0 }
    }

    /// Returns whether the chain has no objects.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Links objects that the caller owns, in the order given.
    ///
    /// # Safety
    /// All are free objects of the slab at `slab`, occur once, and belong to the caller.
    pub unsafe fn build<L: Links>(slab: SlabAddress, objects: impl Iterator<Item = ObjectAddress>, links: L) -> Chain {
        let mut chain = Chain::empty(slab);
        let mut last = None;
        for object in objects {
            match last {
                // SAFETY: `last` is one of `objects`, which are free objects of the slab and the caller's own, as the
                // caller promises.
                Some(last) => unsafe { set_freepointer(last, object.get(), links) },
                None => chain.head = object.get(),
            }
            last = Some(object);
            chain.len += 1;
        }
        if let Some(last) = last {
            // SAFETY: `last` is one of `objects`, which are free objects of the slab and the caller's own, as the
            // caller promises.
            unsafe { set_freepointer(last, end_mark(slab), links) };
        }
        chain
    }

    /// Takes the chain's first object; returns `None` if there is none.
    pub(super) fn pop<L: Links>(&mut self, links: L) -> Option<ObjectAddress> {
        if self.is_empty() {
            return None;
        }
        let object = ObjectAddress::new(self.head);
        // SAFETY: the chain is not empty, so `object` is one of its objects, which are free and belong to the chain.
        self.head = unsafe { get_freepointer(object, links) };
        self.len -= 1;
        Some(object)
    }

    /// Moves objects from the front of the chain into `room`, from its end to its front, as many as it has place for.
    /// Returns their number.
    pub(super) fn pop_into<L: Links>(&mut self, room: &mut [ObjectAddress], links: L) -> usize {
        let popped = core::iter::from_fn(|| self.pop(links));
        room.iter_mut().rev().zip(popped).map(|(place, object)| *place = object).count()
    }

    /// Returns this chain followed by `rest`. Costs a step for each object of this chain.
    pub(super) fn concat<L: Links>(self, rest: Chain, links: L) -> Chain {
        if self.is_empty() || rest.is_empty() {
            return if self.is_empty() { rest } else { self };
        }
        let last = self.last(links);
        // SAFETY: `last` is an object of this chain, so it is free and belongs to the chain.
        unsafe { set_freepointer(last, rest.head, links) };
        Chain { head: self.head, len: self.len + rest.len }
    }

    /// Returns the last object of a chain that is not empty.
    pub(super) fn last<L: Links>(&self, links: L) -> ObjectAddress {
        let mut last = ObjectAddress::new(self.head);
        for _ in 1..self.len {
            // SAFETY: `last` is an object of this chain, so it is free and belongs to the chain.
            last = ObjectAddress::new(unsafe { get_freepointer(last, links) });
        }
        last
    }

    /// Counts the objects that are linked from `head` on, up to `most`, and returns them as a chain: a list with an
    /// object that was freed twice may be circular. Used for lists whose length is not recorded. No object may be added
    /// meanwhile.
    ///
    /// # Safety
    /// The list belongs to the caller.
    pub unsafe fn count<L: Links>(head: u64, most: u16, links: L) -> Chain {
        let (mut len, mut at) = (0, head);
        while let Some(object) = first_object(at)
            && len < most
        {
            len += 1;
            // SAFETY: the list belongs to the caller, as it promises, so each object on it is free and its own.
            at = unsafe { get_freepointer(object, links) };
        }
        Chain { head, len }
    }
}
