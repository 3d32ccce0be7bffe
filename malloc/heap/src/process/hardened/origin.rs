//! Direction from which a seal was overwritten: by an overflow of its block, or by a write before the block behind it.
//!
//! An overflow begins at the end of the block, so it overwrites the padding first, then the allocation site, and the
//! tag last. A write before the next block ends at that block, so it overwrites the tag first, from its high end. The
//! parts that are still intact show the direction:
//!
//! ```text
//! four low bytes of the tag match the site, and the padding is intact   write before the next block
//! the padding, of at least two bytes, matches the site                  write before the next block
//! the padding, of at least two bytes, matches the tag                   write before the next block
//! the tag matches the site, except for the site's two low bytes         overflow that ends in the site
//! none of these                                                         undecided
//! ```
//!
//! A match by chance has a probability of at most one in 127, that of a padding byte. The byte before the padding must
//! differ from it, so an overflow that fills the block and more with one byte is no match. The search computes a hash
//! for each length of padding and up to 65,536 for the site. It runs only when a report is written.

use super::Site;
use super::seal::{PATTERN, SEAL, Slot, State, WORD, pad, padding_of};

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

/// Low bytes of a tag that must be intact: those of the padding's length, and two of the hash.
const WHOLE_BYTES: u32 = 4;
/// Low bytes of the site that an overflow may have changed.
const LOW_BYTES: usize = 0xffff;
/// Bytes of padding that must be intact.
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
    let is_end_whole = if state == State::Held { has_pattern(slot) } else { has_padding(slot, padding, pad(wanted)) };
    is_low_whole && is_end_whole
}

/// Returns whether the word before the sites of a held block is that of free memory.
fn has_pattern(slot: &Slot) -> bool {
    let Some(end) = (slot.bytes() - SEAL).checked_sub(WORD) else { return false };
    end >= WORD && (end - WORD..end).all(|at| slot.byte(at) == PATTERN)
}

/// Returns whether the padding belongs to a block with this allocation site, for any length of padding.
fn has_site(slot: &Slot) -> bool {
    (PADDING_MIN..=slot.most())
        .any(|padding| slot.valid_tag(State::Live, padding).is_some_and(|tag| is_padding(slot, padding, pad(tag))))
}

/// Returns whether the padding is the one that the tag describes.
fn has_tag(slot: &Slot) -> bool {
    let padding = padding_of(slot.tag());
    padding >= PADDING_MIN && is_padding(slot, padding, pad(slot.tag()))
}

/// Returns whether the tag fits the allocation site with other low bytes.
fn has_site_with_other_low_bytes(slot: &Slot) -> bool {
    let high = slot.allocated().0 & !LOW_BYTES;
    (0..=LOW_BYTES).any(|low| slot.tag_of_live(Site(high | low), padding_of(slot.tag())) == Some(slot.tag()))
}

/// Returns whether the last bytes before the seal are padding of exactly this length: the byte before them differs.
fn is_padding(slot: &Slot, length: usize, byte: u8) -> bool {
    let end = slot.bytes() - SEAL;
    length < end && has_padding(slot, length, byte) && slot.byte(end - length - 1) != byte
}

/// Returns whether the last bytes before the seal are padding of at least this length.
fn has_padding(slot: &Slot, length: usize, byte: u8) -> bool {
    let end = slot.bytes() - SEAL;
    length <= end && (end - length..end).all(|at| slot.byte(at) == byte)
}

#[cfg(test)]
mod tests {
    use super::super::seal::tests::with_slot;
    use super::*;

    /// Overwrites bytes of a block of 128 bytes and its seal, and returns the origin that is found.
    fn origin_after(size: usize, state: State, written: core::ops::Range<usize>, byte: u8) -> Origin {
        let mut origin = Origin::Undecided;
        with_slot(|slot, write| {
            slot.seal(size, Site(0x7000));
            if state == State::Held {
                slot.hold(Site(0x8000));
            }
            written.clone().for_each(|at| write(at, byte));
            assert_eq!(slot.state(), State::Broken);
            origin = find_origin(&slot);
        });
        origin
    }

    #[test]
    fn write_before_the_next_block_is_distinguished_from_an_overflow() {
        for count in [1, 2, 4, 5, 8] {
            assert_eq!(origin_after(100, State::Live, 128 - count..128, 0x41), Origin::NextBlock, "{count} bytes");
        }
        assert_eq!(origin_after(100, State::Live, 112..120, 0x41), Origin::NextBlock, "a word 16 bytes before");
        assert_eq!(origin_after(112, State::Live, 127..128, 0x41), Origin::NextBlock, "no padding");
        assert_eq!(origin_after(100, State::Held, 124..128, 0x41), Origin::NextBlock, "a held block");
    }

    #[test]
    fn overflow_is_never_attributed_to_the_next_block() {
        for end in 113..=128 {
            assert_ne!(origin_after(100, State::Live, 100..end, 0x41), Origin::NextBlock, "up to {end}");
            assert_ne!(origin_after(112, State::Live, 112..end, 0x41), Origin::NextBlock, "up to {end}, no padding");
        }
        // Bytes that padding may have.
        for byte in 0x80..=0xfe {
            assert_ne!(origin_after(100, State::Live, 0..124, byte), Origin::NextBlock, "filled with {byte:#x}");
        }
        for end in [113, 114] {
            assert_eq!(origin_after(112, State::Live, 112..end, 0x41), Origin::OwnBlock, "up to {end}, no padding");
        }
    }
}
