//! Free objects of CPUs, and the layout of slabs.
//!
//! | policy | per-CPU data | data read by the fast path | a free on another CPU |
//! |---|---|---|---|
//! | `page-field` | a list and its slab, in two words | both; the task must not be moved to another CPU in between | one atomic step |
//! | `tagged` | a list that ends in a pointer into its slab | one word | one atomic step |
//! | `sheaves` | an array of objects of any slab, and a spare | the array, no object | as on the same CPU, within a node |
//! | `bitmap` | a slab of at most 63 objects; `tagged` for small ones | the slab's word of free objects, no object | one atomic step |
//! | `sheaves-bitmap` | as `sheaves`; slabs keep larger objects as `bitmap` | the array, no object | as `sheaves` |
//!
//! linux: mm/slub.c. `tagged` is a proposal of 2014. Linux has `sheaves` since 6.18 for caches that request them, and
//! since 7.0 for all. `bitmap` and `sheaves-bitmap` are this project's own.
//!
//! # Design
//!
//! `freehold` uses `sheaves-bitmap`, under which no free object is touched. A list of free objects costs the first
//! cache line of each object, and if objects are large, these lines are all that a loop touches. Free objects are
//! therefore addresses in an array while a CPU has them, as in Linux. In their slab they are bits of a word, which
//! Linux does not have. A slab therefore has at most 63 objects. Objects below a 64th of a page keep lists, because 63
//! of them do not fill a page.
//!
//! An object that one CPU allocates and another frees needs no atomic step of its own, and is allocated again
//! regardless of its slab. A double free is detected if it follows the first free at once, or when the array is flushed
//! and the object's bit is found set.
//!
//! The cost is memory: objects in arrays keep their slabs from being freed. An idle CPU keeps two arrays of each cache
//! and a node ten full ones; for objects above 2 KiB there are fewer and smaller arrays (`slab.pinned`). The table in
//! `slab/mod.rs` lists everything that is kept.
//!
//! Each alternative is better for some loads. `bitmap` has no arrays: each CPU owns slabs and works on their words. It
//! is faster for loops that only allocate, and slower for pairs of allocation and free and for frees on another CPU.
//! Lists (`tagged`) are faster if many objects are touched and are freed on the CPU that allocated them. `freehold
//! bench slab` prints the figures, which docs/findings/slab.md discusses.

use crate::base::Order;

/// Structure in which a CPU keeps free objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabPolicy {
    /// A list and its slab, as in Linux 6.12.
    PageField,
    /// A list whose end identifies its slab.
    Tagged,
    /// Arrays of objects, of any slabs.
    Sheaves,
    /// Free objects are bits in a word of their slab, for objects of at least 1/64 of a page: 64 bytes with 4 KiB. 63
    /// smaller objects would not fill a page; they are [`Tagged`](Self::Tagged).
    Bitmap,
    /// [`Sheaves`](Self::Sheaves) whose slabs keep larger objects as in [`Bitmap`](Self::Bitmap). A free object is
    /// touched neither in a sheaf nor in its slab.
    SheavesBitmap,
}

/// Cost of the protection of `page-field` against a move of the task to another CPU between the accesses to its two
/// words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabGuard {
    /// Cost of a kernel with CONFIG_PREEMPT.
    Preempt,
    /// No cost, as in a kernel without CONFIG_PREEMPT.
    None,
}

/// Encoding of the links between free objects. linux: CONFIG_SLAB_FREELIST_HARDENED
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabLinks {
    /// A link is the next object's address.
    Plain,
    /// The address is mixed with a secret and the location of the link. An object that is freed twice in a row is
    /// detected.
    Mangled,
}

/// Order in which a new slab's objects are allocated. linux: CONFIG_SLAB_FREELIST_RANDOM
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabOrder {
    /// In ascending order of addresses.
    Address,
    /// In a random order, drawn for each slab.
    Random,
}

/// Sizes of objects for requests by size. linux: mm/slab_common.c:kmalloc_info
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabSizes {
    /// Linux's thirteen sizes: powers of two from 8 bytes to 8 KiB, and 96 and 192.
    Linux,
    /// 8 bytes, multiples of 16 up to 128, and above four sizes per doubling up to 32 KiB, but eight from 4 to 8 KiB.
    /// Slabs of all caches waste at most 1/8, if necessary in orders above `slab.max_order`.
    Fine,
}

impl SlabSizes {
    /// Returns the largest request in bytes that gets an object; larger ones get pages. linux: KMALLOC_MAX_CACHE_SIZE
    pub const fn largest(self) -> usize {
        match self {
            SlabSizes::Linux => 8 << 10,
            SlabSizes::Fine => 32 << 10,
        }
    }

    /// Returns the limit of waste in a slab that belongs to these sizes.
    pub const fn waste(self) -> SlabWaste {
        match self {
            SlabSizes::Linux => SlabWaste::Linux,
            SlabSizes::Fine => SlabWaste::Eighth,
        }
    }
}

/// Share of a slab that may be wasted because it is not part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabWaste {
    /// The least waste that Linux's rule finds up to the largest wanted order, which may be half.
    Linux,
    /// At most 1/8, in larger orders if no wanted order satisfies this.
    Eighth,
}

/// All choices that the slab leaves to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabChoices {
    /// Structure in which a CPU keeps free objects.
    pub objects: SlabPolicy,
    /// Cost of a section of `page-field`.
    pub guard: SlabGuard,
    /// Encoding of a free object's link: plain or mangled.
    pub links: SlabLinks,
    /// Order in which a new slab's objects are allocated.
    pub order: SlabOrder,
    /// Sizes of objects for requests by size.
    pub sizes: SlabSizes,
}

impl SlabPolicy {
    /// Returns whether CPUs keep objects in sheaves.
    pub const fn has_sheaves(self) -> bool {
        matches!(self, SlabPolicy::Sheaves | SlabPolicy::SheavesBitmap)
    }

    /// Returns whether a flush returns all objects of a slab that a sheaf has in one step. Otherwise it groups only
    /// those that are close to each other in the sheaf. linux: mm/slub.c:build_detached_freelist
    pub const fn flushes_by_slab(self) -> bool {
        matches!(self, SlabPolicy::SheavesBitmap)
    }

    /// Returns whether slabs of larger objects keep them as bits.
    pub const fn has_bitmaps(self) -> bool {
        matches!(self, SlabPolicy::Bitmap | SlabPolicy::SheavesBitmap)
    }
}

impl SlabChoices {
    /// Choices of Linux 6.12, built with preemption and without hardening.
    pub const LINUX: SlabChoices = SlabChoices {
        objects: SlabPolicy::PageField,
        guard: SlabGuard::Preempt,
        links: SlabLinks::Plain,
        order: SlabOrder::Address,
        sizes: SlabSizes::Linux,
    };
}

/// Limit of the memory that sheaves may pin. Each object in a sheaf counts as in use, so it may pin a slab whose other
/// objects are all free. A program that frees objects with a stride leaves sheaves full of such objects.
///
/// The limit applies to slabs of objects above 2 KiB, which are made smaller because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct PinBound {
    /// Bytes of slabs that one sheaf may pin. The full sheaves of a barn together may pin the same amount, but there
    /// may always be one.
    bytes: u64,
}

impl PinBound {
    /// Size in bytes of the largest objects whose sheaves are limited only by `slab.sheaf`.
    const SMALL_MAX: u32 = 2048;
    /// Minimum number of slabs that may be pinned.
    const SLABS_MIN: u64 = 32;

    /// Returns the limit for objects of `size` bytes; `None` if they or the policy have no limit.
    pub fn for_size(size: u32, kib: Option<u32>) -> Option<PinBound> {
        let kib = kib.filter(|_| size > PinBound::SMALL_MAX)?;
        Some(PinBound { bytes: u64::from(kib) * 1024 })
    }

    /// Returns the largest order of slabs: of at most 1/32 of the bytes that may be pinned, or 0.
    pub fn max_order(self, page_size: u32) -> Order {
        let largest = self.bytes / PinBound::SLABS_MIN;
        let small = Order::all().take_while(|&order| slab_bytes(order, page_size) <= largest);
        small.last().unwrap_or(Order::ZERO)
    }

    /// Returns the capacity of a sheaf: the largest one, up to `most`, whose objects' slabs may be pinned. It is at
    /// least four, as in Linux, even if the slabs are large, but never above `most`.
    pub fn sheaf_capacity(self, most: u16, slab_bytes: u64) -> u16 {
        let mut fitting =
            SHEAF_CAPACITIES.into_iter().filter(|&few| few <= most && u64::from(few) * slab_bytes <= self.bytes);
        fitting.next().unwrap_or(SHEAF_CAPACITY_MIN.min(most))
    }

    /// Returns the number of full sheaves that a barn may hold; at least one, since CPUs could not exchange any
    /// otherwise.
    pub fn full_sheaves(self, capacity: u16, slab_bytes: u64) -> usize {
        ((self.bytes / (u64::from(capacity.max(1)) * slab_bytes)) as usize).clamp(1, BARN_SHEAVES_MAX)
    }
}

/// Maximum number of full, and of empty, sheaves in a barn. linux: mm/slub.c:MAX_FULL_SHEAVES, MAX_EMPTY_SHEAVES
pub const BARN_SHEAVES_MAX: usize = 10;

/// Capacities of sheaves, largest first. Together with a header they fill a power of two of bytes.
const SHEAF_CAPACITIES: [u16; 4] = [124, 60, 28, 12];
const SHEAF_CAPACITY_MIN: u16 = 4;

/// Returns the number of objects for which a sheaf of a cache has room. linux: mm/slub.c:calculate_sheaf_capacity
///
/// Linux requests 4, 12, 26 or 60 objects, and rounds up to the capacity of the memory for it, with a header of 32
/// bytes.
///
/// If `kib` is given, the result is the largest of 124, 60, 28 and 12 objects that fit in this many KiB, or else 4;
/// with 0 there are no sheaves.
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

/// Parameters for the size of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct SlabSizing {
    /// Minimum number of objects that a slab should have. linux: slab_min_objects
    pub min_objects: u32,
    /// Largest order that may be used for that. linux: slab_max_order
    pub max_order: Order,
    /// Share of a slab that may be wasted.
    pub waste: SlabWaste,
}

impl SlabSizing {
    /// Returns Linux's parameters for a machine with this number of CPUs. linux: mm/slub.c:calculate_order
    pub fn linux(cpus: u32) -> SlabSizing {
        let bits = u32::BITS - cpus.leading_zeros();
        SlabSizing { min_objects: 4 * (bits + 1), max_order: Order::COSTLY, waste: SlabWaste::Linux }
    }

    /// Returns the order of slabs that have at most `objects_max` objects of `size` bytes. This is the largest order
    /// that these objects fill, up to the largest wanted one, or the smallest order that holds one object.
    pub fn order_for_few(&self, size: u32, objects_max: u16, page_size: u32) -> Option<Order> {
        let room = u64::from(size) * (u64::from(objects_max) + 1);
        let least = smallest_order(size, page_size)?;
        let filled = Order::ZERO.to(self.max_order).rev().find(|&order| slab_bytes(order, page_size) <= room);
        let order = filled.map_or(least, |filled| filled.max(least));
        Some(self.without_waste(order, size, objects_max, page_size))
    }

    /// Returns the given order, or the next one whose slabs, with at most `objects_max` objects, waste no more than
    /// allowed.
    #[inline(never)]
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

    /// Returns the order of slabs of objects of `size` bytes: the smallest one that holds the wanted number of objects
    /// and wastes at most 1/16. Otherwise more waste, and then fewer objects, are accepted rather than a larger order.
    /// `None` if no order holds an object.
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

/// Returns the bytes of a slab of this order.
fn slab_bytes(order: Order, page_size: u32) -> u64 {
    u64::from(page_size) << order.get()
}

/// Returns the smallest order of slabs that hold an object of this size, if there is one.
fn smallest_order(size: u32, page_size: u32) -> Option<Order> {
    Order::all().find(|&order| slab_bytes(order, page_size) >= u64::from(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the slabs of a machine with eight CPUs, as its /proc/slabinfo shows them.
    #[test]
    fn slab_orders_match_linux() {
        let sizing = SlabSizing::linux(8);
        assert_eq!(sizing.min_objects, 20);
        let pinned = [(8, 0), (64, 0), (192, 0), (256, 1), (512, 2), (1024, 3), (2048, 3), (4096, 3), (8192, 3)];
        for (size, order) in pinned {
            assert_eq!(sizing.order(size, 4096), Some(Order::new(order)), "{size}");
        }
    }

    #[test]
    fn pin_bound_limits_sheaves_of_large_objects() {
        assert_eq!(PinBound::for_size(2048, Some(4096)), None, "small objects");
        assert_eq!(PinBound::for_size(4096, None), None, "no bound");
        let bound = PinBound::for_size(2049, Some(4096)).expect("the objects are above 2 KiB");
        assert_eq!(bound.max_order(4096), Order::new(5), "1/32 of 4 MiB");
        let expected = [(12, 124, BARN_SHEAVES_MAX), (15, 124, 4), (16, 60, 2), (17, 28, 1), (22, 4, 1)];
        for (shift, capacity, sheaves) in expected {
            let slab = 1 << shift;
            assert_eq!((bound.sheaf_capacity(124, slab), bound.full_sheaves(28, slab)), (capacity, sheaves), "{slab}");
        }
        assert_eq!(bound.sheaf_capacity(12, 1 << 12), 12, "not more than without a bound");
        assert_eq!(
            PinBound::for_size(1 << 20, Some(1)).expect("the objects are above 2 KiB").max_order(4096),
            Order::ZERO
        );
    }

    #[test]
    fn object_larger_than_max_order_raises_the_order() {
        let sizing = SlabSizing { min_objects: 1, max_order: Order::ZERO, waste: SlabWaste::Linux };
        assert_eq!(sizing.order(5000, 4096), Some(Order::new(1)));
        assert_eq!(sizing.order(8 << 20, 4096), None);
    }

    #[test]
    fn order_for_few_fills_the_largest_suitable_slab() {
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
    fn slab_grows_if_waste_exceeds_an_eighth() {
        for (size, linux, eighth) in [(1536, 0, 1), (2560, 0, 1), (20 << 10, 3, 4), (24 << 10, 3, 5), (4096, 0, 0)] {
            for (waste, order) in [(SlabWaste::Linux, linux), (SlabWaste::Eighth, eighth)] {
                let sizing = SlabSizing { min_objects: 1, max_order: Order::ZERO, waste };
                let found = [sizing.order(size, 4096), sizing.order_for_few(size, 63, 4096)];
                assert_eq!(found, [Some(Order::new(order)); 2], "{size} by {waste:?}");
            }
        }
    }

    #[test]
    fn min_objects_grows_with_the_cpus() {
        assert_eq!([1, 2, 3, 4, 64].map(|cpus| SlabSizing::linux(cpus).min_objects), [8, 12, 12, 16, 32]);
        assert_eq!(SlabSizing::linux(1).max_order, Order::COSTLY);
    }
}
