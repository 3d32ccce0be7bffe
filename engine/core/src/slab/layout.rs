//! Layout of a cache's slabs: the size of an object with its overhead, the number of objects, the place of the link,
//! and whether free objects are bits instead of links.
//!
//! Objects start at the slab's first byte and follow each other; a slab contains nothing else. Objects of checked
//! caches have a red zone before them, and debugging data after them.

use super::address::{ObjectAddress, SlabAddress, SlabMask};
use super::bits::Bits;
use super::config::{CacheConfig, CacheFlags};
use super::word::OBJECTS_MAX;
use crate::base::Order;
use crate::policy::slab::SlabSizing;

/// Minimum size and alignment of objects, in bytes: room for a link.
pub(super) const WORD: u32 = 8;
/// Words of 8 bytes in a track, the record of a call that allocated or freed an object.
pub(super) const TRACK_WORDS: usize = 5;
/// Maximum number of objects of a slab whose free objects are bits. The remaining bit records that the slab is queued.
pub const BITMAP_OBJECTS_MAX: u16 = 63;
/// Bytes of the smallest objects that are bits, regardless of the page size. Several smaller objects share a cache
/// line, so a list of them touches few lines.
const BITMAP_SIZE_MIN: u32 = 64;

/// Returns whether free objects of `size` bytes are bits: at most 64 of them may fit into a page, of which 63 are used.
/// With smaller objects, a slab would waste the rest of the page, and larger pages would waste more: with pages of 64
/// KiB, objects of less than 1 KiB keep lists.
pub(super) const fn is_for_bits(size: u32, page_size: u32) -> bool {
    let smallest = page_size / (BITMAP_OBJECTS_MAX as u32 + 1);
    size >= BITMAP_SIZE_MIN && size >= smallest
}

/// Space that an object takes, including what its user does not see.
pub(super) struct ObjectLayout {
    /// Bytes of red zone before each object.
    pub first: u32,
    /// Bytes from an object's start to its link.
    pub link: u32,
    /// Bytes from one object to the next.
    pub size: u32,
}

impl ObjectLayout {
    /// Computes the layout of a cache's objects with an alignment of `align` bytes. Returns `None` if that overflows.
    /// The link is inside the object, unless the cache is checked, or has a constructor, so that objects must not
    /// change while they are free.
    pub(super) fn new(config: &CacheConfig<'_>, align: u32) -> Option<ObjectLayout> {
        if config.flags.intersects(CacheFlags::DEBUG) {
            return ObjectLayout::with_debug(config, align);
        }
        let object = config.size.checked_next_multiple_of(WORD)?;
        let (bytes, link) = match config.constructor {
            Some(_) => (object.checked_add(WORD)?, object),
            None => (object, 0),
        };
        Some(ObjectLayout { first: 0, link, size: bytes.checked_next_multiple_of(align)? })
    }

    /// Computes the layout of a checked cache's objects, or returns `None` if that overflows. A right red zone has at
    /// least one word.
    fn with_debug(config: &CacheConfig<'_>, align: u32) -> Option<ObjectLayout> {
        let (first, zone) = if config.flags.contains(CacheFlags::RED_ZONE) { (align, WORD) } else { (0, 0) };
        let tracks = if config.flags.contains(CacheFlags::STORE_USER) { 2 * TRACK_WORDS as u32 * WORD } else { 0 };
        let link = config.size.checked_add(zone)?.checked_next_multiple_of(WORD)?;
        let bytes = first.checked_add(link)?.checked_add(2 * WORD + tracks)?;
        Some(ObjectLayout { first, link, size: bytes.checked_next_multiple_of(align)? })
    }
}

/// Sizes, offsets and mask that all slabs of a cache share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Mask of the address bits that identify a slab.
    pub mask: SlabMask,
    /// Bytes of a slab before its first object.
    pub first: u32,
    /// Bytes from one object to the next.
    pub size: u32,
    /// Bytes of an object that its user may use.
    pub object_size: u32,
    /// Bytes from an object to its link.
    pub link: u32,
    /// Number of objects in a slab.
    pub objects: u16,
    /// Order of the block of pages that is a slab.
    pub order: Order,
}

impl Layout {
    /// Computes the layout of objects that take `size` bytes, a multiple of a word, of which the user has
    /// `object_size`. Returns `None` if no slab can hold such an object.
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
        Some(Layout {
            mask: SlabMask::for_size(u64::from(bytes)),
            first: 0,
            size,
            object_size,
            link,
            objects: objects as u16,
            order,
        })
    }

    /// Returns whether an object of the slab starts at an address. Fast paths use [`Hot`](super::hot::Hot) instead.
    pub fn is_object(&self, address: ObjectAddress) -> bool {
        self.object_around(address.get()) == Some(address)
    }

    /// Returns the object that contains an address, or whose surrounding bytes contain it; `None` behind the slab's
    /// last object.
    pub fn object_around(&self, address: u64) -> Option<ObjectAddress> {
        let size = u64::from(self.size);
        let index = self.mask.offset_of(address) / size;
        let offset = u64::from(self.first) + index * size;
        let slab = self.mask.slab_around(address);
        (index < u64::from(self.objects)).then_some(ObjectAddress::new(slab.get() + offset))
    }

    /// Returns this layout with `first` bytes of red zone before each object, which are part of the object's `size`.
    /// linux: mm/slab.h:kmem_cache (`red_left_pad`)
    pub fn with_left_red_zone(self, first: u32) -> Layout {
        debug_assert!(first + self.link + WORD <= self.size);
        Layout { first, ..self }
    }

    /// Returns the addresses of all objects of the slab at an address.
    pub fn objects_of(&self, slab: SlabAddress) -> impl ExactSizeIterator<Item = ObjectAddress> + Clone + use<> {
        let size = u64::from(self.size);
        let first = slab.get() + u64::from(self.first);
        (0..self.objects).map(move |index| ObjectAddress::new(first + u64::from(index) * size))
    }

    /// Returns the set of all objects of a slab, for slabs whose free objects are bits.
    pub(super) const fn all_bits(&self) -> Bits {
        Bits::full(self.objects as u32)
    }

    /// Returns the bytes of a slab, a power of two.
    pub fn slab_bytes(&self) -> u64 {
        self.mask.slab_bytes()
    }
}
