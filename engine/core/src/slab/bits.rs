//! Sets of objects of one slab, where free objects are bits: one for each, by its place, the first one's the lowest.
//!
//! A slab has 63 objects at most then, so that a word of bits has room for one more, which is no object's
//! ([`bitmap`](super::bitmap)).

use core::ops::Range;

/// Some objects of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bits(u64);

impl Bits {
    /// No object.
    pub const NONE: Bits = Bits(0);

    /// All objects of a slab of so many, 1 to 64.
    #[inline(always)]
    pub const fn full(objects: u32) -> Bits {
        Bits(u64::MAX >> (64 - objects))
    }

    /// The object at a place.
    #[inline(always)]
    pub const fn single(place: u32) -> Bits {
        Bits(1 << place)
    }

    /// The objects that a word says.
    #[inline(always)]
    pub const fn from_raw(word: u64) -> Bits {
        Bits(word)
    }

    /// The word that says them.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Whether there is none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of objects.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// These objects and others.
    #[inline(always)]
    pub const fn with(self, others: Bits) -> Bits {
        Bits(self.0 | others.0)
    }

    /// These objects but for others.
    #[inline(always)]
    pub const fn without(self, others: Bits) -> Bits {
        Bits(self.0 & !others.0)
    }

    /// Whether there is one of others among them.
    #[inline(always)]
    pub const fn has_any(self, others: Bits) -> bool {
        self.0 & others.0 != 0
    }

    /// The place of the first one; 64 if there is none.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// All but the first one, of which there is one at least.
    #[inline(always)]
    pub const fn without_first(self) -> Bits {
        Bits(self.0 & (self.0 - 1))
    }

    /// The objects at places one after the other.
    #[inline(always)]
    pub(super) const fn run(places: &Range<u32>) -> Bits {
        Bits(Bits::full(places.end - places.start).0 << places.start)
    }

    /// The places of the first ones that lie one after the other, `most` at most; nothing if there is none. Objects
    /// that were allocated together are freed together: runs are long, and a run's addresses cost next to nothing.
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
    fn runs_are_what_is_set_in_order() {
        let bits = Bits::from_raw(0b1110_0110_0000_0001 | 1 << 63);
        assert!(runs(bits, 64).eq([0..1, 9..11, 13..16, 63..64]));
        assert!(runs(bits, 2).eq([0..1, 9..11, 13..15, 15..16, 63..64]));
        assert!(runs(Bits::full(64), 64).eq(core::iter::once(0..64)) && runs(Bits::NONE, 64).next().is_none());
    }
}
