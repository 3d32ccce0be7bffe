//! Pairs: a block is freed and another one allocated, of one size or of a band of sizes, with few live blocks.
//!
//! Only the first byte of each block is written, so the measured time is that of the malloc and of page faults on
//! memory that it had returned.

use std::hint::black_box;
use std::io;
use std::mem;

use clap::Args;
use fastrand::Rng;

use super::block::Block;
use super::cost::{Cost, Start};
use super::work::even_doublings;

/// Number of sizes and places that are drawn in advance; a power of two.
const DRAWN: usize = 1 << 12;

/// What is replaced by what.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Shape {
    /// Of `pairs`: bytes of the smallest block
    #[arg(long, value_name = "BYTES", default_value_t = 8192)]
    least: usize,
    /// Of `pairs`: bytes of the largest block
    #[arg(long, value_name = "BYTES", default_value_t = 8192)]
    most: usize,
    /// Of `pairs`: blocks that are in use at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    live: usize,
}

/// Replaces `steps` blocks.
pub(super) fn pairs(shape: &Shape, steps: usize) -> io::Result<Cost> {
    let &Shape { least, most, live: count } = shape;
    if least == 0 || least > most || count == 0 {
        let advice = "give --least of at least 1 byte, --most of at least --least, and --live of at least 1";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid sizes of blocks; {advice}")));
    }
    let mut chance = Rng::with_seed(6);
    let drawn: Vec<(usize, usize)> =
        (0..DRAWN).map(|_| (chance.usize(..count), even_doublings(&mut chance, least..=most))).collect();
    let mut blocks: Vec<Block> = (0..count).map(|number| write_block(drawn[number % DRAWN].1)).collect();
    replace(&mut blocks, &drawn, steps / 10);
    let start = Start::now()?;
    replace(&mut blocks, &drawn, steps);
    let mut cost = Cost::since(start, 0, steps)?;
    cost.live = blocks.iter().map(|block| block.len()).sum();
    Ok(cost)
}

/// Replaces blocks by others of the drawn sizes, at the drawn places.
fn replace(blocks: &mut [Block], drawn: &[(usize, usize)], steps: usize) {
    for step in 0..steps {
        let (place, size) = drawn[step % DRAWN];
        drop(mem::take(&mut blocks[place]));
        blocks[place] = write_block(size);
    }
}

/// Allocates a block and writes its first byte.
fn write_block(bytes: usize) -> Block {
    let mut block = Box::new_uninit_slice(bytes);
    block[0].write(1);
    black_box(block)
}
