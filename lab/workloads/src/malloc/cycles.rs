//! A service whose load comes and ends: the live memory grows from nothing and shrinks to nothing, many times.
//!
//! The sizes are mixed, and each cycle frees in another order: that of allocation, the reverse, or random. At the end
//! nothing is live, so the resident memory is memory that the malloc keeps.

use std::mem::MaybeUninit;

use fastrand::Rng;

use super::block::{Block, Live};
use super::work::{block, even_doublings, size};

/// Bytes that are live at the peak of a cycle.
const FULL: usize = 64 << 20;
/// One of this number of blocks is large.
const LARGE_EVERY: usize = 500;
/// Sizes of large blocks.
const LARGE: std::ops::RangeInclusive<usize> = 32 << 10..=1 << 20;

/// Runs a number of cycles.
pub(super) fn cycles(count: usize) -> Live {
    let mut chance = Rng::with_seed(8);
    for cycle in 0..count {
        let mut blocks = grow(&mut chance);
        match cycle % 3 {
            0 => {}
            1 => blocks.reverse(),
            _ => chance.shuffle(&mut blocks),
        }
        // A vector frees its elements in their order.
        drop(blocks);
    }
    Live::default()
}

/// Allocates blocks until [`FULL`] bytes are live.
fn grow(chance: &mut Rng) -> Vec<Block> {
    let (mut blocks, mut live) = (Vec::new(), 0);
    while live < FULL {
        let is_large = blocks.len() % LARGE_EVERY == 0;
        let bytes = if is_large { even_doublings(chance, LARGE) } else { size(chance) };
        let mut block = block(bytes);
        block.fill(MaybeUninit::new(1));
        live += bytes;
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycle_grows_to_its_peak_and_ends_empty() {
        let blocks = grow(&mut Rng::with_seed(1));
        let bytes: usize = blocks.iter().map(|block| block.len()).sum();
        assert!((FULL..FULL + LARGE.end()).contains(&bytes), "{bytes}");
        assert_eq!(cycles(3).bytes, 0);
    }
}
