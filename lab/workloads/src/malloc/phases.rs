//! A program whose sizes change: each phase fills memory with blocks of one size, and frees most blocks at random.
//!
//! Blocks of earlier phases are left between those of later ones, so a malloc has to reuse pages of a size for another
//! size. Free blocks that it keeps for sizes that are not used any more grow the process with each phase.

use std::mem::MaybeUninit;

use fastrand::Rng;

use super::block::{Block, Live};
use super::work::block;

/// Bytes in use at the end of each phase's growth, and at the end of the phase.
const FULL: usize = 100 << 20;
const LEFT: usize = 20 << 20;
/// Sizes of the phases: 40 bytes, and steps of 80 bytes above. A phase's sizes vary by less than a step.
const SIZES: usize = 61;
const LEAST: usize = 40;
const STEP: usize = 80;
/// Phases whose sizes follow each other are far apart: this number shares no divisor with the number of sizes.
const STRIDE: usize = 23;

/// Runs a number of phases.
pub(super) fn phases(count: usize) -> Live {
    let mut chance = Rng::with_seed(5);
    let (mut blocks, mut live): (Vec<Block>, usize) = (Vec::new(), 0);
    for phase in 0..count {
        let least = LEAST + phase * STRIDE % SIZES * STEP;
        while live < FULL {
            let mut block = block(least + chance.usize(..STEP));
            block.fill(MaybeUninit::new(1));
            live += block.len();
            blocks.push(block);
        }
        while live > LEFT {
            let block = blocks.swap_remove(chance.usize(..blocks.len()));
            live -= block.len();
        }
    }
    Live::new(blocks)
}
