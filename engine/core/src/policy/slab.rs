//! How a CPU holds free objects, and what its slabs are like.
//!
//! | policy | what a CPU has | what a fast path reads | a free elsewhere |
//! |---|---|---|---|
//! | `page-field` | a list, and the slab it is of, in two words | both; a preemptible kernel must not be moved between them | one atomic step |
//! | `tagged` | a list that ends in a pointer into its slab | one word | one atomic step |
//! | `sheaves` | an array of objects of any slab, and a spare | the array, no object | as one at home, if the node is the same |
//! | `bitmap` | a slab of at most 63 objects; `tagged` for small ones | the slab's word of free objects, no object | one atomic step |
//! | `sheaves-bitmap` | as `sheaves`; slabs keep larger objects as `bitmap` | the array, no object | as `sheaves` |
//!
//! linux: mm/slub.c; `tagged` is the proposal of 2014, `sheaves` what Linux has since 6.18 for caches that ask for it,
//! and since 7.0 for all, `bitmap` is this project's own, and so is what joins the two.

use crate::base::Order;

/// What a CPU has free objects in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabPolicy {
    /// A list and the slab it is of, as in the pinned kernel.
    PageField,
    /// A list that says itself of which slab it is.
    Tagged,
    /// CPUs keep arrays of objects, of whatever slabs.
    Sheaves,
    /// Free objects are bits of a word of their slab, from a 64th of a page on, 64 bytes with 4 KiB: 63 smaller ones do
    /// not fill a page. Those are [`Tagged`](Self::Tagged).
    Bitmap,
    /// [`Sheaves`](Self::Sheaves) of objects whose slabs keep the larger ones as [`Bitmap`](Self::Bitmap) does: a free
    /// object is touched neither in a sheaf nor in its slab.
    SheavesBitmap,
}

/// Whether `page-field` pays for not being moved between its two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabGuard {
    /// As a kernel with CONFIG_PREEMPT does.
    Preempt,
    /// As a kernel without CONFIG_PREEMPT does: nothing.
    None,
}

/// How free objects are linked. linux: CONFIG_SLAB_FREELIST_HARDENED
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabLinks {
    /// A link is the next object's address.
    Plain,
    /// By address, mixed with a secret and the place of the link; an object freed twice in a row is noticed.
    Mangled,
}

/// In which order a new slab's objects are handed out. linux: CONFIG_SLAB_FREELIST_RANDOM
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabOrder {
    /// In the order of their addresses.
    Address,
    /// In a random order, drawn for each slab.
    Random,
}

/// The sizes of objects that requests by size get. linux: mm/slab_common.c:kmalloc_info
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabSizes {
    /// Linux's thirteen: powers of two from 8 bytes to 8 KiB, and 96 and 192.
    Linux,
    /// 8 bytes, multiples of 16 up to 128, and four to a doubling above, up to 32 KiB. Slabs, of any cache, waste an
    /// eighth at most, in orders above `slab.max_order` if need be.
    Fine,
}

impl SlabSizes {
    /// Bytes of the largest request that gets an object; larger ones get pages. linux: KMALLOC_MAX_CACHE_SIZE
    pub const fn largest(self) -> usize {
        match self {
            SlabSizes::Linux => 8 << 10,
            SlabSizes::Fine => 32 << 10,
        }
    }

    /// How much of a slab may be no object where these are the sizes.
    pub const fn waste(self) -> SlabWaste {
        match self {
            SlabSizes::Linux => SlabWaste::Linux,
            SlabSizes::Fine => SlabWaste::Eighth,
        }
    }
}

/// How much of a slab may be no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabWaste {
    /// As little as Linux's rule finds up to the largest order that is wanted, which may be half.
    Linux,
    /// An eighth, in slabs of larger orders where there is no such order among those.
    Eighth,
}

/// Every choice that the slab leaves to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabChoices {
    /// What a CPU has free objects in.
    pub objects: SlabPolicy,
    /// What a section of `page-field` pays for.
    pub guard: SlabGuard,
    /// How a free object's link is written: plain or mangled.
    pub links: SlabLinks,
    /// In which order a new slab's objects are handed out.
    pub order: SlabOrder,
    /// Which sizes requests by size get.
    pub sizes: SlabSizes,
}

impl SlabPolicy {
    /// Whether CPUs keep objects in sheaves.
    pub const fn has_sheaves(self) -> bool {
        matches!(self, SlabPolicy::Sheaves | SlabPolicy::SheavesBitmap)
    }

    /// Whether all objects of a slab that a sheaf has go back to it together, or only those that are close to each
    /// other in the sheaf. linux: mm/slub.c:build_detached_freelist
    pub const fn flushes_by_slab(self) -> bool {
        matches!(self, SlabPolicy::SheavesBitmap)
    }

    /// Whether slabs of larger objects keep them as bits.
    pub const fn has_bitmaps(self) -> bool {
        matches!(self, SlabPolicy::Bitmap | SlabPolicy::SheavesBitmap)
    }
}

impl SlabChoices {
    /// As in the pinned kernel, built with preemption and without hardening.
    pub const LINUX: SlabChoices = SlabChoices {
        objects: SlabPolicy::PageField,
        guard: SlabGuard::Preempt,
        links: SlabLinks::Plain,
        order: SlabOrder::Address,
        sizes: SlabSizes::Linux,
    };
}

/// What sheaves may keep from going back. Each object in a sheaf counts as in use, and so may keep a slab of which all
/// others are free: what is freed in strides leaves sheaves full of such objects.
///
/// The bound is on slabs of objects above 2 KiB, which are made smaller for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinBound {
    /// Bytes of slabs that a sheaf keeps at most, and as much all full sheaves of a barn, of which there is one at
    /// least.
    bytes: u64,
}

impl PinBound {
    /// Bytes of the largest objects whose sheaves are bounded by `slab.sheaf` alone.
    const SMALL_MAX: u32 = 2048;
    /// Slabs that may be kept, at least.
    const SLABS_MIN: u64 = 32;

    /// The bound for objects of so many bytes, where the policy has one.
    pub fn for_size(size: u32, kib: Option<u32>) -> Option<PinBound> {
        let kib = kib.filter(|_| size > PinBound::SMALL_MAX)?;
        Some(PinBound { bytes: u64::from(kib) * 1024 })
    }

    /// The largest order of slabs.
    pub fn max_order(self, page_size: u32) -> Order {
        let largest = self.bytes / PinBound::SLABS_MIN;
        let small = Order::all().take_while(|&order| slab_bytes(order, page_size) <= largest);
        small.last().unwrap_or(Order::ZERO)
    }

    /// Objects that a sheaf has room for: the largest number whose slabs may be kept, but not more than so many; and
    /// four at least, as in Linux, however large their slabs are.
    pub fn sheaf_capacity(self, most: u16, slab_bytes: u64) -> u16 {
        let mut fitting =
            SHEAF_CAPACITIES.into_iter().filter(|&few| few <= most && u64::from(few) * slab_bytes <= self.bytes);
        fitting.next().unwrap_or(SHEAF_CAPACITY_MIN.min(most))
    }

    /// Full sheaves of so many objects that a barn has room for; one at least, or CPUs could not exchange any.
    pub fn full_sheaves(self, capacity: u16, slab_bytes: u64) -> usize {
        ((self.bytes / (u64::from(capacity.max(1)) * slab_bytes)) as usize).clamp(1, BARN_SHEAVES_MAX)
    }
}

/// Sheaves of a kind that a barn has room for. linux: mm/slub.c:MAX_FULL_SHEAVES, MAX_EMPTY_SHEAVES
pub const BARN_SHEAVES_MAX: usize = 10;

/// Objects that a sheaf may have room for, most first, and fewest: with a header, they fill a power of two.
const SHEAF_CAPACITIES: [u16; 4] = [124, 60, 28, 12];
const SHEAF_CAPACITY_MIN: u16 = 4;

/// Objects that a sheaf of a cache has room for. linux: mm/slub.c:calculate_sheaf_capacity
///
/// Linux asks for 4, 12, 26 or 60, and rounds up to what the memory for it, with a header of 32 bytes, has room for.
///
/// Where so many KiB are wanted, it is the largest of these numbers that they hold; with 0 there are no sheaves.
pub fn sheaf_capacity(object_size: u32, kib: Option<u32>) -> u16 {
    match (kib, object_size) {
        (Some(0), _) => 0,
        (Some(kib), _) => {
            let objects = u64::from(kib) * 1024 / u64::from(object_size);
            SHEAF_CAPACITIES.into_iter().find(|&few| u64::from(few) <= objects).unwrap_or(SHEAF_CAPACITY_MIN)
        }
        (None, 4096..) => 4,
        (None, 1024..) => 12,
        (None, 256..) => 28,
        (None, _) => 60,
    }
}

/// What decides how large a cache's slabs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabSizing {
    /// Objects that a slab should have at least. linux: slab_min_objects
    pub min_objects: u32,
    /// The largest order that it is given for that. linux: slab_max_order
    pub max_order: Order,
    /// How much of it may be no object.
    pub waste: SlabWaste,
}

impl SlabSizing {
    /// Linux's own numbers for a machine with so many CPUs. linux: mm/slub.c:calculate_order
    pub fn linux(cpus: u32) -> SlabSizing {
        let bits = u32::BITS - cpus.leading_zeros();
        SlabSizing { min_objects: 4 * (bits + 1), max_order: Order::COSTLY, waste: SlabWaste::Linux }
    }

    /// The order of slabs that have at most `objects_max` objects of `size` bytes: the largest one that these fill, up
    /// to the largest wanted, or the smallest that holds one.
    pub fn order_for_few(&self, size: u32, objects_max: u16, page_size: u32) -> Option<Order> {
        let room = u64::from(size) * (u64::from(objects_max) + 1);
        let least = smallest_order(size, page_size)?;
        let filled = Order::ZERO.to(self.max_order).rev().find(|&order| slab_bytes(order, page_size) <= room);
        let order = filled.map_or(least, |filled| filled.max(least));
        Some(self.without_waste(order, size, objects_max, page_size))
    }

    /// An order, or the next one whose slabs, of so many objects at most, waste no more than they may.
    fn without_waste(&self, order: Order, size: u32, objects_max: u16, page_size: u32) -> Order {
        if self.waste == SlabWaste::Linux {
            return order;
        }
        let mut frugal = order.to(Order::MAX).filter(|&order| {
            let bytes = slab_bytes(order, page_size);
            let objects = (bytes / u64::from(size)).min(u64::from(objects_max));
            bytes - objects * u64::from(size) <= bytes / 8
        });
        frugal.next().unwrap_or(order)
    }

    /// The order of slabs of objects that take `size` bytes each: the smallest one that holds the objects wanted and
    /// wastes at most a sixteenth; with fewer objects, or more waste, rather than a larger order. `None` if no order
    /// holds an object.
    pub fn order(&self, size: u32, page_size: u32) -> Option<Order> {
        let order = self.order_by_fractions(size, page_size)?;
        Some(self.without_waste(order, size, u16::MAX, page_size))
    }

    fn order_by_fractions(&self, size: u32, page_size: u32) -> Option<Order> {
        let max_objects = ((u64::from(page_size) << self.max_order.get()) / u64::from(size)).max(1);
        let min_objects = u64::from(self.min_objects).clamp(1, max_objects);
        for fraction in [16, 8, 4, 2] {
            for order in Order::ZERO.to(self.max_order) {
                let bytes = slab_bytes(order, page_size);
                if bytes >= min_objects * u64::from(size) && bytes % u64::from(size) <= bytes / fraction {
                    return Some(order);
                }
            }
        }
        smallest_order(size, page_size)
    }
}

/// Bytes of a slab of this order.
fn slab_bytes(order: Order, page_size: u32) -> u64 {
    u64::from(page_size) << order.get()
}

/// The smallest order of slabs that hold an object of this size, if there is one.
fn smallest_order(size: u32, page_size: u32) -> Option<Order> {
    Order::all().find(|&order| slab_bytes(order, page_size) >= u64::from(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slabs of a machine with eight CPUs, as its /proc/slabinfo shows them.
    #[test]
    fn orders_are_those_of_linux() {
        let sizing = SlabSizing::linux(8);
        assert_eq!(sizing.min_objects, 20);
        let pinned = [(8, 0), (64, 0), (192, 0), (256, 1), (512, 2), (1024, 3), (2048, 3), (4096, 3), (8192, 3)];
        for (size, order) in pinned {
            assert_eq!(sizing.order(size, 4096), Some(Order::new(order)), "{size}");
        }
    }

    #[test]
    fn a_sheaf_of_large_objects_keeps_no_more_slabs_than_it_may() {
        assert_eq!(PinBound::for_size(2048, Some(4096)), None, "small objects");
        assert_eq!(PinBound::for_size(4096, None), None, "no bound");
        let bound = PinBound::for_size(2049, Some(4096)).expect("it is larger");
        assert_eq!(bound.max_order(4096), Order::new(5), "a 32nd of 4 MiB");
        let expected = [(12, 124, BARN_SHEAVES_MAX), (15, 124, 4), (16, 60, 2), (17, 28, 1), (22, 4, 1)];
        for (shift, capacity, sheaves) in expected {
            let slab = 1 << shift;
            assert_eq!((bound.sheaf_capacity(124, slab), bound.full_sheaves(28, slab)), (capacity, sheaves), "{slab}");
        }
        assert_eq!(bound.sheaf_capacity(12, 1 << 12), 12, "no more than without a bound");
        assert_eq!(PinBound::for_size(1 << 20, Some(1)).expect("it is larger").max_order(4096), Order::ZERO);
    }

    #[test]
    fn an_object_may_be_larger_than_the_largest_order_wanted() {
        let sizing = SlabSizing { min_objects: 1, max_order: Order::ZERO, waste: SlabWaste::Linux };
        assert_eq!(sizing.order(5000, 4096), Some(Order::new(1)));
        assert_eq!(sizing.order(8 << 20, 4096), None);
    }

    #[test]
    fn few_objects_fill_the_largest_slab_that_leaves_no_room_for_another() {
        let sizing = SlabSizing { min_objects: 1, max_order: Order::new(6), waste: SlabWaste::Linux };
        let cases = [
            (64, Some(0), "64 would fit, to the byte"),
            (256, Some(2), ""),
            (255, Some(1), ""),
            (1000, Some(3), ""),
            (4096, Some(6), ""),
            (8 << 10, Some(6), "no larger than is wanted"),
            (300 << 10, Some(7), "unless one object is"),
            (512 << 10, Some(7), "unless one object is"),
            (8 << 20, None, "no order holds one"),
            (8, Some(0), "which more than 63 fill"),
        ];
        for (size, order, why) in cases {
            assert_eq!(sizing.order_for_few(size, 63, 4096).map(Order::get), order, "{size}: {why}");
        }
    }

    #[test]
    fn a_slab_that_would_waste_more_than_an_eighth_is_larger() {
        for (size, linux, eighth) in [(1536, 0, 1), (2560, 0, 1), (20 << 10, 3, 4), (24 << 10, 3, 5), (4096, 0, 0)] {
            for (waste, order) in [(SlabWaste::Linux, linux), (SlabWaste::Eighth, eighth)] {
                let sizing = SlabSizing { min_objects: 1, max_order: Order::ZERO, waste };
                let found = [sizing.order(size, 4096), sizing.order_for_few(size, 63, 4096)];
                assert_eq!(found, [Some(Order::new(order)); 2], "{size} by {waste:?}");
            }
        }
    }

    #[test]
    fn a_machine_with_more_cpus_has_more_objects_in_a_slab() {
        assert_eq!([1, 2, 3, 4, 64].map(|cpus| SlabSizing::linux(cpus).min_objects), [8, 12, 12, 16, 32]);
        assert_eq!(SlabSizing::linux(1).max_order, Order::COSTLY);
    }
}
