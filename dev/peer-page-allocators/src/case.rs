//! Cases that are measured. They are those of the engine's own benchmark, under the same names.
//!
//! A pair is an allocation and a free of one block, repeated. The fill allocates single pages and frees them in random
//! order. Each machine has [`MACHINE_FRAMES`] frames, and the fill uses at most half of them.

use crate::units::Order;

/// Frames of a machine: 2 GiB.
pub(crate) const MACHINE_FRAMES: u32 = 1 << 19;
/// Maximum operations in a sample of pairs, so that a sample takes seconds and not hours.
const PAIRS_MAX: u64 = 1_000_000_000;

/// Case to be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    /// Allocates and frees one block of this order. A pair counts as one operation.
    Pair(Order),
    /// Allocates single pages, then frees them in random order. Each allocation and each free counts as one operation.
    FillFreeRandom,
}

impl Case {
    /// All cases.
    pub(crate) const ALL: [Case; 5] = [
        Case::Pair(Order::ZERO),
        Case::Pair(Order::new(3)),
        Case::Pair(Order::new(4)),
        Case::Pair(Order::new(9)),
        Case::FillFreeRandom,
    ];
    /// Cases that allocate one block at a time.
    pub(crate) const PAIRS: [Case; 4] = [Case::ALL[0], Case::ALL[1], Case::ALL[2], Case::ALL[3]];
    /// Cases of single pages.
    pub(crate) const PAGES: [Case; 2] = [Case::ALL[0], Case::ALL[4]];

    /// Returns the name of the case on the command line and in reports.
    pub(crate) const fn slug(self) -> &'static str {
        match self {
            Case::Pair(order) => match order.raw() {
                0 => "order-0-pair",
                3 => "order-3-pair",
                4 => "order-4-pair",
                9 => "order-9-pair",
                _ => panic!("a case with pairs of this order exists"),
            },
            Case::FillFreeRandom => "order-0-fill-free-random",
        }
    }

    /// Returns the case of this name.
    pub(crate) fn from_slug(slug: &str) -> Option<Case> {
        Case::ALL.into_iter().find(|case| case.slug() == slug)
    }

    /// Returns the valid numbers of operations of a sample on a machine of `machine_frames` frames.
    pub(crate) fn operations(self, machine_frames: u32) -> std::ops::RangeInclusive<u64> {
        match self {
            Case::Pair(_) => 1..=PAIRS_MAX,
            // The fill uses half of the frames, and allocates and frees each.
            Case::FillFreeRandom => 2..=u64::from(machine_frames),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_found_only_by_their_name() {
        for case in Case::ALL {
            assert_eq!(Case::from_slug(case.slug()), Some(case));
        }
        assert_eq!(Case::from_slug("order-1-pair"), None);
        assert_eq!(Case::from_slug(""), None);
    }

    #[test]
    fn fill_uses_at_most_half_of_the_machine() {
        assert_eq!(Case::FillFreeRandom.operations(MACHINE_FRAMES), 2..=2 * (2 << 30 >> 12) / 2);
    }
}
