//! Sets of objects of one slab as words of bits, for slabs whose free objects are bits. Bit *n* stands for the *n*-th
//! object, starting with the lowest bit.
//!
//! Such a slab has at most 63 objects, so that a word has one bit left that stands for no object
//! ([`bitmap`](super::bitmap)).

use core::ops::Range;

/// Set of objects of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bits(u64);

impl Bits {
    /// The empty set.
    pub const NONE: Bits = Bits(0);

    /// Returns the set of all objects of a slab that has `objects` of them, 1 to 64.
    #[inline(always)]
    pub const fn full(objects: u32) -> Bits {
        Bits(u64::MAX >> (64 - objects))
    }

    /// Returns the set of the one object at a place.
    #[inline(always)]
    pub const fn single(place: u32) -> Bits {
        Bits(1 << place)
    }

    /// Returns the set that a word encodes.
    #[inline(always)]
    pub const fn from_raw(word: u64) -> Bits {
        Bits(word)
    }

    /// Returns the word that encodes the set.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns whether the set is empty.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of objects.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the union of both sets.
    #[inline(always)]
    pub const fn with(self, others: Bits) -> Bits {
        Bits(self.0 | others.0)
    }

    /// Returns the objects that are not in `others`.
    #[inline(always)]
    pub const fn without(self, others: Bits) -> Bits {
        Bits(self.0 & !others.0)
    }

    /// Returns whether the sets have an object in common.
    #[inline(always)]
    pub const fn has_any(self, others: Bits) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the place of the first object, or 64 if the set is empty.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// Returns all objects but the first. The set must not be empty.
    #[inline(always)]
    pub const fn without_first(self) -> Bits {
        Bits(self.0 & (self.0 - 1))
    }

    /// Returns the objects at consecutive places.
    #[inline(always)]
    pub(super) const fn run(places: &Range<u32>) -> Bits {
        Bits(Bits::full(places.end - places.start).0 << places.start)
    }

    /// Returns the places of the first consecutive objects, at most `most` of them, or `None` if the set is empty.
    /// Objects that were allocated together are usually freed together, so runs are long, and the addresses of a run
    /// are cheap to compute.
    pub(super) fn first_run(self, most: usize) -> Option<Range<u32>> {
        let first = self.first();
        let len = self.0.checked_shr(first)?.trailing_ones();
        Some(first..first + len.min(most as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(mut bits: Bits, most: usize) -> impl Iterator<Item = Range<u32>> {
        core::iter::from_fn(move || {
            let run = bits.first_run(most)?;
            bits = bits.without(Bits::run(&run));
            Some(run)
        })
    }

    #[test]
    fn runs_are_consecutive_set_bits() {
        let bits = Bits::from_raw(0b1110_0110_0000_0001 | 1 << 63);
        assert!(runs(bits, 64).eq([0..1, 9..11, 13..16, 63..64]));
        assert!(runs(bits, 2).eq([0..1, 9..11, 13..15, 15..16, 63..64]));
        assert!(runs(Bits::full(64), 64).eq(core::iter::once(0..64)) && runs(Bits::NONE, 64).next().is_none());
    }
}
