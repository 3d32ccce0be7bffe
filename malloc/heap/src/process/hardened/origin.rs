//! Direction from which a seal was overwritten: by an overflow of its block, or by a write before the block behind it.
//!
//! An overflow begins at the end of the block, so it overwrites the padding first, then the allocation site, and the tag
//! last. A write before the next block ends at that block, so it overwrites the tag first, from its high end. The parts
//! that are still whole show the direction:
//!
//! ```text
//! low bytes of the tag        fit the allocation site, and the padding is whole
//! allocation site             fits the padding of two bytes or more
//! tag                         fits the padding of two bytes or more
//! tag                         fits the allocation site with other low bytes: an overflow of one or two bytes
//! none of these               undecided
//! ```
//!
//! A chance match has a probability of at most one in 256. The search costs a hash for each possible length of padding,
//! and is made only for a report.

use super::Site;
use super::seal::{SEAL, Slot, State, pad, padding_of};

/// Direction from which a seal was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the end of the next block's memory: a write before that block.
    NextBlock,
    /// From the end of the seal's own block: an overflow.
    OwnBlock,
    /// From either side.
    Undecided,
}

/// Low bytes of a tag that must be whole: those of the padding's length, and one of the hash.
const WHOLE_BYTES: u32 = 3;
/// Low bytes of the site that an overflow may have changed.
const LOW_BYTES: usize = 0xffff;
/// Bytes of padding that must be whole.
const PADDING_MIN: usize = 2;

/// Finds the direction from which an invalid seal was overwritten.
pub(super) fn find_origin(slot: &Slot) -> Origin {
    let is_from_next =
        has_low_tag(slot, State::Live) || has_low_tag(slot, State::Held) || has_site(slot) || has_tag(slot);
    if is_from_next {
        Origin::NextBlock
    } else if has_site_with_other_low_bytes(slot) {
        Origin::OwnBlock
    } else {
        Origin::Undecided
    }
}

/// Returns whether the low bytes of the tag are those of a valid seal with this site.
fn has_low_tag(slot: &Slot, state: State) -> bool {
    let padding = padding_of(slot.tag());
    let Some(wanted) = slot.valid_tag(state, padding) else { return false };
    let is_low_whole = (wanted ^ slot.tag()).trailing_zeros() >= WHOLE_BYTES * u8::BITS;
    is_low_whole && (state == State::Held || has_padding(slot, padding, pad(wanted)))
}

/// Returns whether the padding belongs to a block with this allocation site, for any length of padding.
fn has_site(slot: &Slot) -> bool {
    (PADDING_MIN..=slot.most())
        .any(|padding| slot.valid_tag(State::Live, padding).is_some_and(|tag| has_padding(slot, padding, pad(tag))))
}

/// Returns whether the padding is the one that the tag describes.
fn has_tag(slot: &Slot) -> bool {
    let padding = padding_of(slot.tag());
    padding >= PADDING_MIN && has_padding(slot, padding, pad(slot.tag()))
}

/// Returns whether the tag fits the allocation site with other low bytes.
fn has_site_with_other_low_bytes(slot: &Slot) -> bool {
    let high = slot.allocated().0 & !LOW_BYTES;
    (0..=LOW_BYTES).any(|low| slot.tag_of_live(Site(high | low), padding_of(slot.tag())) == Some(slot.tag()))
}

/// Returns whether the last bytes before the seal are padding of this length.
fn has_padding(slot: &Slot, length: usize, byte: u8) -> bool {
    let end = slot.bytes() - SEAL;
    length <= end && (end - length..end).all(|at| slot.byte(at) == byte)
}

#[cfg(test)]
mod tests {
    use super::super::seal::tests::with_slot;
    use super::*;

    /// Overwrites bytes of the seal of a block of 100 bytes in 128 bytes, and returns the origin that is found.
    fn origin_after(size: usize, state: State, written: core::ops::Range<usize>) -> Origin {
        let mut origin = Origin::Undecided;
        with_slot(|slot, write| {
            slot.seal(size, Site(0x7000));
            if state == State::Held {
                slot.hold(Site(0x8000));
            }
            written.clone().for_each(|at| write(at, 0x41));
            assert_eq!(slot.state(), State::Broken);
            origin = find_origin(&slot);
        });
        origin
    }

    #[test]
    fn write_before_the_next_block_is_distinguished_from_an_overflow() {
        for count in [1, 2, 4, 5, 8] {
            assert_eq!(origin_after(100, State::Live, 128 - count..128), Origin::NextBlock, "{count} bytes");
        }
        assert_eq!(origin_after(100, State::Live, 112..120), Origin::NextBlock, "a word 16 bytes before");
        assert_eq!(origin_after(112, State::Live, 127..128), Origin::NextBlock, "no padding");
        assert_eq!(origin_after(100, State::Held, 124..128), Origin::NextBlock, "a held block");
    }

    #[test]
    fn overflow_is_never_attributed_to_the_next_block() {
        for end in 113..=128 {
            assert_ne!(origin_after(100, State::Live, 100..end), Origin::NextBlock, "up to {end}");
            assert_ne!(origin_after(112, State::Live, 112..end), Origin::NextBlock, "up to {end}, no padding");
        }
        for end in [113, 114] {
            assert_eq!(origin_after(112, State::Live, 112..end), Origin::OwnBlock, "up to {end}, no padding");
        }
    }
}
