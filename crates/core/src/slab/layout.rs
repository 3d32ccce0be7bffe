//! What a cache's slabs look like: how large an object really is, how many there are, where the link lies.
//!
//! Objects begin at the slab's first byte, one after the other; nothing else is in a slab. Objects of checked caches
//! have a red zone before them, and debugging data after them.

use super::word::OBJECTS_MAX;
use crate::base::Order;
use crate::policy::slab::SlabSizing;

/// What every object takes at least, and is aligned to: room for a link.
pub(super) const WORD: u32 = 8;

/// Sizes, offsets and mask that a cache's slabs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The bits in which all addresses of a slab agree.
    pub mask: u64,
    /// Bytes of a slab before its first object.
    pub first: u32,
    /// Bytes from one object to the next.
    pub size: u32,
    /// Bytes of an object that its user has.
    pub object_size: u32,
    /// Bytes from an object to its link.
    pub link: u32,
    /// Number of objects that a slab has room for.
    pub objects: u16,
    /// Order of the block of pages that is a slab.
    pub order: Order,
}

impl Layout {
    /// The layout of objects that take `size` bytes, a multiple of a word's, of which the user has `object_size`.
    /// `None` if no slab can hold one.
    pub fn new(
        size: u32,
        object_size: u32,
        link: u32,
        objects_max: u16,
        sizing: &SlabSizing,
        page_size: u32,
    ) -> Option<Layout> {
        debug_assert!(size >= WORD && size.is_multiple_of(WORD) && link + WORD <= size);
        let order = match objects_max {
            OBJECTS_MAX => sizing.order(size, page_size)?,
            few => sizing.order_for_few(size, few, page_size)?,
        };
        let bytes = page_size.checked_mul(order.pages())?;
        let objects = (bytes / size).min(u32::from(objects_max));
        Some(Layout { mask: !u64::from(bytes - 1), first: 0, size, object_size, link, objects: objects as u16, order })
    }

    /// Whether an address is that of an object of its slab. Fast paths have [`Hot`](super::hot::Hot) for it.
    pub fn is_object(&self, address: u64) -> bool {
        self.object_around(address) == Some(address)
    }

    /// The object whose bytes these are, or the bytes around it.
    pub fn object_around(&self, address: u64) -> Option<u64> {
        let (slab, size) = (address & self.mask, u64::from(self.size));
        let index = (address - slab) / size;
        (index < u64::from(self.objects)).then_some(slab + u64::from(self.first) + index * size)
    }

    /// The same layout with `first` bytes of red zone before each object, which are part of the object's `size`.
    /// linux: mm/slub.c:red_left_pad
    pub fn with_left_red_zone(self, first: u32) -> Layout {
        debug_assert!(first + self.link + WORD <= self.size);
        Layout { first, ..self }
    }

    /// Addresses of all objects of the slab at an address.
    pub fn objects_of(&self, slab: u64) -> impl ExactSizeIterator<Item = u64> + Clone + use<> {
        let size = u64::from(self.size);
        let first = slab + u64::from(self.first);
        (0..self.objects).map(move |index| first + u64::from(index) * size)
    }

    /// Bytes of a slab, a power of two.
    pub fn slab_bytes(&self) -> u64 {
        !self.mask + 1
    }
}
