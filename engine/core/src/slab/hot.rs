//! Fields of a cache that fast paths read: one cache line, filled when the cache is created.
//!
//! Every cache number has such a line, also if no cache has the number: its values make every address invalid, so that
//! a fast path need not test whether the cache exists. The line of a checked cache does the same, so frees into it take
//! the slow path.
//!
//! # Design
//!
//! Each free detects an address at which no object begins by one multiplication: `offset * (2^64 / size)` is small for
//! multiples of the size only. An address outside of the allocator's memory is detected by the byte of its page before.
//! Neither can corrupt memory.

use super::address::{ObjectAddress, SlabMask};
use super::bits::Bits;
use super::cache::{Cache, Path};
use super::freelist::FixedLinks;
use super::map::METADATA_SHIFT;
use crate::policy::slab::SlabLinks;

/// Fields of a cache that fast paths read, on one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Hot {
    /// Mask of the address bits that identify a slab.
    pub mask: SlabMask,
    divisor: u64,
    limit: u64,
    /// Limit for objects that sections may free: equal to `limit`, or 0 if the node of each freed object must be
    /// determined first.
    section_limit: u64,
    secret: u64,
    /// Number that leads from the address of a slab's metadata to the address of the slab
    /// ([`SlabMap::origin`](super::SlabMap)).
    origin: u64,
    link: u32,
    size: u32,
    /// Number of objects in a slab if free objects are bits, else 0.
    bits: u8,
    /// Encoding of free objects' links: plain or mangled.
    pub written: SlabLinks,
    /// Form in which CPUs hold free objects: sheaves, lists or words of bits.
    pub path: Path,
    /// True if the cache uses the common fast path, sheaves.
    pub is_common: bool,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Hot>() == 64, "`Hot` must fill one cache line");

impl Hot {
    /// Returns the line of a number that no cache has.
    #[inline(never)]
    pub(super) const fn absent() -> Hot {
        Hot {
            mask: SlabMask::for_size(1),
            divisor: 0,
            limit: 0,
            section_limit: 0,
            secret: 0,
            origin: 0,
            link: 0,
            size: 0,
            bits: 0,
            written: SlabLinks::Plain,
            path: Path::Checked,
            is_common: false,
        }
    }

    /// Returns the line of a cache on a machine with `nodes` nodes. `origin` leads from slabs' metadata to slabs.
    pub(super) fn new(cache: &Cache, written: SlabLinks, origin: u64, nodes: u8) -> Hot {
        let (divisor, limit) = match cache.path {
            Path::Checked => (0, 0),
            _ => divide_by(cache.layout.size, cache.layout.objects),
        };
        let asks_node = cache.path == Path::Sheaves && nodes > 1;
        Hot {
            mask: cache.layout.mask,
            divisor,
            limit,
            section_limit: if asks_node { 0 } else { limit },
            secret: cache.secret,
            origin,
            link: cache.layout.link,
            size: cache.layout.size,
            bits: if cache.has_bits { cache.layout.objects as u8 } else { 0 },
            written,
            path: cache.path,
            is_common: cache.path == Path::Sheaves,
        }
    }

    /// Returns the place of an object in its slab.
    #[inline(always)]
    pub fn index_of(&self, object: ObjectAddress) -> u32 {
        (self.product(object) >> 64) as u32
    }

    /// Returns the number of objects, starting with the first, that are adjacent and in the order of their addresses.
    /// The result is at least 1.
    #[inline(always)]
    pub fn run_of(&self, objects: &[ObjectAddress]) -> usize {
        let size = u64::from(self.size);
        1 + objects.windows(2).take_while(|pair| pair[1].get() == pair[0].get() + size).count()
    }

    #[inline(always)]
    fn product(&self, address: ObjectAddress) -> u128 {
        u128::from(self.mask.offset_of(address.get())) * u128::from(self.divisor)
    }

    /// Returns the object at a place of the slab whose metadata is at the address `slab`.
    #[inline(always)]
    pub fn object_at(&self, slab: u64, index: u32) -> ObjectAddress {
        let offset = u64::from(index) * u64::from(self.size);
        ObjectAddress::new((slab << METADATA_SHIFT).wrapping_add(self.origin) + offset)
    }

    /// Returns whether free objects are bits of their slab.
    #[inline(always)]
    pub fn has_bits(&self) -> bool {
        self.bits != 0
    }

    /// Returns the set of all objects of a slab, for caches whose free objects are bits.
    #[inline(always)]
    pub fn all_bits(&self) -> Bits {
        Bits::full(u32::from(self.bits))
    }

    /// Returns whether an object of the slab starts at an address. Always `false` for a checked cache. Costs one
    /// multiplication.
    #[inline(always)]
    pub fn is_object(&self, address: ObjectAddress) -> bool {
        (self.product(address) as u64) < self.limit
    }

    /// Returns whether an object that a section may free starts at an address. Always `false` for a checked cache, and
    /// if the node of each freed object must be determined first.
    #[inline(always)]
    pub fn is_for_sections(&self, address: ObjectAddress) -> bool {
        (self.product(address) as u64) < self.section_limit
    }

    /// Returns the bytes from one object of a slab to the next.
    #[inline(always)]
    pub fn object_bytes(&self) -> u32 {
        self.size
    }

    /// Returns the cache's links: their offset in an object, and the secret.
    #[inline(always)]
    pub fn links<L: FixedLinks>(&self) -> L {
        L::new(u64::from(self.link), self.secret)
    }
}

/// Returns a factor and a limit for a test of divisibility. An offset below 2^31 is the offset of one of `count`
/// objects of `size` bytes if and only if its product with the factor, in 64 bits, is below the limit.
///
/// The factor is 2^64 divided by the size, rounded up. So `factor * size = 2^64 + excess`, with an `excess` below the
/// size. The product of the n-th object's offset is `n * excess`, and that of every other offset is at least the
/// factor, which is far above `count * excess`. For powers of two the excess is 0, and the objects of a slab are at all
/// multiples of the size.
pub(super) const fn divide_by(size: u32, count: u16) -> (u64, u64) {
    let factor = (u64::MAX / size as u64).wrapping_add(1);
    let excess = factor.wrapping_mul(size as u64);
    (factor, if excess == 0 { 1 } else { excess * count as u64 })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::policy::slab::SlabSizing;
    use crate::slab::address::SlabAddress;
    use crate::slab::layout::{Layout, WORD};

    fn run(objects: &[u64]) -> usize {
        let addresses: Vec<ObjectAddress> = objects.iter().map(|&at| ObjectAddress::new(at)).collect();
        Hot { size: 64, ..Hot::absent() }.run_of(&addresses)
    }

    #[test]
    fn run_ends_at_the_first_non_adjacent_object() {
        assert_eq!([run(&[64]), run(&[64, 128, 192]), run(&[64, 128, 256]), run(&[64, 192])], [1, 3, 2, 1]);
        assert_eq!(
            [run(&[64, 64]), run(&[128, 64]), run(&[64, 128, 128])],
            [1, 1, 2],
            "a step backwards or of zero continues the run"
        );
    }

    #[test]
    fn only_object_starts_pass_the_division() {
        let sizes = (WORD..=9000).step_by(WORD as usize).chain([1 << 20, (1 << 20) + 8, (1 << 21) - 8]);
        for size in sizes {
            let layout =
                Layout::new(size, size, 0, crate::slab::word::OBJECTS_MAX, &SlabSizing::linux(4), 4096).unwrap();
            let (factor, limit) = divide_by(size, layout.objects);
            let starts = (0..layout.slab_bytes()).filter(|offset| offset.wrapping_mul(factor) < limit);
            let objects = layout.objects_of(SlabAddress::new(0)).map(ObjectAddress::get);
            assert!(starts.eq(objects), "{size}");
        }
    }
}
