//! Sizes of `kmalloc`: the list of sizes of a policy, each of which has a cache, and the table that finds the smallest
//! size that holds a request.
//!
//! Linux has thirteen sizes, up to 8 KiB. `fine` has 8 bytes, multiples of 16 up to 128, and above, up to 32 KiB, four
//! sizes per doubling, or eight from 4 to 8 KiB. From 64 bytes on, a request just above a size gets at most a quarter
//! more than that size, and from 4 to 8 KiB an eighth, instead of up to twice as much. Eight sizes per doubling save
//! memory only there: smaller objects waste little, of larger ones few fit into a slab, and each size keeps objects.
//!
//! The table has one byte for each 8 bytes of request size. One load finds the cache of any request up to 32 KiB,
//! whichever sizes the policy has. Only the test for larger requests precedes it. A program touches only those cache
//! lines of the 4 KiB table that belong to its request sizes. For 0 bytes, and beyond the largest size, the table has
//! no cache.
//!
//! linux: mm/slab_common.c:kmalloc_info, include/linux/slab.h:__kmalloc_index

use super::id::CacheId;
use super::map;
use crate::policy::slab::SlabSizes;

/// Bytes of a size, and the name of its cache. The number of the cache is the index of the size plus one.
type Size = (u32, &'static str);

const LINUX: [Size; 13] = [
    (8, "kmalloc-8"),
    (16, "kmalloc-16"),
    (32, "kmalloc-32"),
    (64, "kmalloc-64"),
    (96, "kmalloc-96"),
    (128, "kmalloc-128"),
    (192, "kmalloc-192"),
    (256, "kmalloc-256"),
    (512, "kmalloc-512"),
    (1 << 10, "kmalloc-1k"),
    (2 << 10, "kmalloc-2k"),
    (4 << 10, "kmalloc-4k"),
    (8 << 10, "kmalloc-8k"),
];

const FINE: [Size; 45] = [
    (8, "kmalloc-8"),
    (16, "kmalloc-16"),
    (32, "kmalloc-32"),
    (48, "kmalloc-48"),
    (64, "kmalloc-64"),
    (80, "kmalloc-80"),
    (96, "kmalloc-96"),
    (112, "kmalloc-112"),
    (128, "kmalloc-128"),
    (160, "kmalloc-160"),
    (192, "kmalloc-192"),
    (224, "kmalloc-224"),
    (256, "kmalloc-256"),
    (320, "kmalloc-320"),
    (384, "kmalloc-384"),
    (448, "kmalloc-448"),
    (512, "kmalloc-512"),
    (640, "kmalloc-640"),
    (768, "kmalloc-768"),
    (896, "kmalloc-896"),
    (1 << 10, "kmalloc-1k"),
    (1280, "kmalloc-1280"),
    (1536, "kmalloc-1536"),
    (1792, "kmalloc-1792"),
    (2 << 10, "kmalloc-2k"),
    (2560, "kmalloc-2560"),
    (3 << 10, "kmalloc-3k"),
    (3584, "kmalloc-3584"),
    (4 << 10, "kmalloc-4k"),
    (4608, "kmalloc-4608"),
    (5 << 10, "kmalloc-5k"),
    (5632, "kmalloc-5632"),
    (6 << 10, "kmalloc-6k"),
    (6656, "kmalloc-6656"),
    (7 << 10, "kmalloc-7k"),
    (7680, "kmalloc-7680"),
    (8 << 10, "kmalloc-8k"),
    (10 << 10, "kmalloc-10k"),
    (12 << 10, "kmalloc-12k"),
    (14 << 10, "kmalloc-14k"),
    (16 << 10, "kmalloc-16k"),
    (20 << 10, "kmalloc-20k"),
    (24 << 10, "kmalloc-24k"),
    (28 << 10, "kmalloc-28k"),
    (32 << 10, "kmalloc-32k"),
];

/// Returns the sizes of a policy, in ascending order.
pub(super) const fn sizes(of: SlabSizes) -> &'static [Size] {
    match of {
        SlabSizes::Linux => &LINUX,
        SlabSizes::Fine => &FINE,
    }
}

/// Bytes of the largest request that the table covers.
pub(super) const TABLE_MAX: usize = 32 << 10;
/// Binary logarithm of the bytes of request that share a place in the table.
const STEP_SHIFT: u32 = 3;
/// Number of places in the table.
pub(super) const PLACES: usize = place_of(TABLE_MAX) + 1;

/// Returns the place of a request of at most [`TABLE_MAX`] bytes.
#[inline(always)]
const fn place_of(size: usize) -> usize {
    (size + (1 << STEP_SHIFT) - 1) >> STEP_SHIFT
}

/// Cache for each place, or none for 0 bytes and beyond the largest size.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeTable<'s>(&'s [CacheId; PLACES]);

impl<'s> SizeTable<'s> {
    /// Creates the table from its [places](PLACES), which [`cache_at`] has filled.
    pub(super) fn new(places: &'s [CacheId; PLACES]) -> SizeTable<'s> {
        SizeTable(places)
    }

    /// Returns the cache for `size` bytes, at most [`TABLE_MAX`].
    #[inline(always)]
    pub(super) fn cache_for(self, size: usize) -> CacheId {
        debug_assert!(size <= TABLE_MAX, "the size is above the table");
        self.0[place_of(size)]
    }
}

/// Returns the cache for a place in the table of a policy's sizes: that of the smallest size that holds all requests of
/// the place.
pub(super) fn cache_at(of: SlabSizes, place: usize) -> CacheId {
    let at = sizes(of).iter().position(|&(size, _)| size as usize >= place << STEP_SHIFT);
    at.filter(|_| place > 0).map_or(map::NONE, |at| CacheId::new(at as u8 + 1))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    const ALL: [SlabSizes; 2] = [SlabSizes::Linux, SlabSizes::Fine];

    #[test]
    fn cache_for_returns_the_smallest_sufficient_size() {
        for of in ALL {
            let places: std::vec::Vec<CacheId> = (0..PLACES).map(|place| cache_at(of, place)).collect();
            let table = SizeTable::new(places.as_slice().try_into().unwrap());
            assert_eq!(table.cache_for(0), map::NONE);
            for size in 1..=TABLE_MAX {
                let at = sizes(of).iter().position(|&(bytes, _)| bytes as usize >= size);
                let wanted = at.map_or(map::NONE, |at| CacheId::new(at as u8 + 1));
                assert_eq!(table.cache_for(size), wanted, "{size} of {of:?}");
            }
        }
    }

    #[test]
    fn largest_size_matches_the_policy() {
        for of in ALL {
            assert_eq!(sizes(of).last().map(|&(bytes, _)| bytes as usize), Some(of.largest()));
        }
    }

    #[test]
    fn sizes_are_four_or_eight_per_doubling_and_multiples_of_16() {
        let fine: std::vec::Vec<u32> = FINE.iter().map(|&(bytes, _)| bytes).collect();
        assert!(fine[1..].iter().all(|bytes| bytes % 16 == 0));
        let from_64 = fine.iter().filter(|&&bytes| bytes >= 64);
        for (&one, &next) in from_64.clone().zip(from_64.skip(1)) {
            let doubling = 1 << one.ilog2();
            let sizes = if (4096..8192).contains(&doubling) { 8 } else { 4 };
            assert_eq!(next - one, doubling / sizes, "{one}, {next}");
        }
    }

    #[test]
    fn size_cache_names_contain_the_size() {
        for (bytes, name) in ALL.into_iter().flat_map(sizes) {
            let in_kib = bytes % 1024 == 0;
            let text = if in_kib { std::format!("kmalloc-{}k", bytes / 1024) } else { std::format!("kmalloc-{bytes}") };
            assert_eq!(*name, text);
        }
    }
}
