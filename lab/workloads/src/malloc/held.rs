//! Blocks that are held, each of them written completely, to measure resident memory beyond the requested bytes.

use std::io;
use std::mem::MaybeUninit;

use fastrand::Rng;

use super::block::Block;
use super::cost::{Cost, Start};
use super::work::{block, even_doublings};

/// Distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// 16 to 1024 bytes, all sizes with equal probability.
    Small,
    /// 1 KiB to 1 MiB, all doublings with equal probability.
    Wide,
    /// One byte more than a power of two, or than a quarter, half or three quarters of the way to the next one, up to
    /// 32 KiB. Mallocs with at most four classes per doubling round these sizes up most. All sizes have equal total
    /// bytes.
    Above,
}

/// Powers of two that sizes of [`Sizes::Above`] begin at.
const POWERS: std::ops::Range<usize> = 4..15;
/// Classes per doubling.
const QUARTERS: usize = 4;
const ABOVE: usize = (POWERS.end - POWERS.start) * QUARTERS;

/// A sequence of sizes that allocates no memory.
struct SizeStream {
    sizes: Sizes,
    chance: Rng,
    /// Total bytes of each size so far, for [`Sizes::Above`].
    given: [usize; ABOVE],
}

impl SizeStream {
    fn new(sizes: Sizes) -> SizeStream {
        SizeStream { sizes, chance: Rng::with_seed(7), given: [0; ABOVE] }
    }

    /// Returns the size with the fewest bytes so far.
    fn above(&mut self) -> usize {
        let at = (0..ABOVE).min_by_key(|&at| self.given[at]).unwrap_or_default();
        let power = 1 << (POWERS.start + at / QUARTERS);
        let size = power + power / QUARTERS * (at % QUARTERS) + 1;
        self.given[at] += size;
        size
    }
}

impl Iterator for SizeStream {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        Some(match self.sizes {
            Sizes::Small => self.chance.usize(16..=1024),
            Sizes::Wide => even_doublings(&mut self.chance, 1 << 10..=1 << 20),
            Sizes::Above => self.above(),
        })
    }
}

/// Holds blocks of at most `bytes` bytes in total.
pub(super) fn hold(sizes: Sizes, bytes: usize) -> io::Result<Cost> {
    let mut blocks: Vec<Option<Block>> = Vec::new();
    // The vector of blocks is resident before the load begins, so it is not counted.
    blocks.resize_with(sizes_within(sizes, bytes).count(), || None);
    let start = Start::now()?;
    for (place, size) in blocks.iter_mut().zip(sizes_within(sizes, bytes)) {
        *place = Some(fill_block(size));
    }
    let live = blocks.iter().flatten().map(|block| block.len()).sum();
    Cost::since(start, live, blocks.len())
}

/// Returns sizes whose sum is at most `bytes`.
fn sizes_within(sizes: Sizes, bytes: usize) -> impl Iterator<Item = usize> {
    SizeStream::new(sizes).scan(0, move |total, size| {
        *total += size;
        (*total <= bytes).then_some(size)
    })
}

/// Allocates a block and writes all of it.
pub(super) fn fill_block(bytes: usize) -> Block {
    let mut block = block(bytes);
    block.fill(MaybeUninit::new(1));
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_above_classes_have_equal_total_bytes() {
        let mut drawn = SizeStream::new(Sizes::Above);
        let sizes: Vec<usize> = drawn.by_ref().take(200_000).collect();
        assert!(sizes.contains(&17) && sizes.contains(&21) && sizes.contains(&((16 << 10) + 1)));
        let (least, most) = (drawn.given.iter().min().unwrap(), drawn.given.iter().max().unwrap());
        assert!(most - least <= 32 << 10, "{least} to {most}");
    }

    #[test]
    fn requested_amount_is_held() {
        for sizes in [Sizes::Small, Sizes::Wide, Sizes::Above] {
            let cost = hold(sizes, 8 << 20).unwrap();
            assert!((7 << 20..=8 << 20).contains(&cost.live), "{sizes:?}: {cost:?}");
            assert!(cost.resident > 7 << 10 && cost.steps > 7, "{sizes:?}: {cost:?}");
        }
    }
}
