//! What a cache's slabs look like: how large an object really is, how many there are, where the link lies, and whether
//! free objects are bits instead.
//!
//! Objects begin at the slab's first byte, one after the other; nothing else is in a slab. Objects of checked caches
//! have a red zone before them, and debugging data after them.

use super::address::{ObjectAddress, SlabAddress, SlabMask};
use super::bits::Bits;
use super::config::{CacheConfig, CacheFlags};
use super::word::OBJECTS_MAX;
use crate::base::Order;
use crate::policy::slab::SlabSizing;

/// What every object takes at least, and is aligned to: room for a link.
pub(super) const WORD: u32 = 8;
/// Words that a track of who had an object takes: five of 8 bytes.
pub(super) const TRACK_WORDS: usize = 5;
/// Most objects of a slab whose free objects are bits: a bit is left to say that it is queued.
pub const BITMAP_OBJECTS_MAX: u16 = 63;
/// The smallest objects that are bits, however small a page is: of smaller ones, a list touches a line for several.
const BITMAP_SIZE_MIN: u32 = 64;

/// Whether free objects of so many bytes are bits: 63 of them fill a page. Of smaller ones a slab would waste the rest,
/// more the larger a page is: with 64 KiB, objects of less than 1 KiB keep lists.
pub(super) const fn is_for_bits(size: u32, page_size: u32) -> bool {
    let smallest = page_size / (BITMAP_OBJECTS_MAX as u32 + 1);
    size >= BITMAP_SIZE_MIN && size >= smallest
}

/// What an object takes, beyond what its user has.
pub(super) struct ObjectLayout {
    /// Bytes of red zone before each object.
    pub first: u32,
    /// Bytes from an object's start to its link.
    pub link: u32,
    /// Bytes from one object to the next.
    pub size: u32,
}

impl ObjectLayout {
    /// For objects of a cache, aligned to so many bytes; nothing if that overflows. The link lies in the object, unless
    /// the object must stay as it is while it is free.
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

    /// For objects of a checked cache. A right zone has a word at least.
    fn with_debug(config: &CacheConfig<'_>, align: u32) -> Option<ObjectLayout> {
        let (first, zone) = if config.flags.contains(CacheFlags::RED_ZONE) { (align, WORD) } else { (0, 0) };
        let tracks = if config.flags.contains(CacheFlags::STORE_USER) { 2 * TRACK_WORDS as u32 * WORD } else { 0 };
        let link = config.size.checked_add(zone)?.checked_next_multiple_of(WORD)?;
        let bytes = first.checked_add(link)?.checked_add(2 * WORD + tracks)?;
        Some(ObjectLayout { first, link, size: bytes.checked_next_multiple_of(align)? })
    }
}

/// Sizes, offsets and mask that a cache's slabs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The bits in which all addresses of a slab agree.
    pub mask: SlabMask,
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

    /// Whether an address is that of an object of its slab. Fast paths have [`Hot`](super::hot::Hot) for it.
    pub fn is_object(&self, address: ObjectAddress) -> bool {
        self.object_around(address.get()) == Some(address)
    }

    /// The object whose bytes these are, or the bytes around it.
    pub fn object_around(&self, address: u64) -> Option<ObjectAddress> {
        let size = u64::from(self.size);
        let index = self.mask.offset_of(address) / size;
        let offset = u64::from(self.first) + index * size;
        let slab = self.mask.slab_around(address);
        (index < u64::from(self.objects)).then_some(ObjectAddress::new(slab.get() + offset))
    }

    /// The same layout with `first` bytes of red zone before each object, which are part of the object's `size`.
    /// linux: mm/slub.c:red_left_pad
    pub fn with_left_red_zone(self, first: u32) -> Layout {
        debug_assert!(first + self.link + WORD <= self.size);
        Layout { first, ..self }
    }

    /// Addresses of all objects of the slab at an address.
    pub fn objects_of(&self, slab: SlabAddress) -> impl ExactSizeIterator<Item = ObjectAddress> + Clone + use<> {
        let size = u64::from(self.size);
        let first = slab.get() + u64::from(self.first);
        (0..self.objects).map(move |index| ObjectAddress::new(first + u64::from(index) * size))
    }

    /// All objects of a slab, in which they are bits.
    pub(super) const fn all_bits(&self) -> Bits {
        Bits::full(self.objects as u32)
    }

    /// Bytes of a slab, a power of two.
    pub fn slab_bytes(&self) -> u64 {
        self.mask.slab_bytes()
    }
}
