//! Links inside free objects: the only place where the slab touches the memory it manages.
//!
//! A free object holds the address of the next one, or its slab's end mark, at a fixed offset. The link may be mangled
//! with a secret of its cache and its own address, so that a write into a free object cannot choose what is allocated
//! next.
//! linux: mm/slub.c:freelist_ptr_encode

use super::address::{ObjectAddress, SlabAddress};
use super::word::{end_mark, first_object};

/// Where links are, and how they are written. Nobody has others: where they lead is believed.
pub trait Links: Copy + sealed::Sealed {
    /// Bytes from the object to its link; a multiple of eight.
    fn offset(self) -> u64;

    /// What stands at `place` for `value`, and the other way round.
    fn mangle(self, place: u64, value: u64) -> u64;
}

/// Keeps traits to the slab that would make memory unsound if others implemented them.
pub(super) mod sealed {
    /// Keeps other crates from implementing links of their own.
    pub trait Sealed {}
}

/// Links of which machine code knows how they are written: those of fast paths.
pub trait FixedLinks: Links {
    /// Whether links are mangled with a secret.
    const MANGLED: bool;

    /// Links at an offset, of a cache with a secret.
    fn new(offset: u64, secret: u64) -> Self;

    /// The cache's secret; 0 for links that are not mangled.
    fn secret(self) -> u64;
}

/// Links that hold the next object's address as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Bytes from the object to its link.
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

/// Links that say nothing without the secret: mixed with it, and with the address they stand at, its
/// bytes in reverse order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mangled {
    /// Bytes from the object to its link.
    pub offset: u64,
    /// The cache's secret, which links are mixed with.
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

/// Links of a cache as slow paths see them: one or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLinks {
    /// Links as they are: [`Plain`].
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

/// Returns the link of a free object: the next object of its list, or the mark that ends the list. linux:
/// mm/slub.c:get_freepointer
///
/// # Safety
/// `object` is an object of a cache with these links, free, and nobody else's.
#[inline(always)]
pub unsafe fn get_freepointer<L: Links>(object: ObjectAddress, links: L) -> u64 {
    let place = object.get() + links.offset();
    // SAFETY: the caller says that the object is free and ours; its link lies within it, aligned.
    links.mangle(place, unsafe { (place as *const u64).read() })
}

/// Links a free object to the list `next`. linux: mm/slub.c:set_freepointer
///
/// # Safety
/// As for [`get_freepointer`].
#[inline(always)]
pub unsafe fn set_freepointer<L: Links>(object: ObjectAddress, next: u64, links: L) {
    let place = object.get() + links.offset();
    // SAFETY: the caller promises a free object of its own, with room for a link at this offset.
    unsafe { (place as *mut u64).write(links.mangle(place, next)) }
}

/// Free objects of one slab, linked, that belong to the holder of this value.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the objects would be lost"]
pub struct Chain {
    /// The first one, or the slab's end mark.
    pub head: u64,
    /// Number of objects in the chain.
    pub len: u16,
}

impl Chain {
    /// No objects of the slab at this address.
    pub const fn empty(slab: SlabAddress) -> Chain {
        Chain { head: end_mark(slab), len: 0 }
    }

    /// Whether the chain has no objects.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Links objects that nobody else has, in the order given.
    ///
    /// # Safety
    /// All are free objects of the slab at `slab`, each named once, and the caller's.
    pub unsafe fn build<L: Links>(slab: SlabAddress, objects: impl Iterator<Item = ObjectAddress>, links: L) -> Chain {
        let mut chain = Chain::empty(slab);
        let mut last = None;
        for object in objects {
            match last {
                // SAFETY: the caller promises that all are free objects of the slab, and its own.
                Some(last) => unsafe { set_freepointer(last, object.get(), links) },
                None => chain.head = object.get(),
            }
            last = Some(object);
            chain.len += 1;
        }
        if let Some(last) = last {
            // SAFETY: the last of the caller's objects, and free like all of them.
            unsafe { set_freepointer(last, end_mark(slab), links) };
        }
        chain
    }

    /// Takes the chain's first object; `None` if there is none.
    pub(super) fn pop<L: Links>(&mut self, links: L) -> Option<ObjectAddress> {
        if self.is_empty() {
            return None;
        }
        let object = ObjectAddress::new(self.head);
        // SAFETY: the objects of a chain are free, and ours.
        self.head = unsafe { get_freepointer(object, links) };
        self.len -= 1;
        Some(object)
    }

    /// Takes as many objects as there is room for, the first ones, and says how many.
    pub(super) fn pop_into<L: Links>(&mut self, room: &mut [ObjectAddress], links: L) -> usize {
        let popped = core::iter::from_fn(|| self.pop(links));
        room.iter_mut().rev().zip(popped).map(|(place, object)| *place = object).count()
    }

    /// This chain followed by `rest`. Costs a step for each object of this one.
    pub(super) fn concat<L: Links>(self, rest: Chain, links: L) -> Chain {
        if self.is_empty() || rest.is_empty() {
            return if self.is_empty() { rest } else { self };
        }
        let last = self.last(links);
        // SAFETY: the objects of a chain are free, and ours.
        unsafe { set_freepointer(last, rest.head, links) };
        Chain { head: self.head, len: self.len + rest.len }
    }

    /// The last object of a chain that is not empty.
    pub(super) fn last<L: Links>(&self, links: L) -> ObjectAddress {
        let mut last = ObjectAddress::new(self.head);
        for _ in 1..self.len {
            // SAFETY: the objects of a chain are free, and ours.
            last = ObjectAddress::new(unsafe { get_freepointer(last, links) });
        }
        last
    }

    /// What is linked from `head` on, counted, up to `most`: what was freed twice may go in circles. For lists that say
    /// no length; nothing may be added meanwhile.
    ///
    /// # Safety
    /// The list belongs to the caller.
    pub unsafe fn count<L: Links>(head: u64, most: u16, links: L) -> Chain {
        let (mut len, mut at) = (0, head);
        while let Some(object) = first_object(at)
            && len < most
        {
            len += 1;
            // SAFETY: the list is the caller's, so its first one is a free object.
            at = unsafe { get_freepointer(object, links) };
        }
        Chain { head, len }
    }
}
